//! Rows in blocks of near ones and blocks in windows, each with the union of its rows and their neighbours; no algebra.

use super::cells::cut;
use super::lists::Lists;
use faer::MatRef;

/// Rows of one unit of work, at most.
const MOST_ROWS: usize = 128;

/// The most rows and neighbours that a block has, unless one row has more.
const MOST_MEMBERS: usize = 1024;

/// Bytes that one matrix of a window's features may take.
const WINDOW_BYTES: usize = 96 << 20;

/// Some rows with their neighbours: what one thread works on at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's members within the window: its rows, then rows that are only neighbours.
    pub members: Vec<u32>,
    /// How many of them are rows of the block.
    pub count: usize,
    /// Neighbours of the block's rows, as places in `members`.
    pub lists: Lists,
}

/// Blocks that share the features of their members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Which queries or data: the rows of the blocks, one block after the other, and data that are neighbours only.
    pub members: Vec<u32>,
    /// How many of them, from the first on, are queries and none of the data.
    pub queries: usize,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// All rows in windows of blocks, in an order in which near rows follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// The windows.
    pub all: Vec<Window>,
    rows: usize,
}

impl Windows {
    /// The most members of a window, for features of dimension `m` (a few more if a single block has them).
    pub fn most_members(m: usize) -> usize {
        WINDOW_BYTES / (8 * m.max(16))
    }

    /// Windows of `most` members of the rows `order` of the data, which has near ones next to each other, for these neighbours.
    pub fn new(order: &[u32], lists: &Lists, most: usize) -> Windows {
        Windows::of(order, lists, Places { own: true, of: vec![UNUSED; lists.len()] }, most)
    }

    /// Windows of some rows of the data, known to the search as `near` (`n × D'`), for these neighbours, which come before them in
    /// an order that has these rows in their own.
    ///
    /// Rows of one half of an order have their neighbours at about one distance, half as many rows in a wider circle: each half has
    /// blocks of its own, so that what the rows of a block have for neighbours overlaps.
    pub fn near(near: MatRef<'_, f64>, order: &[u32], lists: &Lists, most: usize) -> Windows {
        let (mut rows, mut from) = (order.to_vec(), 0);
        while from < rows.len() {
            let to = (2 * from).max(MOST_ROWS).min(rows.len());
            cut(near, &mut rows[from..to]);
            from = to;
        }
        Windows::new(&rows, lists, most)
    }

    /// Windows of `most` members of queries in this order, for these neighbours of theirs among `n` data.
    pub(crate) fn of_queries(order: &[u32], lists: &Lists, n: usize, most: usize) -> Windows {
        Windows::of(order, lists, Places { own: false, of: vec![UNUSED; n] }, most)
    }

    fn of(order: &[u32], lists: &Lists, mut places: Places, most: usize) -> Windows {
        let (mut blocks, mut from) = (Vec::new(), 0);
        while from < order.len() {
            let taken = places.fitting(&order[from..], lists);
            blocks.push(places.block(&order[from..from + taken], lists));
            from += taken;
        }
        let mut all = Vec::new();
        while !blocks.is_empty() {
            let rest = blocks.split_off(places.fitting_blocks(&blocks, most));
            all.push(places.window(std::mem::replace(&mut blocks, rest)));
        }
        Windows { all, rows: order.len() }
    }

    /// The number of rows in all windows together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many features are computed for each row, neighbours that a window shares being counted once.
    pub fn overhead(&self) -> f64 {
        self.all.iter().map(|window| window.members.len()).sum::<usize>() as f64 / self.rows.max(1) as f64
    }

    /// The longest list of neighbours.
    pub fn longest(&self) -> usize {
        self.blocks().map(|block| block.lists.longest()).max().unwrap_or(0)
    }

    /// All blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.all.iter().flat_map(|window| &window.blocks)
    }
}

/// The place of a row of the data that is not used.
const UNUSED: u32 = u32::MAX;

/// Where the rows of the data are in the block or window that is made; all unused before and after.
struct Places {
    /// True if the rows of blocks are themselves data, and so neighbours of others.
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

    /// The block of these rows, its members being queries and data.
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

    /// How many of the blocks make the next window.
    fn fitting_blocks(&mut self, blocks: &[Block], most: usize) -> usize {
        let (mut met, mut queries, mut taken) = (Vec::new(), 0, 0);
        for block in blocks {
            let own = if self.own { 0 } else { block.count };
            queries += own;
            for &member in &block.members[own..] {
                if self.take(member, 0) {
                    met.push(member);
                }
            }
            if taken > 0 && met.len() + queries > most {
                break;
            }
            taken += 1;
        }
        self.free(&met);
        taken
    }

    /// The window of these blocks, whose members become places in it.
    fn window(&mut self, mut blocks: Vec<Block>) -> Window {
        let rows = |block: &Block| block.members[..block.count].to_vec();
        let mut members: Vec<u32> = blocks.iter().flat_map(rows).collect();
        let queries = if self.own { 0 } else { members.len() };
        if self.own {
            members.iter().enumerate().for_each(|(place, &row)| self.of[row as usize] = place as u32);
        }
        let mut from = 0;
        for block in &mut blocks {
            for member in &mut block.members[block.count..] {
                if self.take(*member, members.len()) {
                    members.push(*member);
                }
                *member = self.of[*member as usize];
            }
            (0..block.count).for_each(|at| block.members[at] = (from + at) as u32);
            from += block.count;
        }
        self.free(&members[queries..]);
        Window { members, queries, blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_every_row_once_with_its_neighbours() {
        let n = 1000u32;
        let lists: Vec<Vec<u32>> =
            (0..n).map(|row| (1..20).map(|step| (row + 7 * step) % n).collect()).collect();
        let lists = Lists::of(lists.iter().map(Vec::as_slice));
        let order: Vec<u32> = (0..n).collect();
        for (own, most) in [(true, 400), (true, 5000), (false, 400), (false, 5000)] {
            let windows = if own {
                Windows::new(&order, &lists, most)
            } else {
                Windows::of_queries(&order, &lists, n as usize, most)
            };
            let mut rows = Vec::new();
            for window in &windows.all {
                assert!(window.members.len() <= most.max(MOST_MEMBERS));
                let mut data = window.members[window.queries..].to_vec();
                data.sort_unstable();
                data.dedup();
                assert_eq!(data.len(), window.members.len() - window.queries);
                for block in &window.blocks {
                    let of = |place: u32| window.members[block.members[place as usize] as usize];
                    for at in 0..block.count {
                        rows.push(of(at as u32));
                        let found: Vec<u32> = block.lists.get(at).iter().map(|&place| of(place)).collect();
                        assert_eq!(found, lists.get(of(at as u32) as usize));
                        assert!(block.lists.get(at).iter().all(|&place| own
                            || block.members[place as usize] as usize >= window.queries));
                    }
                }
            }
            assert_eq!(rows, order);
            assert_eq!(windows.all.len() == 1, most == 5000);
            assert!(windows.overhead() < 4.0 && windows.longest() == 19);
        }
    }
}
