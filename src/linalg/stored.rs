//! Matrices in serde's data model, for `#[serde(with = "…")]`: their size and plain numbers, only
//! one triangle if the matrix is symmetric.
//!
//! Numbers keep every bit in formats that can represent every `f64`, such as postcard; JSON has no
//! infinities and no NaN.

use super::spread;
use faer::Mat;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The numbers of rows and columns, and the entries by columns: the `M(M+1)/2` numbers of the lower
/// triangle if the matrix equals its transpose bit by bit, otherwise all numbers.
#[derive(Deserialize)]
struct Stored(usize, usize, Vec<f64>);

/// True if the matrix equals its transpose to the last bit.
fn is_symmetric(a: &Mat<f64>) -> bool {
    let equal = |i: usize, j: usize| a[(i, j)].to_bits() == a[(j, i)].to_bits();
    a.nrows() == a.ncols() && (0..a.ncols()).all(|j| (j + 1..a.nrows()).all(|i| equal(i, j)))
}

pub(crate) fn serialize<S: Serializer>(a: &Mat<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    let symmetric = is_symmetric(a);
    let from = |j: usize| if symmetric { j } else { 0 };
    let numbers: Vec<f64> = (0..a.ncols()).flat_map(|j| a.col(j).iter().skip(from(j)).copied()).collect();
    (a.nrows(), a.ncols(), numbers).serialize(serializer)
}

/// Reads a matrix. Returns an error if the number of entries does not fit its size.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mat<f64>, D::Error> {
    let Stored(rows, columns, numbers) = Stored::deserialize(deserializer)?;
    let count = numbers.len();
    let triangle = rows.checked_add(1).and_then(|next| rows.checked_mul(next)).map(|twice| twice / 2);
    let whole = rows.checked_mul(columns) == Some(count);
    if !(whole || rows == columns && triangle == Some(count)) {
        let message = format!("a matrix of {rows} × {columns} is not made of {count} numbers");
        return Err(D::Error::custom(message));
    }
    let mut out = spread(rows, columns);
    let mut numbers = numbers.into_iter();
    for j in 0..columns {
        for (i, number) in (if whole { 0 } else { j }..rows).zip(&mut numbers) {
            out[(i, j)] = number;
            if !whole {
                out[(j, i)] = number;
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder(#[serde(with = "super")] Mat<f64>);

    fn bits(a: &Mat<f64>) -> Vec<u64> {
        (0..a.ncols()).flat_map(|j| a.col(j).iter().map(|x| x.to_bits())).collect()
    }

    #[test]
    fn matrices_come_back_to_the_last_bit_and_symmetric_ones_are_a_triangle() {
        let odd = [f64::NAN, -0.0, f64::MIN_POSITIVE / 8.0, f64::NEG_INFINITY, 0.1];
        for m in [0, 1, 2, 3, 8, 64] {
            let whole = Mat::from_fn(m, m + 1, |i, j| odd[(i + 3 * j) % 5] + i as f64);
            let lower = Mat::from_fn(m, m, |i, j| odd[(i + 3 * j) % 5]);
            let symmetric = Mat::from_fn(m, m, |i, j| lower[(i.max(j), i.min(j))]);
            for (a, numbers) in [(&whole, m * (m + 1)), (&lower, m * m), (&symmetric, m * (m + 1) / 2)] {
                let bytes = postcard::to_allocvec(&Holder(a.clone())).expect("bytes");
                if m > 1 {
                    // The three counts take one or two bytes each.
                    assert!((3..=6).contains(&(bytes.len() - 8 * numbers)), "{m}");
                }
                let back: Holder = postcard::from_bytes(&bytes).expect("a matrix");
                assert_eq!((back.0.shape(), bits(&back.0)), (a.shape(), bits(a)));
            }
        }
        let a = Mat::from_fn(3, 2, |i, j| 1.0 / (1 + i + 7 * j) as f64);
        let text = serde_json::to_string(&Holder(a.clone())).expect("text");
        assert_eq!(bits(&serde_json::from_str::<Holder>(&text).expect("a matrix").0), bits(&a));
    }
}
