//! Rows conditioned on neighbours: k = 0 is FITC; all predecessors give the exact GP for any
//! inducing inputs; gradients.

use faer::{Mat, MatRef};
use sparsegp::ErrorKind;
use sparsegp::collapsed::{Dataset, Solution, solve, tangent};
use sparsegp::effects::Effects;
use sparsegp::gradient::{BatchPass, GivenRows, Problem, Tangent, Wanted};
use sparsegp::kernels::{Inputs, Scratch, parse};
use sparsegp::latent::{InducingLayer, InducingPrior, Jitter, LatentLayer};
use sparsegp::likelihood::Gaussian;
use sparsegp::linalg::{Factorizer, dot, log_det, solve_factored, solve_lower};
use sparsegp::model::{LatentModel, Model};
use sparsegp::neighbours::{COMPARISONS, Index, Predictor, Source, Windows, nearest_before, nearest_others};
use sparsegp::objective::{Estimator, Objective, Targets};
use sparsegp::options::{FitOptions, Growth, Hyper, ObjectiveKind, Open, Part};
use sparsegp::training::{CollapsedObjective, ModelBuilder};
use sparsegp::variational::{Family, Normal};

const N: usize = 90;
const NOISE: f64 = 0.07;

fn data() -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(N, 2, |i, d| ((i * (7 + 4 * d)) as f64 * 0.618_034).fract() * 3.0);
    let y = (0..N).map(|i| x[(i, 0)].sin() + (2.0 * x[(i, 1)]).cos() + 0.2 * (i as f64 * 1.7).sin() + 0.3);
    let y = y.collect();
    (x, y)
}

fn layer(expression: &str, m: usize) -> InducingLayer {
    let mut kernel = parse(expression, 2).expect("a kernel");
    let mut at = 0.0;
    kernel.for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            at += 1.0;
            *value = 0.5 + 0.17 * at;
        }
    });
    let z = Mat::from_fn(m, 2, |i, d| ((i * (3 + 2 * d)) as f64 * 0.414_214).fract() * 3.0);
    let prior = InducingPrior::new(kernel, z, Jitter::Absolute(1e-8)).expect("a layer").with_mean(0.3, false);
    prior.factorised().expect("a factor")
}

fn order() -> Vec<u32> {
    (0..N as u32).map(|i| (i * 37) % N as u32).collect()
}

/// Returns windows of every row with its predecessors; there are several windows if `most` is
/// small.
fn windows(x: MatRef<'_, f64>, k: usize, most: usize) -> Windows {
    Windows::new(&order(), &nearest_before(x, &order(), &order(), k, COMPARISONS), most)
}

/// Returns windows of every row with its nearest other rows.
fn others(x: MatRef<'_, f64>, k: usize) -> Windows {
    Windows::new(&order(), &nearest_others(x, &order(), k, COMPARISONS).1, N)
}

/// The kind of objective.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Elbo(f64),
    LogLoss(f64),
    Square(f64),
}

/// Returns the model of a layer with Gaussian noise.
fn model(layer: &InducingLayer, noise: f64) -> LatentModel {
    LatentModel::new(layer.clone().into(), Gaussian::new(noise), false)
}

/// A pass over the rows of windows, with Gaussian noise of one variance or one for each row.
fn pass<'a>(
    model: &LatentModel,
    q: &Normal,
    (x, y, noise): (MatRef<'a, f64>, &'a [f64], &'a [f64]),
    windows: &Windows,
    objective: Objective,
    (wanted, tangents): (Wanted, &[Tangent]),
) -> BatchPass {
    let source = Source { x, y, noise, queries: None, effects: Effects::NONE };
    let rows = GivenRows { windows, sources: &[source], targets: Targets::of(y), scale: 1.0 };
    let problem = Problem::new(model.layers(), &model.likelihood, objective, q.as_ref());
    let mut pass =
        BatchPass::given(problem.layers, problem.likelihood, objective, q.as_ref(), windows, Effects::NONE);
    pass.run_given(problem, rows, wanted, tangents);
    pass
}

/// Returns the objective and its gradient: kernel parameters, mean, Z by columns, σ². The second
/// windows have the rows that are predicted.
fn objective(layer: &InducingLayer, windows: [&Windows; 2], noise: f64, kind: Kind) -> (f64, Vec<f64>) {
    let (x, y) = data();
    let (noises, model) = ([noise], model(layer, noise));
    let rows = (x.as_ref(), &y[..], &noises[..]);
    let standard = Normal::standard(Family::Full, layer.dim());
    let objective = match kind {
        Kind::Elbo(beta) | Kind::LogLoss(beta) => Objective { beta, ..Objective::fitc() },
        Kind::Square(beta) => Objective::square(beta),
    };
    let origin = pass(&model, &standard, rows, windows[0], objective, (Wanted::Origin, &[]));
    let Solution { mut value, mut q } = solve(origin.sums(), objective.beta).expect("a value");
    let (q, mut tangents, mut more) = (q.swap_remove(0), Vec::new(), None);
    if let Kind::LogLoss(beta) = kind {
        let left = pass(&model, &q, rows, windows[1], Objective::dlm(beta), (Wanted::Gradient, &[]));
        value = left.sums().value + beta * q.kl();
        tangents.push(tangent(&origin.sums().processes[0], &left.sums().processes[0], &q, beta));
        let mut gradient = flat(&left);
        if let Some(last) = gradient.last_mut() {
            *last += left.likelihood_gradient()[0];
        }
        more = Some(gradient);
    }
    let best = pass(&model, &q, rows, windows[0], objective, (Wanted::Envelope, &tangents));
    let mut gradient = flat(&best);
    if let Some(more) = more {
        gradient.iter_mut().zip(more).for_each(|(g, more)| *g += more);
    }
    (value, gradient)
}

/// Returns the posterior of w given all rows of the windows.
fn solved(
    layer: &InducingLayer,
    windows: &Windows,
    noise: &[f64],
    (x, y): (MatRef<'_, f64>, &[f64]),
) -> Normal {
    let standard = Normal::standard(Family::Full, layer.dim());
    let how = (Wanted::Origin, &[][..]);
    let found = pass(&model(layer, noise[0]), &standard, (x, y, noise), windows, Objective::fitc(), how);
    solve(found.sums(), 1.0).expect("a posterior").q.swap_remove(0)
}

/// Returns a predictor with a posterior of w and the rows `data`.
fn predictor<'a>(
    layer: &'a InducingLayer,
    q: &'a Normal,
    noise: &'a [f64],
    data: (MatRef<'a, f64>, &'a [f64]),
) -> Predictor<'a> {
    Predictor { layer, effects: Effects::NONE, posterior: (q.mean(), q.cov().full()), noise, data }
}

fn evidence(layer: &InducingLayer, windows: &Windows, noise: f64) -> (f64, Vec<f64>) {
    objective(layer, [windows; 2], noise, Kind::Elbo(1.0))
}

fn flat(pass: &BatchPass) -> Vec<f64> {
    let layer = &pass.layer_gradients()[0];
    let mut all = layer.kernel.clone();
    all.extend(&layer.mean);
    all.extend((0..2).flat_map(|d| layer.z.col(d).iter().copied().collect::<Vec<_>>()));
    all.push(pass.sums().through[0].noise);
    all
}

fn exact(layer: &InducingLayer) -> f64 {
    let (x, y) = data();
    let mut k = Mat::zeros(N, N);
    layer.kernel().eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut Scratch::new());
    (0..N).for_each(|i| k[(i, i)] += NOISE);
    Factorizer::new(N).cholesky(k.as_mut()).expect("positive definite");
    let mut c: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
    solve_lower(k.as_ref(), &mut c);
    0.5 * (N as f64 * std::f64::consts::TAU.ln() + log_det(k.as_ref()) + c.iter().map(|c| c * c).sum::<f64>())
}

fn assert_close(a: f64, b: f64, tolerance: f64, what: &str) {
    assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {a} and {b}");
}

#[test]
fn without_neighbours_the_objective_is_fitc() {
    let (x, y) = data();
    let data = Dataset::of(x.as_ref(), &y);
    for expression in ["rbf(ard)", "matern32(ard) + linear", "matern52 + white"] {
        let layer = layer(expression, 12);
        let (value, gradient) = evidence(&layer, &windows(x.as_ref(), 0, 40), NOISE);
        let mut fitc = CollapsedObjective::new(model(&layer, NOISE), data, Objective::fitc());
        let (wanted, mut natural) = fitc.natural_gradient().expect("a value");
        // The flat vector of a model has σ² before Z.
        let z = natural.len() - 2 * 12;
        natural[z - 1..].rotate_left(1);
        assert_close(value, wanted, 1e-12, expression);
        for (i, (a, b)) in gradient.iter().zip(natural).enumerate() {
            assert_close(*a, b, 1e-10, &format!("{expression}, entry {i}"));
        }
    }
}

#[test]
fn all_predecessors_give_the_exact_gp_for_any_inducing_inputs() {
    let (x, _) = data();
    for expression in ["rbf(ard)", "matern12(ard)", "matern52 * linear + white"] {
        for m in [1, 5, 30] {
            let layer = layer(expression, m);
            let all = windows(x.as_ref(), N - 1, N);
            let (value, gradient) = evidence(&layer, &all, NOISE);
            assert_close(value, exact(&layer), 1e-9, expression);
            // Nothing depends on Z.
            let kernel = gradient.len() - 2 - 2 * m;
            let size = gradient[..kernel].iter().fold(1.0f64, |most, g| most.max(g.abs()));
            assert!(
                gradient[kernel + 1..kernel + 1 + 2 * m].iter().all(|g| g.abs() < 1e-6 * size),
                "{expression} {m}"
            );
        }
    }
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let (x, _) = data();
    let cases = [("rbf(ard)", 8, 5), ("matern32(ard) + white", 6, 11), ("periodic * rbf + linear", 5, 3)];
    let kinds = [Kind::Elbo(1.0), Kind::Elbo(0.3), Kind::LogLoss(0.7), Kind::Square(0.5)];
    for (expression, m, k) in cases.into_iter().chain([("matern52(ard)", 0, 6)]) {
        for kind in kinds {
            let start = layer(expression, m);
            let (before, others) = (windows(x.as_ref(), k, 60), others(x.as_ref(), k));
            let windows = [if matches!(kind, Kind::Square(_)) { &others } else { &before }, &others];
            let (_, gradient) = objective(&start, windows, NOISE, kind);
            for (i, &slope) in gradient.iter().enumerate() {
                let moved = |step: f64| {
                    let (layer, noise) = moved(&start, i, step);
                    objective(&layer, windows, noise, kind).0
                };
                let h = 1e-5;
                let wanted = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h);
                assert_close(slope, wanted, 2e-6, &format!("{expression}, {kind:?}, entry {i}"));
            }
        }
    }
}

/// Returns the layer and the noise after a move of parameter `i`, in the order of the gradient.
fn moved(start: &InducingLayer, i: usize, step: f64) -> (InducingLayer, f64) {
    let (mut layer, mut noise, mut at, m) = (start.clone().into_prior(), NOISE, 0, start.z().nrows());
    layer.kernel_mut().for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            *value += if at == i { step } else { 0.0 };
            at += 1;
        }
    });
    layer.mean_mut().values[0] += if at == i { step } else { 0.0 };
    at += 1;
    for d in 0..2 {
        for row in 0..m {
            layer.z_mut()[(row, d)] += if at == i { step } else { 0.0 };
            at += 1;
        }
    }
    noise += if at == i { step } else { 0.0 };
    (layer.factorised().expect("a factor"), noise)
}

#[test]
fn without_inducing_inputs_the_objective_is_vecchias_approximation() {
    let ((x, y), k) = (data(), 7);
    let (layer, order) = (layer("matern32(ard)", 0), order());
    let lists = nearest_before(x.as_ref(), &order, &order, k, COMPARISONS);
    let windows = windows(x.as_ref(), k, 30);
    // Conditions every row on its neighbours by dense algebra.
    let mut wanted = 0.0;
    for (row, target) in y.iter().enumerate() {
        let near: Vec<usize> = lists.get(row).iter().map(|&other| other as usize).chain([row]).collect();
        let points = Mat::from_fn(near.len(), 2, |i, d| x[(near[i], d)]);
        let mut joint = Mat::zeros(near.len(), near.len());
        layer.kernel().eval(Inputs::Gram(points.as_ref()), joint.as_mut(), &mut Scratch::new());
        (0..near.len()).for_each(|i| joint[(i, i)] += NOISE);
        Factorizer::new(near.len()).cholesky(joint.as_mut()).expect("positive definite");
        let mut c: Vec<f64> = near.iter().map(|&i| y[i] - 0.3).collect();
        solve_lower(joint.as_ref(), &mut c);
        let (last, root) = (near.len() - 1, joint[(near.len() - 1, near.len() - 1)]);
        wanted += 0.5 * (std::f64::consts::TAU.ln() + c[last] * c[last]) + root.ln();
        assert!(target.is_finite());
    }
    assert_close(evidence(&layer, &windows, NOISE).0, wanted, 1e-11, "Vecchia");
}

#[test]
fn direct_losses_are_those_of_predictions_of_rows_left_out() {
    let (x, y) = data();
    for (m, k) in [(7, 5), (0, 9), (12, 0)] {
        let layer = layer("matern52(ard)", m);
        let lists = nearest_others(x.as_ref(), &order(), k, COMPARISONS).1;
        let windows = Windows::new(&order(), &lists, 50);
        let noise = [NOISE];
        let q = solved(&layer, &windows, &noise, (x.as_ref(), &y));
        let (rows, how) = ((x.as_ref(), &y[..], &noise[..]), (Wanted::Losses, &[][..]));
        let loss = pass(&model(&layer, NOISE), &q, rows, &windows, Objective::dlm(1.0), how).sums().value;
        // The same rows as if they were new, each given its neighbours.
        let predictor = predictor(&layer, &q, &noise, (x.as_ref(), &y));
        let (mean, variance) = predictor.given(x.as_ref(), &order(), &lists);
        let one = |i: usize| {
            let v = variance[i] + NOISE;
            0.5 * ((std::f64::consts::TAU * v).ln() + (y[i] - mean[i]).powi(2) / v)
        };
        assert_close(loss, (0..N).map(one).sum(), 1e-12, "loss");
    }
}

#[test]
fn left_out_rows_are_predicted_as_by_the_exact_gp_of_the_others() {
    let (x, y) = data();
    for (expression, m) in [("rbf(ard)", 7), ("matern32(ard) + linear", 20), ("matern52", 0)] {
        let (layer, noise) = (layer(expression, m), [NOISE]);
        let windows = windows(x.as_ref(), N - 1, N);
        let q = solved(&layer, &windows, &noise, (x.as_ref(), &y));
        let predictor = predictor(&layer, &q, &noise, (x.as_ref(), &y));
        let lists = nearest_others(x.as_ref(), &order(), N - 1, COMPARISONS).1;
        let (mean, variance) = predictor.left_out(&order(), &lists, &[1.0; N]);
        // With G = (K + σ²I)⁻¹: y_i − [Gc]_i/G_ii and 1/G_ii (Rasmussen & Williams 2006, equation 5.12).
        let mut k = Mat::zeros(N, N);
        layer.kernel().eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut Scratch::new());
        (0..N).for_each(|i| k[(i, i)] += NOISE);
        Factorizer::new(N).cholesky(k.as_mut()).expect("positive definite");
        let mut weights: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
        solve_factored(k.as_ref(), &mut weights);
        for i in 0..N {
            let mut unit = vec![0.0; N];
            unit[i] = 1.0;
            solve_factored(k.as_ref(), &mut unit);
            assert_close(mean[i], y[i] - weights[i] / unit[i], 1e-8, expression);
            assert_close(variance[i] + NOISE, 1.0 / unit[i], 1e-8, expression);
        }
    }
}

/// Returns the exact predictive means and variances of f at `new` given all data.
fn exact_predictions(layer: &InducingLayer, new: MatRef<'_, f64>) -> (Vec<f64>, Vec<f64>) {
    let ((x, y), q) = (data(), new.nrows());
    let (mut k, mut between) = (Mat::zeros(N, N), Mat::zeros(N, q));
    let mut scratch = Scratch::new();
    layer.kernel().eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut scratch);
    layer.kernel().eval(Inputs::Cross { left: x.as_ref(), right: new }, between.as_mut(), &mut scratch);
    (0..N).for_each(|i| k[(i, i)] += NOISE);
    Factorizer::new(N).cholesky(k.as_mut()).expect("positive definite");
    let mut weights: Vec<f64> = y.iter().map(|y| y - 0.3).collect();
    solve_factored(k.as_ref(), &mut weights);
    let mut variance = vec![0.0; q];
    layer.kernel().diag(new, &mut variance, &mut scratch);
    let mean = (0..q).map(|i| 0.3 + dot(&weights, &between.col(i).iter().copied().collect::<Vec<_>>()));
    let mean = mean.collect();
    for (i, variance) in variance.iter_mut().enumerate() {
        let mut column: Vec<f64> = between.col(i).iter().copied().collect();
        solve_lower(k.as_ref(), &mut column);
        *variance -= dot(&column, &column);
    }
    (mean, variance)
}

#[test]
fn predictions_given_all_data_are_those_of_the_exact_gp() {
    let (x, y) = data();
    let new = Mat::from_fn(150, 2, |i, d| ((i * (5 + d)) as f64 * 0.732_051).fract() * 3.5 - 0.2);
    for (expression, m) in [("rbf(ard)", 7), ("matern32(ard) + linear", 20)] {
        let layer = layer(expression, m);
        let (windows, noise) = (windows(x.as_ref(), N - 1, N), [NOISE]);
        let q = solved(&layer, &windows, &noise, (x.as_ref(), &y));
        let predictor = predictor(&layer, &q, &noise, (x.as_ref(), &y));
        let index = Index::new(x.as_ref(), (0..N as u32).collect(), COMPARISONS);
        let (mean, variance) = predictor.marginals(new.as_ref(), &index, new.as_ref(), N);
        let (means, variances) = exact_predictions(&layer, new.as_ref());
        for i in 0..150 {
            assert_close(mean[i], means[i], 1e-8, expression);
            assert_close(variance[i], variances[i], 1e-8, expression);
        }
        // With few of the data the variance is larger.
        let (_, few) = predictor.marginals(new.as_ref(), &index, new.as_ref(), 3);
        assert!(few.iter().sum::<f64>() > variances.iter().sum::<f64>(), "{expression}");
    }
}

#[test]
fn more_neighbours_come_nearer_to_the_exact_evidence() {
    let (x, _) = data();
    let layer = layer("matern52(ard)", 6);
    let exact = exact(&layer);
    let gaps: Vec<f64> =
        [0, 4, 16, 64].map(|k| (evidence(&layer, &windows(x.as_ref(), k, N), NOISE).0 - exact).abs()).into();
    assert!(gaps.windows(2).all(|pair| pair[1] < pair[0]), "{gaps:?}");
}

/// Returns a dozen waves along one input, which ten inducing inputs cannot represent.
fn waves(n: usize, first: usize) -> (Mat<f64>, Vec<f64>) {
    let at = |i: usize| ((first + i) as f64 * 0.618_034).fract() * 20.0;
    let x = Mat::from_fn(n, 2, |i, d| if d == 0 { at(i) } else { (at(i) * 0.1).cos() });
    let y = (0..n).map(|i| 5.0 + (4.0 * at(i)).sin() + 0.05 * (i as f64 * 2.3).sin());
    let y = y.collect();
    (x, y)
}

fn fitted(options: FitOptions) -> Model {
    let (x, y) = waves(600, 0);
    let options =
        FitOptions { inducing: Some(10), kernel: "matern52(ard)".into(), epochs: Some(10), ..options };
    ModelBuilder::new().options(options).fit(x.as_ref(), &y).expect("a fit")
}

fn beside(count: usize) -> FitOptions {
    FitOptions { neighbours: Some(count), ..FitOptions::default() }
}

fn rmse(model: &Model) -> f64 {
    let (x, y) = waves(300, 5000);
    model.predict(x.as_ref(), &[]).expect("predictions").report(&y).rmse.expect("an RMSE")
}

#[test]
fn fits_with_neighbours_predict_what_inducing_inputs_cannot_and_survive_a_model_file() {
    let model = fitted(beside(15));
    assert!(rmse(&model) < 0.15, "{}", rmse(&model));
    let nearby = model.neighbours().expect("neighbours");
    assert_eq!((nearby.count(), nearby.len(), nearby.bytes()), (15, 600, 600 * 3 * 8));
    let (x, _) = waves(40, 9000);
    let rows = |model: &Model| {
        let predictions = model.predict(x.as_ref(), &[]).expect("predictions");
        (0..40).map(|row| predictions.row(row)).collect::<Vec<_>>()
    };
    let bytes = model.to_bytes().expect("bytes");
    let again = Model::from_bytes("again", &bytes).expect("a model");
    assert_eq!(rows(&model), rows(&again));
    // The marginals of the function at many rows together agree with each row's own marginal, although neighbours are shared.
    let draws = again.samples(x.as_ref(), 400, 1).expect("draws");
    for (row, alone) in rows(&model).iter().enumerate() {
        let mean = draws.iter().map(|draw| draw[row]).sum::<f64>() / 400.0;
        assert!((mean - alone.mean).abs() < 0.1, "row {row}: {mean} and {}", alone.mean);
    }
    let short = fitted(FitOptions { keep_rows: Some(500), keep_single: true, ..beside(15) });
    let nearby = short.neighbours().expect("neighbours");
    assert_eq!((nearby.len(), nearby.bytes()), (500, 500 * 3 * 4));
    let again = Model::from_bytes("short", &short.to_bytes().expect("bytes")).expect("a model");
    assert_eq!(rows(&short), rows(&again));
    assert!(short.to_bytes().expect("bytes").len() + 500 * 3 * 4 < bytes.len());
}

#[test]
fn every_objective_has_neighbours_and_inducing_inputs_are_not_needed() {
    let none = rmse(&fitted(FitOptions::default()));
    assert!(none > 0.5, "{none}");
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog, ObjectiveKind::DlmSquare] {
        let found = rmse(&fitted(FitOptions { objective, ..beside(12) }));
        assert!(found < 0.2, "{objective}: {found}");
    }
    let (x, y) = waves(600, 0);
    let bare = FitOptions { inducing: Some(0), epochs: Some(10), ..beside(12) };
    let model = ModelBuilder::new().options(bare).fit(x.as_ref(), &y).expect("a fit");
    assert!(rmse(&model) < 0.2, "{}", rmse(&model));
    let again = Model::from_bytes("bare", &model.to_bytes().expect("bytes")).expect("a model");
    assert_eq!(rmse(&model), rmse(&again));
}

#[test]
fn held_out_rows_decide_whether_there_are_neighbours() {
    let model = fitted(auto());
    let choices = model.search().choices.as_ref().expect("choices");
    let [choice] = &choices.parts[..] else { panic!("one part: {choices:?}") };
    let tried: Vec<(usize, f64, bool)> = choice
        .tried
        .iter()
        .map(|tried| (tried.value.parse().unwrap_or(0), tried.loss.expect("a loss"), tried.chosen))
        .collect();
    let mut counts: Vec<usize> = tried.iter().map(|tried| tried.0).collect();
    counts.sort_unstable();
    assert_eq!((choice.part, counts), (Part::Neighbours, vec![0, 20, 50, 100]));
    let chosen = tried.iter().find(|tried| tried.2).expect("a choice").0;
    assert!(chosen > 0 && model.options().neighbours == Some(chosen));
    assert!(rmse(&model) < 0.15, "{}", rmse(&model));
    // The chosen number is as good as the best one tried, and not larger than necessary.
    let best = tried.iter().map(|tried| tried.1).fold(f64::INFINITY, f64::min);
    for (count, loss, taken) in tried {
        let good = loss <= best + 0.002;
        assert!(if taken { good } else { !good || count > chosen }, "{choices:?}");
    }
}

/// Returns options with which held-out rows decide only about neighbours.
fn auto() -> FitOptions {
    FitOptions { open: Open::NOTHING.with(Part::Neighbours), ..FitOptions::default() }
}

#[test]
fn a_fit_that_chose_no_neighbours_has_the_options_of_a_fit_without() {
    let (x, y) = waves(40, 0);
    let auto = FitOptions { keep_rows: Some(30), ..auto() };
    let model = ModelBuilder::new().options(auto).fit(x.as_ref(), &y).expect("a fit");
    let plain = ModelBuilder::new().fit(x.as_ref(), &y).expect("a fit");
    assert_eq!(model.options(), plain.options());
}

#[test]
fn options_that_neighbours_do_not_support_are_refused() {
    let (x, y) = waves(60, 0);
    let refused = |options: FitOptions, word: &str| {
        let error = ModelBuilder::new().options(options).fit(x.as_ref(), &y).err().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(word), "{error}");
    };
    let sampled = Estimator::Biased { samples: 4 };
    refused(
        FitOptions { estimator: sampled, objective: ObjectiveKind::DlmLog, ..beside(5) },
        "estimator = exact",
    );
    refused(FitOptions { objective: ObjectiveKind::Vfe, ..beside(5) }, "vfe");
    refused(FitOptions { hyper: Some(Hyper::Joint), ..beside(5) }, "closed form");
    refused(FitOptions { growth: Some(Growth::default()), ..beside(5) }, "cannot be combined");
    refused(beside(501), "at most 500");
    refused(FitOptions { inducing: Some(0), ..beside(0) }, "nothing to predict from");
    refused(FitOptions { keep_rows: Some(3), ..FitOptions::default() }, "without");
    refused(FitOptions { inducing: Some(0), ..FitOptions::default() }, "inducing");
    let weighted = ModelBuilder::new().options(beside(5)).weights(&[1.5; 60]).fit(x.as_ref(), &y);
    assert!(weighted.err().expect("an error").to_string().contains("weights"));
}
