//! Trees: their growth on histograms, leaf by leaf, and their values at rows.

use crate::Settings;
use crate::columns::{Bin, Bins, LEVEL_ROWS};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The number of levels up to which single levels are split off; more levels are split in the order of their gradients.
const FEW_LEVELS: usize = 4;

/// The additional curvature that draws the order of levels with few rows to the middle, and the additional penalty of their splits; both are
/// the defaults of LightGBM (`cat_smooth`, `cat_l2`).
const LEVEL_SMOOTHING: f64 = 10.0;

/// The factor by which the gain of a split has to be larger to replace an earlier one, so that rounding does not decide between equal splits.
const BY_MORE: f64 = 1.0 + 1e-9;

/// The share of the gain of both sides that may be rounding.
const ROUNDING: f64 = 1e-10;

/// The most levels on the smaller side of a split.
const MOST_LEVELS: usize = 32;

/// The column of a split, and the bins whose rows go left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Split {
    column: u32,
    left: Side,
}

/// A set of bins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Side {
    /// The bins of numbers up to the first bin, and the second bin, that of missing cells, if they go left.
    UpTo(Bin, Option<Bin>),
    /// Bins of levels, in ascending order.
    Levels(Vec<Bin>),
}

impl Side {
    fn has(&self, bin: Bin) -> bool {
        match self {
            Side::UpTo(last, missing) => bin <= *last || Some(bin) == *missing,
            Side::Levels(bins) => bins.binary_search(&bin).is_ok(),
        }
    }
}

/// A node: a split with the number of its left child, which the right one follows; or a leaf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Node {
    Split(Split, u32),
    Leaf(f64),
}

/// A regression tree on the bins of columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree(Vec<Node>);

impl Tree {
    /// Returns true if every split has a column and children after it, so that the way of a row ends at a leaf.
    pub(crate) fn is_sound(&self, columns: usize) -> bool {
        let is_sound = |(at, node): (usize, &Node)| match node {
            Node::Leaf(value) => value.is_finite(),
            Node::Split(split, left) => {
                let left = *left as usize;
                (split.column as usize) < columns && left > at && left + 1 < self.0.len()
            }
        };
        !self.0.is_empty() && self.0.iter().enumerate().all(is_sound)
    }

    /// Returns the value at a row, whose bins `bin` returns.
    pub(crate) fn value(&self, bin: impl Fn(usize) -> Bin) -> f64 {
        let mut at = 0;
        loop {
            match &self.0[at] {
                Node::Leaf(value) => return *value,
                Node::Split(split, left) => {
                    let right = usize::from(!split.left.has(bin(split.column as usize)));
                    at = *left as usize + right;
                }
            }
        }
    }
}

/// Sums of slopes and curvatures over rows, and their number.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    slope: f64,
    curvature: f64,
    rows: f64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.slope += other.slope;
        self.curvature += other.curvature;
        self.rows += other.rows;
    }

    fn minus(self, other: Sums) -> Sums {
        // Without rows, rounding would leave more than 0.
        if self.rows == other.rows {
            return Sums::default();
        }
        Sums {
            slope: self.slope - other.slope,
            curvature: self.curvature - other.curvature,
            rows: self.rows - other.rows,
        }
    }

    /// The decrease of twice the quadratic approximation of the loss by the best step (Chen & Guestrin 2016, equation 6).
    fn gain(self, penalty: f64) -> f64 {
        self.slope * self.slope / (self.curvature + penalty)
    }
}

/// A leaf that may be split: its rows, its node, the sums of all bins, and its best split with the gain.
struct Leaf {
    rows: Range<usize>,
    node: usize,
    total: Sums,
    histogram: Vec<Sums>,
    best: Option<(f64, Split)>,
}

/// Grows trees on the rows of one sample.
pub(crate) struct Grower<'a> {
    bins: &'a [Bins],
    /// The bin of every row, by column.
    binned: &'a [Vec<Bin>],
    settings: &'a Settings,
    /// The first entry of every column in a histogram, and the length of histograms.
    starts: Vec<usize>,
    /// The rows of the sample, ordered by leaves.
    rows: Vec<u32>,
    /// Rows that go right, and derivatives in the order of the rows of a leaf.
    moved: Vec<u32>,
    ordered: Vec<(f64, f64)>,
    /// Histograms to use again.
    free: Vec<Vec<Sums>>,
}

impl<'a> Grower<'a> {
    pub(crate) fn new(
        bins: &'a [Bins],
        binned: &'a [Vec<Bin>],
        rows: Vec<u32>,
        settings: &'a Settings,
    ) -> Self {
        let mut starts = vec![0];
        bins.iter().for_each(|bins| starts.push(starts[starts.len() - 1] + bins.count()));
        Grower {
            bins,
            binned,
            settings,
            starts,
            rows,
            moved: Vec::new(),
            ordered: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The rows of the sample.
    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Grows a tree for slopes and curvatures of all rows, of which it reads those of the sample; adds its values to the scores at these
    /// rows.
    pub(crate) fn grow(&mut self, derivatives: &[(f64, f64)], score: &mut dyn FnMut(u32, f64)) -> Tree {
        let mut tree = vec![Node::Leaf(0.0)];
        let root = self.leaf(0..self.rows.len(), 0, derivatives);
        let mut leaves = vec![root];
        while leaves.len() < self.settings.leaves {
            let gain = |leaf: &Leaf| leaf.best.as_ref().map_or(0.0, |(gain, _)| *gain);
            // The first of several leaves with equal gains.
            let best = (0..leaves.len()).rev().max_by(|&a, &b| gain(&leaves[a]).total_cmp(&gain(&leaves[b])));
            let Some((at, (_, split))) = best.and_then(|at| Some((at, leaves[at].best.take()?))) else {
                break;
            };
            let (parent, nodes) = (leaves.swap_remove(at), tree.len());
            let node = parent.node;
            leaves.extend(self.divide(parent, &split, nodes, derivatives));
            tree.extend([Node::Leaf(0.0), Node::Leaf(0.0)]);
            tree[node] = Node::Split(split, nodes as u32);
        }
        for leaf in leaves {
            let value =
                -self.settings.rate * leaf.total.slope / (leaf.total.curvature + self.settings.penalty);
            tree[leaf.node] = Node::Leaf(value);
            self.rows[leaf.rows].iter().for_each(|&row| score(row, value));
            self.free.push(leaf.histogram);
        }
        Tree(tree)
    }

    /// Divides a leaf into leaves at nodes `nodes` and `nodes + 1`.
    fn divide(&mut self, parent: Leaf, split: &Split, nodes: usize, derivatives: &[(f64, f64)]) -> [Leaf; 2] {
        let column = &self.binned[split.column as usize];
        let own = &mut self.rows[parent.rows.clone()];
        self.moved.clear();
        let mut left = 0;
        for at in 0..own.len() {
            let row = own[at];
            if split.left.has(column[row as usize]) {
                own[left] = row;
                left += 1;
            } else {
                self.moved.push(row);
            }
        }
        own[left..].copy_from_slice(&self.moved);
        let middle = parent.rows.start + left;
        let parts = [(parent.rows.start..middle, nodes), (middle..parent.rows.end, nodes + 1)];
        // The histogram of the larger part is the difference.
        let small = usize::from(left > parent.rows.len() / 2);
        let (rows, node) = parts[small].clone();
        let smaller = self.leaf(rows, node, derivatives);
        let mut histogram = parent.histogram;
        histogram.iter_mut().zip(&smaller.histogram).for_each(|(sums, of)| *sums = sums.minus(*of));
        let (rows, node) = parts[1 - small].clone();
        let larger = self.searched(Leaf {
            rows,
            node,
            total: parent.total.minus(smaller.total),
            histogram,
            best: None,
        });
        [smaller, larger]
    }

    /// Sums the derivatives of rows by bin, and finds the best split.
    fn leaf(&mut self, rows: Range<usize>, node: usize, derivatives: &[(f64, f64)]) -> Leaf {
        let own = &self.rows[rows.clone()];
        self.ordered.clear();
        self.ordered.extend(own.iter().map(|&row| derivatives[row as usize]));
        let length = self.starts[self.bins.len()];
        let mut histogram = self.free.pop().unwrap_or_default();
        histogram.clear();
        histogram.resize(length, Sums::default());
        for (column, start) in self.binned.iter().zip(&self.starts) {
            let sums = &mut histogram[*start..];
            for (&row, &(slope, curvature)) in own.iter().zip(&self.ordered) {
                let sums = &mut sums[usize::from(column[row as usize])];
                sums.slope += slope;
                sums.curvature += curvature;
                sums.rows += 1.0;
            }
        }
        let mut total = Sums { rows: own.len() as f64, ..Sums::default() };
        for &(slope, curvature) in &self.ordered {
            total.slope += slope;
            total.curvature += curvature;
        }
        self.searched(Leaf { rows, node, total, histogram, best: None })
    }

    /// Finds the best split of a leaf.
    fn searched(&self, leaf: Leaf) -> Leaf {
        let mut best: Option<(f64, Split)> = None;
        if leaf.total.rows >= 2.0 * self.settings.leaf_rows {
            for (column, bins) in self.bins.iter().enumerate() {
                let sums = &leaf.histogram[self.starts[column]..self.starts[column + 1]];
                let search = Search { sums, total: leaf.total, settings: self.settings };
                let found = if bins.is_of_levels() { search.levels() } else { search.numbers() };
                if let Some((gain, left)) =
                    found.filter(|(gain, _)| best.as_ref().is_none_or(|(of, _)| *gain > of * BY_MORE))
                {
                    best = Some((gain, Split { column: column as u32, left }));
                }
            }
        }
        Leaf { best, ..leaf }
    }
}

/// The search for the best split of a leaf by one column.
struct Search<'a> {
    sums: &'a [Sums],
    total: Sums,
    settings: &'a Settings,
}

type Found = Option<(f64, Side)>;

impl Search<'_> {
    /// The gain of a split, if both sides have enough rows and it is above 0.
    fn gain(&self, left: Sums, penalty: f64) -> Option<f64> {
        let right = self.total.minus(left);
        let enough = |side: Sums| {
            side.rows >= self.settings.leaf_rows && side.curvature >= self.settings.leaf_curvature
        };
        let apart = left.gain(penalty) + right.gain(penalty);
        let gain = apart - self.total.gain(penalty);
        (enough(left) && enough(right) && gain > ROUNDING * apart).then_some(gain)
    }

    /// The best threshold, with missing cells on either side.
    fn numbers(&self) -> Found {
        let (last, penalty) = (self.sums.len() - 1, self.settings.penalty);
        let missing = self.sums[last];
        let mut best: Option<(f64, usize, bool)> = None;
        for with_missing in [false, true] {
            if with_missing && missing.rows == 0.0 {
                break;
            }
            let mut left = if with_missing { missing } else { Sums::default() };
            for bin in 0..last {
                left.add(self.sums[bin]);
                let gain =
                    self.gain(left, penalty).filter(|gain| best.is_none_or(|(of, ..)| *gain > of * BY_MORE));
                best = gain.map(|gain| (gain, bin, with_missing)).or(best);
            }
        }
        let (gain, bin, with_missing) = best?;
        // Without missing cells in the leaf, those of new rows follow the larger side.
        let left: f64 = self.sums[..=bin].iter().map(|sums| sums.curvature).sum();
        let missing_left = if missing.rows == 0.0 { left > 0.5 * self.total.curvature } else { with_missing };
        Some((gain, Side::UpTo(bin as Bin, missing_left.then_some(last as Bin))))
    }

    /// The best set of levels: a single one of few, or the first ones in the order of their gradients (Fisher 1958).
    fn levels(&self) -> Found {
        let present: Vec<usize> = (0..self.sums.len()).filter(|&bin| self.sums[bin].rows > 0.0).collect();
        if present.len() < 2 {
            return None;
        }
        if present.len() <= FEW_LEVELS {
            let of = |&bin: &usize| Some((self.gain(self.sums[bin], self.settings.penalty)?, bin));
            let best = present
                .iter()
                .filter_map(of)
                .reduce(|best, of| if of.0 > best.0 * BY_MORE { of } else { best });
            return best.map(|(gain, bin)| (gain, Side::Levels(vec![bin as Bin])));
        }
        let mut sorted = present;
        sorted.retain(|&bin| self.sums[bin].rows >= LEVEL_ROWS as f64);
        let order = |bin: usize| self.sums[bin].slope / (self.sums[bin].curvature + LEVEL_SMOOTHING);
        sorted.sort_by(|&a, &b| order(a).total_cmp(&order(b)));
        let penalty = self.settings.penalty + LEVEL_SMOOTHING;
        let most = MOST_LEVELS.min(sorted.len().div_ceil(2));
        let mut best: Option<(f64, usize, bool)> = None;
        for backwards in [false, true] {
            let mut left = Sums::default();
            for taken in 1..=most {
                let at = |i: usize| if backwards { sorted[sorted.len() - 1 - i] } else { sorted[i] };
                left.add(self.sums[at(taken - 1)]);
                let gain =
                    self.gain(left, penalty).filter(|gain| best.is_none_or(|(of, ..)| *gain > of * BY_MORE));
                best = gain.map(|gain| (gain, taken, backwards)).or(best);
            }
        }
        let (gain, taken, backwards) = best?;
        let from = if backwards { sorted.len() - taken } else { 0 };
        let mut left: Vec<Bin> = sorted[from..from + taken].iter().map(|&bin| bin as Bin).collect();
        left.sort_unstable();
        Some((gain, Side::Levels(left)))
    }
}
