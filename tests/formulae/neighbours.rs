//! Rows conditioned on neighbours, with grouped effects and without: k = 0 is FITC; all predecessors give the exact GP for any inducing
//! inputs; some neighbours agree with dense algebra; sites given all others are those of expectation propagation.

use super::grouped::{self, FITC, Problem, Reference, effect_covariance};
use crate::prelude::*;
use sparsegp::gradient::Problem as PassProblem;

const N: usize = 90;
const NOISE: f64 = 0.07;

fn data() -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(N, 2, |i, d| ((i * (7 + 4 * d)) as f64 * 0.618_034).fract() * 3.0);
    let y = (0..N).map(|i| x[(i, 0)].sin() + (2.0 * x[(i, 1)]).cos() + 0.2 * (i as f64 * 1.7).sin() + 0.3);
    let y = y.collect();
    (x, y)
}

/// Returns a model of two inputs with a mean of 0.3.
fn model(expression: &str, m: usize, likelihood: impl Into<ObservationModel>) -> LatentModel {
    let mut kernel = parse(expression, 2).expect("a kernel");
    let mut at = 0.0;
    kernel.for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            at += 1.0;
            *value = 0.5 + 0.17 * at;
        }
    });
    let z = Mat::from_fn(m, 2, |i, d| ((i * (3 + 2 * d)) as f64 * 0.414_214).fract() * 3.0);
    let layer = InducingPrior::new(kernel, z, Jitter::Absolute(1e-8)).expect("a layer").with_mean(0.3, false);
    LatentModel::new(layer.into(), likelihood, false).factorised().expect("a factor")
}

fn gaussian(expression: &str, m: usize) -> LatentModel {
    model(expression, m, Gaussian::new(NOISE))
}

fn layer(model: &LatentModel) -> &InducingLayer {
    model.layer().inducing().expect("a sparse GP")
}

/// Returns the objective whose terms are all rows given `count` neighbours.
fn objective<'a>(
    model: &LatentModel,
    data: Dataset<'a>,
    count: usize,
    loss: LossKind,
) -> NeighbourObjective<'a> {
    let plan = NeighbourPlan { count, loss, beta: 1.0, keeping: Keeping::default(), nodes: None };
    let mut objective = NeighbourObjective::new(model.clone(), data, plan, 3).expect("a GP");
    objective.look_up(data.len(), count);
    objective
}

/// Returns value and gradient in the free parameters at `theta`.
fn evaluated(objective: &mut dyn HyperObjective, theta: &[f64]) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; theta.len()];
    let value = objective.value_and_gradient(theta, &mut gradient);
    (value, gradient)
}

#[test]
fn without_neighbours_the_objective_is_fitc() {
    let check = |what: &str, fitc: &mut dyn HyperObjective, found: &mut NeighbourObjective<'_>, tolerance| {
        let theta = found.start();
        let ((value, gradient), (wanted, slopes)) = (evaluated(found, &theta), evaluated(fitc, &theta));
        assert_close(value, wanted, tolerance, what);
        assert_all_close(&gradient, &slopes, 100.0 * tolerance, what);
    };
    let (x, y) = data();
    let data = Dataset::of(x.as_ref(), &y);
    for expression in ["rbf(ard)", "matern32(ard) + linear", "matern52 + white"] {
        let model = gaussian(expression, 12);
        let mut fitc = CollapsedObjective::new(model.clone(), data, Objective::fitc());
        check(expression, &mut fitc, &mut objective(&model, data, 0, LossKind::Elbo), 1e-12);
    }
    let Problem { x, y, model, .. } = grouped::problem(11, [9, 4, 3], true);
    let data = Dataset::of(x.as_ref(), &y);
    let mut fitc = GroupedObjective::new(model.clone(), data, FITC);
    check("effects", &mut fitc, &mut objective(&model, data, 0, LossKind::Elbo), 1e-10);
}

#[test]
fn all_predecessors_give_the_exact_gp_for_any_inducing_inputs() {
    let (x, y) = data();
    let data = Dataset::of(x.as_ref(), &y);
    for expression in ["rbf(ard)", "matern12(ard)", "matern52 * linear + white"] {
        for m in [1, 5, 30] {
            let model = gaussian(expression, m);
            let mut objective = objective(&model, data, N - 1, LossKind::Elbo);
            let theta = objective.start();
            let (value, gradient) = evaluated(&mut objective, &theta);
            let exact = exact_predictions(&model, Mat::zeros(0, 2).as_ref()).log_density;
            assert_close(-value, exact, 1e-9, expression);
            // Nothing depends on Z, whose entries are the last ones.
            let (others, z) = gradient.split_at(gradient.len() - 2 * m);
            let size = others.iter().fold(1.0f64, |most, g| most.max(g.abs()));
            assert!(z.iter().all(|g| g.abs() < 1e-6 * size), "{expression} {m}");
        }
    }
}

#[test]
fn all_predecessors_give_the_evidence_and_predictions_of_the_exact_gp_with_effects() {
    let reference = Reference::read();
    let Reference { z, y, train, test, .. } = &reference;
    let value = |name: &str| reference.value(name);
    let (model, data) = (reference.model(z, 1e-6), Dataset::of(train.as_ref(), y));
    for (case, count, tolerance) in [("exact", y.len(), 1e-7), ("fitc", 0, VALUE_TOLERANCE)] {
        let mut objective = objective(&model, data, count, LossKind::Elbo);
        let want = reference.case(case);
        let theta = objective.start();
        let (found, slopes) = evaluated(&mut objective, &theta);
        assert_close(-found, number(&want["log_evidence"]), tolerance, case);

        // The order is variance, lengthscales, noise, mean; then the variances of g1, of its slope
        // and of g2.
        let expected = numbers(&want["gradient"]);
        for direction in 0..theta.len() {
            let mut natural = |step: f64| {
                let mut moved = theta.clone();
                moved[direction] += step;
                objective.solve(&moved).expect("a value");
                objective.model().natural()
            };
            let (above, below) = (natural(1e-5), natural(-1e-5));
            let change = |at: usize| (above[at] - below[at]) / 2e-5;
            let last = above.len() - 3;
            let of_variance = |at: usize, variance: f64| 2.0 * variance.sqrt() * change(last + at);
            let changes = [change(0), change(1), change(2), change(4), change(3)].into_iter().chain([
                of_variance(0, value("var_g1")),
                of_variance(1, value("var_g1_slope")),
                of_variance(2, value("var_g2")),
            ]);
            let is_inducing = (5..last).any(|at| change(at) != 0.0);
            let wanted: f64 = changes.zip(&expected).map(|(change, slope)| -change * slope).sum();
            // The exact GP does not depend on inducing inputs.
            if !is_inducing || case == "exact" {
                let what = format!("{case} {direction}");
                assert_close(slopes[direction], wanted, 10.0 * GRADIENT_TOLERANCE, &what);
            }
        }
        objective.solve(&theta).expect("a value");
        let posterior = objective.posterior().expect("a posterior");
        let (marginals, covariance) =
            (posterior.marginals(test.as_ref()), posterior.covariance(test.as_ref()));
        let (want, diagonal) = (&want["predictions"], covariance.diagonal().column_vector());
        assert_all_close(&marginals.mean, &numbers(&want["mean"]), tolerance, case);
        let variances = numbers(&want["latent_variance"]);
        assert_all_close(&marginals.variance, &variances, tolerance, case);
        assert_all_close(&diagonal.iter().copied().collect::<Vec<_>>(), &variances, tolerance, case);
        if case == "exact" {
            let prior = |left: &Mat<f64>, right: &Mat<f64>| {
                let [inputs, others] = [left, right].map(|x| x.as_ref().subcols(0, 2));
                covariances(layer(&model).kernel(), inputs, others)
                    + effect_covariance(&model.effects, left, right)
            };
            let noise = model.noise_variance().expect("Gaussian noise");
            let v = with_diagonal(prior(train, train), |_| noise);
            let joint = conditional(&v, &vec![0.0; y.len()], &prior(train, test), &prior(test, test));
            assert_all_close(
                &entries(covariance.as_ref()),
                &entries(joint.covariance.as_ref()),
                tolerance,
                case,
            );
        }
    }
}

fn order(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 37) % n as u32).collect()
}

/// Runs a pass over the rows of windows.
fn pass(
    model: &LatentModel,
    q: &Normal,
    (x, y): (MatRef<'_, f64>, &[f64]),
    windows: &Windows,
    (objective, wanted): (Objective, Wanted),
) -> BatchPass {
    let noise = [model.noise_variance().expect("Gaussian noise")];
    let source = Source { x, y, noise: &noise, queries: None, effects: &model.effects };
    let rows = GivenRows { windows, sources: &[source], targets: Targets::of(y), scale: 1.0 };
    let problem = PassProblem::new(model.layers(), &model.likelihood, objective, q.as_ref());
    let mut pass = BatchPass::given(problem, windows, &model.effects);
    pass.run_given(problem, rows, wanted, &[]);
    pass
}

/// Returns the value, and the posterior of w and of effects, given rows with their neighbours.
fn solved(model: &LatentModel, data: (MatRef<'_, f64>, &[f64]), lists: &Lists, most: usize) -> (f64, Normal) {
    let windows = Windows::new(&order(data.1.len()), lists, most);
    let standard = Normal::standard(Family::Full, layer(model).dim() + model.effects.coefficients());
    let found = pass(model, &standard, data, &windows, (Objective::fitc(), Wanted::Origin));
    let mut solution = solve(found.sums(), 1.0).expect("a value");
    (solution.value, solution.q.swap_remove(0))
}

/// Without inducing inputs this is Vecchia's approximation.
#[test]
fn some_neighbours_give_the_density_by_dense_algebra() {
    let (x, y) = data();
    let wide = grouped::problem(5, [8, 5, 3], true);
    let cases = [
        (&x, &y, gaussian("matern32(ard)", 0), 7, 1e-11),
        (&x, &y, gaussian("rbf(ard)", 12), 5, 1e-9),
        (&wide.x, &wide.y, wide.model.clone(), 4, 1e-9),
    ];
    for (x, y, model, k, tolerance) in cases {
        let (n, layer, inputs) = (y.len(), layer(&model), x.as_ref().subcols(0, 2));
        let lists = nearest_before(inputs, &order(n), &order(n), k, COMPARISONS);
        let (found, _) = solved(&model, (x.as_ref(), y), &lists, 30);

        // y − o ~ N(0, B⁻¹ D B⁻ᵀ + AᵀA + ZᵀΣZ), where B and D belong to the residual process and the
        // noise.
        let mut raw = Mat::zeros(layer.dim(), n);
        let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
        layer.features(inputs, raw.as_mut(), &mut base, &mut offset, &mut Scratch::new());
        let a = layer.whitening().expect("a whitening").matrix * raw;
        let noise = model.noise_variance().expect("Gaussian noise");
        let residual = with_diagonal(gram(layer.kernel(), inputs) - a.transpose() * &a, |_| noise);
        let (mut b, mut d) = (Mat::<f64>::identity(n, n), vec![0.0; n]);
        for i in 0..n {
            let near: Vec<usize> = lists.get(i).iter().map(|&row| row as usize).collect();
            let own = Mat::from_fn(near.len(), near.len(), |p, q| residual[(near[p], near[q])]);
            let cross = Mat::from_fn(near.len(), 1, |p, _| residual[(near[p], i)]);
            let weights = inverse(own.as_ref()) * &cross;
            d[i] = residual[(i, i)]
                - near.iter().zip(weights.col(0).iter()).map(|(&p, w)| residual[(p, i)] * w).sum::<f64>();
            near.iter().enumerate().for_each(|(p, &row)| b[(i, row)] = -weights[(p, 0)]);
        }
        let root = dense_solve(&b, &Mat::from_fn(n, n, |i, j| if i == j { d[j].sqrt() } else { 0.0 }));
        let v = &root * root.transpose() + a.transpose() * &a + effect_covariance(&model.effects, x, x);
        let c: Vec<f64> = y.iter().map(|y| y - layer.mean().values[0]).collect();
        assert_close(-found, log_density(&v, &c), tolerance, "the log density");
    }
}

fn dense_solve(matrix: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
    use faer::linalg::solvers::Solve;
    matrix.partial_piv_lu().solve(right)
}

/// Returns a predictor with a posterior of w and the rows `data`.
fn predictor<'a>(model: &'a LatentModel, q: &'a Normal, data: (MatRef<'a, f64>, &'a [f64])) -> Predictor<'a> {
    let posterior = (q.mean(), q.cov().full());
    Predictor { layer: layer(model), place: 0, effects: Effects::NONE, posterior, noise: &[NOISE], data }
}

#[test]
fn direct_losses_are_those_of_predictions_of_rows_left_out() {
    let (x, y) = data();
    for (m, k) in [(7, 5), (0, 9), (12, 0)] {
        let (model, data) = (gaussian("matern52(ard)", m), (x.as_ref(), &y[..]));
        let lists = nearest_others(x.as_ref(), &order(N), k, COMPARISONS).1;
        let (_, q) = solved(&model, data, &lists, 50);
        let windows = Windows::new(&order(N), &lists, 50);
        let loss = pass(&model, &q, data, &windows, (Objective::dlm(1.0), Wanted::Losses)).sums().value;
        // The same rows as if they were new, each given its neighbours.
        let (mean, variance) = predictor(&model, &q, data).given(x.as_ref(), &order(N), &lists);
        let one = |i: usize| {
            let v = variance[i] + NOISE;
            0.5 * ((std::f64::consts::TAU * v).ln() + (y[i] - mean[i]).powi(2) / v)
        };
        assert_close(loss, (0..N).map(one).sum(), 1e-12, "loss");
    }
}

/// Returns the posterior of w given all rows with all their predecessors.
fn posterior(model: &LatentModel, data: (MatRef<'_, f64>, &[f64])) -> Normal {
    solved(model, data, &nearest_before(data.0, &order(N), &order(N), N - 1, COMPARISONS), N).1
}

#[test]
fn left_out_rows_are_predicted_as_by_the_exact_gp_of_the_others() {
    let (x, y) = data();
    for (expression, m) in [("rbf(ard)", 7), ("matern32(ard) + linear", 20), ("matern52", 0)] {
        let (model, data) = (gaussian(expression, m), (x.as_ref(), &y[..]));
        let q = posterior(&model, data);
        let lists = nearest_others(x.as_ref(), &order(N), N - 1, COMPARISONS).1;
        let (mean, variance) = predictor(&model, &q, data).left_out(&order(N), &lists, &[1.0; N]);
        // With G = (K + σ²I)⁻¹: y_i − [Gc]_i/G_ii and 1/G_ii (Rasmussen & Williams 2006, equation 5.12).
        let g = inverse(with_diagonal(gram(layer(&model).kernel(), x.as_ref()), |_| NOISE).as_ref());
        for i in 0..N {
            let weight: f64 = (0..N).map(|j| g[(i, j)] * (y[j] - 0.3)).sum();
            assert_close(mean[i], y[i] - weight / g[(i, i)], 1e-8, expression);
            assert_close(variance[i] + NOISE, 1.0 / g[(i, i)], 1e-8, expression);
        }
    }
}

/// Returns the exact distribution of f − 0.3 at `new` given all data.
fn exact_predictions(model: &LatentModel, new: MatRef<'_, f64>) -> Conditional {
    let ((x, y), kernel) = (data(), layer(model).kernel());
    let c: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
    let v = with_diagonal(gram(kernel, x.as_ref()), |_| NOISE);
    conditional(&v, &c, &covariances(kernel, x.as_ref(), new), &gram(kernel, new))
}

#[test]
fn predictions_given_all_data_are_those_of_the_exact_gp() {
    let (x, y) = data();
    let new = Mat::from_fn(150, 2, |i, d| ((i * (5 + d)) as f64 * 0.732_051).fract() * 3.5 - 0.2);
    for (expression, m) in [("rbf(ard)", 7), ("matern32(ard) + linear", 20)] {
        let (model, data) = (gaussian(expression, m), (x.as_ref(), &y[..]));
        let q = posterior(&model, data);
        let predictor = predictor(&model, &q, data);
        let index = Index::new(x.as_ref(), (0..N as u32).collect(), COMPARISONS);
        let (mean, variance) = predictor.marginals(new.as_ref(), &index, new.as_ref(), N);
        let exact = exact_predictions(&model, new.as_ref());
        for i in 0..150 {
            assert_close(mean[i], 0.3 + exact.mean[i], 1e-8, expression);
            assert_close(variance[i], exact.covariance[(i, i)], 1e-8, expression);
        }
        // With few of the data the variance is larger.
        let (_, few) = predictor.marginals(new.as_ref(), &index, new.as_ref(), 3);
        assert!(few.iter().sum::<f64>() > variance.iter().sum::<f64>(), "{expression}");
    }
}

/// Returns −log Z of expectation propagation with a site for each row and function of one layer, with sequential updates
/// (Rasmussen & Williams 2006, algorithm 3.5 and equation 3.65, with moments by quadrature).
fn dense_ep(model: &LatentModel, x: MatRef<'_, f64>, y: &[f64]) -> f64 {
    let (n, functions) = (y.len(), model.likelihood.functions());
    let k = gram(layer(model).kernel(), x);
    let means = &layer(model).mean().values;
    let mut integrator = Integrator::default();
    let (mut tau, mut nu) = (vec![vec![0.0; n]; functions], vec![vec![0.0; n]; functions]);
    // Σ = K − K (K + T⁻¹)⁻¹ K by one rank-one change for every site.
    let mut sigma = vec![k.clone(); functions];
    let mut mu: Vec<Vec<f64>> = means.iter().map(|mean| vec![*mean; n]).collect();
    let mut found = vec![(0.0, Vec::new(), Vec::new()); n];
    for _ in 0..200 {
        for i in 0..n {
            let v: Vec<f64> = (0..functions).map(|c| 1.0 / (1.0 / sigma[c][(i, i)] - tau[c][i])).collect();
            let cavity: Vec<f64> =
                (0..functions).map(|c| v[c] * (mu[c][i] / sigma[c][(i, i)] - nu[c][i])).collect();
            let (mut by_mean, mut by_variance) = (vec![0.0; functions], vec![0.0; functions]);
            let row = Row::new(Observation::of(y[i]), Marginal { mean: &cavity, variance: &v });
            let slopes = Slopes { mean: &mut by_mean, variance: &mut by_variance, own: &mut [] };
            let of = Expectation::LogPredictive;
            let log_z = model.likelihood.expectation(of, row, slopes, &mut integrator);
            for c in 0..functions {
                let curvature = 2.0 * by_variance[c] - by_mean[c] * by_mean[c];
                let new = -curvature / (1.0 + v[c] * curvature);
                let shift = by_mean[c] + new * (cavity[c] + v[c] * by_mean[c]);
                let (change, column) = (new - tau[c][i], sigma[c].col(i).to_owned());
                let scale = 1.0 / (1.0 + change * sigma[c][(i, i)]);
                let gain = scale * (shift - nu[c][i] - change * mu[c][i]);
                (0..n).for_each(|j| mu[c][j] += gain * column[j]);
                sigma[c] -= faer::Scale(change * scale) * (&column * column.transpose());
                (tau[c][i], nu[c][i]) = (new, shift);
            }
            found[i] = (log_z, cavity, v);
        }
    }
    // The evidence of the sites as data, and the difference of each site from the likelihood.
    let mut value = -found.iter().map(|(log_z, ..)| log_z).sum::<f64>();
    for c in 0..functions {
        let target: Vec<f64> = (0..n).map(|i| nu[c][i] / tau[c][i]).collect();
        let centred: Vec<f64> = target.iter().map(|target| target - means[c]).collect();
        value -= log_density(&with_diagonal(k.clone(), |i| 1.0 / tau[c][i]), &centred);
        for (i, (_, cavity, v)) in found.iter().enumerate() {
            let spread = v[c] + 1.0 / tau[c][i];
            value -=
                0.5 * (std::f64::consts::TAU.ln() + spread.ln() + (target[i] - cavity[c]).powi(2) / spread);
        }
    }
    value
}

#[test]
fn sites_with_all_other_data_are_those_of_expectation_propagation_for_any_inducing_inputs() {
    let n = 20;
    let x = Mat::from_fn(n, 2, |i, d| if d == 0 { (i as f64 * 0.618_034).fract() * 4.0 } else { 0.0 });
    let wave = |i: usize| (2.0 * x[(i, 0)]).sin() - 0.3 * (i % 3) as f64;
    let softmax = Registry::default().likelihood(LikelihoodKind::Softmax, 3).expect("built in");
    let likelihoods = [(ObservationModel::from(Bernoulli::Probit), 1), (softmax, 3)];
    for ((likelihood, functions), m) in likelihoods.iter().flat_map(|of| [0, 5, 12].map(|m| (of, m))) {
        let y: Vec<f64> = (0..n)
            .map(|i| {
                if *functions == 1 {
                    f64::from(wave(i) > 0.0)
                } else {
                    (wave(i) + 1.3).floor().clamp(0.0, 2.0)
                }
            })
            .collect();
        let one = model("matern52", m, Gaussian::new(1.0)).to_prior();
        let prior = one.layer().prior().expect("inducing inputs").clone();
        let means = (0..*functions).map(|c| 0.3 - 0.2 * c as f64).collect();
        let layers = vec![prior.with_means(means, false).into()];
        let model = LatentModel::<InducingPrior>::of_layers(layers, likelihood.clone(), false);
        let model = model.factorised().expect("a factor");
        let wanted = dense_ep(&model, x.as_ref(), &y);
        let mut objective = objective(&model, Dataset::of(x.as_ref(), &y), n, LossKind::Elbo);
        // Every call matches the sites again, from their current values.
        (0..12).for_each(|_| objective.look_up(n, n));
        let value = objective.solve(&objective.start()).expect("a value");
        assert!((value - wanted).abs() < 1e-8 * wanted, "{functions}, M = {m}: {value} and {wanted}");
    }
}
