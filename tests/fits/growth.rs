//! Inducing inputs: their start by each method, and those that are added until there are enough: bounds against dense algebra, the greedy
//! choice, the end of growth.

use super::common::*;
use rand::RngExt;
use sparsegp::latent::init::{InducingInit, choose_inducing};

fn layer(model: &LatentModel) -> &InducingLayer {
    model.layer().inducing().expect("a sparse GP")
}

/// Returns a model with the first `m` columns of `x` as inducing inputs.
fn model_at(kernel: &str, x: &Mat<f64>, m: usize) -> LatentModel {
    let mut model = model(7, kernel, x.nrows(), m, Jitter::Relative(1e-8)).to_prior();
    let layer = model.layers[0].inducing_mut().expect("a sparse GP");
    layer.z_mut().copy_from(x.as_ref().subcols(0, m).transpose());
    model.factorised().expect("K_uu factorises")
}

/// Returns `log N(y; o, K + σ²I)` by a dense factorisation.
fn exact_evidence(model: &LatentModel, x: &Mat<f64>, y: &[f64]) -> f64 {
    let (layer, noise) = (layer(model), model.noise_variance().expect("Gaussian"));
    dense_gp(layer.kernel(), layer.mean().values[0], noise, (x, y), &Mat::zeros(x.nrows(), 0)).0
}

/// Returns the lower bound, Titsias' upper bound, and the upper bound from all of K.
fn bounds(model: &LatentModel, x: &Mat<f64>, y: &[f64]) -> (f64, f64, f64) {
    let set = Dataset::of(x.transpose(), y);
    let mut objective = CollapsedObjective::new(model.clone(), set, Objective::elbo(1.0));
    let theta = objective.start();
    let lower = -objective.solve(&theta).expect("lower bound");
    let upper = objective.evidence_upper_bound().expect("upper bound");
    let noise = model.noise_variance().expect("Gaussian");
    (lower, upper, dense_upper_bound(layer(model), set, noise, 1e-6).expect("dense bound"))
}

#[test]
fn the_evidence_lies_between_the_bounds_which_meet_as_inducing_inputs_are_added() {
    // More rows than one block of the kernel matrix holds, and a kernel whose diagonal is not continuous.
    let (x, y) = data(1, 2, 150);
    for kernel in ["rbf(ard)", "matern32 + white", "matern52 * rbf[0] + linear"] {
        let (mut before, mut gaps) = (f64::NEG_INFINITY, Vec::new());
        for m in [2, 5, 12, 30, 70, 150] {
            let model = model_at(kernel, &x, m);
            let exact = exact_evidence(&model, &x, &y);
            let (lower, cheap, dense) = bounds(&model, &x, &y);
            let rounding = 1e-7 * exact.abs();
            assert!(lower <= exact + rounding, "{kernel} {m}: {lower} above {exact}");
            assert!(exact <= dense + rounding, "{kernel} {m}: {dense} below {exact}");
            assert!(exact <= cheap + rounding, "{kernel} {m}: {cheap} below {exact}");
            assert!(dense <= cheap + rounding, "{kernel} {m}: {dense} looser than {cheap}");
            // Inducing inputs are nested and hyper-parameters fixed, so the bound cannot fall.
            assert!(lower >= before - rounding, "{kernel} {m}: {lower} fell from {before}");
            before = lower;
            gaps.push(dense - lower);
        }
        assert!(gaps[5] < 0.7 * gaps[0], "{kernel}: {gaps:?}");
        // Inducing inputs cannot represent white noise of the kernel, so a gap remains.
        if !kernel.contains("white") {
            assert!(gaps[5] < 1e-3, "{kernel}: {gaps:?}");
        }
    }
}

#[test]
fn additional_inducing_inputs_are_the_pivots_of_the_residual_covariance() {
    // There are more rows than in one block, and the inducing inputs are not rows of the data.
    let x = Normals::new(3).mat(2, 700);
    let model = model(3, "rbf(ard)", 2, 9, Jitter::Relative(1e-6));
    let layer = layer(&model);
    let more = more_inducing(x.transpose(), layer, 8, 5).expect("more");
    assert_eq!(more.nrows(), 8);
    let jitter = layer.relative_jitter() * gram(layer.kernel(), layer.z())[(0, 0)];
    let z = Mat::from_fn(17, 2, |k, d| if k < 9 { layer.z()[(k, d)] } else { more[(k - 9, d)] });
    assert_pivots(layer.kernel(), &x, z.as_ref(), 9, |i| if i < 9 { jitter } else { 0.0 });
    // If all data are inducing inputs, no variance is left.
    let few = Normals::new(4).mat(2, 12);
    let all = model_at("rbf(ard)", &few, 12);
    assert_eq!(more_inducing(few.transpose(), self::layer(&all), 5, 0).expect("none").nrows(), 0);
}

/// Returns targets that need many inducing inputs.
fn rough(seed: u64, n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(seed);
    let x = normals.mat(2, n);
    let y =
        (0..n).map(|j| (4.0 * x[(0, j)]).sin() + (3.2 * x[(1, j)]).cos() + 0.2 * normals.next()).collect();
    (x, y)
}

fn options(objective: ObjectiveKind, tolerance: f64, most: usize) -> FitOptions {
    let growth = Growth { inducing_tolerance: Some(tolerance), max_inducing: Some(most) };
    FitOptions {
        objective,
        growth: Some(growth),
        epochs: Some(15),
        steps: batches_of(100),
        ..FitOptions::default()
    }
}

fn grown(x: &Mat<f64>, y: &[f64], options: &FitOptions) -> (Fitted, InducingCurve) {
    let fitted = fit_columns(x, y, options).expect("a fit");
    let curve = fitted.search.inducing.clone().expect("a curve");
    (fitted, curve)
}

#[test]
fn growth_ends_when_the_bounds_meet_and_certifies_the_posterior() {
    let (x, y) = rough(5, 400);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo] {
        let (fitted, curve) = grown(&x, &y, &options(objective, 0.02, 300));
        assert_eq!((curve.criterion, curve.end), (Criterion::Gap, GrowthEnd::Tolerance), "{curve:?}");
        assert!(curve.points.len() > 1 && curve.chosen < 300, "{curve:?}");
        assert_eq!((curve.chosen, curve.points[0].m), (fitted.model.layer().dim(), 32));
        // The chosen size is the first with a small gap and a small gain; the last size was only
        // fitted to measure that gain.
        let gain = |pair: &[InducingPoint]| {
            let doublings = (pair[1].m as f64 / pair[0].m as f64).log2();
            (pair[1].lower.expect("a bound") - pair[0].lower.expect("a bound")) / doublings
        };
        let enough: Vec<bool> = curve
            .points
            .windows(2)
            .map(|pair| pair[0].gap.expect("a gap") <= 0.02 && gain(pair) <= 0.02)
            .collect();
        let (last, others) = enough.split_last().expect("pairs");
        assert!(*last && others.iter().all(|enough| !enough), "{curve:?}");
        assert_eq!(curve.points[others.len()].m, curve.chosen);
        let exact = exact_evidence(&fitted.model.factorised().expect("K_uu factorises"), &x, &y);
        let known = curve.certificate.expect("a certificate");
        assert!(known.lower <= exact && exact <= known.upper, "{exact} in {known:?}");
        assert!(
            known.kl > 0.0 && known.kl_per_row < 0.03 && known.kl == 400.0 * known.kl_per_row,
            "{known:?}"
        );
        assert_eq!(Some(known.lower), fitted.summary.elbo_sum);
        assert_eq!(Some(known.upper), fitted.summary.evidence_upper_bound);
    }
}

#[test]
fn held_out_rows_decide_where_the_evidence_has_no_bounds() {
    let (x, f) = data(8, 2, 500);
    let classes: Vec<f64> = f.iter().map(|f| f64::from(*f > 0.0)).collect();
    let classification = FitOptions {
        likelihood: Some(LikelihoodKind::BernoulliLogit),
        ..options(ObjectiveKind::Elbo, 0.02, 200)
    };
    let (fitted, curve) = grown(&x, &classes, &classification);
    assert_eq!(
        (curve.criterion, curve.end, curve.validation_rows),
        (Criterion::Validation, GrowthEnd::Tolerance, 50)
    );
    assert_eq!((fitted.model.layer().dim(), curve.certificate), (curve.chosen, None));
    // The last size gained too little, so the one before was chosen; a step by half as many
    // inducing inputs is 0.58 doublings.
    let (last, others) = curve.points.split_last().expect("points");
    assert_eq!(others.last().map(|point| point.m), Some(curve.chosen));
    let gain = others.last().and_then(|point| point.validation).expect("a score")
        - last.validation.expect("a score");
    assert!(gain < 0.59 * 0.02, "{curve:?}");

    // With weights there is no evidence. A diagonal q stays diagonal.
    let weights: Vec<f64> = (0..500).map(|i| 1.0 + f64::from(i % 3)).collect();
    let targets = Targets { weights: &weights, ..Targets::of(&f) };
    let weighted = TrainingData::of(Dataset { x: x.transpose(), targets });
    let diagonal = FitOptions {
        steps: StepOptions { family: Family::Diagonal, ..options(ObjectiveKind::Elbo, 0.05, 100).steps },
        ..options(ObjectiveKind::Elbo, 0.05, 100)
    };
    let fitted = fit_arrays(weighted, &diagonal, None, &mut |_| {}).expect("a fit");
    let curve = fitted.search.inducing.expect("a curve");
    assert_eq!((curve.criterion, curve.certificate), (Criterion::Validation, None));
    assert_eq!(fitted.q[0].family(), Family::Diagonal);
}

/// Returns the squared exponential kernel with one lengthscale and unit variance.
fn kernel(lengthscale: f64) -> Stationary {
    Stationary::rbf(1.0, &[lengthscale])
}

/// Returns a `D × N` matrix with independent entries uniform on [-1, 1).
fn uniform(dims: usize, n: usize, seed: u64) -> Mat<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Mat::from_fn(dims, n, |_, _| rng.random_range(-1.0..1.0))
}

fn choose(x: &Mat<f64>, m: usize, init: InducingInit, seed: u64) -> Mat<f64> {
    choose_inducing(x.transpose(), m, init, &kernel(1.0), seed).unwrap()
}

fn row(z: &Mat<f64>, i: usize) -> Vec<f64> {
    z.row(i).iter().copied().collect()
}

/// Returns the rows of `z` as a sorted list, to compare sets of points.
fn sorted(z: &Mat<f64>) -> Vec<Vec<f64>> {
    let mut rows: Vec<_> = (0..z.nrows()).map(|i| row(z, i)).collect();
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    rows
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// Returns the sum over the data of the squared distance to the nearest inducing input.
fn loss(x: &Mat<f64>, z: &Mat<f64>) -> f64 {
    let z: Vec<_> = (0..z.nrows()).map(|i| row(z, i)).collect();
    let nearest = |point: &[f64]| z.iter().map(|c| squared_distance(point, c)).fold(f64::INFINITY, f64::min);
    (0..x.ncols()).map(|j| nearest(x.col_as_slice(j))).sum()
}

#[test]
fn k_means_covers_better_than_chance() {
    let x = uniform(2, 3000, 10);
    let k_means = loss(&x, &choose(&x, 60, InducingInit::KMeans, 0));
    let random = loss(&x, &choose(&x, 60, InducingInit::Random, 0));
    assert!(k_means < 0.6 * random, "{k_means} {random}");
    // The best lattice of 60 cells on this square has hexagons: 5/(18 sqrt 3) of the cell area for each point.
    let best = 3000.0 * 5.0 / (18.0 * 3f64.sqrt()) * 4.0 / 60.0;
    assert!(k_means < 1.25 * best, "{k_means} {best}");
}

#[test]
fn greedy_takes_the_largest_conditional_variance_every_time() {
    // There is more than one block of rows, so pivots come from several blocks.
    let x = uniform(3, 1300, 11);
    let z = choose(&x, 25, InducingInit::Greedy, 12);
    assert_eq!(z.nrows(), 25);
    assert_pivots(&kernel(1.0), &x, z.as_ref(), 1, |_| 0.0);
    let left = |init| {
        let z = choose(&x, 25, init, 12);
        conditional_variances(&kernel(1.0), x.transpose(), z.as_ref(), |_| 0.0).iter().sum::<f64>()
    };
    assert!(left(InducingInit::Greedy) < left(InducingInit::Random));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Small integers give every pattern of ties, constant inputs, and fewer distinct points than requested.
    #[test]
    fn inducing_inputs_are_not_too_many_and_distinct(
        dims in 1usize..4,
        values in prop::collection::vec(-2i32..3, 3..90),
        m in 1usize..20,
        seed in 0u64..1000,
    ) {
        let n = values.len() / dims;
        let x = Mat::from_fn(dims, n, |d, j| f64::from(values[j * dims + d]));
        let mut distinct = sorted(&x.transpose().to_owned());
        distinct.dedup();
        for init in InducingInit::ALL {
            // The lengthscale is short, so that the greedy choice does not stop early.
            let z = choose_inducing(x.transpose(), m, init, &kernel(0.3), seed).unwrap();
            prop_assert_eq!(z.nrows(), m.min(distinct.len()), "{}", init);
            let rows = sorted(&z);
            for pair in rows.windows(2) {
                prop_assert!(squared_distance(&pair[0], &pair[1]) > 1e-14, "{}: {:?}", init, pair);
            }
            if init != InducingInit::KMeans || m >= distinct.len() {
                prop_assert!(rows.iter().all(|r| distinct.contains(r)), "{}", init);
            }
        }
    }
}
