//! `effects`: the grouped effects of a saved model as a table, one row per level and effect.

use super::args::EffectsArgs;
use super::output;
use sparsegp::Result;
use sparsegp::files::AtomicFile;
use sparsegp_tables::tabular::TableOutputs;
use std::path::Path;

/// Runs the command.
pub fn run(args: &EffectsArgs) -> Result<()> {
    let to_file = args.out != Path::new("-");
    if to_file {
        output::check_paths(&[&args.out], &[&args.model])?;
    }
    let text = TableOutputs::load(&args.model)?.effects_csv()?;
    if to_file { AtomicFile::write_all_to(&args.out, text.as_bytes()) } else { output::print(&text) }
}
