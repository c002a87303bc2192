//! Quantiles from a distribution function by bracketing and bisection, on each kind of target.

use crate::TargetKind;
use crate::crps::BELOW_1;
use crate::quadrature::Interval;

/// Returns the smallest y of the kind with `cdf(y) ≥ p`, for p in (0, 1); NaN when the function is
/// not finite, and for classes without an order.
pub fn search(kind: TargetKind, p: f64, levels: usize, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    match kind {
        TargetKind::Class => f64::NAN,
        TargetKind::Binary | TargetKind::Ordinal => {
            (0..levels).map(|level| level as f64).find(|&y| cdf(y) >= p).unwrap_or(levels as f64 - 1.0)
        }
        TargetKind::Count | TargetKind::CensoredCount | TargetKind::Trials => whole(p, cdf),
        TargetKind::Amount | TargetKind::Share if cdf(0.0) >= p => 0.0,
        TargetKind::Share if cdf(BELOW_1) < p => 1.0,
        TargetKind::Positive | TargetKind::Lifetime | TargetKind::Amount => {
            bisect(p, &mut |u: f64| cdf(u.exp()), AROUND_0, EXACT).exp()
        }
        TargetKind::UnitInterval | TargetKind::Share => {
            let logistic = |u: f64| 1.0 / (1.0 + (-u).exp());
            logistic(bisect(p, &mut |u| cdf(logistic(u)), AROUND_0, EXACT))
        }
        TargetKind::Real | TargetKind::Measured | TargetKind::Censored => bisect(p, cdf, AROUND_0, EXACT),
    }
}

#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// The maximum number of steps inside the bracket.
    pub steps: usize,
    /// The search ends if the distribution function is this close to p.
    pub close: f64,
}

/// The bracket that a search begins with.
const AROUND_0: Interval = Interval { low: -2.0, high: 2.0 };

/// A search to the last digits.
const EXACT: Effort = Effort { steps: 200, close: 1e-15 };

/// Returns the smallest whole number ≥ 0 with `cdf ≥ p`, by doubling and bisection.
fn whole(p: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    let (mut below, mut above) = (-1.0, 0.0);
    while cdf(above) < p {
        below = above;
        above = 2.0 * above + 1.0;
        if above > 1e15 {
            return f64::INFINITY;
        }
    }
    while above - below > 1.0 {
        let middle = ((below + above) / 2.0).floor();
        if cdf(middle) >= p { above = middle } else { below = middle }
    }
    above
}

/// Returns the root of `cdf(x) = p` for an increasing function. The bracket widens until it
/// contains the root; inside it, secant steps (the Illinois rule) are used.
pub(super) fn bisect(
    p: f64,
    cdf: &mut dyn FnMut(f64) -> f64,
    Interval { mut low, mut high }: Interval,
    Effort { steps, close }: Effort,
) -> f64 {
    let mut width = high - low;
    let (mut f_low, mut f_high) = (cdf(low) - p, cdf(high) - p);
    while f_low > 0.0 && width < 1e300 {
        width *= 2.0;
        (high, f_high) = (low, f_low);
        low -= width;
        f_low = cdf(low) - p;
    }
    while f_high < 0.0 && width < 1e300 {
        width *= 2.0;
        (low, f_low) = (high, f_high);
        high += width;
        f_high = cdf(high) - p;
    }
    if f_low.is_nan() || f_high.is_nan() {
        return f64::NAN;
    }
    for step in 0..steps {
        if high - low <= 1e-13 * (low.abs() + high.abs()) + 1e-300 || f_low == 0.0 || f_high == 0.0 {
            break;
        }
        let secant = high - f_high * (high - low) / (f_high - f_low);
        // Where the function jumps, secants creep: every third step halves the bracket.
        let inside = secant > low && secant < high && step % 3 != 2;
        let x = if inside { secant } else { 0.5 * (low + high) };
        let f = cdf(x) - p;
        if f.abs() <= close {
            return x;
        }
        if f < 0.0 {
            (low, f_low) = (x, f);
            f_high *= 0.5;
        } else {
            (high, f_high) = (x, f);
            f_low *= 0.5;
        }
    }
    // Where the function jumps over p, it reaches p at the upper end.
    if f_low == 0.0 { low } else { high }
}
