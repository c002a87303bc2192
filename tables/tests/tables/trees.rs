//! A mean of boosted trees: what trees find, what they must not leak, which files and options they go with.

use super::common::*;
use sparsegp::options::Part;
use std::sync::atomic::{AtomicBool, Ordering};

/// A table whose target jumps by levels that come in no order and by a threshold, and is smooth otherwise.
fn with_jumps(rows: usize, seed: u64) -> Table {
    csv(text_with_jumps(rows, seed))
}

fn text_with_jumps(rows: usize, seed: u64) -> String {
    let mut normals = Normals::new(seed);
    let mut text = "shop,size,age,price\n".to_owned();
    for _ in 0..rows {
        let (shop, size, age) = ((7.3 * normals.next()).abs() as usize % 12, normals.next(), normals.next());
        let jumps = f64::from(u8::from(size > 0.4)) * 4.0 + [0.0, 3.0, 1.0, 5.0][shop * 5 % 4];
        let price = jumps + age.sin() + 0.2 * normals.next();
        let age = if normals.next() > 1.5 { String::new() } else { age.to_string() };
        text += &format!("shop {shop},{size},{age},{price}\n");
    }
    text
}

/// Returns the text of a table whose inputs tell nothing of the target.
fn noise(rows: usize, seed: u64) -> String {
    let mut normals = Normals::new(seed);
    let mut row = || (0..5).map(|_| normals.next().to_string()).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = (0..rows).map(|_| row()).collect();
    format!("a,b,c,d,price\n{}\n", rows.join("\n"))
}

fn trees() -> FitOptions {
    FitOptions { mean: MeanKind::Trees, ..small(40, 20) }
}

/// Returns the mean log density of rows and the share of their targets inside 95 % intervals.
fn scores(model: &TableModel, table: &Table) -> (f64, f64) {
    let part = model.rows(table, UnseenLevels::New).expect("rows");
    let predictions = model.predict_part(&part);
    let n = part.targets.len() as f64;
    let density: f64 = part.targets.iter().enumerate().map(|(row, y)| predictions.log_density(row, *y)).sum();
    let inside = |(row, y): (usize, &f64)| {
        (predictions.quantile(row, 0.025)..predictions.quantile(row, 0.975)).contains(y)
    };
    let inside = part.targets.iter().enumerate().filter(|of| inside(*of)).count() as f64;
    (density / n, inside / n)
}

#[test]
fn trees_find_jumps_and_files_keep_them() {
    let (table, new) = (with_jumps(600, 1), with_jumps(400, 2));
    let plain =
        fit(&table, &target("price"), &FitOptions { mean: MeanKind::Constant, ..trees() }).expect("a fit");
    let model = fit(&table, &target("price"), &trees()).expect("a fit");
    let (density, covered) = scores(&model, &new);
    assert!(density > scores(&plain, &new).0 + 0.2, "{density} {:?}", scores(&plain, &new));
    assert!((0.91..=0.985).contains(&covered), "{covered}");
    assert_eq!(model.schema().input_names().last().map(String::as_str), Some("trees"));
    read_back(&model, &new);
    let named = FitOptions { kernel: "matern32(ard)[size, age] + linear[trees]".into(), ..trees() };
    let named = fit(&table, &target("price"), &named).expect("a fit");
    assert_eq!(named.options().kernel, "matern32(ard)[1:4] + linear[4]");
    assert_eq!(
        named.schema().kernel_in_names(&named.options().kernel),
        "matern32(ard)[size, age] + linear[trees]"
    );
    assert!(scores(&named, &new).0 > scores(&plain, &new).0);

    // A file is refused if its text is no tree, or its trees are of other columns.
    let stored = serde_json::to_value(model.schema()).expect("a schema");
    let mut digits = stored.clone();
    digits["features"][3]["scores"]["forest"] = "0g".into();
    assert!(serde_json::from_value::<Schema>(digits).is_err());
    let mut fewer = stored;
    fewer["features"].as_array_mut().expect("features").remove(0);
    let fewer: Schema = serde_json::from_value(fewer).expect("a schema");
    let bytes = model.model().to_bytes_with(Some(serde_json::to_value(fewer).expect("json"))).expect("bytes");
    let error = TableModel::from_bytes("m", &bytes).map(|_| ()).expect_err("other columns").to_string();
    assert!(error.contains("its trees do not match its columns"), "{error}");
}

#[test]
fn automatic_choices_take_trees_for_jumps_and_not_for_noise() {
    let chosen = |table: &Table| {
        let options =
            FitOptions { open: Open::NOTHING.with(Part::Mean), mean: MeanKind::Constant, ..small(40, 20) };
        let model = fit(table, &target("price"), &options).expect("a fit");
        let choices = model.search().choices.clone().expect("choices");
        let tried: Vec<String> = choices.parts[0].tried.iter().map(|one| one.value.clone()).collect();
        assert_eq!(
            (choices.parts[0].part, &tried[..]),
            (Part::Mean, &["constant".to_owned(), "trees".to_owned()][..])
        );
        assert_eq!(model.schema().trees().is_some(), model.options().mean == MeanKind::Trees);
        model
    };
    assert_eq!(chosen(&with_jumps(700, 3)).options().mean, MeanKind::Trees);

    // Trees fit noise well that they see. Scores that leaked would be an input that predicts the target.
    let (table, new) = (csv(noise(600, 4)), csv(noise(2000, 5)));
    let asked = fit(&table, &target("price"), &trees()).expect("a fit");
    for model in [chosen(&table), asked] {
        // The density of the standard normal, which no model can surpass on new rows, and one that saw the rows hardly.
        let best = -0.5 * (2.0 * std::f64::consts::PI).ln() - 0.5;
        let (own, (others, covered)) = (scores(&model, &table).0, scores(&model, &new));
        assert!(own < best + 0.12 && others > best - 0.05, "{best}: {own} {others}");
        assert!((0.92..=0.98).contains(&covered), "{covered}");
    }
}

#[test]
fn a_group_or_a_time_never_has_scores_of_trees_that_saw_it() {
    // Every group has a level of its own in another column, and a random mean: only trees that saw the group know it.
    let mut normals = Normals::new(6);
    let means: Vec<f64> = (0..60).map(|_| 3.0 * normals.next()).collect();
    let rows: Vec<(usize, f64)> = (0..600).map(|i| (i % 60, means[i % 60] + 0.1 * normals.next())).collect();
    let text: String = rows.iter().map(|(group, y)| format!("g{group},{group},{y}\n")).collect();
    let table = csv(format!("who,code,y\n{text}"));
    let leaked = |split: Option<SplitBy>| {
        let columns = SchemaOptions {
            split,
            features: Some(vec!["code".into()]),
            categorical: vec!["code".into()],
            ..target("y")
        };
        let options = FitOptions { validation_fraction: 0.2, ..trees() };
        let request = FitRequest::new(&table, &columns, &options);
        let fit = fit_table(&request, &mut |_| {}).expect("a fit");
        fit.model.schema().trees().expect("trees").0.forests()[0].rounds()
    };
    assert!(leaked(None) > 20, "rows of a group inform each other");
    assert!(leaked(Some(SplitBy::Group("who".into()))) <= 5, "nothing tells a new group's mean");
}

#[test]
fn trees_go_with_every_kind_of_target_and_with_groups_neighbours_and_the_log_loss() {
    let mut normals = Normals::new(8);
    let rows: Vec<(f64, f64, usize)> = (0..400).map(|i| (normals.next(), normals.next(), i % 8)).collect();
    let mut text = "a,b,who,real,two,three,count,share,level\n".to_owned();
    for (a, b, who) in &rows {
        let step = usize::from(*a > 0.3) * 2 + usize::from(*b > -0.2);
        let y = step as f64 + 0.3 * normals.next();
        let share = 1.0 / (1.0 + (-y + 1.5).exp());
        text += &format!(
            "{a},{b},w{who},{y},{},{},{step},{share},{}\n",
            ["no", "yes"][step / 2],
            ["p", "q", "r", "s"][step],
            step + 1
        );
    }
    let table = csv(text);
    let fit_with = |name: &str, likelihood: &str, change: &dyn Fn(&mut FitOptions), groups: &str| {
        let mut options =
            FitOptions { likelihood: Some(likelihood.parse().expect("a likelihood")), ..trees() };
        change(&mut options);
        let groups: Vec<GroupFormula> =
            groups.split(' ').filter(|of| !of.is_empty()).map(|of| of.parse().expect("a group")).collect();
        let columns = SchemaOptions { features: Some(vec!["a".into(), "b".into()]), groups, ..target(name) };
        let fitted = |options: &FitOptions| {
            fit(&table, &columns, options).unwrap_or_else(|error| panic!("{name} {likelihood}: {error}"))
        };
        let model = fitted(&options);
        let constant = fitted(&FitOptions { mean: MeanKind::Constant, ..options.clone() });
        assert!(model.summary().objective < constant.summary().objective, "{name} {likelihood}");
        read_back(&model, &table);
        model
    };
    let same = |_: &mut FitOptions| {};
    let cases = [
        ("real", "gaussian"),
        ("real", "student-t"),
        ("real", "gaussian-heteroskedastic"),
        ("two", "bernoulli-probit"),
        ("three", "softmax"),
        ("count", "poisson"),
        ("count", "hurdle-poisson"),
        ("share", "beta-logit"),
        ("level", "ordinal"),
    ];
    for (name, likelihood) in cases {
        fit_with(name, likelihood, &same, "");
    }
    fit_with("real", "gaussian", &|options| *options = options.with_neighbours(10), "");
    fit_with("real", "gaussian", &same, "who");
    fit_with("count", "poisson", &|options| options.objective = ObjectiveKind::DlmLog, "");
    let model = fit_with("real", "gaussian", &|options| options.objective = ObjectiveKind::Vfe, "");

    // An update and a fit from the model know the trees; a fit from it boosts trees of its own rows.
    let more = table.take(&(0..50).collect::<Vec<_>>());
    let updated = model.updated(&more, 1.0, &mut Session::new(&mut |_: &Event| {})).expect("an update");
    assert_eq!(
        updated.schema().trees().map(|(scores, _)| scores),
        model.schema().trees().map(|(scores, _)| scores)
    );
    let columns = SchemaOptions { features: Some(vec!["a".into(), "b".into()]), ..target("real") };
    let options = FitOptions { objective: ObjectiveKind::Vfe, likelihood: None, ..trees() };
    let from = fit_from(&table.take(&(0..300).collect::<Vec<_>>()), &columns, &options, Some(&model))
        .expect("a fit");
    assert_ne!(
        from.schema().trees().map(|(scores, _)| scores),
        model.schema().trees().map(|(scores, _)| scores)
    );
}

/// Explanations move the scores with the columns that trees see: Shapley values of two columns by all orders.
#[test]
fn explanations_count_trees_as_part_of_the_columns() {
    let table = with_jumps(400, 9);
    let model = fit(&table, &target("price"), &trees()).expect("a fit");
    let explainer = Explainer::of_table(&model);
    let names: Vec<&str> = explainer.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["shop", "size", "age"]);
    let x = model.schema().design(&table, UnseenLevels::New).expect("inputs");
    let targets = model.schema().target(&table).expect("targets").expect("a target");
    let rows = Rows { x: x.as_ref(), exposure: &[], targets: &targets, other_ends: &[] };
    let relevance = explainer.relevance(rows, &Settings { rows: 200, ..Settings::default() });
    let gain = |column: usize| {
        let found = relevance.iter().find(|of| of.column == column).and_then(|of| of.permutation.as_ref());
        found.expect("a permutation").mean
    };
    assert!(gain(0) > 0.5 && gain(1) > 0.5, "{relevance:?}");

    // The column set to a value in the table itself gives the same curve.
    let dependence = explainer.dependence(1, rows, &Settings { background: 400, ..Settings::default() });
    let setting = &dependence.settings[20];
    let sizes = vec![setting.value; table.rows()];
    let columns = table.columns().iter().map(|named| match named.name.as_str() {
        "size" => NamedColumn { name: named.name.clone(), column: Column::Number(sizes.clone()) },
        _ => named.clone(),
    });
    let changed = Table::new("f.csv", columns.collect()).expect("a table");
    let predictions = model.predict(&changed, UnseenLevels::New).expect("predictions");
    let mean = predictions.means().iter().sum::<f64>() / table.rows() as f64;
    assert!(
        (dependence.curves[0].points[20].0 - mean).abs() < 1e-9,
        "{} {mean}",
        dependence.curves[0].points[20].0
    );
}

#[test]
fn arrays_and_few_rows_refuse_trees() {
    let few = with_jumps(60, 1);
    let error = fit(&few, &target("price"), &trees()).map(|_| ()).expect_err("60 rows").to_string();
    assert!(error.contains("there are 60 training rows, expected at least 100"), "{error}");
    let error = Fit::of(trees())
        .fit(Mat::zeros(10, 1).as_ref(), &[0.0; 10])
        .map(|_| ())
        .expect_err("arrays")
        .to_string();
    assert!(error.contains("needs a table"), "{error}");
}

/// An interruption while trees are boosted ends the fit; the end of the time keeps the rounds so far, which are fewer.
#[test]
fn boosting_heeds_interruptions_and_the_time() {
    let (table, columns) = (with_jumps(600, 3), target("price"));
    let stop = AtomicBool::new(false);
    let mut listener = |event: &Event| {
        stop.store(matches!(event, Event::Stage(Stage::Trees { rows: 600 })), Ordering::Relaxed);
    };
    let options = trees();
    let request = FitRequest::new(&table, &columns, &options);
    let ended = fit_table_in(&request, &mut Session::new(&mut listener).with_interrupt(&stop));
    assert_eq!(ended.map(|_| ()).expect_err("an interruption").kind(), ErrorKind::Interrupted);

    let rounds = |seconds: Option<f64>| {
        let options = FitOptions { max_seconds: seconds, ..trees() };
        let model = fit(&table, &columns, &options).expect("a fit");
        model.schema().trees().map_or(0, |(scores, _)| scores.forests()[0].rounds())
    };
    let (short, whole) = (rounds(Some(1e-6)), rounds(None));
    assert!(short <= 1 && whole > 5, "{short} of {whole} rounds");
}

fn outputs(table: &Table, options: &FitOptions, sharing: Sharing) -> TableOutputs {
    let targets = ["price", "rent"].map(str::to_owned);
    let columns = target("price");
    let sharing = Some(sharing);
    let request = OutputsRequest {
        table,
        columns: &columns,
        targets: &targets,
        options,
        test_fraction: 0.0,
        sharing,
        start: None,
    };
    fit_outputs_in(&request, &mut Session::new(&mut |_| {})).expect("a fit").models
}

/// Targets that share a kernel or processes have the scores of all of them as inputs. The trees of a target are those of a fit to it alone,
/// from the rows in which it is known.
#[test]
fn targets_that_share_have_trees_each() {
    let with_rent = |rows: usize, seed: u64, known: fn(usize) -> bool| {
        let table = with_jumps(rows, seed);
        let Some(Column::Number(prices)) = table.column("price") else { panic!("numbers") };
        let rent = |(row, price): (usize, &f64)| if known(row) { 3.0 - 0.5 * price } else { f64::NAN };
        let rent = prices.iter().enumerate().map(rent).collect();
        let mut columns = table.columns().to_vec();
        columns.push(NamedColumn { name: "rent".into(), column: Column::Number(rent) });
        Table::new("f.csv", columns).expect("a table")
    };
    let (table, new) = (with_rent(600, 1, |row| row % 3 > 0), with_rent(400, 2, |_| true));
    let alone = fit(&table, &SchemaOptions { exclude: vec!["rent".into()], ..target("price") }, &trees());
    let alone = alone.expect("a fit");
    let alone = alone.schema().trees().expect("trees").0;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m");
    for sharing in [Sharing::Kernel, Sharing::Processes(1)] {
        let plain = outputs(&table, &FitOptions { mean: MeanKind::Constant, ..trees() }, sharing);
        outputs(&table, &trees(), sharing).save(&path).expect("written");
        let models = TableOutputs::load(&path).expect("models");
        for (model, plain) in models.models().zip(plain.models()) {
            let (density, covered) = scores(model, &new);
            assert!(density > scores(plain, &new).0 + 0.2, "{sharing}: {density} {:?}", scores(plain, &new));
            assert!((0.91..=0.985).contains(&covered), "{covered}");
            let names = model.schema().input_names();
            assert_eq!(names[names.len() - 2..], ["trees=price", "trees=rent"]);
            assert_eq!(model.schema().trees().expect("trees").0.forests()[0], alone.forests()[0]);
        }
    }
    // Targets that share nothing may have trees or none, in one file.
    let [with, without] = [MeanKind::Trees, MeanKind::Constant].map(|mean| {
        let options = FitOptions { mean, ..trees() };
        outputs(&table, &options, Sharing::Own).into_models()
    });
    TableOutputs::from(vec![with[0].clone(), without[1].clone()]).save(&path).expect("written");
    assert_eq!(TableOutputs::load(&path).expect("models").models().len(), 2);
}

/// Returns the fit to a file whose rows stay there, and the fit to parts of the same rows.
fn fits_without_a_table(text: &str, options: &FitOptions) -> [TableModel; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.csv");
    std::fs::write(&path, text).expect("written");
    let (table, columns) = (csv(text), target("price"));
    let request = FileFitRequest {
        path: &path,
        columns: &columns,
        options,
        test_fraction: 0.0,
        shuffle_buffer: Some(64),
        start: None,
    };
    let streamed = fit_file(&request, &mut |_| {}, &mut Session::new(&mut |_| {})).expect("a fit").model;
    let half = table.rows() / 2;
    [streamed, super::parts::fit_parts(&columns, options, &table, &[half, table.rows() - half])]
}

/// Rows in files and parts have scores from trees that did not see them; the trees are boosted on a sample, here of all rows.
#[test]
fn rows_that_are_not_in_memory_have_trees() {
    let (text, new) = (text_with_jumps(900, 1), with_jumps(400, 2));
    let options = FitOptions { objective: ObjectiveKind::Elbo, ..trees() };
    let plain = FitOptions { mean: MeanKind::Constant, ..options.clone() };
    let plain = scores(&fit(&csv(&text), &target("price"), &plain).expect("a fit"), &new).0;
    let models = fits_without_a_table(&text, &options);
    for model in &models {
        let (density, covered) = scores(model, &new);
        assert!(density > plain + 0.2, "{density} {plain}");
        assert!((0.91..=0.985).contains(&covered), "{covered}");
    }
    let [streamed, parted] = models.map(|model| model.schema().trees().expect("trees").0.clone());
    assert_eq!(streamed, parted);
    // Scores that leaked would be an input that predicts noise.
    let text = noise(900, 3);
    for model in fits_without_a_table(&text, &options) {
        let best = -0.5 * (2.0 * std::f64::consts::PI).ln() - 0.5;
        let (own, others) = (scores(&model, &csv(&text[..])).0, scores(&model, &csv(noise(2000, 5))).0);
        assert!(own < best + 0.12 && others > best - 0.05, "{best}: {own} {others}");
    }
}
