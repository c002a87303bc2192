//! Linear models: exact results in the conjugate case, sensible coefficients otherwise, files.

use super::common::{self, *};
use sparsegp::gradient::Batch;
use sparsegp_testkit::compare::{assert_all_close as close_all, assert_close as close, entries};
use std::path::Path;

fn glm() -> FitOptions {
    FitOptions { model: ModelKind::Glm, ..FitOptions::default() }
}

fn fit(table: &Table, name: &str, options: &FitOptions) -> TableModel {
    common::fit(table, &target(name), options).expect("a fit")
}

/// A fit that takes the posterior of the start if it can.
fn fit_from(table: &Table, options: &FitOptions, start: &TableModel) -> TableModel {
    let (columns, start) = (&target("y"), Some(start));
    let request = FitRequest { start, keep_posterior: true, ..FitRequest::new(table, columns, options) };
    fit_table(&request, &mut |_| {}).expect("a fit").model
}

fn example(name: &str) -> Table {
    read_table(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data").join(name)).expect("data")
}

fn named<'a>(coefficients: &'a [Coefficient], name: &str) -> &'a Coefficient {
    coefficients.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no {name} in {coefficients:?}"))
}

/// Two columns of very different sizes and a target far from 0.
fn two_columns(n: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut normals = Normals::new(7);
    let a: Vec<f64> = (0..n).map(|_| 1e3 + 50.0 * normals.next()).collect();
    let b: Vec<f64> = (0..n).map(|i| 0.01 * normals.next() + 1e-4 * (a[i] - 1e3)).collect();
    let y = (0..n).map(|i| 300.0 + 0.4 * a[i] - 900.0 * b[i] + 5.0 * normals.next()).collect();
    (vec![a, b], y)
}

fn table_of(columns: &[Vec<f64>], y: &[f64]) -> Table {
    let inputs = columns.iter().enumerate().map(|(j, column)| (format!("x{j}"), column.clone()));
    numbers(inputs.chain([("y".to_owned(), y.to_vec())]))
}

/// Mean and population standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt())
}

/// The standardised features as rows of an `n × p` matrix, followed by a 1 if there is an intercept.
fn standardised(columns: &[Vec<f64>], intercept: bool) -> Mat<f64> {
    let n = columns[0].len();
    let scales: Vec<(f64, f64)> = columns.iter().map(|column| moments(column)).collect();
    Mat::from_fn(n, columns.len() + usize::from(intercept), |i, j| match columns.get(j) {
        Some(column) => (column[i] - scales[j].0) / scales[j].1,
        None => 1.0,
    })
}

/// The rows of J in `(intercept, slopes) = J β + shift`, β on the standardised scale.
fn original_units(columns: &[Vec<f64>], intercept: bool, target_scale: f64) -> Mat<f64> {
    let d = columns.len();
    let scales: Vec<(f64, f64)> = columns.iter().map(|column| moments(column)).collect();
    Mat::from_fn(d + 1, d + usize::from(intercept), |i, j| {
        target_scale
            * match (i, j) {
                (0, j) if j == d => 1.0,
                (0, j) => -scales[j].0 / scales[j].1,
                (i, j) if i == j + 1 => 1.0 / scales[j].1,
                _ => 0.0,
            }
    })
}

#[test]
fn conjugate_posterior_and_evidence_are_those_of_dense_algebra_in_original_units() {
    let (columns, y) = two_columns(40);
    let table = table_of(&columns, &y);
    let (noise, prior_mean, prior_variance) = (0.3, 0.2, 0.7);
    let (shift, scale) = moments(&y);
    for mean in [MeanKind::Constant, MeanKind::Zero] {
        let intercept = mean == MeanKind::Constant;
        let options = FitOptions {
            constraints: Constraints::fixing([("likelihood.noise_variance", noise)]).expect("a name"),
            mean,
            prior_mean,
            prior_variance,
            ..glm()
        };
        let model = fit(&table, "y", &options);
        let x = standardised(&columns, intercept);
        let p = x.ncols();
        let prior = |j: usize| if j < 2 { (prior_mean, prior_variance) } else { (0.0, 100.0) };
        let centred = Mat::from_fn(y.len(), 1, |i, _| {
            (y[i] - shift) / scale - (0..p).map(|j| x[(i, j)] * prior(j).0).sum::<f64>()
        });
        // Newton's method is exact for Gaussian noise.
        let slopes = |i: usize, f: f64| (((y[i] - shift) / scale - f) / noise, -1.0 / noise);
        let (beta, cov) = newton(&x, &prior, &slopes);
        let turn = original_units(&columns, intercept, scale);
        let (means, covariance) = (&turn * beta, &turn * cov * turn.transpose());
        let coefficients = model.coefficients().expect("a linear model");
        let names: Vec<&str> = coefficients.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["intercept", "x0", "x1"]);
        for (j, coefficient) in coefficients.iter().enumerate() {
            let want = means[(j, 0)] + if j == 0 { shift } else { 0.0 };
            let sd = covariance[(j, j)].sqrt();
            close(coefficient.mean, want, 1e-8, &coefficient.name);
            close(coefficient.sd.expect("sd") / sd, 1.0, 1e-8, &coefficient.name);
            close(coefficient.lower.expect("lower"), want - 1.959963984540054 * sd, 1e-8, "lower end");
            close(coefficient.upper.expect("upper"), want + 1.959963984540054 * sd, 1e-8, "upper end");
        }
        let total = Mat::from_fn(y.len(), y.len(), |i, j| {
            (0..p).map(|k| x[(i, k)] * x[(j, k)] * prior(k).1).sum::<f64>()
        });
        let total = with_diagonal(total, |_| noise);
        let evidence = log_density(&total, &entries(centred.as_ref()));
        let summary = model.summary();
        close(summary.elbo_sum.expect("lower bound"), evidence, 1e-9, "evidence");
        close(summary.evidence_upper_bound.expect("upper bound"), evidence, 1e-9, "evidence");
        assert_eq!(model.options().hyper, Some(Hyper::Collapsed), "the ELBO of this model has a closed form");
    }
}

/// Penalised maximum likelihood by Newton's method: the mode and the covariance of the Laplace approximation. `prior` returns mean
/// and variance of a coefficient, `slope_and_curvature` those of the log density of a row in f.
fn newton(
    x: &Mat<f64>,
    prior: &dyn Fn(usize) -> (f64, f64),
    slope_and_curvature: &dyn Fn(usize, f64) -> (f64, f64),
) -> (Mat<f64>, Mat<f64>) {
    let (n, p) = x.shape();
    let (mut beta, mut cov) = (Mat::<f64>::zeros(p, 1), Mat::zeros(p, p));
    for _ in 0..50 {
        let mut gradient = Mat::from_fn(p, 1, |j, _| (prior(j).0 - beta[(j, 0)]) / prior(j).1);
        let mut precision = with_diagonal(Mat::zeros(p, p), |j| 1.0 / prior(j).1);
        for i in 0..n {
            let f: f64 = (0..p).map(|j| x[(i, j)] * beta[(j, 0)]).sum();
            let (slope, curvature) = slope_and_curvature(i, f);
            for j in 0..p {
                gradient[(j, 0)] += slope * x[(i, j)];
                (0..p).for_each(|k| precision[(j, k)] -= curvature * x[(i, j)] * x[(i, k)]);
            }
        }
        cov = inverse(precision.as_ref());
        beta += &cov * gradient;
    }
    (beta, cov)
}

/// Returns means and standard deviations in original units by Newton's method, with the prior variance of a fit.
fn laplace(
    columns: &[Vec<f64>],
    variance: f64,
    slope_and_curvature: &dyn Fn(usize, f64) -> (f64, f64),
) -> Vec<(f64, f64)> {
    let prior = |j: usize| (0.0, if j < columns.len() { variance } else { 100.0 });
    let (beta, cov) = newton(&standardised(columns, true), &prior, slope_and_curvature);
    let turn = original_units(columns, true, 1.0);
    let (means, covariance) = (&turn * beta, &turn * cov * turn.transpose());
    (0..means.nrows()).map(|j| (means[(j, 0)], covariance[(j, j)].sqrt())).collect()
}

fn columns_of(table: &Table, names: &[&str]) -> Vec<Vec<f64>> {
    names.iter().map(|name| table.numbers(name).expect("numbers").into_owned()).collect()
}

#[test]
fn logistic_and_probit_coefficients_of_tumours_are_those_of_maximum_likelihood() {
    let table = example("breast_cancer.csv");
    let names = ["worst_radius", "worst_concave_points"];
    let options = FitOptions { prior_variance: 100.0, ..glm() };
    let of = |likelihood| {
        let options = FitOptions { likelihood: Some(likelihood), ..options.clone() };
        fit(&table, "diagnosis", &options)
    };
    let model = of(LikelihoodKind::BernoulliLogit);
    let logit = model.coefficients().expect("a linear model");
    let target = model.schema().target(&table).expect("a target").expect("known");
    let columns = columns_of(&table, &names);
    let wanted = laplace(&columns, 100.0, &|i, f| {
        let p = 1.0 / (1.0 + (-f).exp());
        (target[i] - p, -p * (1.0 - p))
    });
    // The classes are nearly separable, so the mean of the posterior is away from its mode, but by less than
    // half its standard deviation. This standard deviation is within a tenth of that of the Laplace
    // approximation.
    for (c, (mean, deviation)) in logit.iter().zip(wanted) {
        assert!((c.mean - mean).abs() < 0.5 * deviation, "{c:?} and {mean}");
        assert!((c.sd.expect("sd") / deviation - 1.0).abs() < 0.1, "{c:?} and {deviation}");
    }
    let probit = of(LikelihoodKind::BernoulliProbit).coefficients().expect("a linear model");
    for (a, b) in logit.iter().zip(&probit) {
        // The logistic distribution is some 1.6 to 1.8 times as wide as the normal one.
        let ratio = a.mean / b.mean;
        assert!((1.4..2.1).contains(&ratio), "{a:?} and {b:?}");
    }
}

#[test]
fn count_coefficients_of_visits_to_a_doctor_are_those_of_maximum_likelihood() {
    let all = example("doctor_visits.csv");
    let table = all.take(&(0..1000).collect::<Vec<_>>());
    let of = |likelihood| {
        fit(&table, "visits", &FitOptions { likelihood: Some(likelihood), prior_variance: 10.0, ..glm() })
    };
    let model = of(LikelihoodKind::Poisson);
    let poisson = model.coefficients().expect("a linear model");
    let names = model.schema().input_names();
    let columns = columns_of(&table, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let y = &columns_of(&table, &["visits"])[0];
    let wanted = laplace(&columns, 10.0, &|i, f| (y[i] - f.exp(), -f.exp()));
    for (c, (mean, deviation)) in poisson.iter().zip(wanted) {
        // The prior of the intercept is centred at the best constant in the fit and at 0 here; the effect of
        // either is negligible.
        assert!((c.mean - mean).abs() < 0.1 * deviation, "{c:?} and {mean}");
        assert!((c.sd.expect("sd") / deviation - 1.0).abs() < 0.02, "{c:?} and {deviation}");
    }
    let negative_binomial = of(LikelihoodKind::NegativeBinomial).coefficients().expect("a linear model");
    for c in &negative_binomial {
        let narrow = named(&poisson, &c.name);
        assert!(c.sd > narrow.sd.map(|sd| 1.5 * sd), "overdispersion widens {c:?} from {narrow:?}");
    }
    // People with more diseases, and with limitations, see a doctor more often.
    for name in ["disea", "physlm"] {
        assert!(named(&negative_binomial, name).lower > Some(0.0), "{negative_binomial:?}");
    }
}

/// q at the optimum of the ELBO by full-batch natural gradients.
fn solve(
    layer: impl Into<Layer<InducingPrior>>,
    kind: LikelihoodKind,
    x: MatRef<'_, f64>,
    y: &[f64],
) -> (LatentModel, Normal) {
    let model = LatentModel::new(layer.into(), kind.build(0), true).factorised().expect("a layer");
    let q = Normal::standard(Family::Full, model.layer().dim());
    let mut rule = NaturalGradient::new(&q);
    let mut variational = VariationalModel::new(model, q, Objective::elbo(1.0), y.len());
    for step in 0..100 {
        assert!(variational.evaluate(Batch::of(x, y, 1.0), false).is_finite());
        variational.update_q(&mut rule, if step < 40 { 0.3 } else { 1.0 });
    }
    let (model, mut q) = variational.into_parts();
    (model, q.remove(0))
}

fn counts(x: &Mat<f64>) -> Vec<f64> {
    (0..x.ncols()).map(|j| (1.5 + 0.7 * x[(0, j)] - 0.4 * x[(1, j)]).exp().round()).collect()
}

#[test]
fn a_reduced_layer_has_the_posterior_and_predictions_of_the_whole_one() {
    let (d, n) = (12, 7);
    let mut normals = Normals::new(11);
    let (x, elsewhere) = (normals.mat(d, n), normals.mat(d, 5));
    let y = counts(&x);
    for intercept in [false, true] {
        let p = d + usize::from(intercept);
        let means: Vec<f64> = (0..p).map(|j| 0.05 * j as f64).collect();
        let variances: Vec<f64> = (0..p).map(|j| 0.3 + 0.1 * j as f64).collect();
        let layer = LinearLayer::independent(&means, &variances).expect("a layer");
        let whole = if intercept { layer.with_intercept() } else { layer };
        let reduced = whole.clone().reduced_to(x.transpose());
        assert_eq!(reduced.basis().map(|basis| basis.shape()), Some((p, n)));
        let (a, qa) = solve(whole.clone(), LikelihoodKind::Poisson, x.transpose(), &y);
        let (b, qb) = solve(reduced.clone(), LikelihoodKind::Poisson, x.transpose(), &y);
        let ((ma, ca), (mb, cb)) = (whole.coefficient_posterior(&qa), reduced.coefficient_posterior(&qb));
        close_all(&mb, &ma, 1e-8, "means");
        for j in 0..p {
            (0..p).for_each(|i| close(cb[(i, j)], ca[(i, j)], 1e-8, "covariance"));
        }
        let sd: Vec<f64> = (0..p).map(|j| ca[(j, j)].sqrt()).collect();
        close_all(&reduced.coefficient_moments(&qb).1, &sd, 1e-8, "deviations");
        for x in [&x, &elsewhere] {
            let of = |model: &LatentModel, q: &Normal| Posterior::new(model, q).marginals(x.transpose());
            let (whole, reduced) = (of(&a, &qa), of(&b, &qb));
            close_all(&reduced.mean, &whole.mean, 1e-8, "predicted means");
            close_all(&reduced.variance, &whole.variance, 1e-8, "predicted variances");
        }
        // The same posterior in the coordinates of the whole layer.
        let carried = reduced.carry(&qb, &whole).expect("q");
        close_all(carried.mean(), qa.mean(), 1e-8, "carried means");
        close(carried.kl(), qa.kl(), 1e-7, "carried KL");
        let back = whole.carry(&qa, &reduced).expect("q");
        close(back.kl_to(&qb), 0.0, 1e-8, "carried back");
    }
}

/// More columns than rows.
fn wide(n: usize, d: usize) -> Table {
    let mut normals = Normals::new(17);
    let columns: Vec<Vec<f64>> = (0..d).map(|_| normals.vec(n)).collect();
    let y: Vec<f64> = (0..n).map(|i| 3.0 + columns[0][i] - columns[1][i] + 0.1 * normals.next()).collect();
    table_of(&columns, &y)
}

#[test]
fn diagonal_covariances_are_fitted_saved_and_continued() {
    let (columns, y) = two_columns(30);
    let (narrow, wide) = (table_of(&columns, &y), wide(10, 15));
    let diagonal = FitOptions {
        epochs: Some(5),
        steps: StepOptions { family: Family::Diagonal, ..glm().steps },
        ..glm()
    };
    for table in [&narrow, &wide] {
        let read = read_back(&fit(table, "y", &diagonal), table);
        assert_eq!((read.model_kind(), read.q().family()), (ModelKind::Glm, Family::Diagonal));
    }
    // Each family can start from the posterior of the other family, and ends at the same optimum as without
    // that start.
    let counted = FitOptions {
        likelihood: Some(LikelihoodKind::StudentT),
        constraints: Constraints::fixing([("likelihood.scale", 0.3), ("likelihood.df", 5.0)]).expect("names"),
        tolerance: Some(0.0),
        ..glm()
    };
    let full = fit(&wide, "y", &counted);
    // More columns than rows have a reduced basis.
    let basis = |model: &TableModel| {
        model.latent().layer().linear().and_then(LinearLayer::basis).map(|basis| basis.to_owned())
    };
    assert!(basis(&full).is_some() && basis(&full) == basis(&read_back(&full, &wide)));
    let mean_field = FitOptions {
        steps: StepOptions { family: Family::Diagonal, ..counted.steps.clone() },
        ..counted.clone()
    };
    let own = fit(&wide, "y", &mean_field);
    let from_full = fit_from(&wide, &mean_field, &full);
    assert_eq!(from_full.q().family(), Family::Diagonal);
    assert_eq!(own.q().dim(), 16, "coordinates are the coefficients");
    close(from_full.summary().objective, own.summary().objective, 1e-4, "objective");
    let back = fit_from(&wide, &counted, &own);
    close(back.summary().objective, full.summary().objective, 1e-5, "objective");
    assert!(own.summary().objective > full.summary().objective, "fewer covariances fit worse");
}

#[test]
fn the_covariance_of_coefficients_has_their_deviations_and_that_of_predictions() {
    for mean in [MeanKind::Constant, MeanKind::Zero] {
        let model = fit(&example("co2_monthly.csv"), "co2", &FitOptions { mean, ..glm() });
        let coefficients = model.coefficients().expect("a linear model");
        let covariance = model.coefficient_covariance().expect("a linear model");
        assert_eq!(covariance.shape(), (coefficients.len(), coefficients.len()));
        for (i, coefficient) in coefficients.iter().enumerate() {
            close(covariance[(i, i)].sqrt(), coefficient.sd.expect("a deviation"), 1e-9, "deviation");
        }
        let x = Mat::from_fn(1, 1, |_, _| 1990.0);
        let functional = [1.0, x[(0, 0)]];
        let variance: f64 =
            (0..4).map(|k| functional[k / 2] * covariance[(k / 2, k % 2)] * functional[k % 2]).sum();
        let latent = model.model().predict(x.as_ref(), &[]).expect("an input").row(0).latent_variance;
        // Far from 0 the terms are much larger than their sum.
        close(variance / latent, 1.0, 1e-4, "variance of f");
    }
    let sparse =
        fit(&example("co2_monthly.csv"), "co2", &FitOptions { inducing: Some(20), ..FitOptions::default() });
    assert!(sparse.coefficient_covariance().is_none());
}
