//! The schema of a table in memory.

use super::columns::{Schema, SchemaOptions, check_labelled};
use super::groups::GroupLevels;
use super::odd::odd_values;
use super::table_facts::TableFacts;
use crate::tables::Table;
use sparsegp::error::Result;

impl Schema {
    /// Finds the features of a training table and checks that a model can learn from it. Rows without a target are ignored.
    ///
    /// The columns of [`SchemaOptions::places`] are one feature. A column of numbers (or of `true` and `false`) is numeric and a column of
    /// text is categorical. In a column with at least 20 values and at least 90 % numbers, text counts as missing; any other column that
    /// mixes both is categorical. The error for shorter columns, and for numbers in different units, names the first such cells.
    ///
    /// Unless the options set the kind of target, the values decide. Two distinct values are binary if they are text, or true and false, or
    /// numbers in more than two rows. Text with more distinct values, each at least twice on average, has classes. Whole numbers that begin
    /// at 0 or 1 and become rarer are counts (see `counts`). Other numbers are real.
    ///
    /// The positive class is the requested class. Without a request it is the class that means yes if the other means no (as in yes and no,
    /// true and false, 1 and -1). Otherwise it is the larger number, or the text with fewer rows, or the later text in sorted order.
    ///
    /// Returns the schema, and warnings about columns that can be used but look wrong.
    ///
    /// # Errors
    ///
    /// If the target or another named column is absent, no feature is left, a column holds values that do not
    /// suit its role, there is only one row, or the target cannot be learned from: a value is missing or not of the kind, the values do not
    /// vary, there are not exactly two classes, the levels have a gap or are too few or too many, or the requested positive class does not
    /// occur. Usage errors if a column has two roles, if an exposure is given for a target that is not a count, or if a positive class is
    /// requested for a target without classes.
    pub fn infer(table: &Table, options: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
        let (labelled, mut notes) = (table.with_values(&options.target), Vec::new());
        if let Some(known) = &options.known {
            known.check_training(&labelled)?;
            return Ok((known.clone(), Vec::new()));
        }
        let readings = options.readings.clone().unwrap_or_default();
        let read = labelled.read(&readings, &|_| true)?;
        let names = table.columns().iter().map(|named| named.name.as_str());
        let facts = TableFacts::new(table.source(), names, &|name| options.demand(name));
        let mut facts = facts.with_places(options.places.as_ref());
        facts.push(&read, None);
        let unlabelled = check_labelled(&options.target, &facts.source, labelled.rows(), table.rows())?;
        if options.readings.is_none() {
            let (found, note) = options.readings_of(&facts)?;
            if !found.is_empty() {
                let options = SchemaOptions { readings: Some(found), ..options.clone() };
                let (schema, notes) = Schema::infer(table, &options)?;
                return Ok((schema, note.into_iter().chain(notes).collect()));
            }
            notes.extend(note);
        }
        let (mut schema, found) = Schema::of_facts(&facts, options)?;
        let mut levels = GroupLevels::default();
        levels.push(&read, options)?;
        schema.take_groups(&levels, options)?;
        notes.extend(found);
        notes.extend(unlabelled);
        notes.extend(odd_values(&facts, &schema, &read)?);
        Ok((schema, notes))
    }
}
