//! What several files of these tests use: the items of the crates, and helpers for fits, model files and grouped effects.

pub use faer::{Mat, MatRef};
pub use proptest::prelude::*;
pub use rand::SeedableRng;
pub use rand_chacha::ChaCha8Rng;
pub use sparsegp::ErrorKind;
pub use sparsegp::model::Slopes;
pub use sparsegp::{
    collapsed::*, effects::*, hyper::*, kernels::*, latent::*, likelihood::*, model::*, objective::*,
    options::*, training::*, variational::*,
};
pub use sparsegp_testkit::{dense::*, differences::*, problems::*};

/// Fits a model to rows.
pub fn fit(options: &FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Model {
    Fit::of(options.clone()).fit(x, y).expect("a fit")
}

/// Fits to inputs with a column for each row.
pub fn fit_columns(x: &Mat<f64>, y: &[f64], options: &FitOptions) -> sparsegp::Result<Fitted> {
    fit_arrays(TrainingData::of(Dataset::of(x.transpose(), y)), options, None, &mut |_| {})
}

/// Checks that every inducing input after the first ones is the row of the largest variance given those before it.
pub fn assert_pivots(
    kernel: &dyn Kernel,
    x: &Mat<f64>,
    z: MatRef<'_, f64>,
    first: usize,
    jitter: impl Fn(usize) -> f64,
) {
    for i in first..z.nrows() {
        let variances = conditional_variances(kernel, x.transpose(), z.subrows(0, i), &jitter);
        let largest = variances.iter().copied().fold(0.0, f64::max);
        let is_next = |j: &usize| (0..x.nrows()).all(|d| x[(d, *j)] == z[(i, d)]);
        let at = (0..x.ncols()).find(is_next).expect("a row of the data");
        assert!((variances[at] - largest).abs() < 1e-9, "step {i}: {} {largest}", variances[at]);
    }
}

/// Returns a model after a round trip through a file.
pub fn reread(model: &Model) -> Model {
    Model::from_bytes("model", &model.to_bytes().expect("bytes")).expect("a model")
}

/// Checks that a model file keeps the predictions of rows, their joint draws, and the effects, to the last bit.
pub fn assert_kept(model: &Model, x: MatRef<'_, f64>) {
    let again = reread(model);
    let [own, other] = [model, &again].map(|model| model.predict(x, &[]).expect("predictions"));
    assert!((0..x.nrows()).all(|row| own.row(row) == other.row(row)));
    let draws = |model: &Model| model.samples(x, 2, 0).expect("joint draws");
    assert_eq!(draws(model), draws(&again));
    assert_eq!(model.level_effects(), again.level_effects());
    assert_eq!(model.variance_components(), again.variance_components());
    assert_eq!(model.intraclass_correlations(), again.intraclass_correlations());
}

/// Returns the options of a linear model with grouped effects.
pub fn linear(effects: Vec<EffectTerm>) -> FitOptions {
    FitOptions { model: ModelKind::Glm, effects, ..FitOptions::default() }
}

/// Returns the intercepts of two crossed groupings with these numbers of levels.
pub fn crossed_intercepts(a: usize, b: usize) -> Vec<EffectTerm> {
    vec![EffectTerm::intercepts("a", a, 0), EffectTerm::intercepts("b", b, 1)]
}

/// Returns correlated intercepts and slopes of the columns `values`.
pub fn slopes(name: &str, levels: usize, code: usize, values: &[usize]) -> EffectTerm {
    EffectTerm {
        slopes: values.iter().map(|value| format!("s{value}")).collect(),
        values: values.to_vec(),
        correlated: true,
        ..EffectTerm::intercepts(name, levels, code)
    }
}

/// Checks a row with a code: a new level has the mean of the population, and its variance plus that of levels; a known level has less.
pub fn check_levels(model: &Model, row: impl Fn(f64) -> Mat<f64>, what: &str) {
    let [known, new, population] = [row(3.0), row(77.0), row(POPULATION)]
        .map(|x| model.predict(x.as_ref(), &[]).expect("predictions").row(0));
    let sd = model.variance_components()[0].sd;
    let added = (new.latent_variance - population.latent_variance).sqrt();
    assert!((added / sd - 1.0).abs() < 1e-9, "{what}: {added} {sd}");
    assert_eq!(new.latent_mean, population.latent_mean, "{what}");
    assert!(known.latent_variance < new.latent_variance, "{what}");
}

/// Draws a target for each value of the latent function.
pub fn drawn(kind: LikelihoodKind, eta: &[f64], seed: u64) -> Vec<f64> {
    let likelihood: Box<dyn Likelihood> = match kind {
        LikelihoodKind::Gaussian => Box::new(Gaussian::new(0.16)),
        LikelihoodKind::StudentT => Box::new(StudentT::new(0.3, 4.0)),
        kind => kind.build(3),
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    eta.iter().map(|eta| likelihood.sample(Observation::of(1.0), &[*eta], &mut random)).collect()
}
