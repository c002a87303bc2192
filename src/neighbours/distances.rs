//! Squared distances from one point to many points or boxes, compiled for the widest SIMD the machine has; no search.
//!
//! Sums run over the coordinates in order, multiplied and added separately: they have the same bits on every machine, and since
//! rounding keeps order, no point is nearer than the box around it.

/// Points or boxes whose distances are found in one go, few enough for their sums to stay in registers.
pub(super) const LANES: usize = 32;

/// Distances to as many points or boxes.
pub(super) type Distances = [f64; LANES];

/// To the points of a block, `D` runs of `LANES` coordinates.
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

/// To the boxes of a block: for each coordinate a run of their least values and one of their largest.
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
        // Few are below: eight comparisons at a time are passed over.
        let mut bits = u64::from_le_bytes(*bytes);
        while bits != 0 {
            take(part * 8 + bits.trailing_zeros() as usize / 8);
            bits &= bits - 1;
        }
    }
}
