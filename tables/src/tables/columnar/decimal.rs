//! Conversion of decimal numbers to the nearest 64-bit floats.

use num_bigint::BigInt;

/// Integers below this magnitude are exact as 64-bit floats.
pub(super) const EXACT: u64 = 1 << 53;

/// Powers of ten up to this one are exact as 64-bit floats.
const EXACT_POWER: u32 = 22;

/// The longest unscaled value of a decimal, in bytes: 76 digits.
const MOST_BYTES: usize = 32;

/// Returns `unscaled · 10^(−scale)`, rounded once.
pub(super) fn scaled(unscaled: i64, scale: i32) -> f64 {
    if unscaled.unsigned_abs() < EXACT && scale.unsigned_abs() <= EXACT_POWER {
        // Both operands are exact, so the operation rounds only once.
        let power = 10f64.powi(scale.abs());
        return if scale >= 0 { unscaled as f64 / power } else { unscaled as f64 * power };
    }
    nearest(&unscaled, scale)
}

/// Like [`scaled`], for an unscaled value in two's complement, most significant byte first; `None` beyond [`MOST_BYTES`].
pub(super) fn of_bytes(unscaled: &[u8], scale: i32) -> Option<f64> {
    let unscaled = whole(unscaled)?;
    Some(i64::try_from(&unscaled).map_or_else(|_| nearest(&unscaled, scale), |small| scaled(small, scale)))
}

/// Returns a whole number in two's complement, most significant byte first; `None` beyond [`MOST_BYTES`].
pub(super) fn whole(bytes: &[u8]) -> Option<BigInt> {
    (bytes.len() <= MOST_BYTES).then(|| BigInt::from_signed_bytes_be(bytes))
}

/// Converts through text, because the text parser rounds once for any number of digits.
fn nearest(unscaled: &dyn std::fmt::Display, scale: i32) -> f64 {
    format!("{unscaled}e{}", -i64::from(scale)).parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_once() {
        assert_eq!((scaled(150, 2), scaled(-25, 2), scaled(7, -3), scaled(0, 9)), (1.5, -0.25, 7000.0, 0.0));
        assert_eq!((scaled(1, 30), scaled(5, -300)), (1e-30, 5e300));
        let text = |unscaled: i128, scale: i32| format!("{unscaled}e-{scale}").parse().ok();
        assert_eq!(Some(scaled(i64::MIN, 18)), text(i64::MIN.into(), 18));
        for unscaled in
            [12345678901234567890123456789i128, -99999999999999999999999999999999999999, i128::MIN]
        {
            assert_eq!(of_bytes(&unscaled.to_be_bytes(), 9), text(unscaled, 9));
        }
        assert_eq!(of_bytes(&[], 2), Some(0.0));
        assert_eq!(of_bytes(&[0xff, 0x6a], 2), Some(-1.5));
        let wide = [&[0x80][..], &[0; 31]].concat();
        assert_eq!(of_bytes(&wide, 0), Some(-(2f64.powi(255))));
        assert_eq!(of_bytes(&[0; 33], 0), None);
    }
}
