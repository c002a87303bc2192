//! Random slopes: the origin and the unit of their column change nothing, fits reach the maximum of dense likelihoods, likelihoods count
//! weights as rows, and separated classes have finite coefficients.

use super::common::*;

/// Four rows each of six subjects, at ages that follow each other.
const AGES: [f64; 24] = [
    3.898, 6.381, 9.116, 12.577, -2.967, -5.873, -8.54, -12.144, -0.738, 0.155, -0.084, 0.821, 1.225, 0.419,
    0.485, -0.442, 1.003, 2.767, 4.211, 7.023, 0.339, 2.216, 3.087, 4.654,
];

/// Rows of group, input and target, for which a search in the logarithms of the factor may end at a boundary.
const STEEP: &str = "\
    0 0 2.277, 0 1.08 3.0747, 0 1.84 3.2356, 1 0.01 1.9523, 1 0.97 2.7288, 1 4.95 4.9575, 2 3.93 3.8985, 2 0.61 2.7841, 2 \
    1.13 2.7323, 3 3.83 4.0456, 3 4.58 4.7113, 3 1.77 2.765, 4 3.93 4.3405, 4 0.73 2.6456, 4 2.71 4.0469, 5 2.98 2.8842, 5 \
    3.95 3.2251, 5 1.39 2.4427, 6 2.07 3.8562, 6 1.88 3.6959, 6 0.69 3.1352, 7 3.38 3.4974, 7 2.79 2.9693, 7 2.53 2.5937, 8 \
    3.13 4.6243, 8 3.03 3.9583, 8 0.37 3.008";
const FLAT: &str = "\
    0 3.59 5.8483, 0 1.4 2.6495, 0 0.41 2.138, 0 4.85 7.5784, 1 2.82 -1.2941, 1 3.22 -1.8337, 1 2.88 -2.0014, 1 2.38 -0.612, \
    2 0.61 2.451, 2 1.57 1.9298, 2 3.68 5.6192, 2 4.54 5.0444, 3 4.44 3.9568, 3 4.74 4.8432, 3 0.13 0.8548, 3 3.69 3.1826, 4 \
    3.36 4.6922, 4 3.13 2.463, 4 3.19 3.2736, 4 0.63 3.4633, 5 3.13 4.6259, 5 3.94 4.0724, 5 0.04 1.9356, 5 4.61 5.8301, 6 \
    0.65 2.1358, 6 1.88 4.9974, 6 2.75 6.8443, 6 3.04 7.1558, 7 2.75 4.1509, 7 1.94 2.8283, 7 4.4 3.513, 7 1.98 2.9256, 8 \
    4.37 6.2081, 8 1.65 2.9467, 8 3.13 4.971, 8 4.25 5.8875, 9 0.6 3.7739, 9 0.85 4.2268, 9 3.64 4.9793, 9 0.63 0.4176, 10 \
    0.09 1.6022, 10 0.95 3.3708, 10 1.97 3.6263, 10 3.51 6.3999, 11 3.5 4.1083, 11 1.07 1.9583, 11 1.12 2.2602, 11 0.26 \
    1.284";

fn log_likelihood(model: &Model) -> f64 {
    model.grouped_log_likelihood().expect("a log likelihood")
}

fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{what}: {got} instead of {want}");
}

#[test]
fn ages_and_years_have_the_likelihood_of_dense_algebra() {
    // The maximum of the dense likelihood by Nelder & Mead's and quasi-Newton searches of SciPy 1.16 from several starts.
    for (shift, unit) in [(0.0, 1.0), (40.0, 1.0), (-2000.0, 365.25)] {
        let x =
            Mat::from_fn(24, 3, |i, j| if j == 1 { (i / 4) as f64 } else { (shift + (i % 4) as f64) * unit });
        let model = fit(&linear(vec![slopes("who", 6, 0, &[1])]), x.as_ref(), &AGES);
        close(log_likelihood(&model), -34.419_612_241, 1e-6, "log likelihood");
        assert!(model.variance_components().iter().all(|component| component.interval.is_some()));
    }
}

#[test]
fn fits_with_slopes_do_not_end_at_a_boundary_below_the_maximum() {
    // The values are found like the value of the ages.
    for (text, want) in [(STEEP, -9.202_601_515), (FLAT, -74.379_608_806)] {
        let row = |row: &str| row.split(' ').map(|cell| cell.parse().expect("a number")).collect();
        let rows: Vec<Vec<f64>> = text.split(", ").map(row).collect();
        let levels = rows.iter().fold(0.0, |most: f64, row| most.max(row[0])) as usize + 1;
        let x = Mat::from_fn(rows.len(), 3, |i, j| rows[i][usize::from(j != 1)]);
        let y: Vec<f64> = rows.iter().map(|row| row[2]).collect();
        let options = linear(vec![slopes("g", levels, 0, &[1])]);
        for restarts in [1, 3] {
            let found = log_likelihood(&fit(&FitOptions { restarts, ..options.clone() }, x.as_ref(), &y));
            assert!(found > want - 1e-3, "{found} instead of {want}");
        }
    }
}

/// Two inputs, on the grid of multiples of 2⁻¹⁰, the codes of two crossed groupings, and the inputs again as columns of slopes; then
/// latent values.
fn crossed(n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(17);
    let grid = |value: f64| (value * 1024.0).round() / 1024.0;
    let inputs: Vec<[f64; 2]> = (0..n).map(|_| [grid(normals.next()), grid(normals.next())]).collect();
    let x = Mat::from_fn(n, 6, |i, j| match j {
        0 | 1 => inputs[i][j],
        2 => (i % 10) as f64,
        3 => ((i / 10 + 3 * i) % 7) as f64,
        _ => inputs[i][j - 4],
    });
    let [a, b, c, d] = [0; 4].map(|_| normals.vec(10));
    let eta = (0..n).map(|i| {
        let (g, h) = (x[(i, 2)] as usize, x[(i, 3)] as usize);
        let [s, t] = inputs[i];
        0.5 * s + 0.8 * a[g] + (0.3 * a[g] + 0.5 * b[g]) * s + 0.4 * c[g] * t + 0.5 * d[h]
    });
    (x.clone(), eta.collect())
}

#[test]
fn origins_and_units_of_slopes_change_no_likelihood_and_no_prediction() {
    let (x, eta) = crossed(140);
    // Every case uses all columns behind the two inputs of f.
    let (a, b) = (slopes("a", 10, 0, &[3]), slopes("b", 7, 1, &[2]));
    let two = slopes("a", 10, 0, &[2, 3]);
    let gp = FitOptions { inducing: Some(8), effects: vec![a.clone()], ..FitOptions::default() };
    let kind = |likelihood| FitOptions { likelihood: Some(likelihood), ..linear(vec![a.clone()]) };
    let cases = [
        ("one slope", linear(vec![a.clone()])),
        ("two slopes", linear(vec![two.clone(), EffectTerm::intercepts("b", 7, 1)])),
        ("crossed slopes", linear(vec![a.clone(), b.clone()])),
        ("restricted", FitOptions { reml: true, ..linear(vec![a.clone(), b]) }),
        ("classes", kind(LikelihoodKind::BernoulliProbit)),
        ("counts", kind(LikelihoodKind::Poisson)),
        ("amounts", kind(LikelihoodKind::Gamma)),
        ("a function", gp.clone()),
        // Long searches amplify rounding until they end at different points.
        ("neighbours", FitOptions { neighbours: Some(6), epochs: Some(3), ..gp }),
    ];
    let (shifts, units) = ([4096.0, -512.0], [0.125, 4.0]);
    for (what, options) in cases {
        let moved = Mat::from_fn(140, 6, |i, j| match j {
            4 | 5 => units[j - 4] * (shifts[j - 4] + x[(i, j)]),
            0 | 1 => units[j] * (shifts[j] + x[(i, j)]),
            _ => x[(i, j)],
        });
        let y = drawn(options.likelihood_kind(), &eta, 23);
        let [own, other] = [&x, &moved].map(|x| fit(&options, x.as_ref(), &y));
        // The restricted likelihood has the units of the fixed effects.
        let unit = if options.reml { units[0].ln() + units[1].ln() } else { 0.0 };
        close(log_likelihood(&other), log_likelihood(&own) - unit, 1e-8, what);
        let [p, q] =
            [(&own, &x), (&other, &moved)].map(|(model, x)| model.predict(x.as_ref(), &[]).expect("rows"));
        for row in 0..140 {
            close(q.row(row).latent_mean, p.row(row).latent_mean, 1e-8, what);
            close(q.row(row).latent_variance, p.row(row).latent_variance, 1e-8, what);
        }
        // Slopes have the unit of their column; intercepts are those at its 0.
        let (own, other, values) = (own.level_effects(), other.level_effects(), &options.effects[0].values);
        for (at, effect) in own.iter().enumerate().filter(|(_, of)| of.term == 0 && of.effect == 0) {
            let mut at_zero = effect.estimate;
            for (k, value) in values.iter().enumerate() {
                let (slope, input) = (own[at + 1 + k].estimate, value - 2);
                close(other[at + 1 + k].estimate * units[input], slope, 1e-7, what);
                at_zero -= shifts[input] * slope;
            }
            close(other[at].estimate, at_zero, 1e-7, what);
        }
    }
}

#[test]
fn weights_count_as_repeated_rows_in_the_log_likelihood() {
    let (x, eta) = crossed(70);
    let y: Vec<f64> = drawn(LikelihoodKind::Gaussian, &eta, 23).iter().map(|y| 100.0 + 30.0 * y).collect();
    let x = Mat::from_fn(70, 2, |i, j| x[(i, 2 * j)]);
    let twice = Mat::from_fn(140, 2, |i, j| x[(i % 70, j)]);
    let doubled: Vec<f64> = y.iter().chain(&y).copied().collect();
    for (likelihood, reml) in [
        (LikelihoodKind::Gaussian, false),
        (LikelihoodKind::Gaussian, true),
        (LikelihoodKind::StudentT, false),
    ] {
        let options = FitOptions {
            reml,
            likelihood: Some(likelihood),
            ..linear(vec![EffectTerm::intercepts("a", 10, 0)])
        };
        let weighted = Fit::of(options.clone()).weights(&[2.0; 70]);
        let weighted = weighted.fit(x.as_ref(), &y).expect("a fit");
        let repeated = fit(&options, twice.as_ref(), &doubled);
        close(log_likelihood(&weighted), log_likelihood(&repeated), 1e-7, "log likelihood");
    }
}

#[test]
fn the_evidence_has_the_units_of_the_target_with_and_without_groups() {
    // The log density of n targets falls by n log u if the target's unit is u times smaller.
    let (x, eta) = crossed(60);
    let y = drawn(LikelihoodKind::Gaussian, &eta, 23);
    let larger: Vec<f64> = y.iter().map(|y| 1000.0 * y).collect();
    let x = Mat::from_fn(60, 2, |i, j| x[(i, 2 * j)]);
    for effects in [Vec::new(), vec![EffectTerm::intercepts("a", 10, 0)]] {
        let options = FitOptions { inducing: Some(10), effects, ..FitOptions::default() };
        let [own, other] =
            [&y, &larger].map(|y| fit(&options, x.as_ref(), y).log_evidence().0.expect("a bound"));
        close(other, own - 60.0 * 1000f64.ln(), 1e-6, "log evidence");
    }
}

#[test]
fn a_level_with_one_class_has_finite_coefficients_and_predictions() {
    // A third of the rows, a level of a category, has only zeros.
    let mut normals = Normals::new(2);
    let n = 120;
    let x = Mat::from_fn(n, 3, |i, j| match j {
        0 => f64::from(i % 3 == 0),
        1 => ((i * 7) as f64 * 0.618).fract(),
        _ => (i % 12) as f64,
    });
    let effects = normals.vec(12);
    for kind in [LikelihoodKind::BernoulliLogit, LikelihoodKind::BernoulliProbit, LikelihoodKind::Poisson] {
        let y: Vec<f64> = (0..n)
            .map(|i| {
                let other = f64::from(0.5 * effects[i % 12] + normals.next() > 0.0);
                if i % 3 == 0 { 0.0 } else { other }
            })
            .collect();
        let options =
            FitOptions { likelihood: Some(kind), ..linear(vec![EffectTerm::intercepts("g", 12, 0)]) };
        let model = fit(&options, x.as_ref(), &y);
        let predictions = model.predict(x.as_ref(), &[]).expect("predictions");
        for row in 0..n {
            let found = predictions.row(row);
            assert!(found.mean.is_finite() && found.variance.is_finite(), "{kind}: {found:?}");
            assert!(i32::from(row % 3 == 0) == 0 || found.mean < 0.12, "{kind}, row {row}: {}", found.mean);
        }
    }
}
