//! Grouped effects against reference numbers, dense algebra, finite differences and the model without them.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use proptest::prelude::*;
use serde_json::Value;
use sparsegp::collapsed::{Dataset, WeightPrior};
use sparsegp::effects::{EffectTerm, Effects, POPULATION};
use sparsegp::kernels::parse;
use sparsegp::kernels::{Inputs, Scratch};
use sparsegp::latent::{InducingPrior, Jitter, LatentLayer, LinearLayer};
use sparsegp::likelihood::Gaussian;
use sparsegp::model::{LatentModel, Posterior};
use sparsegp::objective::{Objective, Targets};
use sparsegp::options::GroupedBound;
use sparsegp::training::{CollapsedObjective, GroupedObjective};
use sparsegp_testkit::problems::{Normals, data, model};
use sparsegp_testkit::reference::*;
use std::f64::consts::PI;

const VFE: GroupedBound = GroupedBound { fitc: false, weights: WeightPrior::Unit, losses: None };
pub const FITC: GroupedBound = GroupedBound { fitc: true, weights: WeightPrior::Unit, losses: None };

pub fn term(name: &str, levels: usize, code: usize, values: &[usize]) -> EffectTerm {
    EffectTerm {
        slopes: values.iter().map(|value| format!("s{value}")).collect(),
        values: values.to_vec(),
        ..EffectTerm::intercepts(name, levels, code)
    }
}

/// Returns value, flat natural gradient and posterior of a model at its current parameters.
pub fn solved(model: &LatentModel, data: Dataset<'_>, bound: GroupedBound) -> (f64, Vec<f64>, Posterior) {
    let mut objective = GroupedObjective::new(model.clone(), data, bound);
    let theta = objective.start();
    let value = objective.solve(&theta).expect("a value");
    let (again, gradient) = objective.natural_gradient().expect("a gradient");
    // A second solve may move the sites by one more step.
    let tolerance = if bound.losses.is_some() { 1e-11 } else { 0.0 };
    assert_close(again, value, tolerance, "the same value again");
    let (model, q, effects) = objective.into_parts().expect("a posterior");
    (value, gradient, Posterior::new(&model, &q).with_effects(vec![effects]))
}

fn value_at(model: &LatentModel, natural: &[f64], data: Dataset<'_>, bound: GroupedBound) -> f64 {
    let mut moved = model.clone();
    moved.set_natural(natural).expect("K_uu factorises nearby");
    let mut objective = GroupedObjective::new(moved, data, bound);
    let theta = objective.start();
    objective.solve(&theta).expect("a value")
}

/// Returns the inputs of the reference file, followed by the codes of g1 and g2 and the column of
/// the slope.
fn wide(x: &Mat<f64>, g1: &[f64], g2: &[f64], s: &[f64]) -> Mat<f64> {
    let levels = |code: f64| if code > 8.0 { 99.0 } else { code };
    Mat::from_fn(x.nrows(), x.ncols() + 3, |i, j| match j.checked_sub(x.ncols()) {
        None => x[(i, j)],
        Some(0) => levels(g1[i]),
        Some(1) => g2[i],
        Some(_) => s[i],
    })
}

/// The problem of the reference file: rows with their columns of effects, targets, and the results of dense algebra.
pub struct Reference {
    file: Value,
    /// Inputs and inducing inputs without the columns of effects.
    pub x: Mat<f64>,
    pub z: Mat<f64>,
    pub y: Vec<f64>,
    pub train: Mat<f64>,
    pub test: Mat<f64>,
}

impl Reference {
    pub fn read() -> Reference {
        let file = load("mixed/gp_grouped.json");
        let [x, z, xs] = ["X", "Z", "Xs"].map(|name| matrix(&file[name]));
        let of = |name: &str| numbers(&file[name]);
        let train = wide(&x, &of("g1"), &of("g2"), &of("s"));
        let test = wide(&xs, &of("g1s"), &of("g2s"), &of("ss"));
        Reference { y: of("y"), x, z, train, test, file }
    }

    /// Returns a hyper-parameter that is one number.
    pub fn value(&self, name: &str) -> f64 {
        number(&self.file["hyper"][name])
    }

    /// Returns the results for an approximation.
    pub fn case(&self, name: &str) -> &Value {
        self.file["cases"].get(name).expect("a case")
    }

    /// Returns the model with the hyper-parameters of the file.
    pub fn model(&self, inducing: &Mat<f64>, jitter: f64) -> LatentModel {
        let value = |name: &str| self.value(name);
        let mut kernel = parse("matern32(ard)", 2).expect("kernel");
        let lengthscales = numbers(&self.file["hyper"]["lengthscales"]);
        let mut start = vec![vec![value("variance")], lengthscales].into_iter();
        kernel.for_each_parameter_mut(&mut |p| p.values = start.next().expect("values"));
        let layer = InducingPrior::new(kernel, inducing.clone(), Jitter::Relative(jitter)).expect("layer");
        let layer = layer.with_mean(value("mean"), false);
        let mut prior = LatentModel::new(layer.into(), Gaussian::new(value("noise_variance")), false);
        prior.effects = Effects::new(2, vec![term("g1", 9, 0, &[2]), term("g2", 5, 1, &[])]);
        prior.effects.start(0, &[value("var_g1").sqrt(), value("var_g1_slope").sqrt()]);
        prior.effects.start(1, &[value("var_g2").sqrt()]);
        prior.factorised().expect("K_uu factorises")
    }
}

#[test]
fn evidence_gradients_and_predictions_are_those_of_dense_algebra() {
    let reference = Reference::read();
    let Reference { x, z, y, train, test, .. } = &reference;
    let value = |name: &str| reference.value(name);
    for (case, bound, inducing, tolerance) in
        [("vfe", VFE, z, VALUE_TOLERANCE), ("fitc", FITC, z, VALUE_TOLERANCE), ("exact", VFE, x, 1e-5)]
    {
        // With an inducing input at every row, the bound and the evidence differ only by the
        // jitter.
        let model = reference.model(inducing, if case == "exact" { 1e-10 } else { 1e-6 });
        let (found, gradient, posterior) = solved(&model, Dataset::of(train.as_ref(), y), bound);
        let want = reference.case(case);
        assert_close(-found, number(&want["log_evidence"]), tolerance, case);

        // The order is variance, lengthscales, noise, mean; then the variances of g1, of its slope
        // and of g2.
        let last = gradient.len() - 3;
        let by_deviation = |at: usize, variance: f64| -gradient[last + at] / (2.0 * variance.sqrt());
        let got = [-gradient[0], -gradient[1], -gradient[2], -gradient[4], -gradient[3]];
        let got = got.into_iter().chain([
            by_deviation(0, value("var_g1")),
            by_deviation(1, value("var_g1_slope")),
            by_deviation(2, value("var_g2")),
        ]);
        for (got, want) in got.zip(numbers(&want["gradient"])) {
            assert_close(got, want, GRADIENT_TOLERANCE.max(tolerance), case);
        }
        let marginals = posterior.marginals(test.as_ref());
        let want = &want["predictions"];
        for (i, (mean, variance)) in
            numbers(&want["mean"]).into_iter().zip(numbers(&want["latent_variance"])).enumerate()
        {
            assert_close(marginals.mean[i], mean, tolerance, &format!("{case}, mean {i}"));
            assert_close(marginals.variance[i], variance, tolerance, &format!("{case}, variance {i}"));
        }
    }
}

/// A problem of several groupings: inputs with their columns, targets and a model.
pub struct Problem {
    pub x: Mat<f64>,
    pub y: Vec<f64>,
    pub weights: Vec<f64>,
    pub model: LatentModel,
}

/// Returns a problem of crossed groupings with up to two slopes, and the first term correlated on
/// request; factors have no zeros.
pub fn problem(seed: u64, levels: [usize; 3], correlated: bool) -> Problem {
    let (inputs, y) = data(seed, 2, 31);
    let mut normals = Normals::new(seed ^ 0xeffec7);
    let n = y.len();
    let mut code = |levels: usize| ((normals.next().abs() * 7.3) as usize % levels) as f64;
    let codes: Vec<[f64; 3]> = (0..n).map(|_| levels.map(&mut code)).collect();
    let x = Mat::from_fn(n, 7, |i, j| match j {
        0 | 1 => inputs[(j, i)],
        2..=4 => codes[i][j - 2],
        _ => normals.next(),
    });
    let mut model = model(seed, "rbf(ard)", 2, 6, Jitter::Absolute(1e-3));
    let terms = vec![
        EffectTerm { correlated, ..term("a", levels[0], 0, &[3, 4]) },
        EffectTerm { correlated: true, ..term("b", levels[1], 1, &[3]) },
        term("c", levels[2], 2, &[]),
    ];
    model.effects = Effects::new(2, terms);
    model.effects.for_each_parameter_mut(&mut |p| {
        p.values.iter_mut().for_each(|v| {
            *v = if p.name == "sd" { (0.5 * normals.next()).exp() } else { 0.4 * normals.next() }
        });
    });
    let weights = (0..n).map(|_| (0.3 * normals.next()).exp()).collect();
    Problem { x, y, weights, model }
}

/// Returns `Σ_j z_ijᵀ Σ_j z_ij'` for all pairs of rows that share levels, known or new; the columns of the effects follow two inputs.
pub fn effect_covariance(effects: &Effects, left: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(left.nrows(), right.nrows());
    for (index, term) in effects.terms().iter().enumerate() {
        let (covariance, column) = (effects.covariance(index), 2 + term.code);
        for i in 0..left.nrows() {
            for j in 0..right.nrows() {
                let (code, other) = (left[(i, column)], right[(j, column)]);
                let (a, b) = (&effects.entries(left.row(i))[index], &effects.entries(right.row(j))[index]);
                if code == other && code != POPULATION {
                    for (k, x) in a.z().iter().enumerate() {
                        out[(i, j)] +=
                            b.z().iter().enumerate().map(|(l, y)| x * y * covariance[(k, l)]).sum::<f64>();
                    }
                }
            }
        }
    }
    out
}

/// Returns the log density of a normal distribution with covariance `v` at distance `c` from the
/// mean, and `v⁻¹ c`.
fn dense(v: &Mat<f64>, c: &Mat<f64>) -> (f64, Mat<f64>) {
    let factor = v.llt(Side::Lower).expect("positive definite");
    let solved = factor.solve(c);
    let log_det: f64 = 2.0 * (0..v.nrows()).map(|i| factor.L()[(i, i)].ln()).sum::<f64>();
    let quadratic = (c.transpose() * &solved)[(0, 0)];
    (-0.5 * (quadratic + log_det + v.nrows() as f64 * (2.0 * PI).ln()), solved)
}

/// Fits fixed effects by generalised least squares; returns the log likelihood, the restricted log
/// likelihood, and the coefficients.
fn linear_oracle(x: &Mat<f64>, y: &Mat<f64>, v: &Mat<f64>) -> (f64, f64, Mat<f64>) {
    let factor = v.llt(Side::Lower).expect("positive definite");
    let information = x.transpose() * factor.solve(x);
    let within = information.llt(Side::Lower).expect("independent columns");
    let beta = within.solve(&(x.transpose() * factor.solve(y)));
    let (profiled, _) = dense(v, &(y - x * &beta));
    let log_det: f64 = 2.0 * (0..x.ncols()).map(|i| within.L()[(i, i)].ln()).sum::<f64>();
    (profiled, profiled - 0.5 * log_det + 0.5 * x.ncols() as f64 * (2.0 * PI).ln(), beta)
}

fn directional(value: &dyn Fn(&[f64]) -> f64, at: &[f64], direction: &[f64]) -> (f64, f64) {
    let central = |h: f64| {
        let shifted = |s: f64| -> Vec<f64> { at.iter().zip(direction).map(|(a, d)| a + s * h * d).collect() };
        (value(&shifted(1.0)) - value(&shifted(-1.0))) / (2.0 * h)
    };
    let (coarse, fine) = (central(2e-4), central(1e-4));
    ((4.0 * fine - coarse) / 3.0, (fine - coarse).abs())
}

/// Compares a flat natural gradient with finite differences along random directions.
pub fn check_gradient(
    (model, data, bound): (&LatentModel, Dataset<'_>, GroupedBound),
    gradient: &[f64],
    seed: u64,
) -> Result<(), TestCaseError> {
    let (natural, mut normals) = (model.natural(), Normals::new(seed));
    let value = |theta: &[f64]| value_at(model, theta, data, bound);
    for _ in 0..3 {
        let direction: Vec<f64> =
            natural.iter().map(|v| 0.3 * normals.next() * v.abs().clamp(0.05, 1.0)).collect();
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let (got, error) = directional(&value, &natural, &direction);
        let rounding = 1e-9 * (1.0 + value(&natural).abs());
        prop_assert!(
            (got - expected).abs() <= 1e-6 * (1.0 + expected.abs()) + 0.1 * error + rounding,
            "finite differences {got}, analytic {expected}, step error {error}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gradients_of_the_evidence(seed in 0u64..1000, a in 1usize..40, b in 1usize..9, fitc: bool, correlated: bool) {
        let Problem { x, y, weights, model } = problem(seed, [a, b, 3], correlated);
        let bound = if fitc { FITC } else { VFE };
        let weights = if fitc || seed % 2 == 0 { &[][..] } else { &weights };
        let data = Dataset { x: x.as_ref(), targets: Targets { weights, ..Targets::of(&y) } };
        let (_, gradient, _) = solved(&model, data, bound);
        check_gradient((&model, data, bound), &gradient, seed)?;
    }

    #[test]
    fn likelihoods_of_linear_mixed_models(seed in 0u64..1000, a in 1usize..40, b in 1usize..9, reml: bool) {
        let Problem { x, y, model, .. } = problem(seed, [a, b, 3], true);
        let layer = LinearLayer::independent(&[0.0; 3], &[1.0; 3]).expect("a layer").with_intercept();
        let mut linear = LatentModel::new(layer.into(), Gaussian::new(0.4), true);
        linear.effects = model.effects.clone();
        let bound = GroupedBound {
            fitc: false,
            losses: None,
            weights: if reml { WeightPrior::Integrated } else { WeightPrior::Profiled },
        };
        let data = Dataset::of(x.as_ref(), &y);
        let (value, gradient, posterior) = solved(&linear, data, bound);
        check_gradient((&linear, data, bound), &gradient, seed)?;

        let n = y.len();
        let mut v = effect_covariance(&linear.effects, &x, &x);
        (0..n).for_each(|i| v[(i, i)] += 0.4);
        let fixed = Mat::from_fn(n, 3, |i, j| if j == 2 { 1.0 } else { x[(i, j)] });
        let target = Mat::from_fn(n, 1, |i, _| y[i]);
        let (profiled, restricted, beta) = linear_oracle(&fixed, &target, &v);
        assert_close(-value, if reml { restricted } else { profiled }, 1e-9, "log likelihood");

        // Means equal those of generalised least squares, and variances follow from a flat prior of
        // the fixed effects.
        let factor = v.llt(Side::Lower).expect("positive definite");
        let rest = factor.solve(&(&target - &fixed * &beta));
        let cross = effect_covariance(&linear.effects, &x, &x);
        let mean = &fixed * &beta + &cross * &rest;
        let gap = &fixed - &cross * factor.solve(&fixed);
        let information = (fixed.transpose() * factor.solve(&fixed)).llt(Side::Lower).expect("full rank");
        let variance = &cross - &cross * factor.solve(&cross) + &gap * information.solve(gap.transpose());
        let marginals = posterior.marginals(x.as_ref());
        for i in 0..n {
            assert_close(marginals.mean[i], mean[(i, 0)], 1e-8, "mean");
            assert_close(marginals.variance[i], variance[(i, i)], 1e-8, "variance");
        }
    }

    #[test]
    fn predictions_are_those_of_dense_algebra(seed in 0u64..1000, a in 1usize..40, b in 1usize..9) {
        let Problem { x, y, model, .. } = problem(seed, [a, b, 3], true);
        let (value, _, posterior) = solved(&model, Dataset::of(x.as_ref(), &y), FITC);
        // FITC is a Gaussian process whose covariance is that of the features with a corrected diagonal.
        let layer = model.layer().inducing().expect("inducing inputs");
        let features = |x: &Mat<f64>| {
            let mut k = Mat::zeros(6, x.nrows());
            let (mut base, mut offset) = (vec![0.0; x.nrows()], vec![0.0; x.nrows()]);
            layer.features(x.as_ref(), k.as_mut(), &mut base, &mut offset, &mut Scratch::new());
            (layer.inverse_factor() * k, base)
        };
        let (own, base) = features(&x);
        let n = y.len();
        let explained = own.transpose() * &own;
        let effects = effect_covariance(&model.effects, &x, &x);
        let mut v = &explained + &effects;
        (0..n).for_each(|i| v[(i, i)] += base[i] - explained[(i, i)] + 0.2);
        let c = Mat::from_fn(n, 1, |i, _| y[i] - 0.3);
        let (evidence, solved) = dense(&v, &c);
        assert_close(-value, evidence, 1e-9, "evidence");

        // New rows with known levels, new levels and no levels.
        let test = Mat::from_fn(n, x.ncols(), |i, j| match (j, i % 3) {
            (2, 1) => 1e6,
            (3, 2) => POPULATION,
            _ => x[((i + 5) % n, j)] + if j < 2 { 0.1 } else { 0.0 },
        });
        let (other, _) = features(&test);
        let cross = other.transpose() * &own + effect_covariance(&model.effects, &test, &x);
        let mean = &cross * &solved;
        let reduction = &cross * v.llt(Side::Lower).expect("positive definite").solve(cross.transpose());
        let mut wanted = effect_covariance(&model.effects, &test, &test) - reduction;
        let mut gram = Mat::zeros(n, n);
        let inputs = test.as_ref().subcols(0, 2);
        layer.kernel().eval(Inputs::Gram(inputs), gram.as_mut(), &mut Scratch::new());
        wanted += gram;
        let (marginals, covariance) = (posterior.marginals(test.as_ref()), posterior.covariance(test.as_ref()));
        for i in 0..n {
            assert_close(marginals.mean[i], 0.3 + mean[(i, 0)], 1e-8, "mean");
            assert_close(marginals.variance[i], wanted[(i, i)], 1e-8, "variance");
            for j in 0..n {
                assert_close(covariance[(i, j)], wanted[(i, j)], 1e-8, &format!("covariance {i} {j}"));
            }
        }
    }
}

#[test]
fn effects_without_variance_give_the_model_without_effects() {
    let Problem { x, y, mut model, .. } = problem(3, [5, 4, 3], false);
    model.effects.for_each_parameter_mut(&mut |p| p.values.fill(0.0));
    let data = Dataset::of(x.as_ref(), &y);
    let plain = LatentModel { effects: Effects::default(), ..model.clone() };
    let narrow = Dataset::of(x.as_ref().subcols(0, 2), &y);
    for (bound, collapsed) in [(VFE, Objective::elbo(1.0)), (FITC, Objective::fitc())] {
        let (value, gradient, posterior) = solved(&model, data, bound);
        let mut objective = CollapsedObjective::new(plain.clone(), narrow, collapsed);
        let (want, plain_gradient) = objective.natural_gradient().expect("a bound");
        assert_close(value, want, 1e-12, "value");
        for (got, want) in gradient.iter().zip(&plain_gradient) {
            assert_close(*got, *want, 1e-9, "gradient");
        }
        let (without, q) = objective.into_parts();
        let (got, want) = (posterior.marginals(x.as_ref()), Posterior::new(&without, &q).marginals(narrow.x));
        for i in 0..y.len() {
            assert_close(got.mean[i], want.mean[i], 1e-10, "mean");
            assert_close(got.variance[i], want.variance[i], 1e-10, "variance");
        }
    }
}

#[test]
fn one_level_per_row_is_additional_noise() {
    let (inputs, y) = data(11, 2, 31);
    let n = y.len();
    let start = model(11, "rbf(ard)", 2, 6, Jitter::Absolute(1e-3));
    let x = Mat::from_fn(n, 3, |i, j| if j < 2 { inputs[(j, i)] } else { i as f64 });
    let data = Dataset::of(x.as_ref(), &y);
    let with = |deviation: f64, noise: f64| {
        let effects = Effects::new(2, vec![term("row", n, 0, &[])]);
        let mut model = LatentModel { effects, ..start.clone() };
        model.effects.start(0, &[deviation]);
        model.likelihood.for_each_parameter_mut(&mut |p| p.values[0] = noise);
        model
    };
    // The weights of FITC are the inverse of residual variance plus noise, and these effects are
    // noise.
    let (value, ..) = solved(&with(0.7, 0.2), data, FITC);
    let (want, ..) = solved(&with(0.0, 0.2 + 0.7 * 0.7), data, FITC);
    assert_close(value, want, 1e-10, "one level for every row");
}
