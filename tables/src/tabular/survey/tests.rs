//! Compares one pass over a table with the whole table, and parts with one pass; bad rows, and tables without
//! usable rows.

use super::*;
use crate::tables::{Column, NamedColumn, TextColumn, read_table};
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

fn request<'a>(columns: &'a SchemaOptions, known: Option<&'a Schema>, roles: &'a Roles) -> Survey<'a> {
    Survey { columns, known, roles, start_rows: 300, check_rows: 30_000, validation_rows: 50, seed: 5 }
}

fn surveyed(path: &Path, columns: &SchemaOptions, known: Option<&Schema>, test: f64) -> Result<Surveyed> {
    survey(path, &request(columns, known, &Roles::new(ROWS, test, 0.1, 5)?))
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
            assert_eq!(found.warnings, warnings);
        }
    }
}

/// Surveys parts of a table with these rows; surveys them again if text columns have to be read as numbers.
fn in_parts(path: &Path, survey: &Survey<'_>, cuts: &[usize]) -> Result<Surveyed> {
    let table = read_table(path)?;
    let (surveyed, ()) = in_passes(survey, &mut |survey| Ok((merged(&table, survey, cuts)?, ())))?;
    Ok(surveyed)
}

/// Returns the sums of parts of a table with these rows, each stored and read, merged from the right.
fn merged(table: &Table, survey: &Survey<'_>, cuts: &[usize]) -> Result<TableSums> {
    let names = table.columns().iter().map(|named| named.name.as_str());
    let mut parts = Vec::new();
    for (part, ends) in cuts.windows(2).enumerate() {
        let mut sums = TableSums::new(table.source(), names.clone(), survey, part as u64)?;
        // Columns of blocks may have other types than columns of the whole table.
        for first in (ends[0]..ends[1]).step_by(5000) {
            let rows: Vec<usize> = (first..ends[1].min(first + 5000)).collect();
            let cells = |text: &TextColumn| {
                Column::from_text(rows.iter().map(|&row| text.get(row)).collect::<Vec<_>>())
            };
            let columns = table.columns().iter().map(|named| NamedColumn {
                name: named.name.clone(),
                column: match &named.column {
                    Column::Text(text) => cells(text),
                    Column::Number(values) => Column::Number(rows.iter().map(|&row| values[row]).collect()),
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
    Ok(all)
}

#[test]
fn parts_of_a_table_find_what_one_pass_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    let last = ROWS - 1;
    let cases: [(&[Change<'_>], &[&str]); 4] = [
        (&[], &["y", "count", "class"]),
        (&[(last, "weight", "-1"), (9, "weight", "0")], &["class"]),
        (&[(last, "same", "x"), (7000, "y", "inf"), (8000, "y", "")], &["y"]),
        (&[(7000, "count", "-1"), (12, "exposure", "0")], &["count"]),
    ];
    for (changes, targets) in cases {
        std::fs::write(&path, text(changes)).expect("written");
        for target in targets {
            let columns = columns(target, None);
            let roles = Roles::new(ROWS, 0.2, 0.1, 5).expect("roles");
            let survey = request(&columns, None, &roles);
            let whole = super::survey(&path, &survey);
            for cuts in [&[0, ROWS][..], &[0, 0, 1, 8, ROWS], &[0, 6999, 7001, 7001, 9000, ROWS, ROWS]] {
                let merged = in_parts(&path, &survey, cuts);
                let (whole, merged) = match (&whole, merged) {
                    (Ok(whole), Ok(merged)) => (whole, merged),
                    (Err(whole), Err(merged)) => {
                        // Only errors about a file that is read line by line name lines.
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
                    assert_relative_eq!(a.shift, b.shift, max_relative = 1e-12, epsilon = 1e-12 * b.scale);
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
