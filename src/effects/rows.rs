//! The level and the numbers z of every row for every term, and the pairs of levels that occur in
//! one row.

use super::term::{EffectTerm, Effects, POPULATION};
use faer::{MatRef, RowRef};

/// The code of a level that training did not see.
pub(super) const NEW: u32 = u32::MAX;

/// The code of a row without effects of a term.
pub(super) const NONE: u32 = u32::MAX - 1;

/// The level and the numbers z of one row for one term.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Entry {
    /// The code of the level, [`NEW`] for a new level, or [`NONE`] for a row without effects.
    level: u32,
    /// z, one number for each effect of a level.
    z: Vec<f64>,
}

impl Entry {
    /// Reads the entry of a term from the columns of a row behind the inputs of f.
    pub(super) fn of(term: &EffectTerm, columns: RowRef<'_, f64>) -> Entry {
        let code = columns[term.code];
        let level = match code {
            POPULATION => NONE,
            code if code >= 0.0 && code < term.levels as f64 => code as u32,
            _ => NEW,
        };
        Entry { level, z: term.z(columns).collect() }
    }

    /// Returns the level, if training knows it.
    pub(crate) fn known(&self) -> Option<usize> {
        (self.level < NONE).then_some(self.level as usize)
    }

    /// Takes the row's effects of the term away.
    pub(crate) fn leave_out(&mut self) {
        self.level = NONE;
    }

    /// Returns true if training did not see the level.
    pub(crate) fn is_new(&self) -> bool {
        self.level == NEW
    }

    /// Returns z, one number for each effect of a level.
    pub fn z(&self) -> &[f64] {
        &self.z
    }
}

impl Effects {
    /// Returns the level and z of the row `x` (inputs of f, then the columns of the terms) for every term.
    pub fn entries(&self, x: RowRef<'_, f64>) -> Vec<Entry> {
        let columns = x.subcols(self.inputs(), x.ncols() - self.inputs());
        self.terms().iter().map(|term| Entry::of(term, columns)).collect()
    }
}

/// Codes and z of one term for all rows.
#[derive(Clone, Debug)]
pub(crate) struct TermRows {
    pub codes: Vec<u32>,
    /// n × r, row by row.
    pub z: Vec<f64>,
    pub width: usize,
    pub levels: usize,
}

impl TermRows {
    pub fn z(&self, row: usize) -> &[f64] {
        &self.z[row * self.width..(row + 1) * self.width]
    }
}

/// Codes and z of all terms for all training rows, with the term to eliminate and the pairs of its levels with levels of other terms.
#[derive(Clone, Debug)]
pub(crate) struct EffectRows {
    pub(crate) terms: Vec<TermRows>,
    /// The eliminated term: the one with the most coefficients.
    pub(crate) eliminated: usize,
    pub(crate) meetings: Meetings,
}

/// The coefficients of other terms that occur in rows together with each level of the eliminated
/// term. A *place* is the index of such a pair.
#[derive(Clone, Debug)]
pub(crate) struct Meetings {
    /// For every level its first place; the number of places at the end.
    pub offsets: Vec<usize>,
    /// For every place the coefficient of the other terms; the coefficients of one level of another
    /// term follow each other.
    pub columns: Vec<u32>,
    /// For every row and other term, the first place of the row's level in this term.
    pub places: Vec<u32>,
}

impl EffectRows {
    /// Reads the inputs of all rows (`n × (D + columns)`); every code is the code of a known level.
    pub fn new(effects: &Effects, x: MatRef<'_, f64>) -> Self {
        let inputs = x.ncols() - effects.columns();
        let terms: Vec<TermRows> = effects
            .terms()
            .iter()
            .map(|term| term_rows(term, x.subcols(inputs, effects.columns())))
            .collect();
        let eliminated = effects.eliminated();
        let meetings = Meetings::new(&terms, eliminated);
        EffectRows { terms, eliminated, meetings }
    }

    pub fn len(&self) -> usize {
        self.terms.first().map_or(0, |term| term.codes.len())
    }

    /// Returns the terms that are not eliminated.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.terms.len()).filter(|&term| term != self.eliminated)
    }

    /// Returns the index of a term's first coefficient among the coefficients that are not
    /// eliminated.
    pub(crate) fn other_offset(&self, term: usize) -> usize {
        self.others().take_while(|&other| other != term).map(|other| self.size(other)).sum()
    }

    /// Returns the number of coefficients of all terms that are not eliminated.
    pub(crate) fn other_size(&self) -> usize {
        self.others().map(|term| self.size(term)).sum()
    }

    /// Returns the index of a term's first coefficient among all coefficients.
    pub(crate) fn offset(&self, term: usize) -> usize {
        (0..term).map(|term| self.size(term)).sum()
    }

    /// Returns the number of coefficients of a term.
    pub(crate) fn size(&self, term: usize) -> usize {
        self.terms[term].levels * self.terms[term].width
    }
}

fn term_rows(term: &EffectTerm, columns: MatRef<'_, f64>) -> TermRows {
    let (n, width) = (columns.nrows(), term.width());
    let codes = columns.col(term.code).iter().map(|&code| code as u32).collect();
    let mut z = Vec::with_capacity(n * width);
    columns.row_iter().for_each(|row| z.extend(term.z(row)));
    TermRows { codes, z, width, levels: term.levels }
}

impl Meetings {
    fn new(terms: &[TermRows], eliminated: usize) -> Meetings {
        let others: Vec<&TermRows> =
            (0..terms.len()).filter(|&t| t != eliminated).map(|t| &terms[t]).collect();
        let Some(own) = terms.get(eliminated) else {
            return Meetings { offsets: vec![0], columns: Vec::new(), places: Vec::new() };
        };
        let n = own.codes.len();
        let mut meetings = Meetings {
            offsets: Vec::with_capacity(own.levels + 1),
            columns: Vec::new(),
            places: vec![0; n * others.len()],
        };
        let rows = sorted_rows(own);
        // For every level of another term: the last level of the eliminated term that occurred with
        // it, and the place of that pair.
        let mut met: Vec<Vec<(u32, u32)>> = others.iter().map(|term| vec![(NEW, 0); term.levels]).collect();
        let mut at = 0;
        for level in 0..own.levels as u32 {
            meetings.offsets.push(meetings.columns.len());
            while at < n && own.codes[rows[at] as usize] == level {
                let row = rows[at] as usize;
                let mut first = 0;
                for (place, term) in others.iter().enumerate() {
                    let code = term.codes[row] as usize;
                    let seen = &mut met[place][code];
                    if seen.0 != level {
                        *seen = (level, meetings.columns.len() as u32);
                        let columns = first + code * term.width..first + (code + 1) * term.width;
                        meetings.columns.extend(columns.map(|column| column as u32));
                    }
                    meetings.places[row * others.len() + place] = seen.1;
                    first += term.levels * term.width;
                }
                at += 1;
            }
        }
        meetings.offsets.push(meetings.columns.len());
        meetings
    }

    /// Returns the places of a level of the eliminated term.
    pub fn of(&self, level: usize) -> std::ops::Range<usize> {
        self.offsets[level]..self.offsets[level + 1]
    }
}

/// Returns the rows in the order of their levels.
fn sorted_rows(term: &TermRows) -> Vec<u32> {
    let mut starts = vec![0usize; term.levels + 1];
    term.codes.iter().for_each(|&code| starts[code as usize + 1] += 1);
    (0..term.levels).for_each(|level| starts[level + 1] += starts[level]);
    let mut rows = vec![0; term.codes.len()];
    for (row, &code) in term.codes.iter().enumerate() {
        let start = &mut starts[code as usize];
        rows[*start] = row as u32;
        *start += 1;
    }
    rows
}
