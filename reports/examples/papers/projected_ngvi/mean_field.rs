//! The mean-field case of the linearly extended recoverability condition (LERC): centred q with diagonal covariance, and a
//! Gaussian posterior with any mean and covariance (Definition 6, its example, and Propositions 3 to 6).
//!
//! With `Γ(x) = (x_i²)`, natural parameters −λ/2 and expectation parameters ω = 1/λ, λ the precisions of q, the
//! objective is `KL(q, π) = A*(ω) + ½ Σ Λ_ii ω_i + const` for the precision Λ of π: its mean has no effect, the optimum is
//! λ*_i = Λ_ii, and a step is λ₊ = (1 − η) λ + η g, where g is an estimate of λ*.

use crate::paper::prelude::*;

const D: usize = 4;
const ROWS: usize = 30;
const RUNS: u64 = 500;

/// The posterior π of a linear regression with prior N(0, I) and σ² = 1, and the estimates g of λ* from one row each.
struct MeanField {
    posterior: Normal,
    estimates: Vec<[f64; D]>,
}

fn centred(precisions: &[f64; D]) -> Result<Normal> {
    let variance = |i: usize, j: usize| if i == j { 1.0 / precisions[i] } else { 0.0 };
    Normal::new(vec![0.0; D], Mat::from_fn(D, D, variance))
}

/// KL(p, q) of centred normal variables with these precisions.
fn divergence(p: f64, q: f64) -> f64 {
    0.5 * (q / p - 1.0 - (q / p).ln())
}

fn divergences(p: &[f64; D], q: &[f64; D]) -> f64 {
    p.iter().zip(q).map(|(p, q)| divergence(*p, *q)).sum()
}

impl MeanField {
    /// Generates rows with correlated inputs and targets around a linear function.
    fn new() -> Result<MeanField> {
        let (mut draw, mut common) = (normals(11), normals(12));
        let shared = Vec::from_iter((0..ROWS).map(|_| common()));
        let x = Mat::from_fn(D, ROWS, |_, m| shared[m] + draw());
        let y = x.col_iter().map(|x| x.iter().sum::<f64>() + draw()).collect();
        let estimates = x.col_iter().map(|x| std::array::from_fn(|i| 1.0 + ROWS as f64 * x[i] * x[i]));
        let estimates = estimates.collect();
        let data = Data { x, y };
        let posterior = data.posterior(data.model(Gaussian::new(1.0), 1.0)?)?;
        Ok(MeanField { posterior, estimates })
    }

    /// λ* by Proposition 6, the mean of the estimates of all rows.
    fn best(&self) -> [f64; D] {
        std::array::from_fn(|i| self.estimates.iter().map(|g| g[i]).sum::<f64>() / ROWS as f64)
    }

    /// The objective KL(q, π) in precisions.
    fn objective(&self, precisions: &[f64; D]) -> Result<f64> {
        Ok(centred(precisions)?.kl_to(&self.posterior))
    }

    /// Returns the minimiser of the objective along the axes, by ternary search.
    fn searched(&self) -> Result<[f64; D]> {
        let mut at = [1.0; D];
        for i in 0..D {
            let (mut low, mut high) = (-10.0f64, 10.0f64);
            while high - low > 1e-9 {
                let [a, b] = [(2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0];
                let mut value = |log: f64| {
                    at[i] = log.exp();
                    self.objective(&at)
                };
                if value(a)? < value(b)? { high = b } else { low = a }
            }
        }
        Ok(at)
    }

    /// Returns d_f(ω, ω′)/d_A*(ω, ω′), with the gradient of f by central differences.
    fn relative(&self, (a, b): (&[f64; D], &[f64; D])) -> Result<f64> {
        let mut bregman = self.objective(a)? - self.objective(b)?;
        for i in 0..D {
            let (omega, width) = (1.0 / b[i], 1e-4 / b[i]);
            let value = |change: f64| {
                let mut at = *b;
                at[i] = 1.0 / (omega + change);
                self.objective(&at)
            };
            bregman -= (value(width)? - value(-width)?) / (2.0 * width) * (1.0 / a[i] - omega);
        }
        Ok(bregman / divergences(a, b))
    }

    /// Returns σ²_{η,1} of Definition 4 and its bound of Proposition 3, for rows drawn one at a time. Both suprema are over
    /// the precisions between the least estimate and the larger one of the largest estimate and the start.
    fn noise(&self, step: f64, start: f64) -> [f64; 2] {
        let best = self.best();
        let mut sums = [0.0; 2];
        for i in 0..D {
            let estimates = || self.estimates.iter().map(|g| g[i]);
            let (low, high) = estimates().fold((start, start), |(low, high), g| (low.min(g), high.max(g)));
            let mut largest = [f64::NEG_INFINITY; 2];
            for k in 0..=400 {
                let now = low * (high / low).powf(f64::from(k) / 400.0);
                let moved = |g: f64| (1.0 - step) * now + step * g;
                let mean = |of: f64| estimates().map(|g| divergence(of, moved(g))).sum::<f64>() / ROWS as f64;
                let exact = mean(now) / step - divergence(now, best[i]);
                for (largest, value) in
                    largest.iter_mut().zip([exact / step, mean(moved(best[i])) / (step * step)])
                {
                    *largest = largest.max(value);
                }
            }
            sums.iter_mut().zip(largest).for_each(|(sum, largest)| *sum += largest);
        }
        sums
    }

    /// Returns the mean KL(q*, q_t) at some iterations over runs with one random row a step.
    fn runs(&self, start: f64, step: impl Fn(usize) -> f64 + Sync + Send, at: &[usize]) -> Result<Vec<f64>> {
        let best = self.best();
        let means = means(RUNS, |seed| {
            let (mut random, mut now, mut t) = (ChaCha8Rng::seed_from_u64(seed), [start; D], 0);
            Ok(Vec::from_iter(at.iter().map(|&last| {
                for s in t..last {
                    let g = self.estimates[random.random_range(0..ROWS)];
                    now.iter_mut().zip(g).for_each(|(now, g)| *now += step(s) * (g - *now));
                }
                t = last;
                [divergences(&best, &now)]
            })))
        })?;
        Ok(means.into_iter().map(|[kl]| kl).collect())
    }
}

fn exact(paper: &mut Paper, problem: &MeanField) -> Result<()> {
    let (best, searched) = (problem.best(), problem.searched()?);
    let furthest =
        best.iter().zip(searched).map(|(best, found)| (found / best - 1.0).abs()).fold(0.0, f64::max);
    let ours = format!(
        "posterior mean up to {}; largest relative difference between the diagonal of the posterior's precision and the \
         minimiser of KL(q, π) by search",
        short(problem.posterior.mean().iter().fold(0.0, |most, m| m.abs().max(most)))
    );
    let compared = Compared::at_most(furthest, 0.0, 1e-5);
    let claim = "LERC: the optimum is θ* = Lᵀθ_π (Proposition 6 (i))";
    paper.judge(claim, "for any mean of π", ours, compared).expect(0.0..=1e-5);
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let mut precisions = || best.map(|best| best * 10f64.powf(random.random_range(-1.0..1.0)));
    let ratios = (0..200).map(|_| problem.relative((&precisions(), &precisions())));
    let ratios = ratios.collect::<Result<Vec<f64>>>()?;
    let furthest = ratios.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    let ours = "largest difference of d_f/d_A* from 1 in 200 random pairs";
    let compared = Compared::at_most(furthest, 0.0, 1e-4);
    let claim = "LERC: KL(q, π) is 1-strongly convex and 1-smooth relative to A* (Proposition 6 (ii))";
    paper.judge(claim, "both constants 1", ours, compared).expect(0.0..=1e-4);
    let (step, mut largest, mut factors) = (0.1f64, 0.0f64, Vec::new());
    for start in [1e-3, 1e3] {
        let initial = best.map(|best| start * best);
        let kl = |t: i32| {
            let kept = (1.0 - step).powi(t);
            divergences(&best, &std::array::from_fn(|i| kept * initial[i] + (1.0 - kept) * best[i]))
        };
        let share = |t: i32| kl(t) / ((1.0 - step).powi(t) * kl(0));
        largest = (1..=150).map(share).fold(largest, f64::max);
        factors.extend([kl(1) / kl(0), kl(150) / kl(149)]);
    }
    let ours = format!(
        "KL(q*, q) falls by {} in the first and {} in the last of 150 steps of 0.1 from precisions 1e-3 λ*, and by {} and {} from \
         1e3 λ*; the rate in the end is (1 − η)²; largest KL over its bound",
        short(factors[0]),
        short(factors[1]),
        short(factors[2]),
        short(factors[3])
    );
    let claim = "LERC: exact gradients converge at the geometric rate 1 − η (Proposition 4)";
    paper.judge(claim, "holds", ours, Compared::at_most(largest, 1.0, 0.0)).expect(0.99..=1.0);
    Ok(())
}

fn stochastic(paper: &mut Paper, problem: &MeanField) -> Result<()> {
    let (best, start, steps) = (problem.best(), 0.1, 1000);
    let (mut shares, mut ratios) = (Vec::new(), Vec::new());
    let (at, initial) = (record_at(steps, 10), divergences(&best, &[start; D]));
    for step in [0.01, 0.1, 0.5, 1.0] {
        let [noise, bound] = problem.noise(step, start);
        ratios.push(noise / bound);
        if step == 1.0 {
            continue; // q is then a single estimate, and E KL is the bound by definition.
        }
        let kl = problem.runs(start, |_| step, &at)?;
        let limit = |t: usize| (1.0 - step).powf(t as f64) * initial + step * noise;
        shares.push(at.iter().zip(kl).skip(1).map(|(t, kl)| kl / limit(*t)).fold(0.0, f64::max));
    }
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let list = |values: &[f64]| listed(values.iter().copied(), short);
    let ours = format!("σ² over its bound {} for steps 0.01, 0.1, 0.5 and 1; largest", list(&ratios));
    let claim = "LERC: σ²_{η,N} of Definition 4 is at most the bound of Proposition 3, rows one at a time";
    paper.judge(claim, "holds", ours, Compared::at_most(most, 1.0, 1e-9)).expect(0.9..=1.0 + 1e-9);
    let (decreasing, noise) =
        (|t: usize| 2.0 / (t as f64 + 2.0), |t: usize| problem.noise(2.0 / (t as f64 + 2.0), start)[0]);
    let v = (0..100).map(noise).fold(0.0, f64::max);
    let kl = problem.runs(start, decreasing, &at)?;
    shares.push(
        at.iter().zip(&kl).skip(1).map(|(t, kl)| kl * (*t as f64 + 1.0) / (4.0 * v)).fold(0.0, f64::max),
    );
    let late = slope(at.iter().zip(&kl).filter(|(t, _)| **t >= 100).map(|(t, kl)| (*t as f64, *kl)));
    let ours = format!(
        "largest mean KL of {RUNS} runs over its bound {}, for steps 0.01, 0.1, 0.5 and 2/(t + 2); the last ends with slope {late:.2}; \
         largest",
        list(&shares)
    );
    let most = shares.iter().copied().fold(0.0, f64::max);
    let claim = "LERC: the bounds of Propositions 4 and 5 on KL(q*, q), with σ² of Definition 4";
    paper.judge(claim, "hold", ours, Compared::at_most(most, 1.0, 0.0)).expect(0.1..=1.0);
    Ok(())
}

pub fn run(paper: &mut Paper) -> Result<()> {
    paper.settings(format!(
        "Mean-field case (LERC): centred q with diagonal covariance, and the posterior of a linear regression on {ROWS} generated rows with {D} \
         correlated inputs. Price's gradients have no noise here, so that noise comes from drawing one row a step. The paper has no such experiment."
    ));
    let problem = MeanField::new()?;
    exact(paper, &problem)?;
    stochastic(paper, &problem)
}
