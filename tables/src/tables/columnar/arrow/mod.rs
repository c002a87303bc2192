//! Rows of an Arrow file or stream, read batch by batch into column builders; no bytes of the format.

mod array;
mod flat;
mod messages;
mod schema;

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;

use self::array::{Array, Arrays};
pub(super) use self::messages::Input;
use self::messages::{Header, Messages, damaged};
use self::schema::{Cells, Field, Kind};
use crate::tables::column::ColumnBuilder;
use crate::tables::format::{Opened, RowSource};
use crate::tables::table::{Lines, check_names, quoted};
use sparsegp::error::{Error, Result};

/// The maximum number of rows of a batch if no column that is read has a buffer.
const MOST_UNBACKED_ROWS: usize = 1 << 24;

/// An Arrow file or stream, read once from front to back. One record batch is in memory at a time.
pub(super) struct ArrowRows {
    source: String,
    messages: Messages,
    fields: Vec<Field>,
    names: Vec<String>,
    wanted: Vec<bool>,
    /// The dictionaries read so far, by number.
    dictionaries: HashMap<i64, Dictionary>,
    /// The current batch: each column that is read, with its index in the file.
    arrays: Vec<(usize, Array)>,
    left: Range<usize>,
    row: usize,
}

/// The values of the codes of a column.
struct Dictionary {
    kind: Kind,
    numbers: Vec<f64>,
    texts: Vec<String>,
}

impl ArrowRows {
    /// Reads the schema; returns the rows, and one builder for each wanted column.
    pub(super) fn open(source: &str, input: Input, wanted: &dyn Fn(&str) -> bool) -> Result<Opened> {
        let (messages, fields) = Messages::open(input).map_err(|error| unreadable(source, &error))?;
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        if names.is_empty() {
            return Err(Error::data(format!("{source}: the file has no columns")));
        }
        check_names(source, names.iter().map(String::as_str))?;
        let wanted: Vec<bool> = names.iter().map(|name| wanted(name)).collect();
        let mut dictionaries = HashMap::new();
        let builders = fields.iter().zip(&wanted).map(|(field, wanted)| {
            wanted.then(|| {
                if let Cells::Coded { dictionary, values, .. } = field.cells {
                    dictionaries.insert(dictionary, Dictionary::empty(values));
                }
                ColumnBuilder::default()
            })
        });
        let builders = builders.collect();
        let source = source.to_owned();
        let (arrays, left, row) = (Vec::new(), 0..0, 0);
        let rows = ArrowRows { source, messages, fields, names, wanted, dictionaries, arrays, left, row };
        Ok((Box::new(rows), builders))
    }

    /// Reads the next batch; returns `false` at the end.
    fn next_batch(&mut self) -> std::io::Result<bool> {
        while let Some(message) = self.messages.next()? {
            match message.header()? {
                Header::Schema(..) => return Err(damaged("it has a second schema")),
                Header::Dictionary { id, delta, batch } => {
                    let Some(dictionary) = self.dictionaries.get_mut(&id) else {
                        self.messages.skip(&message)?;
                        continue;
                    };
                    let mut arrays = Arrays::new(&batch, self.messages.body(&message)?.into());
                    dictionary.read(&arrays.next(dictionary.kind)?, batch.rows, delta)?;
                }
                Header::Batch(batch) => {
                    let mut arrays = Arrays::new(&batch, self.messages.body(&message)?.into());
                    self.arrays.clear();
                    for (index, (field, &wanted)) in self.fields.iter().zip(&self.wanted).enumerate() {
                        match field.cells {
                            Cells::Plain(kind) | Cells::Coded { codes: kind, .. } if wanted => {
                                self.arrays.push((index, arrays.next(kind)?));
                            }
                            _ => arrays.skip(field.shape)?,
                        }
                    }
                    let unbacked = self.arrays.iter().all(|(_, array)| array.is_unbacked());
                    if !self.arrays.is_empty() && unbacked && batch.rows > MOST_UNBACKED_ROWS {
                        return Err(damaged("a batch has more rows than its data"));
                    }
                    self.left = 0..batch.rows;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Passes the cells of a column in some rows of the current batch to its builder.
    fn push(
        &self,
        index: usize,
        array: &Array,
        rows: Range<usize>,
        builder: &mut ColumnBuilder,
    ) -> std::io::Result<()> {
        let number = |builder: &mut ColumnBuilder, value: f64| {
            builder.push_number(value);
            Ok(())
        };
        match self.fields[index].cells {
            Cells::Plain(kind) if kind.is_text() => array.texts(rows, &mut |text| {
                builder.push_text(text);
                Ok(())
            }),
            Cells::Coded { dictionary, values, .. } => {
                let dictionary = self.dictionaries.get(&dictionary);
                array.numbers(rows, &mut |code| match dictionary {
                    Some(dictionary) if values != Kind::Null && !code.is_nan() => {
                        dictionary.push(code, builder)
                    }
                    _ => number(builder, f64::NAN),
                })
            }
            _ => array.numbers(rows, &mut |value| number(builder, value)),
        }
    }
}

impl RowSource for ArrowRows {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn row(&self) -> usize {
        self.row
    }

    fn unsupported(&self, column: usize) -> Option<&str> {
        match self.fields.get(column)?.cells {
            Cells::Unsupported(name) => Some(name),
            _ => None,
        }
    }

    fn is_time(&self, column: usize) -> bool {
        self.fields.get(column).is_some_and(|field| match field.cells {
            Cells::Plain(kind) | Cells::Coded { values: kind, .. } => matches!(kind, Kind::Instant { .. }),
            Cells::Unsupported(_) => false,
        })
    }

    fn fill(
        &mut self,
        builders: &mut [Option<ColumnBuilder>],
        _lines: &mut Lines,
        most: usize,
    ) -> Result<usize> {
        let mut filled = 0;
        while filled < most {
            if self.left.is_empty() {
                let next = self.next_batch();
                if !next.map_err(|error| failed(&self.source, self.row, "", &error))? {
                    break;
                }
                continue;
            }
            let rows = self.left.start..self.left.end.min(self.left.start.saturating_add(most - filled));
            for (index, array) in &self.arrays {
                let Some(Some(builder)) = builders.get_mut(*index) else { continue };
                self.push(*index, array, rows.clone(), builder).map_err(|error| {
                    let place = format!(", column {}", quoted(&self.names[*index]));
                    failed(&self.source, self.row, &place, &error)
                })?;
            }
            filled += rows.len();
            self.row += rows.len();
            self.left.start = rows.end;
        }
        Ok(filled)
    }
}

impl Dictionary {
    fn empty(kind: Kind) -> Dictionary {
        Dictionary { kind, numbers: Vec::new(), texts: Vec::new() }
    }

    /// Adds values to the dictionary, or replaces it.
    fn read(&mut self, values: &Array, count: usize, delta: bool) -> std::io::Result<()> {
        if !delta {
            *self = Dictionary::empty(self.kind);
        }
        if self.kind.is_text() {
            values.texts(0..count, &mut |text| {
                self.texts.push(text.to_owned());
                Ok(())
            })
        } else if self.kind == Kind::Null {
            // Nothing to look up, and nothing that bounds how many there are.
            Ok(())
        } else {
            values.numbers(0..count, &mut |value| {
                self.numbers.push(value);
                Ok(())
            })
        }
    }

    /// Passes the value of a code to a builder.
    fn push(&self, code: f64, builder: &mut ColumnBuilder) -> std::io::Result<()> {
        let place = (code >= 0.0).then_some(code as usize);
        let absent = || damaged(&format!("{code} is not a place in its dictionary"));
        if self.kind.is_text() {
            let text = place.and_then(|place| self.texts.get(place));
            builder.push_text(text.ok_or_else(absent)?);
        } else {
            let number = place.and_then(|place| self.numbers.get(place));
            builder.push_number(*number.ok_or_else(absent)?);
        }
        Ok(())
    }
}

/// Returns the number of rows of a file, from the descriptions of its batches.
pub(super) fn count_rows(source: &str, file: File) -> Result<u64> {
    let count = || -> std::io::Result<u64> {
        let (mut messages, _) = Messages::open(Input::File(file))?;
        let mut rows = 0u64;
        while let Some(message) = messages.next()? {
            if let Header::Batch(batch) = message.header()? {
                rows = rows.saturating_add(batch.rows as u64);
            }
            messages.skip(&message)?;
        }
        Ok(rows)
    };
    count().map_err(|error| unreadable(source, &error))
}

fn unreadable(source: &str, problem: &std::io::Error) -> Error {
    Error::data(format!("{source}: not a readable Arrow file: {problem}"))
}

/// Creates the error of a read that failed after `row` whole rows; `place` names the column, if it is known.
fn failed(source: &str, row: usize, place: &str, problem: &std::io::Error) -> Error {
    Error::data(format!("{source}: reading failed after row {row}{place}: {problem}"))
}
