//! Squared distances from one point to many points or boxes, with the widest SIMD instructions of
//! the machine.
//!
//! Sums run over the coordinates in order, with separate multiplications and additions, so they are
//! the same bit for bit on every machine. Because rounding is monotonic, no point is nearer than
//! its bounding box.

/// The number of points or boxes whose distances are computed together, small enough that the sums
/// stay in registers.
pub(super) const LANES: usize = 32;

/// The squared distances to `LANES` points or boxes.
pub(super) type Distances = [f64; LANES];

/// Returns the squared distances to the points of a block, which has `D` runs of `LANES`
/// coordinates.
#[inline(always)]
pub(super) fn to_points(point: &[f64], block: &[f64]) -> Distances {
    let mut sums = [0.0; LANES];
    for (value, coordinates) in point.iter().zip(block.as_chunks::<LANES>().0) {
        for (sum, other) in sums.iter_mut().zip(coordinates) {
            let difference = value - other;
            *sum += difference * difference;
        }
    }
    sums
}

/// Returns the squared distances to the boxes of a block, which has a run of least values and a run
/// of largest values for each coordinate.
#[inline(always)]
pub(super) fn to_boxes(point: &[f64], block: &[f64]) -> Distances {
    let mut sums = [0.0; LANES];
    for (value, bounds) in point.iter().zip(block.as_chunks::<LANES>().0.as_chunks::<2>().0) {
        for ((sum, low), high) in sums.iter_mut().zip(&bounds[0]).zip(&bounds[1]) {
            let (below, above) = (low - value, value - high);
            let gap = if below > above { below } else { above };
            let gap = if gap > 0.0 { gap } else { 0.0 };
            *sum += gap * gap;
        }
    }
    sums
}

/// Calls `take` with the lane of every distance below `bound`, in order.
#[inline(always)]
pub(super) fn for_each_below(distances: &Distances, bound: f64, mut take: impl FnMut(usize)) {
    let below: [u8; LANES] = std::array::from_fn(|lane| u8::from(distances[lane] < bound));
    for (part, bytes) in below.as_chunks::<8>().0.iter().enumerate() {
        // Few distances are below the bound, so eight comparisons at a time are skipped.
        let mut bits = u64::from_le_bytes(*bytes);
        while bits != 0 {
            take(part * 8 + bits.trailing_zeros() as usize / 8);
            bits &= bits - 1;
        }
    }
}
