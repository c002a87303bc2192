//! Averages over hyper-parameters: against slice sampling of the same posterior, and against themselves.

use faer::Mat;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp::kernels::Stationary;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::{Model, Predictions};
use sparsegp::options::{FitOptions, HyperPosteriorKind, ObjectiveKind};
use sparsegp::training::Fit;
use sparsegp_testkit::dense::dense_gp;
use sparsegp_testkit::slice::slice_sample;

/// The number of places of predictions.
const PLACES: usize = 11;

/// A small set: inputs with a row for each datum, and targets of mean near 0 and standard deviation near 1.
type Set = (Mat<f64>, Vec<f64>);

fn set(n: usize, dims: usize, noise: f64, f: impl Fn(&[f64]) -> f64) -> Set {
    let part = |i: usize, d: usize| ((i * (2 * d + 3) * 7919 + 31 * d) % 1009) as f64 / 1009.0;
    let x = Mat::from_fn(n, dims, |i, d| 4.0 * part(i, d) - 2.0);
    let y = (0..n).map(|i| {
        let row: Vec<f64> = x.row(i).iter().copied().collect();
        f(&row) + noise * 3.5 * (part(i, 11) + part(i, 17) - 1.0)
    });
    let y = y.collect();
    (x, y)
}

fn sets() -> [Set; 5] {
    [
        set(25, 1, 0.1, |x| (2.0 * x[0]).sin()),
        set(30, 1, 0.6, |x| 0.5 * x[0]),
        set(40, 2, 0.3, |x| (1.5 * x[0]).sin() + 0.4 * x[1]),
        set(35, 2, 0.05, |x| x[0] * x[1] / 2.0),
        set(45, 3, 0.4, |x| 0.8 * x[0].cos() - 0.3 * x[1]),
    ]
}

fn fitted((x, y): &Set, kind: HyperPosteriorKind) -> Model {
    let options = FitOptions {
        hyper_posterior: kind,
        standardize: false,
        default_priors: false,
        ..FitOptions::default()
    };
    Fit::of(options).fit(x, y).expect("a fit")
}

/// The logarithms of variance, lengthscales and noise variance, and the mean.
fn unconstrained(model: &Model) -> Vec<f64> {
    let values = model.latent().named_values();
    values.iter().map(|(name, value)| if name.starts_with("mean") { *value } else { value.ln() }).collect()
}

/// The log evidence and the predictive means and variances of an exact GP at unconstrained hyper-parameters.
fn exact(u: &[f64], (x, y): &Set, new: &Mat<f64>) -> (f64, Vec<f64>, Vec<f64>) {
    let d = x.ncols();
    let kernel = Stationary::rbf(u[0].exp(), &u[1..=d].iter().map(|u| u.exp()).collect::<Vec<_>>());
    let (mean, noise) = (u[d + 1], u[d + 2].exp());
    let (evidence, means, variances) =
        dense_gp(&kernel, mean, noise, (&x.transpose().to_owned(), y), &new.transpose().to_owned());
    (evidence, means, variances.into_iter().map(|variance| variance + noise).collect())
}

/// The approximation has a weak normal prior of each unconstrained hyper-parameter at the value of the fit, and so has the chain.
#[test]
fn means_and_deviations_are_those_of_slice_sampling() {
    for (number, set) in sets().iter().enumerate() {
        let model = fitted(set, HyperPosteriorKind::Laplace);
        let (centre, dims) = (unconstrained(&model), set.0.ncols());
        let new = Mat::from_fn(PLACES, dims, |i, d| -1.8 + 3.6 * ((3 + 2 * d) * i % PLACES) as f64 / 10.0);
        let nothing = Mat::zeros(0, dims);
        let states = slice_sample(&centre, 900, 5, |u| {
            let prior: f64 = u.iter().zip(&centre).map(|(u, c)| -0.5 * ((u - c) / 1.5).powi(2)).sum();
            exact(u, set, &nothing).0 + prior
        });
        let (mut first, mut second) = ([0.0; PLACES], [0.0; PLACES]);
        for state in &states {
            let (_, means, variances) = exact(state, set, &new);
            for i in 0..PLACES {
                first[i] += means[i] / states.len() as f64;
                second[i] += (variances[i] + means[i].powi(2)) / states.len() as f64;
            }
        }
        let (found, single) = (model.predict(&new, &[]).expect("predictions"), exact(&centre, set, &new));
        let (mut off, mut wide, mut narrow) = (0.0, 0.0, 0.0);
        for i in 0..PLACES {
            let sd = (second[i] - first[i].powi(2)).sqrt();
            let own = found.row(i);
            off += (own.mean - first[i]).abs() / sd / PLACES as f64;
            wide += (own.variance.sqrt() / sd - 1.0).abs() / PLACES as f64;
            narrow += (single.2[i].sqrt() / sd - 1.0).abs() / PLACES as f64;
        }
        let what =
            format!("set {number}: means {off:.4}, deviations {wide:.4}, of single values {narrow:.4}");
        assert!(off < 0.07 && wide < 0.02 && narrow > 0.04, "{what}");
    }
}

/// A fit of 60 rows with targets for a likelihood, averaged over hyper-parameters.
fn averaged(likelihood: LikelihoodKind) -> (Model, Mat<f64>, Vec<f64>) {
    let (x, f) = set(60, 2, 0.2, |x| (1.5 * x[0]).sin() + 0.5 * x[1]);
    let y: Vec<f64> = match likelihood {
        LikelihoodKind::Gaussian => f,
        LikelihoodKind::BernoulliLogit => f.iter().map(|f| f64::from(*f > 0.2)).collect(),
        LikelihoodKind::Softmax => f.iter().map(|f| (f + 1.5).clamp(0.0, 2.9).floor()).collect(),
        _ => f.iter().map(|f| (f + 1.0).exp().round()).collect(),
    };
    let options = FitOptions {
        likelihood: Some(likelihood),
        hyper_posterior: HyperPosteriorKind::Laplace,
        inducing: Some(25),
        ..FitOptions::default()
    };
    (Fit::of(options).fit(&x, &y).expect("a fit"), x, y)
}

/// The mean and the variance of 20,000 draws at a row.
fn drawn(predictions: &Predictions, row: usize) -> (f64, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let draws: Vec<f64> = (0..20_000).map(|_| predictions.draw(row, &mut random)).collect();
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    (mean, draws.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / draws.len() as f64)
}

#[test]
fn moments_quantiles_densities_and_draws_belong_to_one_distribution() {
    let new = Mat::from_fn(3, 2, |i, d| 0.9 * (i as f64 - 1.0) * if d == 0 { 1.0 } else { -0.7 });
    let (model, ..) = averaged(LikelihoodKind::Gaussian);
    assert!(model.hyper_points() > 5, "{}", model.hyper_points());
    let predictions = model.predict(&new, &[]).expect("predictions");
    for row in 0..3 {
        let moments = predictions.row(row);
        let sd = moments.variance.sqrt();
        // Sums over an even grid of y.
        let grid: Vec<f64> = (0..4001).map(|i| moments.mean + sd * (i as f64 - 2000.0) / 250.0).collect();
        let density: Vec<f64> =
            grid.iter().map(|&y| predictions.log_density(row, y).exp() * sd / 250.0).collect();
        let of = |g: &dyn Fn(f64) -> f64| grid.iter().zip(&density).map(|(y, p)| g(*y) * p).sum::<f64>();
        assert!((of(&|_| 1.0) - 1.0).abs() < 1e-6);
        assert!((of(&|y| y) - moments.mean).abs() < 1e-6 * sd);
        assert!((of(&|y| (y - moments.mean).powi(2)) / moments.variance - 1.0).abs() < 1e-5);
        for p in [0.025, 0.5, 0.9] {
            let quantile = predictions.quantile(row, p);
            let below = of(&|y| f64::from(y <= quantile));
            assert!((below - p).abs() < 2e-3, "{below} {p}");
        }
        // E|Y − y| − ½ E|Y − Y'|, the second by the distribution function.
        // Half-way between two points of the grid.
        let y = moments.mean + 0.702 * sd;
        let (mut below, mut score) = (0.0, 0.0);
        for (at, p) in grid.iter().zip(&density) {
            score += (below + 0.5 * p - f64::from(*at > y)).powi(2) * sd / 250.0;
            below += p;
        }
        let crps = predictions.crps(row, y);
        assert!((crps / score - 1.0).abs() < 2e-3, "{crps} {score}");
        let (mean, variance) = drawn(&predictions, row);
        assert!((mean - moments.mean).abs() < 0.03 * sd && (variance / moments.variance - 1.0).abs() < 0.04);
    }
}

#[test]
fn counts_and_classes_are_averaged_too() {
    let new = Mat::from_fn(2, 2, |i, _| i as f64 - 0.4);
    let (model, ..) = averaged(LikelihoodKind::Poisson);
    let predictions = model.predict(&new, &[]).expect("predictions");
    for row in 0..2 {
        let p: Vec<f64> = (0..200).map(|k| predictions.log_density(row, f64::from(k)).exp()).collect();
        let mean: f64 = p.iter().enumerate().map(|(k, p)| k as f64 * p).sum();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        assert!((mean / predictions.row(row).mean - 1.0).abs() < 1e-4);
        let median = predictions.quantile(row, 0.5) as usize;
        let below = |k: usize| p[..k].iter().sum::<f64>();
        assert!(below(median) < 0.5 && below(median + 1) >= 0.5 && median > 0);
    }
    for likelihood in [LikelihoodKind::BernoulliLogit, LikelihoodKind::Softmax] {
        let (model, ..) = averaged(likelihood);
        assert!(model.hyper_points() > 5);
        let predictions = model.predict(&new, &[]).expect("predictions");
        for row in 0..2 {
            let all = predictions.probabilities(row);
            assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (class, p) in all.iter().enumerate() {
                assert!((predictions.log_density(row, class as f64) - p.ln()).abs() < 1e-6, "{likelihood}");
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_average() {
    let new = Mat::from_fn(4, 2, |i, d| 0.7 * (i as f64 - 1.4) * if d == 0 { 1.0 } else { -0.6 });
    for likelihood in [LikelihoodKind::Gaussian, LikelihoodKind::Poisson] {
        let (model, ..) = averaged(likelihood);
        let slopes = model.slopes(&new, &[]).expect("gradients");
        let at = |by: f64, column: usize| {
            let moved = Mat::from_fn(4, 2, |i, d| new[(i, d)] + if d == column { by } else { 0.0 });
            model.predict(&moved, &[]).expect("predictions").iter().collect::<Vec<_>>()
        };
        for column in 0..2 {
            let (above, below) = (at(1e-4, column), at(-1e-4, column));
            for i in 0..4 {
                let of = |pick: &dyn Fn(usize) -> [f64; 2]| (pick(i)[0] - pick(i)[1]) / 2e-4;
                let pairs = [
                    (slopes.mean[(i, column)], of(&|i| [above[i].mean, below[i].mean])),
                    (slopes.variance[(i, column)], of(&|i| [above[i].variance, below[i].variance])),
                    (
                        slopes.latent_variance[(i, column)],
                        of(&|i| [above[i].latent_variance, below[i].latent_variance]),
                    ),
                ];
                for (found, difference) in pairs {
                    assert!(
                        (found - difference).abs() < 2e-4 * (1.0 + difference.abs()),
                        "{found} {difference}"
                    );
                }
            }
        }
    }
}

#[test]
fn joint_draws_and_files_keep_the_average() {
    let (model, x, _) = averaged(LikelihoodKind::Gaussian);
    let new = x.subrows(0, 12);
    let predictions = model.predict(new, &[]).expect("predictions");
    let (means, covariance) = model.joint(new).expect("a covariance");
    let draws = model.samples(new, 8000, 1).expect("draws");
    for i in 0..12 {
        let row = predictions.row(i);
        assert!((means[i] - row.latent_mean).abs() < 1e-9);
        assert!((covariance[(i, i)] / row.latent_variance - 1.0).abs() < 1e-6);
        let variance: f64 = draws.iter().map(|draw| (draw[i] - means[i]).powi(2)).sum::<f64>() / 8000.0;
        assert!((variance / row.latent_variance - 1.0).abs() < 0.08, "{variance} {}", row.latent_variance);
    }
    let read = Model::from_bytes("copy", &model.to_bytes().expect("bytes")).expect("a model");
    let again = read.predict(new, &[]).expect("predictions");
    assert_eq!(read.hyper_points(), model.hyper_points());
    assert!((0..12).all(
        |i| again.row(i) == predictions.row(i) && again.quantile(i, 0.9) == predictions.quantile(i, 0.9)
    ));
    let intervals = |model: &Model| {
        model.hyperparameters().into_iter().map(|of| (of.value, of.interval)).collect::<Vec<_>>()
    };
    assert_eq!(intervals(&read), intervals(&model));
    for of in model.hyperparameters() {
        let (value, [low, high]) = (of.value.unwrap_or(of.scaled), of.interval.expect("an interval"));
        assert!(low < value && value < high, "{}: {value} in {low} to {high}", of.name);
    }
}

#[test]
fn only_what_matters_is_averaged_by_default_and_a_fit_without_evidence_says_so() {
    // A line of many rows leaves nothing open that predictions depend on.
    let many = set(400, 1, 0.3, |x| x[0]);
    assert_eq!(fitted(&many, HyperPosteriorKind::Auto).hyper_points(), 1);
    assert!(fitted(&many, HyperPosteriorKind::Auto).hyper_summary().is_some());
    let few = &sets()[2];
    assert!(fitted(few, HyperPosteriorKind::Auto).hyper_points() > 5);
    assert!(fitted(few, HyperPosteriorKind::None).hyper_summary().is_none());
    let options = FitOptions {
        hyper_posterior: HyperPosteriorKind::Laplace,
        objective: ObjectiveKind::DlmLog,
        ..FitOptions::default()
    };
    let model = Fit::of(options).fit(&few.0, &few.1).expect("a fit");
    assert_eq!(model.hyper_points(), 1);
    let words: Vec<String> = model.summary().warnings.iter().map(ToString::to_string).collect();
    assert!(words.iter().any(|words| words.contains("the objective is no evidence")), "{words:?}");
}
