//! Lists of neighbours, and the division of rows into blocks of near rows, and of blocks into windows, each with the union of its
//! rows and their neighbours.

use super::cells::cut;
use faer::MatRef;

/// The maximum number of rows in a block.
const MOST_ROWS: usize = 128;

/// The maximum number of rows and neighbours in a block, unless a single row has more.
const MOST_MEMBERS: usize = 1024;

/// The maximum size in bytes of one matrix of features of a window.
const WINDOW_BYTES: usize = 96 << 20;

/// Some rows with their neighbours: the unit of work of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The members of the block, as indices into the members of the window: its rows, then rows
    /// that are only neighbours.
    pub members: Vec<u32>,
    /// The number of rows of the block.
    pub count: usize,
    /// The neighbours of the rows of the block, as indices into `members`.
    pub lists: Lists,
}

/// Blocks that share the features of their members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// The indices of the members among queries or data: the rows of the blocks, one block after
    /// the other, then data that are only neighbours.
    pub members: Vec<u32>,
    /// The number of leading members that are queries, which do not belong to the data.
    pub queries: usize,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// All rows in windows of blocks, ordered so that near rows follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    pub(crate) all: Vec<Window>,
    rows: usize,
}

impl Windows {
    /// Returns the maximum number of members of a window for features of dimension `m`; a single
    /// large block may exceed it.
    pub fn most_members(m: usize) -> usize {
        WINDOW_BYTES / (8 * m.max(16))
    }

    /// Creates windows of at most `most` members for the rows `order` of the data, with their
    /// neighbours in `lists`. In `order`, near rows should follow each other.
    pub fn new(order: &[u32], lists: &Lists, most: usize) -> Windows {
        Windows::of(order, lists, Places { own: true, of: vec![UNUSED; lists.len()] }, most)
    }

    /// Creates windows for some rows of the data, in the order in which `lists` has nearest
    /// predecessors; `near` (`n × D'`) has the rows in the coordinates of the search.
    ///
    /// The second half of the order, the second half of its first half, and so on have separate
    /// blocks. In each of these ranges rows have their predecessors at similar distances, so the
    /// neighbours of the rows of a block overlap.
    pub fn near(near: MatRef<'_, f64>, order: &[u32], lists: &Lists, most: usize) -> Windows {
        let (mut rows, mut from) = (order.to_vec(), 0);
        while from < rows.len() {
            let to = (2 * from).max(MOST_ROWS).min(rows.len());
            cut(near, &mut rows[from..to]);
            from = to;
        }
        Windows::new(&rows, lists, most)
    }

    /// Creates windows of at most `most` members for queries in this order, with their neighbours
    /// among `n` data.
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

    /// Returns the number of rows in all windows together.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the mean number of members whose features are computed per row; neighbours that rows
    /// of a window share count once.
    pub fn overhead(&self) -> f64 {
        self.all.iter().map(|window| window.members.len()).sum::<usize>() as f64 / self.rows.max(1) as f64
    }

    /// Returns the length of the longest list of neighbours.
    pub(crate) fn longest(&self) -> usize {
        self.blocks().map(|block| block.lists.longest()).max().unwrap_or(0)
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.all.iter().flat_map(|window| &window.blocks)
    }
}

/// The index of a row of the data that is not a member.
const UNUSED: u32 = u32::MAX;

/// The index of every row of the data in the block or window under construction; all are unused
/// before and after.
struct Places {
    /// True if the rows of blocks are data themselves, and therefore may be neighbours of other
    /// rows.
    own: bool,
    of: Vec<u32>,
}

impl Places {
    /// Gives a row of the data the index `place` unless it has one; returns true if it had none.
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

    /// Returns the number of leading rows that fit into the next block.
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

    /// Returns the block of these rows, whose members are indices of queries and data.
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

    /// Returns the number of leading blocks that fit into the next window.
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

    /// Returns the window of these blocks, whose members become indices into the members of the
    /// window.
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

/// Neighbours of rows: a list of row numbers for each, nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    ends: Vec<usize>,
    rows: Vec<u32>,
}

impl Lists {
    /// Creates the lists of rows from single lists.
    pub(crate) fn of<'a>(lists: impl IntoIterator<Item = &'a [u32]>) -> Lists {
        let mut all = Lists::default();
        lists.into_iter().for_each(|list| all.push(list));
        all
    }

    /// Creates the lists of `n` queries from pairs of a query and its list, in any order.
    pub(super) fn by_query(n: usize, found: Vec<(u32, Vec<u32>)>) -> Lists {
        let mut by_query = vec![Vec::new(); n];
        found.into_iter().for_each(|(query, points)| by_query[query as usize] = points);
        Lists::of(by_query.iter().map(Vec::as_slice))
    }

    fn push(&mut self, list: &[u32]) {
        self.rows.extend_from_slice(list);
        self.ends.push(self.rows.len());
    }

    /// Returns the neighbours of row `row`.
    pub fn get(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.rows[start..self.ends[row]]
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length of the longest list.
    pub(crate) fn longest(&self) -> usize {
        (0..self.len()).map(|row| self.get(row).len()).max().unwrap_or(0)
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
