//! The one pass over a table before training from disk: columns, scaling, checks of every row, and samples; no training.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::reservoir::Reservoir;
pub use super::reservoir::Sample;
use crate::data::scaling::Scaling;
use crate::data::{Role, Roles};
use crate::error::{Error, Result};
use crate::schema::constant_inputs;
use crate::schema::facts::{Demand, TableFacts};
use crate::schema::{
    Schema, SchemaOptions, UnseenLevels, check_labelled, check_rows, odd_values, unlabelled_note,
};
use crate::tables::read::{How, TableBlocks, groups_of};
use crate::tables::table::{Table, quoted};
use crate::tables::{Ahead, Readings};

/// Rows of a file that are read at once.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// Blocks that are read before they are asked for.
pub(crate) const BLOCKS_AHEAD: usize = 2;

/// What to find out about a table.
pub struct Survey<'a> {
    /// Which columns to use; with `known` only the target is looked at.
    pub columns: &'a SchemaOptions,
    /// Columns that are known already.
    pub known: Option<&'a Schema>,
    /// What each row is for.
    pub roles: &'a Roles,
    /// Training rows to keep as a start.
    pub start_rows: usize,
    /// Training rows to keep as a check.
    pub check_rows: usize,
    /// Validation rows to keep.
    pub validation_rows: usize,
    /// Seed of the samples.
    pub seed: u64,
}

/// What was found out.
pub struct Surveyed {
    /// The columns.
    pub schema: Schema,
    /// Columns that can be used but look wrong.
    pub warnings: Vec<String>,
    /// What standardises inputs and target over the training rows.
    pub scaling: Scaling,
    /// The two values of the target, where it has no more.
    pub two_values: Option<(f64, f64)>,
    /// Rows of the file.
    pub rows: usize,
    /// Rows to train on.
    pub train: usize,
    /// Rows to validate on.
    pub validation: usize,
    /// Rows of each row group, where the table is a file whose rows come in groups.
    pub groups: Option<Vec<usize>>,
    /// A uniform sample of the training rows.
    pub start: Sample,
    /// Another one, independent of it.
    pub check: Sample,
    /// A uniform sample of the validation rows, if there are any.
    pub validation_sample: Option<Sample>,
}

/// What a pass over some rows of a table finds out: the facts of columns and uniform samples of rows.
///
/// Those of parts of a table are merged in the order of their rows, and travel by serde in formats that hold every `f64`, as postcard
/// does. Blocks say where in the table they are ([`Table::from_row`]), and what a row is for depends on nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableSums {
    facts: TableFacts,
    start: Reservoir,
    check: Reservoir,
    validation: Reservoir,
    /// All rows, with a target and without.
    rows: usize,
    /// The range of the coded target, for columns that are known.
    codes: (f64, f64),
    #[serde(skip)]
    training: Vec<bool>,
}

/// Reads the file (not standard input) once.
///
/// # Errors
///
/// As for [`Schema::infer`] and [`Schema::design`] on the whole table (or [`Schema::check_training`] for columns that are
/// known), and when too few rows are left to train on or the target does not vary among them.
pub(crate) fn survey(path: &Path, survey: &Survey<'_>) -> Result<Surveyed> {
    let groups = groups_of(path)?;
    let how = How { delimiter: survey.columns.delimiter, ..How::default() };
    let blocks = TableBlocks::new(path, BLOCK_ROWS, &|name| survey.demand(name).is_some(), how)?;
    let names = blocks.names().iter().map(String::as_str);
    let mut sums = TableSums::new(blocks.source(), names, survey, 0)?;
    for block in blocks.ahead()? {
        sums.take(survey, &block?)?;
    }
    let (readings, note) = sums.readings(survey);
    let mut surveyed = if readings.is_empty() {
        Surveyed { groups, ..sums.finish(survey)? }
    } else {
        // Columns whose text stands for numbers are looked at once more, as numbers.
        let columns = SchemaOptions { readings: Some(readings), ..survey.columns.clone() };
        self::survey(path, &Survey { columns: &columns, ..*survey })?
    };
    surveyed.warnings.splice(..0, note);
    Ok(surveyed)
}

impl Survey<'_> {
    /// The column to predict.
    fn target(&self) -> &str {
        self.known.map_or(&self.columns.target, |schema| schema.target_name())
    }

    /// What is asked of the values of a column, `None` of one that nobody looks at.
    fn demand(&self, name: &str) -> Option<Demand> {
        match self.known {
            Some(schema) => {
                (schema.uses(name) || schema.weights_name() == Some(name)).then_some(Demand::None)
            }
            None => self.columns.demand(name),
        }
    }
}

impl TableSums {
    /// Of no rows yet of part `part` of a table with these columns, which messages call `source`. Parts are numbered in the order of
    /// their rows; a whole table is part 0. Their samples are independent.
    ///
    /// # Errors
    ///
    /// When columns are known and one of them is not there.
    pub fn new<'a>(
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
        survey: &Survey<'_>,
        part: u64,
    ) -> Result<TableSums> {
        if let Some(schema) = survey.known {
            schema.check_columns(source, names.clone())?;
        }
        Ok(TableSums {
            facts: TableFacts::new(source, names, &|name| survey.demand(name)),
            start: Reservoir::new(survey.start_rows, survey.seed, 0, part),
            check: Reservoir::new(survey.check_rows, survey.seed, 1, part),
            validation: Reservoir::new(survey.validation_rows, survey.seed, 2, part),
            rows: 0,
            codes: (f64::INFINITY, f64::NEG_INFINITY),
            training: Vec::new(),
        })
    }

    /// Takes in the next rows.
    ///
    /// # Errors
    ///
    /// When columns are known and a cell does not suit them.
    pub fn take(&mut self, survey: &Survey<'_>, block: &Table) -> Result<()> {
        self.rows += block.rows();
        let block = block.with_values(survey.target());
        let readings = match survey.known {
            Some(schema) => Some(&schema.readings),
            None => survey.columns.readings.as_ref(),
        };
        let block = &*match readings {
            Some(readings) => block.read(readings, &|_| true)?,
            None => Cow::Borrowed(&*block),
        };
        if let Some(schema) = survey.known {
            self.check_known(schema, block)?;
        }
        self.training.clear();
        for row in 0..block.rows() {
            let role = survey.roles.of(block.row(row));
            self.training.push(role == Role::Train);
            match role {
                Role::Train => {
                    self.start.offer(block, row);
                    self.check.offer(block, row);
                }
                Role::Validation => self.validation.offer(block, row),
                Role::Test => {}
            }
        }
        self.facts.push(block, Some(&self.training));
        Ok(())
    }

    /// Checks every cell of a block against columns that are known.
    fn check_known(&mut self, schema: &Schema, block: &Table) -> Result<()> {
        block.require(schema.target_name())?;
        for code in schema.target(block)?.into_iter().flatten() {
            self.codes = (self.codes.0.min(code), self.codes.1.max(code));
        }
        schema.exposure(block)?;
        schema.weights(block)?;
        schema.design(block, UnseenLevels::Error).map(|_| ())
    }

    /// Takes in what was found in later rows.
    ///
    /// # Errors
    ///
    /// When they were looked at in another way or are of no later part, in which case this is of no more use.
    pub fn merge(&mut self, later: TableSums) -> Result<()> {
        self.facts.merge(later.facts)?;
        self.start.merge(later.start)?;
        self.check.merge(later.check)?;
        self.validation.merge(later.validation)?;
        self.rows += later.rows;
        self.codes = (self.codes.0.min(later.codes.0), self.codes.1.max(later.codes.1));
        Ok(())
    }

    /// How columns of text are to be read as numbers or dates, where that is not known, with a line that says so: where there are some, the
    /// table is to be looked at again with these in [`SchemaOptions::readings`].
    pub fn readings(&self, survey: &Survey<'_>) -> (Readings, Option<String>) {
        if survey.known.is_some() || survey.columns.readings.is_some() {
            return (Readings::new(), None);
        }
        survey.columns.readings_of(&self.facts)
    }

    /// What the rows say that were taken in.
    ///
    /// # Errors
    ///
    /// When columns cannot be used, too few rows are left to train on, or the target does not vary among them.
    pub fn finish(self, survey: &Survey<'_>) -> Result<Surveyed> {
        let facts = &self.facts;
        let counts = (facts.rows(), self.rows);
        check_labelled(survey.target(), facts.source(), counts)?;
        let mut odd = false;
        let (schema, mut warnings) = match survey.known {
            Some(schema) => {
                check_rows(facts.source(), facts.rows())?;
                let column = format!("{}: the target {}", facts.source(), quoted(schema.target_name()));
                schema.encoding().check_range(&column, self.codes)?;
                (schema.clone(), Vec::new())
            }
            None => {
                let (schema, warnings) = Schema::of_facts(facts, survey.columns)?;
                schema.check_facts(facts)?;
                odd = true;
                (schema, warnings)
            }
        };
        warnings.extend(unlabelled_note(survey.target(), facts.source(), counts));
        let (train, validation) = (self.start.offered(), self.validation.offered());
        let (Some(start), Some(check), 2..) =
            (self.start.finish(facts.source()), self.check.finish(facts.source()), train)
        else {
            return Err(Error::data(format!(
                "{}: of {} rows, {train} are left to train on, expected at least 2",
                facts.source(),
                facts.rows()
            ))
            .hint("make the test or validation fraction smaller"));
        };
        if odd {
            let rows = check.table.read(&schema.readings, &|_| true)?;
            warnings.extend(odd_values(facts, &schema, &rows)?);
        }
        let target = facts.require(schema.target_name())?;
        if !target.varies_in_training() {
            return Err(constant_target(facts.source(), &schema, train));
        }
        let constant = schema.constant_inputs(facts, train)?;
        warnings.extend(constant_inputs(constant.iter().map(|name| quoted(name))));
        Ok(Surveyed {
            scaling: schema.scaling_of_facts(facts, train)?,
            two_values: (target.distinct.levels().len() == 2 && train > 2).then_some(target.range),
            rows: self.rows,
            train,
            validation,
            groups: None,
            start,
            check,
            validation_sample: self.validation.finish(facts.source()),
            schema,
            warnings,
        })
    }
}

/// The error for a target that does not vary among the training rows although it does in the file.
pub(crate) fn constant_target(source: &str, schema: &Schema, rows: usize) -> Error {
    Error::data(format!(
        "{source}: the target {} is the same in all {rows} training rows, expected values that vary",
        quoted(schema.target_name())
    ))
    .hint("hold out fewer rows, or try another ⟨seed⟩")
}

impl TableBlocks {
    /// The same blocks read by another thread, a few before they are asked for.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn ahead(mut self) -> Result<Ahead<Result<Table>>> {
        Ahead::new(BLOCKS_AHEAD, move || self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::split;
    use crate::likelihood::TargetKind;
    use crate::tables::{Column, NamedColumn, TextColumn, read_table};
    use approx::assert_relative_eq;
    use std::fmt::Write as _;

    const ROWS: usize = 2 * BLOCK_ROWS + 500;

    /// Columns of every sort, some of which look like numbers in the first block.
    const HEADER: &str = "offset,flag,zip,late,many,id,multi,same,exposure,weight,class,count,y,junk";

    fn row(row: usize) -> Vec<String> {
        let t = row as f64;
        let late = if row > BLOCK_ROWS + 7 { format!("w{}", row % 5) } else { (row % 3).to_string() };
        let cells = [
            format!("{}", 1e9 + (t * 0.618).fract()),
            ["true", "FALSE", "True"][row % 3].to_owned(),
            ["02134", "10001", "94110"][row * row % 3].to_owned(),
            late,
            format!("{}", (t * 12.9898).sin() * 1e200),
            format!("{:e}", 1e-200 * ((row * 7919) % ROWS) as f64),
            ["\"a\nb\"", "c", "d"][row % 3].to_owned(),
            "4".to_owned(),
            format!("{}", 1.0 + (t * 0.3).fract()),
            format!("{}", 0.5 + (t * 0.7).fract()),
            ["no", "yes"][usize::from((t * 78.233).sin() > 0.2)].to_owned(),
            format!("{}", (row * 31) % 7),
            format!("{}", 1e6 + (t * 0.414).sin()),
            if row == 3 { "1.5".to_owned() } else { format!("junk {row}") },
        ];
        cells.to_vec()
    }

    /// A schema but for the means, which depend on the training rows and, in the last digit, on the order of sums.
    fn without_means(schema: &Schema) -> Schema {
        Schema { fills: Vec::new(), ..schema.clone() }
    }

    /// A cell that is replaced: row, column, text.
    type Change<'a> = (usize, &'a str, &'a str);

    /// The file with some cells replaced.
    fn text(changes: &[Change<'_>]) -> String {
        let mut text = format!("{HEADER}\n");
        for at in 0..ROWS {
            let mut cells = row(at);
            for (_, column, cell) in changes.iter().filter(|(row, ..)| *row == at) {
                let index = HEADER.split(',').position(|name| name == *column).expect("a column");
                cells[index] = (*cell).to_owned();
            }
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }

    fn columns(target: &str, kind: Option<TargetKind>) -> SchemaOptions {
        let exposure = (target == "count" && kind.is_none()).then(|| "exposure".to_owned());
        let mut exclude = vec!["junk".to_owned()];
        exclude.extend(
            ["class", "count", "y"].iter().filter(|name| **name != target).map(|name| (*name).to_owned()),
        );
        SchemaOptions {
            target: target.to_owned(),
            exclude,
            categorical: vec!["zip".to_owned()],
            target_kind: kind,
            exposure,
            weights: Some("weight".to_owned()),
            ..SchemaOptions::default()
        }
    }

    fn surveyed(path: &Path, columns: &SchemaOptions, known: Option<&Schema>, test: f64) -> Result<Surveyed> {
        survey(
            path,
            &Survey {
                columns,
                known,
                roles: &Roles::new(ROWS, test, 0.1, 5)?,
                start_rows: 300,
                check_rows: 30_000,
                validation_rows: 50,
                seed: 5,
            },
        )
    }

    /// What a fit to the whole table finds out, or complains about, before it trains.
    fn of_table(path: &Path, columns: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
        let table = read_table(path)?;
        let (schema, warnings) = Schema::infer(&table, columns)?;
        schema.design(&table, UnseenLevels::Error)?;
        Ok((schema, warnings))
    }

    #[test]
    fn one_pass_finds_what_the_whole_table_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text(&[])).expect("written");
        let table = read_table(&path).expect("a table");
        for (target, kind) in [
            ("y", None),
            ("count", None),
            ("class", None),
            ("count", Some(TargetKind::Real)),
            ("count", Some(TargetKind::Ordinal)),
        ] {
            let columns = columns(target, kind);
            let (schema, mut warnings) = Schema::infer(&table, &columns).expect("usable");
            for test in [0.0, 0.3] {
                let found = surveyed(&path, &columns, None, test).expect("usable");
                assert_eq!(without_means(&found.schema), without_means(&schema));
                let train = split(ROWS, test, 0.1, 5).expect("a split").train;
                assert_eq!((found.rows, found.train), (ROWS, train.len()));
                let part = table.take(&train);
                let x = schema.design(&part, UnseenLevels::Error).expect("inputs");
                let y = schema.target(&part).expect("a target").expect("a target");
                let scaling = Scaling::standardise(x.as_ref(), &y);
                for (a, b) in found.scaling.inputs.iter().zip(&scaling.inputs) {
                    assert_relative_eq!(a.scale, b.scale, max_relative = 1e-12);
                    assert_relative_eq!(a.shift, b.shift, max_relative = 1e-12, epsilon = 1e-12 * b.scale);
                }
                if found.schema.encoding().kind() == TargetKind::Real {
                    assert_relative_eq!(
                        found.scaling.target.shift,
                        scaling.target.shift,
                        max_relative = 1e-12
                    );
                    assert_relative_eq!(
                        found.scaling.target.scale,
                        scaling.target.scale,
                        max_relative = 1e-12
                    );
                }
                // All training rows fit into the larger sample, which has the cells of the table.
                assert_eq!(found.check.rows, train);
                assert_eq!(schema.design(&found.check.table, UnseenLevels::Error).expect("inputs"), x);
                assert_eq!(found.start.rows.len(), 300);
                assert_eq!(found.validation_sample.expect("rows").rows.len(), 50);
                // With the columns known, the same rows are found.
                let again = surveyed(&path, &columns, Some(&schema), test).expect("usable");
                assert_eq!(
                    (without_means(&again.schema), again.train, again.scaling.inputs),
                    (without_means(&found.schema), found.train, found.scaling.inputs)
                );
                if test == 0.0 {
                    warnings.push("input 'same' is the same in every row and cannot help".to_owned());
                }
                assert_eq!(found.warnings, warnings);
            }
        }
    }

    /// What parts of a table with these rows find, each stored and read on the way, merged from the right.
    fn in_parts(path: &Path, survey: &Survey<'_>, cuts: &[usize]) -> Result<Surveyed> {
        let table = read_table(path)?;
        let names = table.columns().iter().map(|named| named.name.as_str());
        let mut parts = Vec::new();
        for (part, ends) in cuts.windows(2).enumerate() {
            let mut sums = TableSums::new(table.source(), names.clone(), survey, part as u64)?;
            // In blocks, whose columns may be of other types than the whole ones.
            for first in (ends[0]..ends[1]).step_by(5000) {
                let rows: Vec<usize> = (first..ends[1].min(first + 5000)).collect();
                let cells = |text: &TextColumn| {
                    Column::from_text(rows.iter().map(|&row| text.get(row)).collect::<Vec<_>>())
                };
                let columns = table.columns().iter().map(|named| NamedColumn {
                    name: named.name.clone(),
                    column: match &named.column {
                        Column::Text(text) => cells(text),
                        Column::Number(values) => {
                            Column::Number(rows.iter().map(|&row| values[row]).collect())
                        }
                        Column::Time(_) | Column::Unsupported { .. } => unreachable!(),
                    },
                });
                let block = Table::new(table.source(), columns.collect())?.from_row(first);
                sums.take(survey, &block)?;
            }
            let bytes = postcard::to_allocvec(&sums).expect("bytes");
            parts.push(postcard::from_bytes::<TableSums>(&bytes).expect("the same"));
        }
        let mut all = parts.pop().expect("a part");
        while let Some(mut earlier) = parts.pop() {
            earlier.merge(all)?;
            all = earlier;
        }
        all.finish(survey)
    }

    #[test]
    fn parts_of_a_table_find_what_one_pass_finds() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let last = ROWS - 1;
        let changes: [Vec<Change<'_>>; 4] = [
            vec![],
            vec![(last, "weight", "-1"), (9, "weight", "0")],
            vec![(last, "same", "x"), (7000, "y", "inf"), (8000, "y", "")],
            vec![(7000, "count", "-1"), (12, "exposure", "0")],
        ];
        for changes in &changes {
            std::fs::write(&path, text(changes)).expect("written");
            for (target, kind) in [("y", None), ("count", None), ("class", None)] {
                let columns = columns(target, kind);
                let survey = Survey {
                    columns: &columns,
                    known: None,
                    roles: &Roles::new(ROWS, 0.2, 0.1, 5).expect("roles"),
                    start_rows: 300,
                    check_rows: 30_000,
                    validation_rows: 50,
                    seed: 5,
                };
                let whole = super::survey(&path, &survey);
                for cuts in [&[0, ROWS][..], &[0, 0, 1, 8, ROWS], &[0, 6999, 7001, 7001, 9000, ROWS, ROWS]] {
                    let merged = in_parts(&path, &survey, cuts);
                    let (whole, merged) = match (&whole, merged) {
                        (Ok(whole), Ok(merged)) => (whole, merged),
                        (Err(whole), Err(merged)) => {
                            // A file that is read line by line knows the lines of rows.
                            let without_line = |error: &Error| {
                                let text = error.to_string();
                                let Some((before, rest)) = text.split_once(" (line ") else { return text };
                                let (_, after) = rest.split_once(')').expect("a bracket");
                                format!("{before}{after}")
                            };
                            assert_eq!(without_line(whole), without_line(&merged));
                            assert_eq!(whole.advice(), merged.advice());
                            continue;
                        }
                        (whole, merged) => {
                            panic!("{target}: {:?}, {:?}", whole.as_ref().err(), merged.err())
                        }
                    };
                    assert_eq!(without_means(&merged.schema), without_means(&whole.schema));
                    assert_eq!(merged.warnings, whole.warnings);
                    assert_eq!(merged.two_values, whole.two_values);
                    assert_eq!(
                        (merged.rows, merged.train, merged.validation),
                        (whole.rows, whole.train, whole.validation)
                    );
                    let pairs = merged.scaling.inputs.iter().zip(&whole.scaling.inputs);
                    for (a, b) in pairs.chain([(&merged.scaling.target, &whole.scaling.target)]) {
                        assert_relative_eq!(a.scale, b.scale, max_relative = 1e-12);
                        assert_relative_eq!(
                            a.shift,
                            b.shift,
                            max_relative = 1e-12,
                            epsilon = 1e-12 * b.scale
                        );
                    }
                    assert_eq!(merged.check.rows, whole.check.rows);
                    assert_eq!(merged.start.rows.len(), 300);
                    assert_eq!(merged.validation_sample.map(|sample| sample.rows.len()), Some(50));
                    if cuts.len() == 2 {
                        assert_eq!(merged.start.rows, whole.start.rows);
                    }
                }
            }
        }
    }

    #[test]
    fn every_bad_row_is_found_as_in_the_whole_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let (late, last) = (BLOCK_ROWS + 100, ROWS - 1);
        let bad: [(&str, Vec<Change<'_>>); 10] = [
            ("y", vec![(late, "y", "oops"), (3, "y", "")]),
            ("y", vec![(late, "y", "inf"), (3, "y", "")]),
            ("y", vec![(last, "offset", "what")]),
            ("y", vec![(last, "offset", ""), (late, "many", "-inf")]),
            ("y", vec![(last, "weight", "0")]),
            ("y", vec![(5, "weight", "-1"), (late, "weight", "heavy")]),
            ("y", vec![(last, "same", "x")]),
            ("count", vec![(late, "exposure", "-3"), (5, "exposure", "NA")]),
            ("count", vec![(late, "count", "-1")]),
            ("class", vec![(late, "class", "maybe")]),
        ];
        for (target, changes) in bad {
            std::fs::write(&path, text(&changes)).expect("written");
            let columns = columns(target, None);
            let expected = of_table(&path, &columns).map(|_| ()).expect_err("bad");
            let found = surveyed(&path, &columns, None, 0.1).map(|_| ()).expect_err("bad");
            assert_eq!(found, expected, "{changes:?}");
            // Against columns that are known, a row that suits them no more is an error too.
            std::fs::write(&path, text(&[])).expect("written");
            let (schema, _) = of_table(&path, &columns).expect("good");
            std::fs::write(&path, text(&changes)).expect("written");
            let found = surveyed(&path, &columns, Some(&schema), 0.1).map(|_| ()).expect_err("bad");
            assert_eq!(found.exit_code(), 3, "{found}");
        }
    }

    #[test]
    fn what_leaves_nothing_to_learn_from_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let refused = |text: &str, roles: &Roles| {
            std::fs::write(&path, text).expect("written");
            let columns = SchemaOptions { target: "y".into(), ..SchemaOptions::default() };
            let survey = super::survey(
                &path,
                &Survey {
                    columns: &columns,
                    known: None,
                    roles,
                    start_rows: 5,
                    check_rows: 5,
                    validation_rows: 5,
                    seed: 0,
                },
            );
            survey.map(|_| ()).expect_err("refused").to_string()
        };
        let mut all = (0..).map(|seed| Roles::new(100, 0.5, 0.0, seed).expect("roles"));
        let test_first = all.find(|roles| roles.of(0) == Role::Test).expect("roles");
        assert!(
            refused("x,y\n1,2\n2,3\n", &test_first).contains("are left to train on, expected at least 2")
        );
        assert!(refused("x,y\n", &Roles::default()).contains("no rows"));
        assert!(refused("x,y\n1,2\n", &Roles::default()).contains("1 row"));
        // Only one row differs, and it is held out.
        let roles = Roles::new(100, 0.2, 0.0, 0).expect("roles");
        let odd = (0..100).find(|&row| roles.of(row) == Role::Test).expect("a test row");
        let lines: String =
            (0..100).map(|row| format!("{row},{}\n", if row == odd { 2.5 } else { 1.5 })).collect();
        assert!(refused(&format!("x,y\n{lines}"), &roles).contains("is the same in all"));
    }
}
