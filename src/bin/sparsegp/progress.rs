//! Progress of a fit on standard error: a bar on a terminal, a line per epoch elsewhere, nothing when quiet.

use super::output;
use indicatif::{ProgressBar, ProgressStyle};
use sparsegp::hyper::Record;
use std::io::IsTerminal;

/// Hears one record per epoch.
pub struct Progress {
    kind: Kind,
}

enum Kind {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    /// Progress over at most `epochs` epochs.
    pub fn new(epochs: usize, quiet: bool) -> Progress {
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(epochs as u64);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} epoch {pos}/{len}  {msg}  {eta} left") {
                bar.set_style(style);
            }
            Kind::Bar(bar)
        } else {
            Kind::Lines
        };
        Progress { kind }
    }

    /// Shows an epoch.
    pub fn show(&self, record: &Record) {
        let mut text = format!("objective {:.5}", record.objective);
        if let Some(nll) = record.validation_nll {
            text.push_str(&format!("  validation NLL {nll:.5}"));
        }
        let step = record.seconds / record.epoch.max(1) as f64;
        text.push_str(&format!("  {:.1} s ({:.0} ms an epoch)", record.seconds, 1e3 * step));
        match &self.kind {
            Kind::Quiet => {}
            Kind::Lines => output::note(&format!("epoch {}  {text}", record.epoch)),
            Kind::Bar(bar) => {
                bar.set_position(record.epoch as u64);
                bar.set_message(text);
            }
        }
    }
}

impl Drop for Progress {
    /// Removes the bar, also when the fit fails, so that what follows starts on a clean line.
    fn drop(&mut self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}
