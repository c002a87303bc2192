//! Lists of neighbours, one for every row.

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

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length of the longest list.
    pub(crate) fn longest(&self) -> usize {
        (0..self.len()).map(|row| self.get(row).len()).max().unwrap_or(0)
    }
}
