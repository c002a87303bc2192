//! Offsets: columns of known additions to the latent functions, which are the last inputs of a model.

use super::columns::{Schema, SchemaOptions};
use super::facts::{Role, check_first};
use super::table_facts::TableFacts;
use crate::tables::table::Table;
use faer::{ColMut, Mat};
use sparsegp::error::{Error, Result};
use std::ops::Range;

impl Schema {
    /// The columns of offsets, one for each latent function; empty without offsets.
    pub fn offset_names(&self) -> &[String] {
        &self.offset
    }

    /// The positions of the offsets among the inputs, which are the last ones.
    pub fn offset_inputs(&self) -> Range<usize> {
        self.dims() - self.offset.len()..self.dims()
    }

    /// Writes the offsets of a table into the last columns of its inputs.
    pub(super) fn write_offsets(&self, table: &Table, design: &mut Mat<f64>) -> Result<()> {
        for (name, input) in self.offset.iter().zip(self.offset_inputs()) {
            write_numbers(table, name, design.col_mut(input))?;
        }
        Ok(())
    }

    /// Checks that the offsets are finite numbers in every row.
    pub(super) fn check_offsets(&self, facts: &TableFacts) -> Result<()> {
        for name in &self.offset {
            let column = facts.require(name)?;
            column.check_numbers()?;
            check_first([column.missing.as_ref(), column.unsuited(Role::Offset)])?;
        }
        Ok(())
    }
}

/// Writes a column of a table that has a finite number in every row.
pub(super) fn write_numbers(table: &Table, name: &str, mut out: ColMut<'_, f64>) -> Result<()> {
    for (row, value) in table.numbers(name)?.iter().enumerate() {
        if value.is_nan() {
            return Err(table.missing(row, name));
        }
        out[row] = table.finite(row, name, *value)?;
    }
    Ok(())
}

impl SchemaOptions {
    /// Refuses offsets.
    ///
    /// # Errors
    ///
    /// A usage error that names `what`, which they cannot be combined with.
    pub fn check_no_offset(&self, what: &str) -> Result<()> {
        if self.offset.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!("{what} cannot be combined with ⟨offset⟩")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::UnseenLevels;
    use crate::tables::read_csv;

    fn table(text: &str) -> Table {
        read_csv("rows", std::io::Cursor::new(text.to_owned())).expect("a table")
    }

    const TRAINING: &str = "x,g,late,early,y\n1,a,0.5,10,1\n2,b,-0.5,20,2.5\n3,a,0.25,30,3\n";

    fn options(offset: &[&str]) -> SchemaOptions {
        SchemaOptions {
            target: "y".into(),
            offset: offset.iter().map(|name| (*name).to_owned()).collect(),
            groups: vec!["g".parse().expect("a formula")],
            ..SchemaOptions::default()
        }
    }

    #[test]
    fn offsets_are_the_last_inputs_as_given_and_no_features() {
        let (schema, _) = Schema::infer(&table(TRAINING), &options(&["late", "early"])).expect("a schema");
        assert_eq!(schema.input_names(), ["x", "level of g", "offset of late", "offset of early"]);
        assert_eq!((schema.feature_dims(), schema.offset_inputs()), (1, 2..4));
        // The columns of a table may have another order.
        let rows = table("early,g,late,x\n7,b,-3,4\n8,a,1e3,5\n");
        let design = schema.design(&rows, UnseenLevels::New).expect("inputs");
        assert_eq!(design.row(0).iter().copied().collect::<Vec<_>>(), [4.0, 1.0, -3.0, 7.0]);
        assert_eq!(design.row(1).iter().copied().collect::<Vec<_>>(), [5.0, 0.0, 1e3, 8.0]);
    }

    #[test]
    fn a_column_may_be_the_offset_of_several_functions() {
        let (schema, _) =
            Schema::infer(&table(TRAINING), &options(&["late", "early", "late"])).expect("a schema");
        let design = schema.design(&table(TRAINING), UnseenLevels::New).expect("inputs");
        assert_eq!(design.row(1).iter().copied().collect::<Vec<_>>(), [2.0, 1.0, -0.5, 20.0, -0.5]);
    }

    #[test]
    fn offsets_must_be_present_and_finite() {
        let options = SchemaOptions { exclude: vec!["early".into()], ..options(&["late"]) };
        let (schema, _) = Schema::infer(&table(TRAINING), &options).expect("a schema");
        for (rows, expected) in [
            ("x,g\n1,a\n", "late"),
            ("x,g,late\n1,a,0\n2,b,\n", "missing"),
            ("x,g,late\n1,a,inf\n", "inf"),
            ("x,g,late\n1,a,soon\n", "soon"),
        ] {
            let error = schema.design(&table(rows), UnseenLevels::New).expect_err(rows).to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        for (cell, expected) in [("", "missing"), ("inf", "inf"), ("soon", "soon")] {
            let rows = TRAINING.replace("0.25", cell);
            let error = Schema::infer(&table(&rows), &options).expect_err(cell).to_string();
            assert!(error.contains(expected) && error.contains("late"), "{error}");
        }
    }

    #[test]
    fn an_offset_has_no_other_role() {
        let refused = |options: SchemaOptions| {
            Schema::infer(&table(TRAINING), &options).expect_err("two roles").to_string()
        };
        let feature = SchemaOptions { features: Some(vec!["x".into(), "late".into()]), ..options(&["late"]) };
        assert_eq!(refused(feature), "the offset 'late' cannot be a feature too");
        let weights = SchemaOptions { weights: Some("late".into()), ..options(&["late"]) };
        assert!(refused(weights).contains("cannot be both weights and offset"));
        assert!(refused(options(&["later"])).contains("later"));
    }
}
