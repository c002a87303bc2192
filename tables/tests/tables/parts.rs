//! Fits to tables in parts equal fits to the whole table, for any cut and every training mode.

use super::common::*;
use super::fits::data_for;
use sparsegp::{Error, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts in this process, which receive only bytes.
struct Holders<'a> {
    request: PartsRequest<'a>,
    tables: Vec<Table>,
    preparation: Mutex<Option<Preparation>>,
    rounds: AtomicUsize,
}

impl<'a> Holders<'a> {
    /// Creates parts of these sizes, which may be 0.
    fn new(request: PartsRequest<'a>, table: &Table, sizes: &[usize]) -> Self {
        let mut first = 0;
        let part = |&size: &usize| {
            let rows: Vec<usize> = (first..first + size).collect();
            first += size;
            table.take(&rows).from_row(rows.first().copied().unwrap_or(first))
        };
        let tables = sizes.iter().map(part).collect();
        let (preparation, rounds) = (Mutex::new(None), AtomicUsize::new(0));
        Holders { request, tables, preparation, rounds }
    }

    fn with_rows(&self) -> impl Iterator<Item = (usize, &Table)> {
        self.tables.iter().enumerate().filter(|(_, table)| table.rows() > 0)
    }
}

impl TableParts for Holders<'_> {
    fn count(&self) -> usize {
        self.tables.len()
    }

    fn survey(&self, readings: Option<&Readings>) -> Result<PartSurvey> {
        let one = |(part, table)| {
            PartSurvey::from_bytes(&PartSurvey::of(self.request, table, part, readings)?.to_bytes()?)
        };
        let mut all: Vec<PartSurvey> = self.with_rows().map(one).collect::<Result<_>>()?;
        let mut first = all.remove(0);
        all.into_iter().try_for_each(|later| first.merge(later))?;
        Ok(first)
    }

    fn prepare(&self, preparation: &Preparation) -> Result<()> {
        let preparation = Preparation::from_text(&preparation.to_text()?)?;
        *self.preparation.lock().expect("a lock") = Some(preparation);
        Ok(())
    }

    fn ask(&self, round: Vec<u8>) -> Result<Sums> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let preparation = self.preparation.lock().expect("a lock").clone().expect("a preparation");
        let round = Round::from_bytes(&round)?;
        let mut all: Option<Sums> = None;
        for (part, table) in self.with_rows() {
            let rows = preparation.rows(table)?;
            let sums = round.sums(part, rows.dataset())?;
            let sums = Sums::from_bytes(&sums.to_bytes()?)?;
            match &mut all {
                None => all = Some(sums),
                Some(all) => all.merge(&sums)?,
            }
        }
        all.ok_or_else(|| Error::data("no rows"))
    }
}

/// Returns the table with weights, and with some targets missing.
fn with_weights(table: &Table) -> Table {
    let weights = (0..table.rows()).map(|row| 0.5 + (row % 3) as f64).collect();
    let mut columns = table.columns().to_vec();
    columns.push(NamedColumn { name: "w".into(), column: Column::Number(weights) });
    Table::new("data.csv", columns).expect("a table")
}

/// Returns the sizes of one part, of two parts and of seven parts, some of which are empty.
fn cuts(n: usize) -> [Vec<usize>; 3] {
    [vec![n], vec![n / 3, n - n / 3], vec![5, 0, n / 2, 1, 0, 2, n - n / 2 - 8]]
}

pub fn fit_parts(
    columns: &SchemaOptions,
    options: &FitOptions,
    table: &Table,
    sizes: &[usize],
) -> TableModel {
    let request = PartsRequest { columns, options, batch_size_given: true };
    let holders = Holders::new(request, table, sizes);
    let mut ignore = |_: &Event| {};
    let fit = PartsFit::new(request, &holders).expect("columns");
    let model = fit.fit(&mut Session::new(&mut ignore)).expect("a fit");
    assert!(holders.rounds.into_inner() > 0, "nothing was asked of the parts");
    model
}

/// Returns the means and variances of all latent functions at all rows.
fn predicted(model: &TableModel, table: &Table) -> Vec<f64> {
    let predictions = model.predict(table, UnseenLevels::Error).expect("predictions");
    let functions = model.latent().likelihood.functions();
    let all = (0..predictions.rows()).flat_map(|row| (0..functions).map(move |function| (row, function)));
    all.flat_map(|(row, function)| <[f64; 2]>::from(predictions.latent(row, function))).collect()
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    let largest = want.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= tolerance * largest, "{what}: {got} and {want}");
    }
}

fn columns_of(target: &str, weighted: bool) -> SchemaOptions {
    let weights = weighted.then(|| "w".to_owned());
    let exclude = if weighted { vec![] } else { vec!["w".to_owned()] };
    SchemaOptions { target: target.into(), weights, exclude, ..SchemaOptions::default() }
}

#[test]
fn collapsed_fits_of_parts_are_those_of_the_table() {
    // The scaling of inputs is rounded, and whitening amplifies that by up to cond(K_uu) ≤ M / jitter.
    let tolerance = f64::EPSILON * 12.0 / 1e-6;
    let (table, target) = data_for(LikelihoodKind::Gaussian);
    let table = with_weights(&table);
    for (objective, weighted) in [
        (ObjectiveKind::Elbo, true),
        (ObjectiveKind::Vfe, false),
        (ObjectiveKind::Fitc, false),
        (ObjectiveKind::DlmSquare, true),
    ] {
        let columns = columns_of(target, weighted);
        let mut options = FitOptions { objective, seed: 3, ..small(12, 8) };
        if objective == ObjectiveKind::DlmSquare {
            // The evidence of the start is optimised without rounds; many iterations would amplify the
            // rounding of the scaling.
            options.warm_start = 5;
        }
        let whole = fit(&table, &columns, &options).expect("a fit");
        for sizes in cuts(table.rows()) {
            let model = fit_parts(&columns, &options, &table, &sizes);
            let (got, want, what) = (model.summary(), whole.summary(), format!("{objective} {sizes:?}"));
            let difference = (got.objective - want.objective).abs();
            assert!(difference <= tolerance * want.objective.abs().max(1.0), "{what}: {difference}");
            assert_eq!((got.iterations, got.evaluations), (want.iterations, want.evaluations));
            assert_close(&predicted(&model, &table), &predicted(&whole, &table), 1e-8, &what);
        }
    }
}

/// With Gaussian noise the offset is subtracted from targets; otherwise the parts add it to the function.
#[test]
fn offsets_in_parts_have_the_fit_of_the_table() {
    let line = |row: usize| {
        let x = (row as f64 * 0.618_034).fract() * 6.0;
        let o = (row as f64 * 0.414_214).fract() - 0.5;
        format!("{x},{o},{},{}\n", x.sin() + o, ((x.sin() + o).exp() + 0.7 * (row % 3) as f64).round())
    };
    let table = csv("x,o,y,count\n".to_owned() + &(0..90).map(line).collect::<String>());
    for (target, likelihood) in [("y", LikelihoodKind::Gaussian), ("count", LikelihoodKind::Poisson)] {
        let features = Some(vec!["x".into()]);
        let columns = SchemaOptions {
            target: target.into(),
            features,
            offset: vec!["o".into()],
            ..SchemaOptions::default()
        };
        let hyper = Some(Hyper::Alternating).filter(|_| likelihood == LikelihoodKind::Poisson);
        let (likelihood, inducing_init) = (Some(likelihood), InducingInit::Random);
        let options = FitOptions { likelihood, hyper, inducing_init, seed: 3, warm_start: 5, ..small(7, 1) };
        let whole = fit(&table, &columns, &options).expect("a fit");
        for sizes in cuts(table.rows()) {
            let model = fit_parts(&columns, &options, &table, &sizes);
            assert_close(
                &predicted(&model, &table),
                &predicted(&whole, &table),
                1e-4,
                &format!("{target} {sizes:?}"),
            );
        }
        let ignoring =
            fit(&table, &SchemaOptions { offset: Vec::new(), ..columns }, &options).expect("a fit");
        let apart = predicted(&ignoring, &table)[0] - predicted(&whole, &table)[0];
        assert!(apart.abs() > 1e-3, "{target}: the offset matters");
    }
}

/// Returns rows of seven firms, the last of which occurs in the last rows alone, with intercepts and slopes by firm.
fn firms(rows: usize) -> String {
    let part = |k: usize| (k as f64 * 0.618_034).fract() - 0.5;
    let line = |row: usize| {
        let level = if row + 4 > rows { 6 } else { row * 5 % 6 };
        let x = 6.0 * part(row + 1);
        let effect = 2.0 * part(3 * level + 2) * (1.0 + 0.5 * x);
        format!("{x},firm {level},kind {},{}\n", row % 4, x.sin() + effect + 0.3 * part(31 * row + 7))
    };
    "x,firm,kind,y\n".to_owned() + &(0..rows).map(line).collect::<String>()
}

fn columns_with_group(formula: &str) -> SchemaOptions {
    let groups = vec![formula.parse().expect("a formula")];
    SchemaOptions { target: "y".into(), groups, exclude: vec!["kind".into()], ..SchemaOptions::default() }
}

fn options_with_group(objective: ObjectiveKind) -> FitOptions {
    FitOptions { objective, seed: 3, ..small(9, 2) }
}

/// The levels come from the survey of all parts, and sums by level add up. Every iteration amplifies the rounding of the scaling, so there
/// are two.
#[test]
fn one_grouping_in_parts_has_the_fit_of_the_table() {
    let table = csv(firms(90));
    for (objective, group) in
        [(ObjectiveKind::Elbo, "x | firm"), (ObjectiveKind::Fitc, "firm"), (ObjectiveKind::Vfe, "x || firm")]
    {
        let (columns, options) = (columns_with_group(group), options_with_group(objective));
        let whole = fit(&table, &columns, &options).expect("a fit");
        for sizes in cuts(table.rows()) {
            let model = fit_parts(&columns, &options, &table, &sizes);
            assert_eq!(model.schema().groups(), whole.schema().groups());
            assert_close(&[model.summary().objective], &[whole.summary().objective], 1e-9, group);
            let (found, wanted) = (predicted(&model, &table), predicted(&whole, &table));
            assert_close(&found, &wanted, 1e-7, &format!("{objective} {sizes:?}"));
        }
    }
    let crossed = SchemaOptions {
        groups: ["firm", "kind"].map(|column| column.parse().expect("a formula")).to_vec(),
        exclude: Vec::new(),
        ..columns_with_group("firm")
    };
    // Several groupings take steps on mini-batches of all parts, which end near the closed form on the whole table.
    let options = FitOptions { epochs: Some(60), ..options_with_group(ObjectiveKind::Elbo) };
    let (model, whole) =
        (fit_parts(&crossed, &options, &table, &[40, 50]), fit(&table, &crossed, &options).expect("a fit"));
    let [found, wanted] = [model.summary().objective, whole.summary().objective];
    assert!(found < wanted + 0.1, "{found} instead of {wanted}");
}

/// Fits with batches of all rows, whose sums do not depend on the cut.
#[test]
fn every_likelihood_and_way_to_train_on_all_rows_is_that_of_the_table() {
    use LikelihoodKind as Kind;
    let fits = [
        (Kind::Gaussian, ObjectiveKind::Elbo, Hyper::Dual),
        (Kind::Gaussian, ObjectiveKind::DlmLog, Hyper::Joint),
        (Kind::StudentT, ObjectiveKind::Elbo, Hyper::Alternating),
        (Kind::NegativeBinomial, ObjectiveKind::Elbo, Hyper::Dual),
        (Kind::NegativeBinomial, ObjectiveKind::DlmLog, Hyper::Joint),
        (Kind::BernoulliLogit, ObjectiveKind::Elbo, Hyper::Alternating),
        (Kind::Softmax, ObjectiveKind::Elbo, Hyper::Dual),
        (Kind::Ordinal, ObjectiveKind::DlmLog, Hyper::Joint),
    ];
    for (kind, objective, hyper) in fits {
        let (table, target) = data_for(kind);
        let table = with_weights(&table);
        let options = FitOptions {
            likelihood: Some(kind),
            objective,
            hyper: Some(hyper),
            inducing: Some(8),
            // Evenly spaced inputs tie in k-means, so the rounding of their scaling would decide.
            inducing_init: InducingInit::Random,
            // Iterations on values that are solved to a tolerance amplify the remaining error.
            epochs: Some(if hyper == Hyper::Alternating { 1 } else { 6 }),
            tolerance: (hyper == Hyper::Alternating).then_some(1e-9),
            warm_start: 5,
            steps: batches_of(table.rows()),
            ..FitOptions::default()
        };
        let columns = columns_of(target, true);
        let [one, _, seven] = cuts(table.rows());
        let (whole, parts) =
            (fit_parts(&columns, &options, &table, &one), fit_parts(&columns, &options, &table, &seven));
        let want = predicted(&whole, &table);
        // q is solved for until steps gain less than 1e-11 nats a row, of 80 rows: to √(2 · 80 · 1e-11) = 4e-5 of its deviations.
        let tolerance = if hyper == Hyper::Alternating { 4e-5 } else { 1e-7 };
        assert_close(&predicted(&parts, &table), &want, tolerance, &format!("{kind} {objective} {hyper}"));
        if hyper == Hyper::Alternating {
            let local = fit(&table, &columns, &options).expect("a fit");
            assert_close(&predicted(&local, &table), &want, tolerance, &format!("{kind} in memory"));
            let objectives = [&local, &whole, &parts].map(|model| model.summary().objective);
            // Gradients have errors of the size of those of q, and their only step is short.
            assert_close(&objectives, &[objectives[0]; 3], 1e-6, &format!("the objective of {kind}"));
        }
    }
}

#[test]
fn mini_batches_of_one_part_are_those_of_the_table_and_those_of_more_are_reproducible() {
    let (table, target) = data_for(LikelihoodKind::Poisson);
    let table = with_weights(&table);
    let columns = columns_of(target, false);
    let options = FitOptions {
        likelihood: Some(LikelihoodKind::Poisson),
        hyper: Some(Hyper::Joint),
        warm_start: 5,
        steps: batches_of(30),
        ..small(8, 4)
    };
    let [one, two, seven] = cuts(table.rows());
    let whole = predicted(&fit(&table, &columns, &options).expect("a fit"), &table);
    assert_close(&predicted(&fit_parts(&columns, &options, &table, &one), &table), &whole, 1e-7, "one part");
    let estimators = [Estimator::Exact, Estimator::Price { samples: 3 }, Estimator::Energy { samples: 3 }];
    for estimator in estimators {
        let options = FitOptions { estimator, ..options.clone() };
        for sizes in [&two, &seven] {
            let fit = || predicted(&fit_parts(&columns, &options, &table, sizes), &table);
            let (first, again) = (fit(), fit());
            assert!(first.iter().all(|value| value.is_finite()));
            assert!(first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "{estimator}");
        }
    }
    let held_out = FitOptions { validation_fraction: 0.2, ..options };
    let model = fit_parts(&columns, &held_out, &table, &seven);
    let share = model.training_rows() as f64 / table.rows() as f64;
    assert!((0.7..0.9).contains(&share), "{share}");
    assert!(model.summary().trace.iter().all(|record| record.validation_nll.is_some()));
}
