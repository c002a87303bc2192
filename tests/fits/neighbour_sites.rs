//! Neighbours with non-Gaussian noise: sites agree with expectation propagation; gradients, fits.

use faer::{Mat, MatRef};
use sparsegp::collapsed::Dataset;
use sparsegp::hyper::HyperObjective;
use sparsegp::kernels::{Inputs, Scratch, parse};
use sparsegp::latent::{InducingPrior, Jitter};
use sparsegp::likelihood::{
    BernoulliProbit, Expectation, LatentMarginal, Likelihood, LikelihoodKind, NegativeBinomial, Observation,
    Row, StudentT,
};
use sparsegp::linalg::{Factorizer, dot, log_det, solve_factored, solve_lower};
use sparsegp::model::{LatentModel, Model};
use sparsegp::objective::Targets;
use sparsegp::options::{FitOptions, Hyper, Keeping, LossKind, NeighbourPlan, ObjectiveKind};
use sparsegp::quadrature::Integrator;
use sparsegp::training::{ModelBuilder, NeighbourObjective};

fn inputs(n: usize) -> Mat<f64> {
    Mat::from_fn(n, 1, |i, _| (i as f64 * 0.618_034).fract() * 4.0)
}

fn model(m: usize, likelihood: Box<dyn Likelihood>) -> LatentModel {
    let mut kernel = parse("matern52", 1).expect("a kernel");
    kernel.for_each_parameter_mut(&mut |parameter| parameter.values.fill(0.8));
    let z = Mat::from_fn(m, 1, |i, _| 4.0 * i as f64 / m as f64);
    let layer = InducingPrior::new(kernel, z, Jitter::Absolute(1e-9)).expect("a layer").with_mean(0.2, false);
    let model = LatentModel::new(layer.into(), likelihood, false);
    model.factorised().expect("a factor")
}

fn plan(loss: LossKind, count: usize) -> NeighbourPlan {
    NeighbourPlan { count, loss, beta: 1.0, keeping: Keeping::default(), nodes: None }
}

/// Returns −log Z of expectation propagation for classes 0 and 1, with sequential updates
/// (Rasmussen & Williams 2006, algorithm 3.5 and equation 3.65, with moments by quadrature).
fn dense_ep(model: &LatentModel, x: MatRef<'_, f64>, y: &[f64]) -> f64 {
    let n = y.len();
    let layer = model.layer().inducing().expect("a layer");
    let mut k = Mat::zeros(n, n);
    layer.kernel().eval(Inputs::Gram(x), k.as_mut(), &mut Scratch::new());
    let (mut tau, mut nu, mut integrator) = (vec![0.0; n], vec![0.0; n], Integrator::default());
    let mean = layer.mean().values[0];
    // Σ = K − K (K + T⁻¹)⁻¹ K by one rank-one change for every site.
    let (mut sigma, mut mu) = (k.clone(), vec![mean; n]);
    let mut log_z = vec![(0.0, 0.0, 0.0); n];
    let likelihood = model.likelihood.one().expect("one function");
    for _ in 0..200 {
        for i in 0..n {
            let v = 1.0 / (1.0 / sigma[(i, i)] - tau[i]);
            let cavity = v * (mu[i] / sigma[(i, i)] - nu[i]);
            let row = Row::new(Observation::of(y[i]), LatentMarginal::new(cavity, v));
            let local = likelihood.expectation(Expectation::LogPredictive, row, &mut [], &mut integrator);
            log_z[i] = (local.value, cavity, v);
            let curvature = 2.0 * local.variance - local.mean * local.mean;
            let new = -curvature / (1.0 + v * curvature);
            let shift = local.mean + new * (cavity + v * local.mean);
            let (change, column) = (new - tau[i], sigma.col(i).to_owned());
            let gain = (shift - nu[i] - change * mu[i]) / (1.0 + change * sigma[(i, i)]);
            let scale = change / (1.0 + change * sigma[(i, i)]);
            (0..n).for_each(|j| mu[j] += gain * column[j]);
            sigma -= faer::Scale(scale) * (&column * column.transpose());
            (tau[i], nu[i]) = (new, shift);
        }
    }
    // The evidence of the sites as data, and the difference of each site from the likelihood.
    let mut joint = k;
    (0..n).for_each(|i| joint[(i, i)] += 1.0 / tau[i]);
    Factorizer::new(n).cholesky(joint.as_mut()).expect("positive definite");
    let mut c: Vec<f64> = (0..n).map(|i| nu[i] / tau[i] - mean).collect();
    solve_lower(joint.as_ref(), &mut c);
    let ln2pi = std::f64::consts::TAU.ln();
    let sites = 0.5 * (n as f64 * ln2pi + log_det(joint.as_ref()) + dot(&c, &c));
    let lacks = (0..n).map(|i| {
        let ((value, cavity, v), noise) = (log_z[i], 1.0 / tau[i]);
        value + 0.5 * (ln2pi + (v + noise).ln() + (nu[i] * noise - cavity).powi(2) / (v + noise))
    });
    sites - lacks.sum::<f64>()
}

#[test]
fn with_all_other_data_the_objective_is_that_of_expectation_propagation_for_any_inducing_inputs() {
    let (n, x) = (20, inputs(20));
    let y: Vec<f64> = (0..n).map(|i| f64::from((2.0 * x[(i, 0)]).sin() > 0.3 * (i % 3) as f64)).collect();
    for m in [0, 5, 12] {
        let model = model(m, Box::new(BernoulliProbit));
        let wanted = dense_ep(&model, x.as_ref(), &y);
        let data = Dataset { x: x.as_ref(), targets: Targets::of(&y) };
        let mut objective =
            NeighbourObjective::new(model, data, plan(LossKind::Elbo, n), 0).expect("an objective");
        // Every call matches the sites again, from their current values.
        (0..12).for_each(|_| objective.look_up(n, n));
        let value = objective.solve(&objective.start()).expect("a value");
        assert!((value - wanted).abs() < 1e-8 * wanted, "M = {m}: {value} and {wanted}");
    }
}

#[test]
fn gradients_given_sites_are_those_of_finite_differences() {
    let (n, x) = (60, inputs(60));
    let counts: Vec<f64> = (0..n).map(|i| ((i * 7) % 5) as f64 + 3.0 * f64::from(x[(i, 0)] > 2.0)).collect();
    let reals: Vec<f64> =
        (0..n).map(|i| x[(i, 0)].sin() + if i % 11 == 0 { 4.0 } else { 0.1 * (i % 5) as f64 }).collect();
    let cases: [(Box<dyn Likelihood>, &[f64]); 2] =
        [(Box::new(NegativeBinomial::new(0.4)), &counts), (Box::new(StudentT::new(0.3, 4.0)), &reals)];
    for (likelihood, y) in cases {
        for (loss, terms) in [(LossKind::Elbo, n), (LossKind::Log, n), (LossKind::Log, 40)] {
            let data = Dataset { x: x.as_ref(), targets: Targets::of(y) };
            let mut objective = NeighbourObjective::new(model(6, likelihood.clone()), data, plan(loss, 5), 0)
                .expect("an objective");
            objective.look_up(terms, 5);
            let theta = objective.start();
            let mut gradient = vec![0.0; theta.len()];
            objective.value_and_gradient(&theta, &mut gradient);
            for i in 0..theta.len() {
                let mut moved = |step: f64| {
                    let mut theta = theta.clone();
                    theta[i] += step;
                    objective.value_and_gradient(&theta, &mut vec![0.0; gradient.len()])
                };
                let h = 1e-4;
                let wanted = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h);
                let gap = (gradient[i] - wanted).abs();
                assert!(
                    gap < 1e-6 * (1.0 + wanted.abs()),
                    "{} {loss:?} {i}: {} and {wanted}",
                    likelihood.name(),
                    gradient[i]
                );
            }
        }
    }
}

/// Returns inputs, and the values of two dozen waves along them.
fn waves(n: usize, first: usize) -> (Mat<f64>, Vec<f64>) {
    let at = |i: usize| ((first + i) as f64 * 0.618_034).fract() * 40.0;
    let x = Mat::from_fn(n, 1, |i, _| at(i));
    (x, (0..n).map(|i| (4.0 * at(i)).sin()).collect())
}

fn beside(likelihood: LikelihoodKind, count: usize) -> FitOptions {
    FitOptions {
        likelihood: Some(likelihood),
        neighbours: Some(count),
        inducing: Some(10),
        kernel: "matern52".into(),
        epochs: Some(10),
        ..FitOptions::default()
    }
}

fn fitted(options: FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Model {
    ModelBuilder::new().options(options).fit(x, y).expect("a fit")
}

#[test]
fn neighbours_distinguish_classes_that_inducing_inputs_cannot() {
    let (x, f) = waves(800, 0);
    let y: Vec<f64> = f.iter().map(|f| f64::from(*f > 0.2)).collect();
    let (new, f) = waves(400, 5000);
    let wanted: Vec<f64> = f.iter().map(|f| f64::from(*f > 0.2)).collect();
    let error = |model: &Model| {
        let predictions = model.predict(new.as_ref(), &[]).expect("predictions");
        predictions.report(&wanted).error_rate.expect("an error rate")
    };
    let kind = LikelihoodKind::BernoulliProbit;
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        let model = fitted(FitOptions { objective, ..beside(kind, 12) }, x.as_ref(), &y);
        assert!(error(&model) < 0.1, "{objective}: {}", error(&model));
    }
    let without = FitOptions { neighbours: None, ..beside(kind, 0) };
    assert!(error(&fitted(without, x.as_ref(), &y)) > 0.3);
    // An update may have more new rows than the model keeps.
    let (few, f) = waves(100, 0);
    let y: Vec<f64> = f.iter().map(|f| f64::from(*f > 0.2)).collect();
    let model = fitted(beside(kind, 12), few.as_ref(), &y);
    let predictions = model.predict(new.as_ref(), &[]).expect("predictions");
    assert!((0..400).all(|row| (0.0..=1.0).contains(&predictions.row(row).mean)));
}

#[test]
fn predictions_given_all_sites_are_those_of_a_gp_with_their_noise_and_survive_a_model_file() {
    let (x, f) = waves(90, 0);
    let y: Vec<f64> = f.iter().enumerate().map(|(i, f)| (3.0 + 2.0 * f + (i % 2) as f64).floor()).collect();
    let options = FitOptions { hyper: Some(Hyper::Fixed), ..beside(LikelihoodKind::NegativeBinomial, 90) };
    let model = fitted(options, x.as_ref(), &y);
    let nearby = model.neighbours().expect("neighbours");
    let ((rows, targets), noise) = (nearby.data(), nearby.noise().expect("noise"));
    assert_eq!(nearby.bytes(), 90 * 3 * 8);
    let layer = model.latent().layer().inducing().expect("a layer");
    let mean = layer.mean().values[0];
    let (mut joint, mut scratch) = (Mat::zeros(90, 90), Scratch::new());
    layer.kernel().eval(Inputs::Gram(rows), joint.as_mut(), &mut scratch);
    (0..90).for_each(|i| joint[(i, i)] += noise[i]);
    Factorizer::new(90).cholesky(joint.as_mut()).expect("positive definite");
    let mut weights: Vec<f64> = targets.iter().map(|y| y - mean).collect();
    solve_factored(joint.as_ref(), &mut weights);
    let new = Mat::from_fn(30, 1, |i, _| 1.3 * i as f64 / 20.0 - 1.0);
    let found = model.posterior().marginals(new.as_ref());
    let mut between = Mat::zeros(90, 30);
    layer.kernel().eval(Inputs::Cross { left: rows, right: new.as_ref() }, between.as_mut(), &mut scratch);
    let mut variance = vec![0.0; 30];
    layer.kernel().diag(new.as_ref(), &mut variance, &mut scratch);
    for (i, prior) in variance.iter().enumerate() {
        let mut column: Vec<f64> = between.col(i).iter().copied().collect();
        let wanted = mean + dot(&weights, &column);
        solve_lower(joint.as_ref(), &mut column);
        let v = prior - dot(&column, &column);
        assert!((found.mean[i] - wanted).abs() < 1e-7, "{i}: {} and {wanted}", found.mean[i]);
        assert!((found.variance[i] - v).abs() < 1e-7, "{i}: {} and {v}", found.variance[i]);
    }
    let again = Model::from_bytes("again", &model.to_bytes().expect("bytes")).expect("a model");
    assert_eq!(again.posterior().marginals(new.as_ref()), found);
}

#[test]
fn outliers_are_found_and_keep_a_positive_noise() {
    let (x, f) = waves(600, 0);
    let outlier = |i: usize| i % 9 == 4;
    let y: Vec<f64> =
        (0..600).map(|i| f[i] + 0.05 * (i as f64 * 2.3).sin() + if outlier(i) { 5.0 } else { 0.0 }).collect();
    let model = fitted(beside(LikelihoodKind::StudentT, 12), x.as_ref(), &y);
    let (new, f) = waves(300, 5000);
    let rmse = |model: &Model| {
        let predictions = model.predict(new.as_ref(), &[]).expect("predictions");
        predictions.report(&f).rmse.expect("an RMSE")
    };
    let gaussian = fitted(beside(LikelihoodKind::Gaussian, 12), x.as_ref(), &y);
    assert!(rmse(&model) < 0.1 && rmse(&gaussian) > 0.4, "{} {}", rmse(&model), rmse(&gaussian));
    let noise = model.neighbours().expect("neighbours").noise().expect("noise");
    let mean = |wanted: bool| {
        let of: Vec<f64> = (0..600).filter(|&i| outlier(i) == wanted).map(|i| noise[i]).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    assert!(noise.iter().all(|noise| *noise > 0.0) && mean(true) > 100.0 * mean(false));
}
