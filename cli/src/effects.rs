//! `effects`: the grouped effects of a saved model as a table, one row per level and effect.

use super::args::EffectsArgs;
use super::{output, predict};
use sparsegp::Result;
use sparsegp_tables::tabular::TableOutputs;
use std::path::Path;

pub fn run(args: &EffectsArgs) -> Result<()> {
    let to_file = args.out != Path::new("-");
    if to_file {
        output::check_paths(&[&args.out], &[&args.model])?;
    }
    let (table, rows) = TableOutputs::load(&args.model)?.effects_table()?;
    predict::writer(&args.out, None, table)?.write_rows(rows)?.finish()
}
