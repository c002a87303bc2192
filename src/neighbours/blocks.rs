//! Rows in blocks of near ones, each with the union of its rows and their neighbours, so that what they share is computed once; no algebra.

use super::cells::cut;
use super::lists::Lists;
use faer::MatRef;
use std::ops::Range;

/// Rows of one unit of work, at most.
const MOST_ROWS: usize = 128;

/// Rows and neighbours that a block has at most, where one row does not have more: their features stay in a cache.
const MOST_MEMBERS: usize = 1024;

/// Some rows with their neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which rows: those of the block (of the data, or queries), then data that are neighbours only.
    pub members: Vec<u32>,
    /// How many of them are rows of the block.
    pub count: usize,
    /// Neighbours of the block's rows, as places in `members`.
    pub lists: Lists,
}

/// All rows in blocks, in an order in which near rows follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The blocks.
    pub all: Vec<Block>,
    rows: usize,
}

/// Consecutive blocks that are in memory together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which blocks.
    pub blocks: Range<usize>,
    /// Their rows.
    pub rows: usize,
    /// Their members, counted once a block.
    pub members: usize,
}

impl Blocks {
    /// Blocks of the rows `order` of the data, which has near ones next to each other, for these neighbours of every row.
    pub fn new(order: &[u32], lists: &Lists) -> Blocks {
        Blocks::of(order, lists, Places { own: true, of: vec![UNUSED; lists.len()] })
    }

    /// Blocks of all rows of the data, known to the search as `near` (`n × D'`), for these neighbours, which come before them in `order`.
    ///
    /// Rows of one half of the order have their neighbours at about one distance, half as many rows in a wider circle: each half has
    /// blocks of its own, so that what the rows of a block have for neighbours overlaps.
    pub fn near(near: MatRef<'_, f64>, order: &[u32], lists: &Lists) -> Blocks {
        let (mut rows, mut from) = (order.to_vec(), 0);
        while from < rows.len() {
            let to = (2 * from).max(MOST_ROWS).min(rows.len());
            cut(near, &mut rows[from..to]);
            from = to;
        }
        Blocks::new(&rows, lists)
    }

    /// Blocks of queries in this order, for these neighbours of theirs among `n` data.
    pub fn of_queries(order: &[u32], lists: &Lists, n: usize) -> Blocks {
        Blocks::of(order, lists, Places { own: false, of: vec![UNUSED; n] })
    }

    fn of(order: &[u32], lists: &Lists, mut places: Places) -> Blocks {
        let (mut all, mut from) = (Vec::new(), 0);
        while from < order.len() {
            let taken = places.fitting(&order[from..], lists);
            all.push(places.block(&order[from..from + taken], lists));
            from += taken;
        }
        Blocks { all, rows: order.len() }
    }

    /// The number of rows in all blocks together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many rows are worked on for each row, neighbours that blocks share being counted once a block.
    pub fn overhead(&self) -> f64 {
        self.all.iter().map(|block| block.members.len()).sum::<usize>() as f64 / self.rows.max(1) as f64
    }

    /// Consecutive blocks with `members` members or somewhat fewer together, at least one block each.
    pub fn windows(&self, members: usize) -> Vec<Window> {
        let mut windows: Vec<Window> = Vec::new();
        for (at, block) in self.all.iter().enumerate() {
            match windows.last_mut() {
                Some(last) if last.members + block.members.len() <= members => {
                    last.blocks.end = at + 1;
                    last.rows += block.count;
                    last.members += block.members.len();
                }
                _ => windows.push(Window {
                    blocks: at..at + 1,
                    rows: block.count,
                    members: block.members.len(),
                }),
            }
        }
        windows
    }
}

/// The place of a row of the data that a block has not met.
const UNUSED: u32 = u32::MAX;

/// Where the rows of the data are in the block that is made; all unused before and after.
struct Places {
    /// Whether the rows of blocks are themselves data, and neighbours of others.
    own: bool,
    of: Vec<u32>,
}

impl Places {
    /// Gives a row of the data the place `place` unless it has one; whether it had none.
    fn take(&mut self, row: u32, place: usize) -> bool {
        let unused = self.of[row as usize] == UNUSED;
        if unused {
            self.of[row as usize] = place as u32;
        }
        unused
    }

    fn free(&mut self, rows: &[u32]) {
        rows.iter().for_each(|&row| self.of[row as usize] = UNUSED);
    }

    /// How many of the rows make the next block.
    fn fitting(&mut self, order: &[u32], lists: &Lists) -> usize {
        let (mut met, mut taken) = (Vec::new(), 0);
        for row in order.iter().take(MOST_ROWS) {
            for &member in self.own.then_some(row).into_iter().chain(lists.get(*row as usize)) {
                if self.take(member, 0) {
                    met.push(member);
                }
            }
            let queries = if self.own { 0 } else { taken + 1 };
            if taken > 0 && met.len() + queries > MOST_MEMBERS {
                break;
            }
            taken += 1;
        }
        self.free(&met);
        taken
    }

    /// The block of these rows.
    fn block(&mut self, rows: &[u32], lists: &Lists) -> Block {
        let mut members = rows.to_vec();
        if self.own {
            rows.iter().enumerate().for_each(|(place, &row)| self.of[row as usize] = place as u32);
        }
        for &row in rows {
            for &neighbour in lists.get(row as usize) {
                if self.take(neighbour, members.len()) {
                    members.push(neighbour);
                }
            }
        }
        let local =
            |&row: &u32| lists.get(row as usize).iter().map(|&other| self.of[other as usize]).collect();
        let local: Vec<Vec<u32>> = rows.iter().map(local).collect();
        self.free(&members[if self.own { 0 } else { rows.len() }..]);
        Block { count: rows.len(), lists: Lists::of(local.iter().map(Vec::as_slice)), members }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_every_row_once_with_its_neighbours() {
        let n = 1000u32;
        let lists: Vec<Vec<u32>> =
            (0..n).map(|row| (1..20).map(|step| (row + 7 * step) % n).collect()).collect();
        let lists = Lists::of(lists.iter().map(Vec::as_slice));
        let order: Vec<u32> = (0..n).collect();
        let blocks = Blocks::new(&order, &lists);
        let mut rows = Vec::new();
        for block in &blocks.all {
            assert!(block.members.len() <= MOST_MEMBERS && (1..=MOST_ROWS).contains(&block.count));
            for at in 0..block.count {
                let row = block.members[at];
                rows.push(row);
                let found: Vec<u32> =
                    block.lists.get(at).iter().map(|&place| block.members[place as usize]).collect();
                assert_eq!(found, lists.get(row as usize));
            }
        }
        assert_eq!(rows, order);
        assert!(blocks.overhead() < 6.0);
        let windows = blocks.windows(500);
        assert_eq!(windows.iter().map(|window| window.blocks.len()).sum::<usize>(), blocks.all.len());
    }
}
