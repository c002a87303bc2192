//! The maximiser of a function with one peak from its slope alone, by doubling and bisection.

/// The search for a supremum at infinity ends at this distance.
const FARTHEST: f64 = 1e8;

/// Returns the point at which `slope` turns from positive to negative, to nearly the last digit; a
/// finite point far out if it never does. A slope that has underflowed to zero counts as past the
/// peak.
pub(super) fn climb(slope: &mut dyn FnMut(f64) -> f64) -> f64 {
    let at_zero = slope(0.0);
    if at_zero == 0.0 || at_zero.is_nan() {
        return 0.0;
    }
    let sign = at_zero.signum();
    let mut rises = |x: f64| slope(sign * x) * sign > 0.0;
    let (mut low, mut high) = (0.0, 1.0);
    while rises(high) {
        if high > FARTHEST {
            return sign * high;
        }
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-14 * high.max(1e-3) {
        let middle = 0.5 * (low + high);
        if rises(middle) { low = middle } else { high = middle }
    }
    sign * low
}

#[cfg(test)]
mod tests {
    use super::climb;

    #[test]
    fn peaks_near_far_at_kinks_and_at_infinity_are_found() {
        for peak in [0.0, 1e-3, -0.7, 40.0, -3e6] {
            assert!((climb(&mut |x| peak - x) - peak).abs() <= 1e-13 * (1.0 + peak.abs()), "{peak}");
            assert!(
                (climb(&mut |x: f64| (peak - x).signum()) - peak).abs() <= 1e-13 * (1.0 + peak.abs()),
                "{peak}"
            );
        }
        let saturating = climb(&mut |x: f64| (-x).exp());
        assert!((700.0..800.0).contains(&saturating), "{saturating}");
        assert!(climb(&mut |x: f64| 1.0 / (2.0 + x.abs())).is_finite());
        assert_eq!(climb(&mut |_| f64::NAN), 0.0);
    }
}
