//! Compares one pass over a table with the whole table, also its errors about bad rows.

use super::*;
use crate::tables::read_table;
use approx::assert_relative_eq;
use sparsegp::data::split;
use sparsegp::likelihood::TargetKind;
use std::fmt::Write as _;

const ROWS: usize = 2 * BLOCK_ROWS + 500;

/// Columns of every kind; some look like numbers in the first block.
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

/// Returns a schema without its means, which depend on the training rows and, in the last digit, on the order of sums.
fn without_means(schema: &Schema) -> Schema {
    Schema { fills: Vec::new(), ..schema.clone() }
}

/// A replaced cell: row, column, text.
type Change<'a> = (usize, &'a str, &'a str);

/// Returns the file with some cells replaced.
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
    let columns = &SchemaOptions { known: known.cloned(), ..columns.clone() };
    let roles = &Roles::new(ROWS, test, 0.1, 5)?;
    survey(path, &Survey { columns, roles, options: &FitOptions { seed: 5, ..FitOptions::default() } })
}

/// Returns the schema and the warnings of a fit to the whole table, or its error before training.
fn of_table(path: &Path, columns: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
    let table = read_table(path)?;
    let (schema, warnings) = Schema::infer(&table, columns)?;
    schema.design(&table, UnseenLevels::Error)?;
    Ok((schema, warnings))
}

#[test]
fn one_pass_has_the_results_of_the_whole_table() {
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
        let (schema, warnings) = Schema::infer(&table, &columns).expect("usable");
        for test in [0.0, 0.3] {
            let found = surveyed(&path, &columns, None, test).expect("usable");
            assert_eq!(without_means(&found.schema), without_means(&schema));
            let train = split(ROWS, test, 0.1, 5).expect("a split").train;
            assert_eq!((found.rows, found.train), (ROWS, train.len()));
            let part = table.take(&train);
            let x = schema.design(&part, UnseenLevels::Error).expect("inputs");
            let y = schema.target(&part).expect("a target").expect("a target");
            let scaling = Scaling::standardise(x.as_ref(), &y).suited_to(&schema.dimensions());
            for (a, b) in found.scaling.inputs.iter().zip(&scaling.inputs) {
                assert_relative_eq!(a.scale, b.scale, max_relative = 1e-12);
                assert_relative_eq!(a.shift, b.shift, max_relative = 1e-12, epsilon = 1e-12 * b.scale);
            }
            if found.schema.encoding().kind() == TargetKind::Real {
                assert_relative_eq!(found.scaling.target.shift, scaling.target.shift, max_relative = 1e-12);
                assert_relative_eq!(found.scaling.target.scale, scaling.target.scale, max_relative = 1e-12);
            }
            // All training rows fit into the larger sample, which has the cells of the table.
            let rows: Vec<usize> = (0..found.check.rows()).map(|row| found.check.row(row)).collect();
            assert_eq!(rows, train);
            assert_eq!(schema.design(&found.check, UnseenLevels::Error).expect("inputs"), x);
            assert_eq!(found.start.rows(), WARM_ROWS.min(rows.len()));
            assert_eq!(found.validation_sample.expect("rows").rows(), found.validation);
            // With the columns known, the same rows are found.
            let again = surveyed(&path, &columns, Some(&schema), test).expect("usable");
            assert_eq!(
                (without_means(&again.schema), again.train, again.scaling.inputs),
                (without_means(&found.schema), found.train, found.scaling.inputs)
            );
            assert_eq!(found.warnings, warnings);
        }
    }
}

#[test]
fn every_bad_row_is_found_as_in_the_whole_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    let (late, last) = (BLOCK_ROWS + 100, ROWS - 1);
    let bad: [(&str, Vec<Change<'_>>); 9] = [
        ("y", vec![(late, "y", "oops"), (3, "y", "")]),
        ("y", vec![(late, "y", "inf"), (3, "y", "")]),
        ("y", vec![(last, "offset", ""), (late, "many", "-inf")]),
        ("y", vec![(last, "weight", "0")]),
        ("y", vec![(5, "weight", "-1"), (late, "weight", "heavy")]),
        ("y", vec![(last, "many", "inf")]),
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
        // With known columns, a row that does not suit them is also an error.
        std::fs::write(&path, text(&[])).expect("written");
        let (schema, _) = of_table(&path, &columns).expect("good");
        std::fs::write(&path, text(&changes)).expect("written");
        let found = surveyed(&path, &columns, Some(&schema), 0.1).map(|_| ()).expect_err("bad");
        assert_eq!(found.exit_code(), 3, "{found}");
    }
}
