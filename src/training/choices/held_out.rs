//! The training rows that choices are judged by, and what losses of them say of two fits; no fits.

use crate::data::{Purpose, generator};
use faer::MatRef;
use rand::seq::SliceRandom;
use sparsegp_kernels::Dimension;
use std::ops::Range;

/// With fewer rows there is nothing to hold out.
const FEWEST_ROWS: usize = 60;

/// The share of the rows that are held out, and the most of them.
const HELD_OUT: (f64, usize) = (0.3, 2000);

/// Rows to fit to, at most `most_of` the number of all, and rows to judge by, at random and each in their order; none where rows are too
/// few. Choices that draw by different `run`s draw independently.
pub fn held_out(
    n: usize,
    (seed, run): (u64, u64),
    most_of: impl FnOnce(usize) -> usize,
) -> Option<(Vec<usize>, Vec<usize>)> {
    if n < FEWEST_ROWS {
        return None;
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(seed, Purpose::Choices, run));
    let held = ((HELD_OUT.0 * n as f64) as usize).min(HELD_OUT.1);
    let mut train = rows.split_off(held);
    train.truncate(most_of(n));
    train.sort_unstable();
    rows.sort_unstable();
    Some((train, rows))
}

/// The number of blocks that places are cut into, if there are enough rows: so many that a third of them lies all over the map, and so few
/// that most rows of a block are far from the rows outside of it.
const BLOCKS: usize = 64;

/// The fewest rows of a block.
const ROWS_OF_BLOCK: usize = 8;

/// The coordinates of the place among the inputs, if there is one.
pub(super) fn coordinates(dimensions: &[Dimension]) -> Option<Range<usize>> {
    let first = dimensions.iter().position(|dimension| dimension.is_coordinate())?;
    let count = dimensions[first..].iter().take_while(|dimension| dimension.is_coordinate()).count();
    Some(first..first + count)
}

/// As [`held_out`], with whole blocks of neighbouring places held out: rows at random have neighbours among the rows to fit to, which
/// predict them whatever the model is. `x` (`n × D`) has its coordinates in these columns.
pub(super) fn held_out_blocks(
    (x, coordinates): (MatRef<'_, f64>, Range<usize>),
    (seed, run): (u64, u64),
    most_of: impl FnOnce(usize) -> usize,
) -> Option<(Vec<usize>, Vec<usize>)> {
    let n = x.nrows();
    if n < FEWEST_ROWS {
        return None;
    }
    let mut random = generator(seed, Purpose::Choices, run);
    let mut blocks = vec![(0..n).collect::<Vec<usize>>()];
    while blocks.len() < BLOCKS && n / (2 * blocks.len()) >= ROWS_OF_BLOCK {
        blocks = blocks.into_iter().flat_map(|rows| halves(x, &coordinates, rows)).collect();
    }
    blocks.shuffle(&mut random);
    let wanted = (HELD_OUT.0 * n as f64) as usize;
    let (mut held, mut train) = (Vec::new(), Vec::new());
    for block in blocks {
        if held.len() < wanted { held.extend(block) } else { train.extend(block) }
    }
    for (rows, most) in [(&mut held, HELD_OUT.1), (&mut train, most_of(n))] {
        rows.shuffle(&mut random);
        rows.truncate(most);
        rows.sort_unstable();
    }
    Some((train, held))
}

/// The rows on both sides of the median of the coordinate with the widest range.
fn halves(x: MatRef<'_, f64>, coordinates: &Range<usize>, mut rows: Vec<usize>) -> [Vec<usize>; 2] {
    let width = |d: usize| {
        let values = rows.iter().map(|&row| x[(row, d)]);
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values.fold(ends, |(low, high), value| (low.min(value), high.max(value)));
        high - low
    };
    let widest = coordinates.clone().max_by(|&a, &b| width(a).total_cmp(&width(b)));
    if let Some(d) = widest {
        // Equal numbers stay in the order of their rows, so that the result does not depend on the sort.
        rows.sort_by(|&a, &b| x[(a, d)].total_cmp(&x[(b, d)]).then(a.cmp(&b)));
    }
    let upper = rows.split_off(rows.len() / 2);
    [rows, upper]
}

/// The log losses of held-out rows.
pub struct Losses(pub Vec<f64>);

impl Losses {
    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// How much lower the mean of others is, and the standard error of that.
    pub fn gain_of(&self, other: &Losses) -> (f64, f64) {
        let n = self.0.len() as f64;
        let gains = || self.0.iter().zip(&other.0).map(|(own, other)| own - other);
        let mean = gains().sum::<f64>() / n;
        let variance = gains().map(|gain| (gain - mean).powi(2)).sum::<f64>() / n;
        (mean, (variance / n).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    #[test]
    fn held_out_places_are_whole_blocks() {
        // A lattice of 64 × 64 places beside another input.
        let x = Mat::from_fn(4096, 3, |row, d| match d {
            0 => (row * 7 % 4096) as f64,
            1 => (row / 64) as f64,
            _ => (row % 64) as f64,
        });
        let of_places = || held_out_blocks((x.as_ref(), 1..3), (3, 0), |n| n / 8);
        let (train, held) = of_places().expect("enough rows");
        assert_eq!((train.len(), held.len()), (512, 1280));
        assert!(train.is_sorted() && held.is_sorted() && held.iter().all(|row| !train.contains(row)));
        let held_at = |row: usize| held.binary_search(&row).is_ok();
        let inner =
            held.iter().filter(|&&row| row >= 64 && row + 64 < 4096 && row % 64 != 0 && row % 64 != 63);
        let alone =
            inner.filter(|&&row| [row - 64, row + 64, row - 1, row + 1].iter().all(|&at| !held_at(at)));
        assert_eq!(alone.count(), 0, "a block has 64 places");
        assert_eq!(of_places(), Some((train, held)));
    }

    #[test]
    fn coordinates_are_found_among_other_inputs() {
        let coordinate = |first| Dimension::Coordinate { first };
        let all = [Dimension::Number, coordinate(true), coordinate(false), Dimension::Category { levels: 2 }];
        assert_eq!(coordinates(&all), Some(1..3));
        assert_eq!(coordinates(&all[..1]), None);
    }
}
