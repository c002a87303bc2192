//! Which rows of a file can be learned from, and which of them are held out, found before anything else is known; no columns of inputs.

use std::path::Path;

use super::survey::BLOCK_ROWS;
use crate::data::Roles;
use crate::error::Result;
use crate::tables::TableBlocks;
use crate::tables::read::How;

/// The roles of the rows of a file that have a target: those that [`split`](crate::data::split) gives them in memory.
pub(super) fn roles_of_file(
    path: &Path,
    (target, delimiter): (&str, Option<u8>),
    (test, validation): (f64, f64),
    seed: u64,
) -> Result<Roles> {
    let mut labelled = Labelled::default();
    for block in TableBlocks::new(path, BLOCK_ROWS, &|name| name == target, How { delimiter, groups: None })?
    {
        let block = block?;
        let missing = |row: usize| block.column(target).is_some_and(|column| column.is_missing(row));
        (0..block.rows()).for_each(|row| labelled.push(!missing(row)));
    }
    if labelled.count() == 0 {
        // Whoever reads the file next says what is wrong with it.
        return Ok(Roles::default());
    }
    let roles = Roles::new(labelled.count(), test, validation, seed)?;
    Ok(match labelled.listed {
        Some(listed) => roles.among(&listed, labelled.rows),
        None => roles,
    })
}

/// The rows with a target: listed only from the first row without one on.
#[derive(Default)]
struct Labelled {
    rows: usize,
    listed: Option<Vec<u32>>,
}

impl Labelled {
    fn push(&mut self, labelled: bool) {
        // More rows than there are numbers for are refused when roles are drawn.
        let row = u32::try_from(self.rows).unwrap_or(u32::MAX);
        match &mut self.listed {
            Some(listed) if labelled => listed.push(row),
            None if !labelled => self.listed = Some((0..row).collect()),
            _ => {}
        }
        self.rows += 1;
    }

    fn count(&self) -> usize {
        self.listed.as_ref().map_or(self.rows, Vec::len)
    }
}
