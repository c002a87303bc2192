//! Features from outside as a layer, also with grouped effects and several functions: the evidence and predictions against dense algebra,
//! gradients against finite differences.

use crate::prelude::*;
use faer::MatMut;
use sparsegp::ErrorKind;

/// The features `slope · x_d`, and the residual variance `rest · x_0²`.
#[derive(Clone)]
struct Lines {
    slope: Parameter,
    rest: Parameter,
    inputs: usize,
}

impl FeatureMap for Lines {
    fn name(&self) -> &str {
        "lines"
    }

    fn count(&self) -> usize {
        self.inputs
    }

    fn inputs(&self) -> usize {
        self.inputs
    }

    fn features(&self, x: MatRef<'_, f64>, mut features: MatMut<'_, f64>, residual: &mut [f64]) {
        for i in 0..x.nrows() {
            (0..self.inputs).for_each(|d| features[(d, i)] = self.slope.at(0) * x[(i, d)]);
            residual[i] = self.rest.at(0) * x[(i, 0)].powi(2);
        }
    }

    fn adjoint(&self, x: MatRef<'_, f64>, bar: FeatureBar<'_>, gradient: &mut [f64]) {
        for i in 0..x.nrows() {
            gradient[0] += (0..self.inputs).map(|d| bar.features[(d, i)] * x[(i, d)]).sum::<f64>();
            gradient[1] += bar.residual[i] * x[(i, 0)].powi(2);
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.slope);
        visit(&self.rest);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.slope);
        visit(&mut self.rest);
    }

    fn initialise(&mut self, _: &[f64], _: f64) {}

    fn boxed_clone(&self) -> Box<dyn FeatureMap> {
        Box::new(self.clone())
    }
}

fn positive(name: &str, value: f64) -> Parameter {
    Parameter::positive(name, vec![value])
}

/// Features of two inputs for this number of processes.
fn layer(means: Vec<f64>) -> FeatureLayer {
    let lines = Lines { slope: positive("slope", 0.8), rest: positive("rest", 0.3), inputs: 2 };
    FeatureLayer::new(Box::new(lines), means, false)
}

/// Rows of two inputs and a level, with their targets.
fn rows(n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(3);
    let inputs = normals.mat(n, 2);
    let x = Mat::from_fn(n, 3, |i, d| if d < 2 { inputs[(i, d)] } else { (i % 3) as f64 });
    let y = (0..n).map(|i| 0.4 + x[(i, 0)] - 0.5 * x[(i, 1)] + 0.3 * normals.next()).collect();
    (x, y)
}

fn with_groups(model: LatentPrior) -> LatentModel {
    let mut model = model;
    model.effects = Effects::new(2, vec![EffectTerm::intercepts("g", 3, 0)]);
    model.factorised().expect("no factor is needed").with_summed_effects()
}

/// The log density of N(mean, AᵀA + R + σ²I) at the targets: the objective of FITC, with and without grouped effects.
#[test]
fn the_evidence_and_predictions_are_those_of_dense_algebra() {
    let (x, y) = rows(12);
    for grouped in [false, true] {
        let prior = LatentPrior::new(layer(vec![0.3]).into(), Gaussian::new(0.2), true);
        let model = if grouped { with_groups(prior) } else { prior.factorised().expect("no factor") };
        let sd = if grouped { *model.natural().last().expect("a value") } else { 0.0 };
        let data = Dataset { x: x.as_ref(), targets: Targets::of(&y) };
        let mut objective = CollapsedObjective::new(model, data, Objective::fitc());
        let theta = objective.start();
        let got = objective.solve(&theta).expect("a value");
        let smooth = Mat::from_fn(12, 12, |i, j| {
            let level = f64::from(u8::from(x[(i, 2)] == x[(j, 2)])) * sd * sd;
            0.64 * (x[(i, 0)] * x[(j, 0)] + x[(i, 1)] * x[(j, 1)]) + level
        });
        // The residual of a new row at a known place is independent of that of the row.
        let rest = |i: usize| 0.3 * x[(i, 0)].powi(2);
        let noisy = with_diagonal(smooth.clone(), |i| rest(i) + 0.2);
        let centred: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
        let want = conditional(&noisy, &centred, &smooth, &with_diagonal(smooth.clone(), rest));
        assert_close(got, -want.log_density, 1e-10, "evidence");
        let (model, q) = objective.into_parts();
        let at = Posterior::new(&model, [q]).marginals(x.as_ref());
        for i in 0..12 {
            assert_close(at.mean[i], 0.3 + want.mean[i], 1e-9, "mean");
            assert_close(at.variance[i], want.covariance[(i, i)], 1e-9, "variance");
        }
    }
}

#[test]
fn gradients_are_finite_differences() {
    let (x, y) = rows(9);
    let counts: Vec<f64> = y.iter().map(|y| (2.0 * y.abs()).round()).collect();
    let classes: Vec<f64> = (0..9).map(|i| (i % 3) as f64).collect();
    let cases = [
        (LikelihoodKind::Poisson, vec![0.3], &counts),
        (LikelihoodKind::Softmax, vec![0.1, -0.2, 0.3], &classes),
    ];
    for (kind, means, targets) in cases {
        for loss in [Loss::ExpectedLog(Estimator::Exact), Loss::LogPredictive(Estimator::Exact)] {
            let likelihood = Registry::default().likelihood(kind, 3).expect("a likelihood");
            let model = with_groups(LatentPrior::new(layer(means.clone()).into(), likelihood, true));
            let q: Vec<Normal> = (0..means.len()).map(|process| posterior(process as u64, 5)).collect();
            let batch = Batch { x: x.as_ref(), targets: Targets::of(targets), scale: 1.0 };
            let objective = Objective { loss, ..Objective::elbo(1.0) };
            let mut value_at = |natural: &[f64]| {
                let mut moved = model.clone();
                moved.set_natural(natural).expect("no factor");
                VariationalModel::new(moved, q.clone(), objective, 9).evaluate(batch, false)
            };
            let mut svgp = VariationalModel::new(model.clone(), q.clone(), objective, 9);
            svgp.evaluate(batch, true);
            let natural = model.natural();
            check_gradient(&mut value_at, &natural, svgp.theta_gradient(), 5).expect("equal gradients");
        }
    }
}

#[test]
fn fits_of_features_refuse_what_needs_a_kernel() {
    let (x, y) = rows(30);
    let lines = Lines { slope: positive("slope", 0.8), rest: positive("rest", 0.3), inputs: 2 };
    let fit = |neighbours, growth| {
        let fit = Fit::new(lines.clone(), Gaussian::default()).group(EffectTerm::intercepts("g", 3, 0));
        let fit = fit.with(|options| (options.neighbours, options.growth) = (neighbours, growth));
        fit.fit(x.as_ref(), &y)
    };
    let model = fit(None, None).expect("a fit");
    assert!(model.variance_components()[0].sd > 0.0);
    for (neighbours, growth) in [(Some(5), None), (None, Some(Growth::default()))] {
        let error = fit(neighbours, growth).map(|_| ()).expect_err("no kernel");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    let narrow = Fit::new(Lines { inputs: 5, ..lines.clone() }, Gaussian::default());
    assert!(narrow.fit(x.as_ref(), &y).is_err());
}
