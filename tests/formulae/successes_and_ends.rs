//! Successes in trials, and numbers with exact ends: densities against numbers in high precision, and trials against rows of single trials.
//!
//! The numbers come from mpmath 1.3 with 40 digits, from the formulae of docs/likelihoods.md: `loggamma` in log binomial coefficients and log
//! beta functions, and sums over the number of gamma distributed amounts for `tweedie`, for example
//!
//! ```text
//! python -c "from mpmath import *; mp.dps = 40; f, p, phi, y = map(mpf, ('0.4', '1.5', '1.3', '0.02')); mu = exp(f)
//! lam, q, s = mu**(2-p)/(phi*(2-p)), (2-p)/(p-1), phi*(p-1)*mu**(p-1)
//! print(log(sum(exp(-lam+j*log(lam)-loggamma(j+1)-loggamma(j*q)-j*q*log(s)+(j*q-1)*log(y)-y/s) for j in range(1, 400))))"
//! ```

use crate::prelude::*;

/// Checks log densities to 1e-9 at `(observation, f, wanted)`.
fn compare(likelihood: &dyn Likelihood, cases: &[(Observation, &[f64], f64)]) {
    for (at, f, want) in cases {
        let (mut value, mut slope) = ([f64::NAN], vec![f64::NAN; f.len()]);
        likelihood.log_density(*at, f, &mut value, &mut slope);
        assert_close(value[0], *want, 1e-9 * (1.0 + want.abs()), &format!("{} at {at}", likelihood.name()));
    }
}

#[test]
fn counts_of_successes_have_their_densities() {
    let at = Observation::exposed;
    compare(
        &Binomial,
        &[
            (at(0.0, 5.0), &[-0.3], -2.771_776_222_342_635_6),
            (at(3.0, 7.0), &[0.8], -2.242_356_600_145_030_4),
            (at(200.0, 200.0), &[2.5], -15.777_946_858_509_925),
            (at(400.0, 1000.0), &[-0.4], -3.663_107_274_407_26),
        ],
    );
    for (y, n, f, precision, want) in [
        (0.0, 5.0, -0.3, 2.5, -1.580_165_877_801_517),
        (3.0, 7.0, 0.8, 0.4, -3.287_698_434_607_801_5),
        (200.0, 200.0, 2.5, 30.0, -4.747_412_270_401_06),
        (400.0, 1000.0, -0.4, 1e6, -3.663_602_905_806_172_6),
        (3.0, 7.0, 0.8, 1e12, -2.242_356_600_142_329),
    ] {
        compare(&BetaBinomial::new(precision), &[(at(y, n), &[f], want)]);
    }
}

#[test]
fn numbers_with_exact_ends_have_their_densities() {
    let at = Observation::of;
    compare(
        &OrderedBeta::new(-1.2, 2.7, 5.5),
        &[
            (at(0.0), &[-0.3], -1.241_153_874_732_087_8),
            (at(0.02), &[-1.1], -0.187_556_097_886_578_74),
            (at(0.6), &[0.4], 0.059_103_530_939_605_04),
            (at(0.97), &[2.2], 0.627_142_029_521_185_6),
            (at(1.0), &[0.9], -1.037_487_950_485_885_6),
        ],
    );
    for (y, f, power, dispersion, want) in [
        (0.0, 0.4, 1.5, 1.3, -1.879_081_166_400_261_3),
        (0.02, 0.4, 1.5, 1.3, -1.019_131_048_330_541_6),
        (3.5, 0.4, 1.2, 0.7, -2.728_835_262_102_869_6),
        (12.0, 1.9, 1.8, 2.0, -3.778_815_489_234_257_5),
        // With a saddlepoint instead of the series.
        (40.0, 3.5, 1.5, 0.01, -12.673_115_961_872_048),
        (40.0, 3.5, 1.4, 0.1, -3.963_135_962_562_881_6),
    ] {
        compare(&Tweedie::new(power, dispersion), &[(at(y), &[f], want)]);
    }
    let f: &[f64] = &[0.3, -0.5];
    let zero = -0.974_076_984_180_106_7;
    compare(&ZeroAltered::hurdle_gamma(1.7), &[(at(0.0), f, zero), (at(1.7), f, -1.776_220_486_188_441_9)]);
    let log_normal = ZeroAltered::hurdle_log_normal(0.6);
    compare(&log_normal, &[(at(0.0), f, zero), (at(1.7), f, -1.712_555_448_387_284)]);
}

#[test]
fn sums_of_amounts_have_their_distribution_functions() {
    for (y, f, power, dispersion, want, tolerance) in [
        (0.02, 0.4, 1.5, 1.3, 0.159_954_488_913_917_07, 1e-12),
        (3.5, 0.4, 1.2, 0.7, 0.951_862_968_312_686_4, 1e-12),
        (12.0, 1.9, 1.8, 2.0, 0.815_728_483_835_551_2, 1e-12),
        // With 513 amounts on average, and with 5130 by the approximation.
        (40.0, 3.5, 1.4, 0.02, 0.999_971_660_763_654, 1e-12),
        (33.5, 3.5, 1.4, 0.002, 0.771_458_246_832_418_9, 1e-6),
    ] {
        let below = Tweedie::new(power, dispersion).conditional_cdf(Observation::of(y), f);
        assert_close(below, want, tolerance, "P(Y ≤ y)");
    }
}

/// Against SciPy 1.17, `stats.betabinom.cdf(y, n, s*m, s*(1-m))` with `m = 1/(1 + exp(-f))`.
#[test]
fn counts_of_many_trials_have_their_distribution_functions() {
    for (y, n, f, precision, want) in [
        (150.0, 5000.0, -3.5, 40.0, 0.627_981_221_299_628_3),
        (2600.0, 5000.0, 0.2, 1e6, 1.283_774_687_264_065_6e-5),
        (10.0, 100_000.0, -9.0, 3.0, 0.997_167_760_436_356_2),
        (3.0, 6000.0, -4.0, 0.4, 0.934_214_156_438_149_1),
    ] {
        let below = BetaBinomial::new(precision).conditional_cdf(Observation::exposed(y, n), f);
        assert_close(below, want, 1e-8, "P(Y ≤ y)");
    }
}

#[test]
fn precise_probabilities_make_beta_binomial_counts_binomial() {
    let mut tools = Integrator::default();
    let mut worst = [0.0_f64; 2];
    for (k, precision) in [1e4, 1e8].into_iter().enumerate() {
        let varied = BetaBinomial::new(precision);
        for (y, n, mu, v) in [(0.0, 5.0, -0.3, 0.4), (3.0, 7.0, 0.8, 2.0), (190.0, 200.0, 2.5, 0.1)] {
            let (at, latent) = (Observation::exposed(y, n), LatentMarginal::new(mu, v));
            for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
                let row = Row::new(at, latent);
                let a = OneFunction::expectation(&Binomial, of, row, &mut [], &mut tools);
                let b = OneFunction::expectation(&varied, of, row, &mut [], &mut tools);
                let far = [a.value - b.value, a.mean - b.mean, a.variance - b.variance];
                worst[k] = far.iter().fold(worst[k], |worst, x| worst.max(x.abs()));
            }
        }
    }
    // The difference falls like n²/s.
    assert!(worst[0] < 2.0 && worst[1] < 2e-4 && worst[1] < 2e-4 * worst[0].max(1.0), "{worst:?}");
}

/// Rows: inputs (`D × n`), targets, and the number of trials of each row.
type Rows = (Mat<f64>, Vec<f64>, Vec<f64>);

/// Returns rows with numbers of trials, and the same rows as single trials.
fn trials(n: usize) -> (Rows, Rows) {
    let (x, f) = data(5, 2, n);
    let number = |i: usize| 1 + (7 * i) % 9;
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let draw = |i: usize| {
        OneFunction::sample(&Binomial, Observation::exposed(1.0, number(i) as f64), f[i], &mut random)
    };
    let y: Vec<f64> = (0..n).map(draw).collect();
    let singles = |i: usize| (0..number(i)).map(move |k| (i, k));
    let rows: Vec<(usize, usize)> = (0..n).flat_map(singles).collect();
    let long_x = Mat::from_fn(x.nrows(), rows.len(), |d, row| x[(d, rows[row].0)]);
    let long_y: Vec<f64> = rows.iter().map(|&(i, k)| f64::from(u8::from((k as f64) < y[i]))).collect();
    ((x, y, (0..n).map(|i| number(i) as f64).collect()), (long_x, long_y, vec![1.0; rows.len()]))
}

/// `Σ log C(n, y)`, by products.
fn log_choices(y: &[f64], n: &[f64]) -> f64 {
    let choose = |(y, n): (&f64, &f64)| -> f64 {
        (0..*y as u32).map(|k| ((n - f64::from(k)) / f64::from(k + 1)).ln()).sum()
    };
    y.iter().zip(n).map(choose).sum()
}

#[test]
fn trials_are_rows_of_single_trials() {
    let ((x, y, n), (long_x, long_y, _)) = trials(60);
    let constant = log_choices(&y, &n);
    let evaluate = |kind: LikelihoodKind, x: &Mat<f64>, targets: Targets<'_>| {
        let likelihood = kind.build(2);
        let model = LatentModel { likelihood, ..model(3, "rbf(ard)", 2, 9, Jitter::Relative(1e-6)) };
        let mut svgp = VariationalModel::new(model, posterior(2, 9), Objective::elbo(1.0), targets.len());
        let value = svgp.evaluate(Batch { x: x.transpose(), targets, scale: 1.0 }, true);
        (value, svgp.theta_gradient().to_vec(), svgp.q_gradient().mean.to_vec())
    };
    let counted = evaluate(LikelihoodKind::Binomial, &x, Targets { exposure: &n, ..Targets::of(&y) });
    let single = evaluate(LikelihoodKind::BernoulliLogit, &long_x, Targets::of(&long_y));
    assert_close(counted.0 + constant, single.0, 1e-9, "loss");
    assert_all_close(&counted.1, &single.1, 1e-9, "gradient in θ");
    assert_all_close(&counted.2, &single.2, 1e-9, "gradient in m");
}

/// Fits by full passes from one start: the bound of all rows, the hyper-parameters, and the mean of q.
fn trained(kind: LikelihoodKind, x: &Mat<f64>, targets: Targets<'_>) -> (f64, Vec<f64>, Vec<f64>) {
    let likelihood = kind.build(2);
    let prior = LatentModel { likelihood, ..model(3, "rbf(ard)", 2, 8, Jitter::Relative(1e-6)) }.to_prior();
    let options = FitOptions {
        likelihood: Some(kind),
        hyper: Some(Hyper::Joint),
        epochs: Some(30),
        tolerance: Some(0.0),
        standardize: false,
        steps: StepOptions { polish: false, batch_size: 1000, ..StepOptions::default() },
        ..FitOptions::default()
    };
    let set = Dataset { x: x.transpose(), targets };
    let start = Start { model: prior, q: None };
    let fitted = fit_arrays(TrainingData::of(set), &options, Some(&start), &mut |_| {}).expect("a fit");
    let elbo = fitted.summary.elbo_sum.expect("a bound");
    (elbo, fitted.model.natural(), fitted.q[0].mean().to_vec())
}

#[test]
fn a_fit_to_trials_is_the_fit_to_rows_of_single_trials() {
    let ((x, y, n), (long_x, long_y, _)) = trials(60);
    let counted = trained(LikelihoodKind::Binomial, &x, Targets { exposure: &n, ..Targets::of(&y) });
    let single = trained(LikelihoodKind::BernoulliLogit, &long_x, Targets::of(&long_y));
    assert_close(counted.0 - log_choices(&y, &n), single.0, 1e-9, "bound");
    assert_all_close(&counted.1, &single.1, 1e-9, "hyper-parameters");
    assert_all_close(&counted.2, &single.2, 1e-9, "mean of q");
}
