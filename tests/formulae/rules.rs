//! Update rules of q(w): reference iterates and projections, families, optima, hostile gradients,
//! gradients from samples.

use crate::prelude::*;
use faer::linalg::solvers::DenseSolveCore;
use sparsegp::variational::research::{Wasserstein, prox_negative_entropy};

fn close_normal(got: &Normal, want: &Normal, tolerance: f64, what: &str) {
    assert_all_close(got.mean(), want.mean(), tolerance, &format!("{what}, mean"));
    let [cov, wanted] = [got, want].map(|q| q.cov().to_dense());
    assert_matrices_close(cov.as_ref(), wanted.as_ref(), tolerance, &format!("{what}, covariance"));
    assert_close(got.log_det(), want.log_det(), tolerance, &format!("{what}, log-determinant"));
}

/// Checks that q is valid: finite numbers, a positive definite covariance and the correct log-determinant.
fn assert_valid(q: &Normal, what: &str) {
    assert!(q.mean().iter().all(|m| m.is_finite()), "{what}: mean {:?}", q.mean());
    let rebuilt = match q.cov() {
        MatrixRef::Full(cov) => Normal::new(q.mean().to_vec(), cov.to_owned()),
        MatrixRef::Diagonal(variances) => Normal::diagonal(q.mean().to_vec(), variances.to_vec()),
    };
    let rebuilt = rebuilt.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_close(q.log_det(), rebuilt.log_det(), 1e-3, &format!("{what}, log-determinant"));
}

/// Expected losses of a Gaussian likelihood: `½ mᵀKm − cᵀm + ½ tr(KS)`, so that `∇_m = Km − c` and `∇_S = K/2`.
#[derive(Clone, Debug)]
struct Target {
    hessian: Mat<f64>,
    shift: Vec<f64>,
}

impl Target {
    /// Creates a target with the curvature of the columns of `x`.
    fn new(x: &Mat<f64>, shift: Vec<f64>) -> Target {
        Target { hessian: x * x.transpose(), shift }
    }

    fn diagonal(curvature: &[f64], shift: Vec<f64>) -> Target {
        let m = shift.len();
        Target { hessian: Mat::from_fn(m, m, |i, j| if i == j { curvature[i] } else { 0.0 }), shift }
    }

    fn dim(&self) -> usize {
        self.shift.len()
    }

    fn mean(&self, q: &Normal) -> Vec<f64> {
        let product = &self.hessian * faer::ColRef::from_slice(q.mean());
        product.iter().zip(&self.shift).map(|(product, shift)| product - shift).collect()
    }

    fn cov(&self, family: Family) -> Matrix {
        let m = self.dim();
        match family {
            Family::Full => Matrix::Full(0.5 * &self.hessian),
            Family::Diagonal => Matrix::Diagonal((0..m).map(|i| 0.5 * self.hessian[(i, i)]).collect()),
        }
    }

    /// Returns `∇_C = K C` for the factor of a rule.
    fn path(&self, factor: Factor<'_>) -> Matrix {
        match factor {
            Factor::Lower(c) | Factor::Symmetric(c) => Matrix::Full(&self.hessian * c),
            Factor::Diagonal(c) => {
                Matrix::Diagonal(c.iter().enumerate().map(|(i, c)| self.hessian[(i, i)] * c).collect())
            }
        }
    }

    /// Returns the optimal q: `S⁻¹ = I + K/β` (or its diagonal), `m = (K + βI)⁻¹ c`.
    fn optimum(&self, family: Family, beta: f64) -> Normal {
        let m = self.dim();
        let h = Mat::from_fn(m, m, |i, j| self.hessian[(i, j)] + if i == j { beta } else { 0.0 });
        let solver = h.llt(Side::Lower).expect("H");
        let mean = solver.solve(faer::Col::from_fn(m, |i| self.shift[i]));
        let mean = (0..m).map(|i| mean[i]).collect();
        match family {
            Family::Full => Normal::new(mean, beta * solver.inverse()).expect("optimum"),
            Family::Diagonal => {
                Normal::diagonal(mean, (0..m).map(|i| beta / h[(i, i)]).collect()).expect("optimum")
            }
        }
    }

    /// Returns λ_max(K + βI)/β.
    fn condition(&self, beta: f64) -> f64 {
        let values = self.hessian.self_adjoint_eigenvalues(Side::Lower).expect("K");
        1.0 + values.last().expect("an eigenvalue") / beta
    }

    fn step(&self, rule: &mut dyn UpdateRule, q: &mut Normal, beta: f64, step: f64) -> usize {
        let (mean, cov) = (self.mean(q), self.cov(q.family()));
        let gradient = DataGradient { mean: &mean, cov: cov.as_ref(), curvature: None, path: None };
        rule.step(q, gradient, beta, step).rollbacks
    }
}

/// Returns the options of a rule for exact steps in units of 1/𝓜, and a suitable step.
fn settings(update: QUpdate) -> (RuleOptions, f64) {
    let step = match update {
        QUpdate::Ngd | QUpdate::SrVn | QUpdate::ProjectedNgvi => 0.3,
        QUpdate::ProxSgd => 1.0,
        // At the least allowed eigenvalues the entropy is as steep as the energy; with a step of 1
        // bw-gd cycles.
        QUpdate::ProjSgd | QUpdate::BwGd | QUpdate::Sgd => 0.5,
        QUpdate::Adam => 0.1,
        _ => panic!("{update}: what step suits it?"),
    };
    (RuleOptions { relative: true, bounds: (1e-6, 1e6), ..RuleOptions::of(update) }, step)
}

fn assert_converges(update: QUpdate, family: Family, target: &Target, beta: f64) {
    let (mut options, step) = settings(update);
    if family == Family::Diagonal {
        // A diagonal rule observes only the largest entry, which here may be a third of the largest
        // eigenvalue.
        options.smoothness = Some(beta * target.condition(beta));
    }
    let what = format!("{update}, {family}, β = {beta}");
    let mut q = Normal::standard(family, target.dim());
    let mut rule = options.build(&q);
    let steps = match (update, family) {
        (QUpdate::Adam, _) => 3000,
        (QUpdate::Ngd | QUpdate::SrVn | QUpdate::ProjectedNgvi, Family::Full) => 150,
        // With a diagonal preconditioner, the number of steps for the mean depends on the condition number.
        _ => 150 + (80.0 * target.condition(beta)) as usize,
    };
    for t in 0..steps {
        let decay = if update == QUpdate::Adam { 1.0 - t as f64 / steps as f64 } else { 1.0 };
        target.step(rule.as_mut(), &mut q, beta, decay * step);
    }
    assert_valid(&q, &what);
    let tolerance = if update == QUpdate::Adam { 1e-3 } else { 1e-8 };
    close_normal(&q, &target.optimum(family, beta), tolerance, &what);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_finds_the_optimum(
        x in prop::collection::vec(-1.5f64..1.5, 12),
        shift in prop::collection::vec(-3.0f64..3.0, 3),
        beta in 0.3f64..4.0,
    ) {
        let target = Target::new(&Mat::from_fn(3, 4, |i, j| x[3 * j + i]), shift);
        for &update in QUpdate::ALL {
            for family in [Family::Full, Family::Diagonal] {
                assert_converges(update, family, &target, beta);
            }
        }
    }

    #[test]
    fn families_agree_on_diagonal_problems(
        curvature in prop::collection::vec(-0.5f64..20.0, 4),
        shift in prop::collection::vec(-3.0f64..3.0, 4),
        beta in 0.6f64..3.0,
        step in 0.02f64..1.0,
    ) {
        let target = Target::diagonal(&curvature, shift);
        for &update in QUpdate::ALL {
            let bounds = (0.2, 0.9);
            let options = RuleOptions { smoothness: Some(30.0), bounds, ..settings(update).0 };
            let mut full = Normal::standard(Family::Full, 4);
            let mut diagonal = Normal::standard(Family::Diagonal, 4);
            let (mut one, mut other) = (options.build(&full), options.build(&diagonal));
            for t in 0..25 {
                let a = target.step(one.as_mut(), &mut full, beta, step);
                let b = target.step(other.as_mut(), &mut diagonal, beta, step);
                prop_assert_eq!(a, b);
                close_normal(&diagonal, &full, 1e-10, &format!("{update}, step {t}"));
            }
        }
    }
}

/// With a separate curvature of the mean, no precision changes by more than half, for any gradient.
#[test]
fn trust_region_of_diagonal_precisions() {
    let mut q = Normal::diagonal(vec![0.1; 3], vec![0.5, 1.0, 1e-3]).expect("q");
    let mut rule = RuleOptions::of(QUpdate::Ngd).build(&q);
    let gradient = DataGradient {
        mean: &[1.0, 2.0, 3.0],
        cov: MatrixRef::Diagonal(&[-1e6, 1e6, 0.0]),
        curvature: Some(MatrixRef::Diagonal(&[1.0, 1.0, 1.0])),
        path: None,
    };
    let before = q.clone();
    assert_eq!(rule.step(&mut q, gradient, 1.0, 1.0).rollbacks, 0);
    let pairs = before.cov().diagonal().iter().zip(q.cov().diagonal());
    let ratios: Vec<f64> = pairs.map(|(old, new)| old / new).collect();
    assert_all_close(&ratios, &[0.5, 1.5, 0.5], 1e-12, "ratios of precisions");
    assert_valid(&q, "trust region");
}

/// Every guard keeps a coordinate of negative curvature valid and does not change the step of the others.
#[test]
fn guards_of_diagonal_precisions() {
    let gradient = DataGradient {
        mean: &[1.0, 1.0],
        cov: MatrixRef::Diagonal(&[-5.0, 1.0]),
        curvature: None,
        path: None,
    };
    // With S⁻¹ = I and ρ = 1 the plain new precisions are −9 and 3; with D = −10 the retraction
    // gives −9 + 50.
    for (guard, want, rollbacks) in [
        (Guard::Retraction, [41.0, 3.0], 1),
        (Guard::Projection, [1e-4, 3.0], 1),
        (Guard::Backtrack, [1.0 - 10.0 / 16.0, 1.0 + 2.0 / 16.0], 4),
    ] {
        let mut q = Normal::standard(Family::Diagonal, 2);
        let mut rule = RuleOptions { guard, ..RuleOptions::of(QUpdate::Ngd) }.build(&q);
        let info = rule.step(&mut q, gradient, 1.0, 1.0);
        assert_eq!(info.rollbacks, rollbacks, "{guard}");
        let precisions: Vec<f64> = q.cov().diagonal().iter().map(|s| 1.0 / s).collect();
        assert_all_close(&precisions, &want, 1e-10, &guard.to_string());
    }
}

fn correlated(m: usize) -> Normal {
    let entry = |i, j| if i == j { 0.7 + 0.1 * i as f64 } else { 0.2 * ((3 * i + 5 * j) as f64).sin() };
    let c = Mat::from_fn(m, m, entry);
    Normal::new((0..m).map(|i| (i as f64).cos()).collect(), &c * c.transpose()).expect("q")
}

fn correlated_target(m: usize) -> Target {
    let x = Mat::from_fn(m, m + 1, |i, j| ((2 * i + 7 * j) as f64).sin());
    Target::new(&x, (0..m).map(|i| 1.0 - 0.4 * i as f64).collect())
}

/// The step of the mean uses the unprojected covariance; the new covariance is the clipped one.
#[test]
fn projected_natural_gradients() {
    let (target, beta, rho) = (correlated_target(4), 0.7, 0.6);
    let start = correlated(4);
    let (mut newton, mut projected) = (start.clone(), start.clone());
    target.step(&mut NaturalGradient::new(&start), &mut newton, beta, rho);
    let options = RuleOptions { bounds: (0.15, 0.5), ..RuleOptions::of(QUpdate::ProjectedNgvi) };
    let mut rule = ProjectedNatural::new(&start, &options);
    assert_eq!(target.step(&mut rule, &mut projected, beta, rho), 0);
    let want = clip_eigenvalues(newton.cov().full(), 0.15, 0.5).expect("finite");
    assert!((&want - newton.cov().full()).norm_max() > 1e-3, "the bounds matter");
    let want = Normal::new(newton.mean().to_vec(), want).expect("projected");
    close_normal(&projected, &want, 1e-10, "projected");
    // A second step starts from the projected precision.
    let mut newton = projected.clone();
    target.step(&mut NaturalGradient::new(&projected), &mut newton, beta, rho);
    target.step(&mut rule, &mut projected, beta, rho);
    assert_all_close(projected.mean(), newton.mean(), 1e-10, "second mean");
}

#[test]
fn projected_natural_gradients_of_bounded_means() {
    let target = Target::diagonal(&[2.0, 3.0], vec![-4.0, 5.0]);
    let options = RuleOptions { lower: vec![0.0, 0.0], ..RuleOptions::of(QUpdate::ProjectedNgvi) };
    let mut q = Normal::standard(Family::Diagonal, 2);
    let mut rule = options.build(&q);
    for _ in 0..100 {
        target.step(rule.as_mut(), &mut q, 1.0, 0.3);
        assert!(q.mean().iter().all(|m| *m >= 0.0));
    }
    // The coordinates are independent: one ends at its bound, the other at its optimum.
    assert_all_close(q.mean(), &[0.0, 1.25], 1e-10, "mean");
    assert_all_close(q.cov().diagonal(), &[1.0 / 3.0, 0.25], 1e-10, "variances");
}

/// With the exact `G = 2BC` every rule with a factor takes the same steps, and does not read the
/// other gradient.
#[test]
fn exact_path_gradients_change_nothing() {
    let beta = 0.8;
    for &update in QUpdate::ALL {
        for start in [correlated(4), correlated(4).mean_field()] {
            let target = correlated_target(4);
            // The trust region applies only to gradients from samples.
            let (options, step) = settings(update);
            let options = RuleOptions { guard: Guard::Backtrack, ..options };
            let (mut plain, mut sampled) = (start.clone(), start.clone());
            let (mut one, mut other) = (options.build(&start), options.build(&start));
            if one.factor().is_none() {
                continue;
            }
            let nothing = Matrix::zeros(start.family(), 4);
            for t in 0..20 {
                target.step(one.as_mut(), &mut plain, beta, step);
                let mean = target.mean(&sampled);
                let path = other.factor().map(|factor| target.path(factor)).expect("a factor");
                let (cov, path) = (nothing.as_ref(), Some(path.as_ref()));
                let gradient = DataGradient { mean: &mean, cov, curvature: None, path };
                other.step(&mut sampled, gradient, beta, step);
                close_normal(&sampled, &plain, 1e-9, &format!("{update}, {}, step {t}", start.family()));
            }
        }
    }
}

/// A gradient with one bad number in it.
struct Hostile {
    what: &'static str,
    mean: f64,
    /// Entry (0, 1) and, in diagonal families, 1.
    cov: f64,
    /// Entry (1, 1).
    corner: f64,
}

const HOSTILE: [Hostile; 9] = [
    Hostile { what: "NaN in the mean", mean: f64::NAN, cov: 0.0, corner: 1.0 },
    Hostile { what: "∞ in the mean", mean: f64::INFINITY, cov: 0.0, corner: 1.0 },
    Hostile { what: "overflow in the mean", mean: -1e300, cov: 0.0, corner: 1.0 },
    Hostile { what: "NaN in the covariance", mean: 0.0, cov: f64::NAN, corner: f64::NAN },
    Hostile { what: "∞ in the covariance", mean: 0.0, cov: 0.0, corner: f64::INFINITY },
    Hostile { what: "−∞ in the covariance", mean: 0.0, cov: 0.0, corner: f64::NEG_INFINITY },
    Hostile { what: "overflow in the covariance", mean: 0.0, cov: 1e300, corner: 1e300 },
    Hostile { what: "negative curvature", mean: 0.5, cov: 0.0, corner: -1e6 },
    Hostile { what: "hugely negative curvature", mean: 0.5, cov: 1e9, corner: -1e20 },
];

impl Hostile {
    fn is_number(&self) -> bool {
        self.mean.abs() < 1e100 && self.corner.abs() < 1e100
    }

    fn cov(&self, family: Family) -> Matrix {
        let entry = |i: usize, j: usize| match (i, j) {
            (1, 1) => self.corner,
            (0, 1) | (1, 0) => self.cov,
            (0, 0) | (2, 2) => 0.5,
            _ => 0.0,
        };
        match family {
            Family::Full => Matrix::Full(Mat::from_fn(3, 3, entry)),
            Family::Diagonal => Matrix::Diagonal((0..3).map(|i| entry(i, i)).collect()),
        }
    }
}

#[test]
fn rules_survive_hostile_gradients() {
    let guards = [Guard::Trust, Guard::Backtrack, Guard::Retraction, Guard::Projection];
    let plain = || QUpdate::ALL.iter().map(|update| settings(*update).0);
    let absolute = plain().map(|options| RuleOptions { relative: false, ..options });
    let guarded = guards.map(|guard| RuleOptions { guard, ..RuleOptions::of(QUpdate::Ngd) });
    for options in plain().chain(absolute).chain(guarded) {
        for start in [correlated(3), correlated(3).mean_field()] {
            for hostile in &HOSTILE {
                for with_path in [false, true] {
                    survive(&options, &start, hostile, with_path);
                }
            }
        }
    }
}

fn survive(options: &RuleOptions, start: &Normal, hostile: &Hostile, with_path: bool) {
    let (target, family) = (correlated_target(3), start.family());
    let mut q = start.clone();
    let mut rule = options.build(&q);
    if with_path && rule.factor().is_none() {
        return;
    }
    let what = format!(
        "{} ({}, relative: {}), {family}, {}, path: {with_path}",
        options.rule.word, options.guard, options.relative, hostile.what
    );
    let (mean, cov) = ([0.1, hostile.mean, 0.2], hostile.cov(family));
    let path = with_path.then_some(cov.as_ref());
    let gradient = DataGradient { mean: &mean, cov: cov.as_ref(), curvature: None, path };
    let is = |updates: &[QUpdate]| updates.iter().any(|update| update.rule() == options.rule);
    let newton = is(&[QUpdate::Ngd, QUpdate::SrVn, QUpdate::ProjectedNgvi]);
    // The trust region, for gradients from samples, needs no second attempt.
    let trusted = with_path && options.guard == Guard::Trust && !is(&[QUpdate::SrVn]);
    for t in 0..3 {
        let before = q.clone();
        let info = rule.step(&mut q, gradient, 0.9, 0.5);
        assert_valid(&q, &what);
        if !hostile.is_number() {
            assert!(info.rollbacks > 0 && info.step == 0.0, "{what}: {info:?}");
            close_normal(&q, &before, 0.0, &what);
        } else if t == 0 && newton && !trusted {
            // Later steps may be valid without rollbacks: after the retraction the precision exceeds the curvature.
            assert!(info.rollbacks > 0, "{what}: {info:?}");
        }
    }
    for _ in 0..5 {
        target.step(rule.as_mut(), &mut q, 0.9, 0.1);
        assert_valid(&q, &format!("{what}, afterwards"));
    }
}

/// A NaN in the Hessian in m must not stay in the state of natural gradients.
#[test]
fn hostile_curvature_is_forgotten() {
    let target = correlated_target(3);
    for start in [correlated(3), correlated(3).mean_field()] {
        let mut q = start.clone();
        let mut rule = RuleOptions::of(QUpdate::Ngd).build(&q);
        let mut bad = Matrix::identity(q.family(), 3);
        bad.fill(f64::NAN);
        let good = Matrix::identity(q.family(), 3);
        for curvature in [&bad, &good] {
            let (mean, cov) = (target.mean(&q), target.cov(q.family()));
            let curvature = Some(curvature.as_ref());
            let gradient = DataGradient { mean: &mean, cov: cov.as_ref(), curvature, path: None };
            rule.step(&mut q, gradient, 1.0, 0.5);
            assert_valid(&q, "curvature");
        }
        assert!(q.mean().iter().zip(start.mean()).any(|(a, b)| (a - b).abs() > 1e-3), "the mean moves again");
    }
}

fn cases(file: &Value) -> &Vec<Value> {
    file["cases"].as_array().expect("cases")
}

#[test]
fn reference_projections() {
    let file = load("projections.json");
    let mut seen = 0;
    for case in cases(&file) {
        let name = case["name"].as_str().expect("name");
        let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
        let entry = |key: &str| matrix(&inputs[key]);
        let check = |got: &Mat<f64>, key: &str| {
            assert_matrices_close(
                got.as_ref(),
                matrix(&outputs[key]).as_ref(),
                1e-12,
                &format!("{name}, {key}"),
            );
        };
        if name.starts_with("eigenvalue_clipping") {
            let (low, high) = (number(&inputs["alpha"]), number(&inputs["beta"]));
            check(&clip_eigenvalues(entry("Sigma").as_ref(), low, high).expect("finite"), "Sigma_projected");
        } else if name.starts_with("prox_negative_entropy") {
            let mut c = entry("C");
            prox_negative_entropy(c.as_mut(), number(&inputs["gamma"]));
            check(&c, "C_prox");
        } else {
            let (c, floor) = (entry("C"), 1.0 / number(&inputs["M"]).sqrt());
            let definite = clip_eigenvalues(c.as_ref(), floor, f64::INFINITY).expect("finite");
            check(&definite, "C_projected_positive_definite");
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}

/// Runs a case of logistic_vn.json: the listed iterates, and the optimum after many more if the rule is to reach it. The coefficients
/// are `w/√λ`, so their covariance is that of w divided by λ.
fn logistic_case(name: &str, rule: impl Fn(&Normal) -> Box<dyn UpdateRule>, step: f64, reaches: bool) {
    let file = load("logistic_vn.json");
    let (shared, tolerance) = (&file["inputs"], 1e-8);
    let (x, y) = (matrix(&shared["X"]).transpose().to_owned(), numbers(&shared["y"]));
    let lambda = number(&shared["lambda"]);
    let layer = Layer::from(LinearLayer::isotropic(x.nrows(), 0.0, 1.0 / lambda).expect("prior"));
    let likelihood = Bernoulli::Logit.into();
    let case = |name: &str| cases(&file).iter().find(|case| case["name"] == name).expect("the case");
    let (inputs, want, optimum) =
        (&case(name)["inputs"], &case(name)["outputs"], &case("optimum")["outputs"]);
    let start = matrix(&inputs["C0"]);
    let mean = numbers(&inputs["m0"]).iter().map(|m| lambda.sqrt() * m).collect();
    let mut q = Normal::new(mean, lambda * (&start * start.transpose())).expect("q");
    let mut rule = rule(&q);
    let objective = Objective::elbo(1.0);
    let problem = Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref());
    let mut pass = BatchPass::new(problem, y.len());
    let iterates = want["m"].as_array().expect("iterates").len();
    assert_eq!(iterates, 11);
    let last = if reaches { 200 } else { iterates };
    for k in 0..=last {
        let problem = Problem {
            factor: rule.factor(),
            ..Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref())
        };
        let data = pass.run(problem, Batch::of(x.transpose(), &y, 1.0), Form::Stable, false);
        let wanted = match k {
            _ if k < iterates => Some([&want["neg_elbo"][k], &want["m"][k], &want["S"][k]]),
            200 => Some([&optimum["neg_elbo"], &optimum["m"], &optimum["S"]]),
            _ => None,
        };
        if let Some([value, wanted_mean, wanted_cov]) = wanted {
            let what = format!("{name}, iterate {k}");
            assert_close(data + q.kl(), number(value), tolerance, &what);
            let mean: Vec<f64> = q.mean().iter().map(|m| m / lambda.sqrt()).collect();
            assert_all_close(&mean, &numbers(wanted_mean), tolerance, &what);
            let cov = q.cov().full() * faer::Scale(1.0 / lambda);
            assert_matrices_close(cov.as_ref(), matrix(wanted_cov).as_ref(), tolerance, &what);
        }
        if let (Some(Factor::Lower(c)), Some(factor)) = (rule.factor(), want["C"].get(k)) {
            let c = c * faer::Scale(1.0 / lambda.sqrt());
            assert_matrices_close(c.as_ref(), matrix(factor).as_ref(), tolerance, name);
        }
        let info = rule.step(&mut q, pass.q_gradient(0), 1.0, step);
        assert_eq!(info.rollbacks, 0, "{name}, iterate {k}");
    }
}

/// With `z = w/√λ`, gradients in w are gradients in z divided by √λ or λ, so a step γ of Bures–Wasserstein gradients in z is a step γλ in w.
#[test]
fn reference_iterates() {
    logistic_case("vn_0.3", |q| Box::new(NaturalGradient::new(q)), 0.3, true);
    logistic_case("vn_1.0", |q| Box::new(NaturalGradient::new(q)), 1.0, true);
    logistic_case("srvn_0.3", |q| Box::new(SquareRoot::new(q)), 0.3, true);
    let lambda = number(&load("logistic_vn.json")["inputs"]["lambda"]);
    let options = RuleOptions::of(QUpdate::BwGd);
    logistic_case("bures_wasserstein", |q| Box::new(Wasserstein::new(q, &options)), 0.079 * lambda, false);
}
