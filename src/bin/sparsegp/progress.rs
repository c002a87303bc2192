//! Progress on standard error: a bar on a terminal, a line per epoch or fit elsewhere, nothing when quiet.

use super::output;
use indicatif::{ProgressBar, ProgressStyle};
use sparsegp::hyper::Record;
use std::io::IsTerminal;

/// Shows the epochs of a fit, or the fits of a comparison.
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
        Progress::over(epochs, "{bar:30} epoch {pos}/{len}  {msg}  {eta} left", quiet)
    }

    /// Progress over many fits.
    pub fn of_fits(fits: usize, quiet: bool) -> Progress {
        Progress::over(fits, "{bar:30} {pos}/{len}  {msg}  {eta} left", quiet)
    }

    fn over(steps: usize, template: &str, quiet: bool) -> Progress {
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(steps as u64);
            if let Ok(style) = ProgressStyle::with_template(template) {
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
        self.put(record.epoch, &format!("epoch {}", record.epoch), text);
    }

    /// Shows that so many fits are done.
    pub fn show_fit(&self, done: usize, total: usize, text: String) {
        self.put(done, &format!("{done}/{total}"), text);
    }

    /// A line, or the position and message of the bar.
    fn put(&self, position: usize, head: &str, text: String) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Lines => output::note(&format!("{head}  {text}")),
            Kind::Bar(bar) => {
                bar.set_position(position as u64);
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
