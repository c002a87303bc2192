//! Targets: their inferred kinds, the codes of their cells, refusals; exposure and weights.

use super::common::*;
use sparsegp::Error;

/// Returns a table of a feature and the target `y` with these cells.
fn with_target(cells: &[&str]) -> Table {
    csv(format!("x,y\n{}", cells.iter().enumerate().map(|(i, y)| format!("{i},{y}\n")).collect::<String>()))
}

fn options() -> SchemaOptions {
    target("y")
}

fn of_kind(kind: TargetKind) -> SchemaOptions {
    SchemaOptions { target_kind: Some(kind), ..options() }
}

fn schema(cells: &[&str], options: &SchemaOptions) -> Schema {
    Schema::infer(&with_target(cells), options).unwrap_or_else(|error| panic!("{cells:?}: {error}")).0
}

fn kind(cells: &[&str]) -> TargetKind {
    schema(cells, &options()).encoding().kind()
}

fn coded(cells: &[&str], options: &SchemaOptions) -> Vec<f64> {
    schema(cells, options).target(&with_target(cells)).unwrap().unwrap()
}

fn error(cells: &[&str], options: &SchemaOptions) -> Error {
    match Schema::infer(&with_target(cells), options) {
        Ok(_) => panic!("accepted: {cells:?}"),
        Err(error) => error,
    }
}

/// Returns the message of a data error, which must be one line with a hint.
fn refused(cells: &[&str], kind: TargetKind) -> String {
    let error = error(cells, &of_kind(kind));
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    assert!(error.advice().is_some() && !error.to_string().contains('\n'), "{error}");
    error.to_string()
}

#[test]
fn the_kind_is_found_by_the_values() {
    use TargetKind::{Binary, Count, Real};
    for (cells, expected) in [
        (&["a", "b"][..], Binary),
        (&["true", "FALSE", "True"], Binary),
        (&["0", "1", "1"], Binary),
        (&["2.5", "7", "7.0"], Binary),
        (&["-1", "1", "-1", "+1"], Binary),
        (&["no", "1", "no"], Binary),
        (&["0", "1"], Real),
        (&["0", "1", "2"], Real),
        (&["0", "0", "0", "1", "1", "2", "0", "3"], Count),
        (&["1", "1", "1", "2", "2", "3", "1", "4"], Real),
        (&["1", "1", "7.0", "2", "11", "2", "7", "1", "1", "2"], Count),
        (&["1", "1", "7.5", "2", "11", "2", "7.5", "1", "1", "2"], Real),
        (&["0", "1", "1", "1", "2", "3", "9999", "9999", "1", "3"], Count),
        (&["0", "1", "1", "1", "2", "3", "9999", "10001", "1", "3"], Real),
        (&["0", "10", "20"], Real),
        (&["10", "20", "30", "40"], Real),
        (&["-1", "0", "1"], Real),
        (&["0", "1", "2.5"], Real),
    ] {
        assert_eq!(kind(cells), expected, "{cells:?}");
    }
    let schema = schema(&["0", "1", "1", "1", "2", "2", "0", "3"], &options());
    assert_eq!((schema.encoding().task(), schema.encoding().levels().len()), (Task::Count, 0));
    assert_eq!(schema.encoding().positive(), None);
}

#[test]
fn the_positive_class_is_the_class_that_means_yes() {
    for (cells, negative, positive, noted) in [
        (&["yes", "no", "no"][..], "no", "yes", false),
        (&["Y", "N", "N"], "N", "Y", false),
        (&["T", "f", "f"], "f", "T", false),
        (&["TRUE", "false", "True"], "false", "true", false),
        (&["Pos", "NEG", "NEG"], "NEG", "Pos", false),
        (&["positive", "negative"], "negative", "positive", false),
        (&["1", "0", "0.0"], "0", "1", false),
        (&["+1", "-1", "-1"], "-1", "1", false),
        (&["1", "no", "no"], "no", "1", false),
        (&["0", "yes", "yes"], "0", "yes", false),
        // If words are not opposites, the rarer one is positive; of equally frequent words, the later one.
        (&["dog", "cat", "cat"], "cat", "dog", true),
        (&["dog", "cat", "dog"], "dog", "cat", true),
        (&["dog", "cat", "dog", "cat"], "cat", "dog", true),
        (&["yes", "y"], "y", "yes", true),
        (&["10", "9", "9"], "9", "10", true),
        (&["-0", "-1", "-1"], "-1", "0", true),
    ] {
        let (schema, notes) = Schema::infer(&with_target(cells), &options()).unwrap();
        let encoding = schema.encoding();
        assert_eq!(encoding.positive(), Some(positive), "{cells:?}");
        assert_eq!(encoding.levels(), [negative, positive]);
        assert_eq!(!notes.is_empty(), noted, "{notes:?}");
    }
    let (_, notes) = Schema::infer(&with_target(&["7", "2.5", "7"]), &options()).unwrap();
    assert_eq!(
        notes,
        [
            "f.csv: the target 'y' takes only the values \"2.5\", \"7\": they are two classes, with \"7\" as the positive one"
        ]
    );
}

#[test]
fn the_positive_class_can_be_chosen() {
    let chosen = |label: &str| SchemaOptions { positive_label: Some(label.into()), ..options() };
    for (cells, label, codes) in [
        (&["dog", "cat", "cat"][..], "cat", [0.0, 1.0, 1.0]),
        (&["dog", "cat", "cat"], "dog", [1.0, 0.0, 0.0]),
        (&["yes", "no", "no"], "no", [0.0, 1.0, 1.0]),
        (&["1", "0", "0"], "0.0", [0.0, 1.0, 1.0]),
        (&["1", "-1", "-1"], " +1 ", [1.0, 0.0, 0.0]),
        (&["TRUE", "False", "False"], "FALSE", [0.0, 1.0, 1.0]),
    ] {
        assert_eq!(coded(cells, &chosen(label)), codes, "{cells:?} {label}");
        assert_eq!(Schema::infer(&with_target(cells), &chosen(label)).unwrap().1, Vec::<String>::new());
    }
    let error = error(&["dog", "cat", "cat"], &chosen("mouse"));
    assert_eq!(
        error.to_string(),
        "f.csv: the target 'y' has the classes \"cat\", \"dog\", found the positive label \"mouse\", expected one of them"
    );
    let error = self::error(&["1", "2", "3"], &chosen("1"));
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("is of kind real, which has no positive class"), "{error}");
}

#[test]
fn numbers_must_be_of_the_kind() {
    use TargetKind::{Amount, Count, Positive, Real, Share, Trials, UnitInterval};
    let count = "expected a count (0, 1, 2, …)";
    let unit = "expected a number above 0 and below 1";
    for (kind, second, expected) in [
        (Count, "-1", format!("found -1, {count}")),
        (Count, "2.5", format!("found 2.5, {count}")),
        (Count, "1e17", "found 1e17, expected a count of at most 2^53".into()),
        (Count, "inf", "found inf, expected a finite number".into()),
        (Count, "red", "found \"red\", expected a number".into()),
        (Positive, "0", "found 0, expected a number above 0".into()),
        (Positive, "-2.5", "found -2.5, expected a number above 0".into()),
        (Amount, "-1e-9", "found -1e-9, expected a number of 0 or more".into()),
        (Share, "1.5", "found 1.5, expected a number from 0 to 1".into()),
        (Share, "-0.1", "found -0.1, expected a number from 0 to 1".into()),
        (Trials, "2.5", "found 2.5, expected a number of successes (0, 1, 2, …)".into()),
        (UnitInterval, "0", format!("found 0, {unit}")),
        (UnitInterval, "1", format!("found 1, {unit}")),
        (UnitInterval, "1.5", format!("found 1.5, {unit}")),
        (Real, "-inf", "found -inf, expected a finite number".into()),
    ] {
        let first = if kind == UnitInterval { "0.5" } else { "1" };
        let error = error(&[first, second, first], &of_kind(kind));
        assert_eq!(error.to_string(), format!("f.csv: row 2 (line 3), column 'y': {expected}"));
    }
    assert_eq!(coded(&["0", "9007199254740992", "7"], &of_kind(Count)), [0.0, 9007199254740992.0, 7.0]);
    assert_eq!(coded(&["0.25", "1e-9"], &of_kind(UnitInterval)), [0.25, 1e-9]);
    assert_eq!(coded(&["5", "1e-9"], &of_kind(Positive)), [5.0, 1e-9]);
    assert_eq!(coded(&["0", "1e-9"], &of_kind(Amount)), [0.0, 1e-9]);
    assert_eq!(coded(&["0", "0.5", "1"], &of_kind(Share)), [0.0, 0.5, 1.0]);
    // Values that look like classes or counts stay numbers on request.
    assert_eq!(coded(&["5", "7", "7"], &of_kind(Real)), [5.0, 7.0, 7.0]);
    assert_eq!(coded(&["true", "false", "true"], &of_kind(Real)), [1.0, 0.0, 1.0]);
}

#[test]
fn ordered_levels_are_consecutive_whole_numbers() {
    let ordinal = of_kind(TargetKind::Ordinal);
    let levels = schema(&["5", "3.0", "4", "6", "8", "7", "3"], &ordinal);
    assert_eq!(levels.encoding().levels(), ["3", "4", "5", "6", "7", "8"]);
    assert_eq!((levels.encoding().task(), levels.encoding().positive()), (Task::Ordinal, None));
    assert_eq!(coded(&["5", "3.0", "4", "6", "8", "7"], &ordinal), [2.0, 0.0, 1.0, 3.0, 5.0, 4.0]);
    assert_eq!(coded(&["1", "-1", "-0"], &ordinal), [2.0, 0.0, 1.0]);
    let refused = |cells: &[&str]| refused(cells, TargetKind::Ordinal);
    assert_eq!(
        refused(&["3", "5", "6", "8"]),
        "f.csv: the target 'y' has no row of level 4 between 3 and 5, expected levels without gaps"
    );
    assert_eq!(
        refused(&["3", "3.5", "5"]),
        "f.csv: row 2 (line 3), column 'y': found 3.5, expected a level written as a whole number"
    );
    let two = error(&["3", "4", "4"], &ordinal);
    assert!(two.to_string().contains("has the 2 levels 3 and 4, expected at least 3"), "{two}");
    let cells: Vec<String> = (0..=100).map(|level| level.to_string()).collect();
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    assert!(refused(&cells).contains("has 101 levels, expected at most 100"));
    assert_eq!(schema(&cells[1..], &ordinal).encoding().levels().len(), 100);
}

#[test]
fn later_tables_are_coded_as_the_training_table() {
    let codes = |schema: &Schema, cells: &[&str]| {
        let values = schema.target_where_known(&with_target(cells)).map_err(|error| error.to_string())?;
        Ok(values.unwrap().iter().map(|&v| if v.is_nan() { -1.0 } else { v }).collect::<Vec<_>>())
    };
    let at = |row: usize, what: &str| {
        Err::<Vec<f64>, _>(format!("f.csv: row {row} (line {}), column 'y': {what}", row + 1))
    };
    let pets = schema(&["dog", "cat", "cat"], &options());
    assert_eq!(codes(&pets, &["cat", "?", "dog"]), Ok(vec![0.0, -1.0, 1.0]));
    assert_eq!(codes(&pets, &["cat"]), Ok(vec![0.0]));
    let unseen = "expected a class seen in training: \"cat\", \"dog\"";
    assert_eq!(codes(&pets, &["cat", "cow"]), at(2, &format!("found \"cow\", {unseen}")));
    assert_eq!(codes(&pets, &["1"]), at(1, &format!("found \"1\", {unseen}")));
    assert!(pets.target(&with_target(&["cat", "?"])).unwrap_err().to_string().contains("row 2"));
    assert_eq!(pets.target(&csv("x\n1\n")).unwrap(), None);

    // A number is the same class in any spelling, in a column of text, and written as true or false.
    let digits = schema(&["1", "0", "0"], &options());
    assert_eq!(codes(&digits, &["1.0", "-0", "01"]), Ok(vec![1.0, 0.0, 1.0]));
    assert_eq!(codes(&digits, &["True", "false"]), Ok(vec![1.0, 0.0]));
    let unseen = "found \"oops\", expected a class seen in training: \"0\", \"1\"";
    assert_eq!(codes(&digits, &["1.0", "oops"]), at(2, unseen));
    assert!(codes(&digits, &["1", "inf"]).unwrap_err().contains("found \"inf\""));
    let truths = schema(&["true", "false"], &options());
    assert_eq!(codes(&truths, &["1", "0.0"]), Ok(vec![1.0, 0.0]));
    assert_eq!(codes(&truths, &["TRUE", "", "False"]), Ok(vec![1.0, -1.0, 0.0]));
    let mixed = schema(&["2", "none", "none"], &options());
    assert_eq!(codes(&mixed, &["2.0", "2"]), Ok(vec![1.0, 1.0]));
    assert_eq!(codes(&mixed, &["none", "2e0"]), Ok(vec![0.0, 1.0]));

    let levels = schema(&["3", "4", "5"], &of_kind(TargetKind::Ordinal));
    assert_eq!(codes(&levels, &["5", "NA", "5.0"]), Ok(vec![2.0, -1.0, 2.0]));
    for wrong in ["6", "2", "3.5"] {
        let what = format!("found {wrong}, expected a level seen in training: 3 to 5");
        assert_eq!(codes(&levels, &["4", wrong]), at(2, &what));
    }
    assert_eq!(codes(&levels, &["4", "inf"]), at(2, "found inf, expected a finite number"));
}

fn counts_with(exposure: Option<&str>, weights: Option<&str>) -> SchemaOptions {
    let owned = |name: Option<&str>| name.map(str::to_owned);
    SchemaOptions { exposure: owned(exposure), weights: owned(weights), ..options() }
}

#[test]
fn exposure_is_read_with_the_features_and_weights_are_not() {
    let table = csv("x,e,w,y\n1,2.5,1,0\n2,1,3,1\n3,4,0.5,2\n");
    let (schema, _) = Schema::infer(&table, &counts_with(Some("e"), Some("w"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.csv");
    std::fs::write(&path, "w,e,x\njunk,1.5,7\njunk,2,8\njunk,3,9\n").unwrap();
    let blocks: Vec<Table> = schema.open_with(&path, 2, None, &[]).unwrap().map(Result::unwrap).collect();
    assert_eq!(schema.exposure(&blocks[0]).unwrap(), Some(vec![1.5, 2.0]));
    assert_eq!(schema.exposure(&blocks[1]).unwrap(), Some(vec![3.0]));
    assert_eq!(schema.design(&blocks[0], UnseenLevels::Error).unwrap()[(1, 0)], 8.0);
    assert!(blocks[0].column("w").is_none());
    std::fs::write(&path, "x\n7\n").unwrap();
    let error = schema.open_with(&path, 2, None, &[]).err().expect("no exposure").to_string();
    assert!(error.ends_with("f.csv: there is no column named 'e'"), "{error}");
}

#[test]
fn exposure_and_weights_are_above_zero_in_every_row() {
    for (value, expected) in [
        ("0", "found 0, expected"),
        ("-1", "found -1, expected"),
        ("inf", "found inf, expected a finite number"),
        ("", "the value is missing"),
        ("red", "found \"red\", expected a number"),
    ] {
        let table = csv(format!("x,c,y\n1,1,0\n2,{value},1\n3,4,2\n"));
        for options in [counts_with(Some("c"), None), counts_with(None, Some("c"))] {
            let error = Schema::infer(&table, &options).unwrap_err();
            let start = format!("f.csv: row 2 (line 3), column 'c': {expected}");
            assert!(error.kind() == ErrorKind::Data && error.to_string().starts_with(&start), "{error}");
        }
    }
    let table = csv("x,c,y\n1,1,0\n2,1e300,1\n3,4,2\n");
    let schema = Schema::infer(&table, &counts_with(Some("c"), None));
    let error = schema.and_then(|(schema, _)| schema.exposure(&table)).unwrap_err();
    assert!(error.to_string().ends_with("expected an exposure from 1e-100 to 1e100"), "{error}");
}

#[test]
fn a_stored_schema_is_readable_and_checked() {
    let table = csv("x,e,y\n1,2,0\n2,1,1\n3,4,2\n");
    let (counts, _) = Schema::infer(&table, &counts_with(Some("e"), None)).unwrap();
    let pets = schema(&["dog", "cat", "cat"], &options());
    let levels = schema(&["3", "4", "5"], &of_kind(TargetKind::Ordinal));
    for schema in [&counts, &pets, &levels] {
        let json = serde_json::to_string(schema).unwrap();
        assert_eq!(&serde_json::from_str::<Schema>(&json).unwrap(), schema);
    }
    for damaged in [
        r#"{"kind":"binary"}"#,
        r#"{"kind":"binary","levels":["a"]}"#,
        r#"{"kind":"binary","levels":["a","a"]}"#,
        r#"{"kind":"binary","levels":["a","b","c"]}"#,
        r#"{"kind":"ordinal","levels":["1","2"]}"#,
        r#"{"kind":"ordinal","levels":["1","2","4"]}"#,
        r#"{"kind":"ordinal","levels":["1","2","three"]}"#,
        r#"{"kind":"count","levels":["1"]}"#,
        r#"{"kind":"other"}"#,
    ] {
        assert!(serde_json::from_str::<TargetEncoding>(damaged).is_err(), "{damaged}");
    }
}

/// Numbers from 0 to 1 are shares if clearly many are exactly at an end and many distinct ones lie between the ends.
#[test]
fn shares_have_exact_ends_and_many_values_between_them() {
    let kind = |zeros: usize, ones: usize, inside: usize| {
        let ends =
            std::iter::repeat_n("0".to_owned(), zeros).chain(std::iter::repeat_n("1.0".to_owned(), ones));
        let cells: Vec<String> = ends.chain((1..=inside).map(|k| format!("{}", k as f64 / 101.0))).collect();
        schema(&cells.iter().map(String::as_str).collect::<Vec<_>>(), &options()).encoding().kind()
    };
    assert_eq!([kind(3, 3, 50), kind(0, 9, 50), kind(40, 0, 50)], [TargetKind::Share; 3]);
    // Scaled to the range, without ends, and with few levels.
    assert_eq!([kind(1, 1, 50), kind(0, 0, 50), kind(30, 30, 5)], [TargetKind::Real; 3]);
    assert_eq!(kind(30, 30, 0), TargetKind::Binary);
}

/// Checks columns of whole numbers from open data sets, given by the frequency of each value (in at most
/// 3,000 rows) and the kind that people assign.
#[test]
fn whole_numbers_of_real_columns_have_the_right_kind() {
    let lines = include_str!("../reference/target_columns.csv").lines().skip(1);
    let mut wrong = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let &[_, set, column, wanted, values] = &fields[..] else { panic!("{line}") };
        let mut csv = "x,y\n".to_owned();
        for pair in values.split(' ') {
            let (value, rows) = pair.split_once(':').expect("a value and its rows");
            let rows = 0..rows.parse::<usize>().expect("rows");
            csv.extend(rows.map(|row| format!("{},{value}\n", 0.5 + row as f64)));
        }
        let (schema, notes) = Schema::infer(&super::common::csv(csv), &options()).expect("a schema");
        let encoding = schema.encoding();
        let wanted = if wanted == "count" { TargetKind::Count } else { TargetKind::Real };
        if encoding.kind() != wanted {
            wrong.push(format!("{set} {column}: {} {notes:?}", encoding.kind()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_objective_for_gaussian_noise_treats_numbers_as_numbers_but_not_text() {
    let numbers = SchemaOptions { numbers: true, ..options() };
    for cells in [&["0", "1", "1"][..], &["0", "0", "0", "1", "1", "2", "0", "3"]] {
        assert_eq!(schema(cells, &numbers).encoding().kind(), TargetKind::Real);
        assert_ne!(kind(cells), TargetKind::Real);
    }
    assert_eq!(schema(&["no", "yes", "no"], &numbers).encoding().kind(), TargetKind::Binary);
}
