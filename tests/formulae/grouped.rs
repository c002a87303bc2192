//! Grouped effects against reference numbers, dense algebra and finite differences.

use crate::prelude::*;
use std::f64::consts::PI;

pub const VFE: GroupedBound = GroupedBound { fitc: false, weights: WeightPrior::Unit, losses: None };
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

/// Returns the inputs of the reference file, followed by the codes of g1 and g2 and the column of the slope.
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

    pub fn value(&self, name: &str) -> f64 {
        number(&self.file["hyper"][name])
    }

    pub fn case(&self, name: &str) -> &Value {
        self.file["cases"].get(name).expect("a case")
    }

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
        // With an inducing input at every row, the bound and the evidence differ only by the jitter.
        let model = reference.model(inducing, if case == "exact" { 1e-10 } else { 1e-6 });
        let (found, gradient, posterior) = solved(&model, Dataset::of(train.as_ref(), y), bound);
        let want = reference.case(case);
        assert_close(-found, number(&want["log_evidence"]), tolerance, case);

        // The order is variance, lengthscales, noise, mean; then the variances of g1, of its slope and of g2.
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
        let (marginals, want) = (posterior.marginals(test.as_ref()), &want["predictions"]);
        assert_all_close(&marginals.mean, &numbers(&want["mean"]), tolerance, case);
        assert_all_close(&marginals.variance, &numbers(&want["latent_variance"]), tolerance, case);
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

/// Returns the linear model of two inputs and an intercept, with grouped effects.
pub fn linear_model(effects: &Effects, likelihood: ObservationModel) -> LatentModel {
    let layer = LinearLayer::independent(&[0.0; 3], &[1.0; 3]).expect("a layer").with_intercept();
    let mut linear = LatentModel::new(layer.into(), likelihood, true);
    linear.effects = effects.clone();
    linear
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

/// Fits fixed effects by generalised least squares; returns the log likelihood, the restricted log
/// likelihood, and the coefficients.
fn linear_oracle(x: &Mat<f64>, y: &Mat<f64>, v: &Mat<f64>) -> (f64, f64, Mat<f64>) {
    let factor = v.llt(Side::Lower).expect("positive definite");
    let information = x.transpose() * factor.solve(x);
    let within = information.llt(Side::Lower).expect("independent columns");
    let beta = within.solve(&(x.transpose() * factor.solve(y)));
    let profiled = log_density(v, &entries((y - x * &beta).as_ref()));
    let log_det: f64 = 2.0 * (0..x.ncols()).map(|i| within.L()[(i, i)].ln()).sum::<f64>();
    (profiled, profiled - 0.5 * log_det + 0.5 * x.ncols() as f64 * (2.0 * PI).ln(), beta)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn likelihoods_of_linear_mixed_models(seed in 0u64..1000, a in 1usize..40, b in 1usize..9, reml: bool) {
        let Problem { x, y, model, .. } = problem(seed, [a, b, 3], true);
        let linear = linear_model(&model.effects, Gaussian::new(0.4).into());
        let weights = if reml { WeightPrior::Integrated } else { WeightPrior::Profiled };
        let bound = GroupedBound { weights, ..VFE };
        let (value, _, posterior) = solved(&linear, Dataset::of(x.as_ref(), &y), bound);

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
        let v = with_diagonal(&explained + &effects, |i| base[i] - explained[(i, i)] + 0.2);
        let c: Vec<f64> = y.iter().map(|y| y - 0.3).collect();

        // New rows with known levels, new levels and no levels.
        let test = Mat::from_fn(n, x.ncols(), |i, j| match (j, i % 3) {
            (2, 1) => 1e6,
            (3, 2) => POPULATION,
            _ => x[((i + 5) % n, j)] + if j < 2 { 0.1 } else { 0.0 },
        });
        let (other, _) = features(&test);
        let cross = own.transpose() * &other + effect_covariance(&model.effects, &x, &test);
        let prior = effect_covariance(&model.effects, &test, &test)
            + gram(layer.kernel(), test.as_ref().subcols(0, 2));
        let want = conditional(&v, &c, &cross, &prior);
        assert_close(-value, want.log_density, 1e-9, "evidence");
        let (marginals, covariance) = (posterior.marginals(test.as_ref()), posterior.covariance(test.as_ref()));
        let means: Vec<f64> = want.mean.iter().map(|mean| 0.3 + mean).collect();
        assert_all_close(&marginals.mean, &means, 1e-8, "mean");
        assert_matrices_close(covariance.as_ref(), want.covariance.as_ref(), 1e-8, "covariance");
        for i in 0..n {
            assert_close(marginals.variance[i], want.covariance[(i, i)], 1e-8, "variance");
        }
    }
}
