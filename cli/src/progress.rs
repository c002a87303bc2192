//! Progress on standard error: a bar on a terminal, otherwise at most one line for every tenth of the work, and nothing with `--quiet`.

use super::output;
use indicatif::{ProgressBar, ProgressStyle};
use sparsegp::hyper::{Event, Limits, Record, Stage, time};
use sparsegp::model::FitSummary;
use std::io::IsTerminal;

/// The number of parts of the work. Each part gets at most one line.
const PARTS: usize = 10;

/// The formats of the bar for a fit and for several fits.
const FIT: &str = "{bar:30} {msg}";
const FITS: &str = "{bar:30} {pos}/{len}  {msg}  {eta} left";

pub struct Progress {
    what: String,
    kind: Kind,
}

enum Kind {
    Quiet,
    /// Prints only one line, at the end; for one of several fits.
    End,
    Lines(Lines),
    Bar(Bar),
}

struct Bar {
    bar: ProgressBar,
    /// The text of the enclosing stage; may be empty.
    around: String,
    first: TrainingStart,
}

/// The epoch and the seconds of the first record of a training. Time before it, such as a warm start, does not count.
type TrainingStart = Option<(usize, f64)>;

/// Takes a record into account. Returns the seconds per epoch, or `None` for the first record of a training.
fn pace(first: &mut TrainingStart, record: &Record) -> Option<f64> {
    // An epoch number that is not larger than the first one starts a new training.
    let known = first.filter(|first| first.0 < record.epoch);
    let (epoch, seconds) = *first.insert(known.unwrap_or((record.epoch, record.seconds)));
    (record.epoch > epoch).then(|| (record.seconds - seconds) / (record.epoch - epoch) as f64)
}

impl Progress {
    /// Creates the progress of a fit to the data named `what`.
    pub fn of_fit(what: String, quiet: bool) -> Progress {
        Progress::new(what, 0, FIT, quiet)
    }

    /// Creates the progress of one of several fits: a bar on a terminal, otherwise one line at the end.
    pub fn of_one_of_several(what: String, quiet: bool) -> Progress {
        let mut progress = Progress::of_fit(what, quiet);
        if matches!(progress.kind, Kind::Lines(_)) {
            progress.kind = Kind::End;
        }
        progress
    }

    /// Creates the progress over many fits to the data named `what`.
    pub fn of_fits(what: String, fits: usize, quiet: bool) -> Progress {
        Progress::new(what, fits, FITS, quiet)
    }

    fn new(what: String, steps: usize, template: &str, quiet: bool) -> Progress {
        let kind = if quiet {
            Kind::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(steps as u64);
            let style = ProgressStyle::with_template(template);
            let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            Kind::Bar(Bar { bar, around: String::new(), first: None })
        } else {
            Kind::Lines(Lines::new(&what))
        };
        Progress { what, kind }
    }

    pub fn show(&mut self, event: &Event) {
        match &mut self.kind {
            Kind::Quiet | Kind::End => {}
            Kind::Lines(lines) => lines.take(event).iter().for_each(|line| output::note(line)),
            Kind::Bar(bar) => bar.put(event),
        }
    }

    pub fn show_fit(&mut self, done: usize, total: usize, text: String) {
        match &mut self.kind {
            Kind::Quiet | Kind::End => {}
            Kind::Lines(lines) => {
                lines.take_fit(done, total, &text).iter().for_each(|line| output::note(line))
            }
            Kind::Bar(Bar { bar, .. }) => {
                bar.set_position(done as u64);
                bar.set_message(text);
            }
        }
    }

    pub fn end(self, summary: &FitSummary) {
        if matches!(self.kind, Kind::Lines(_) | Kind::End) {
            output::note(&format!(
                "fit ends: {}  {} epochs  objective {}  {}  {}",
                self.what,
                summary.epochs,
                output::number(summary.objective),
                output::duration(summary.seconds),
                summary.stop_reason.word()
            ));
        }
    }
}

impl Drop for Progress {
    /// Removes the bar, even if the fit fails, so that the next output starts on a clean line.
    fn drop(&mut self) {
        if let Kind::Bar(Bar { bar, .. }) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

impl Bar {
    fn put(&mut self, event: &Event) {
        let (message, (done, of)) = match event {
            Event::Epoch { record, limits } => {
                (words(record, limits, &mut self.first), (record.epoch, limits.epochs))
            }
            Event::Stage(stage) => {
                self.first = None;
                // These stages contain other stages.
                if matches!(stage, Stage::Beta { .. } | Stage::Refit { .. } | Stage::HeldOut { .. }) {
                    self.around = format!("{stage}  ");
                    (String::new(), place(stage))
                } else {
                    (stage.to_string(), place(stage))
                }
            }
        };
        self.bar.set_message(format!("{}{message}", self.around));
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
    }
}

/// Returns the finished and the total number of units before a stage begins.
fn place(stage: &Stage) -> (usize, usize) {
    match *stage {
        Stage::Restart { number, of, .. }
        | Stage::Beta { number, of, .. }
        | Stage::Choice { number, of, .. } => (number.saturating_sub(1), of),
        Stage::HeldOut { part, of } => (part.saturating_sub(1), of),
        Stage::Growth { inducing, most } => (inducing, most),
        Stage::WarmStart { done, iterations, .. } => (done, iterations),
        _ => (0, 1),
    }
}

/// Returns the text about an epoch, with the maximum remaining time under the limits, if it is at least a second.
fn words(record: &Record, limits: &Limits, first: &mut TrainingStart) -> String {
    let pace = pace(first, record);
    let mut text =
        format!("epoch {}/{}  objective {}", record.epoch, limits.epochs, output::number(record.objective));
    if let Some(nll) = record.validation_nll {
        text.push_str(&format!("  validation NLL {}", output::number(nll)));
    }
    text.push_str(&format!("  {}", output::duration(record.seconds)));
    if let Some(seconds) = pace {
        text.push_str(&match seconds {
            ..1.0 => format!(" ({:.0} ms an epoch)", 1e3 * seconds),
            _ => format!(" ({} an epoch)", output::duration(seconds)),
        });
    }
    let of_epochs = pace.map(|seconds| seconds * limits.epochs.saturating_sub(record.epoch) as f64);
    let of_time = limits.seconds.map(|seconds| (seconds - record.seconds).max(0.0));
    let left = [of_epochs, of_time].into_iter().flatten().reduce(f64::min).filter(|&left| left >= 1.0);
    text + &left.map_or(String::new(), |left| format!("  at most {} left", time(left)))
}

/// Returns the finished share of a training after an epoch, by its limits of epochs and of time.
fn share(record: &Record, limits: &Limits) -> f64 {
    let epochs = record.epoch as f64 / limits.epochs.max(1) as f64;
    limits.seconds.map_or(epochs, |seconds| epochs.max(record.seconds / seconds))
}

/// Decides which events get a line. All fits of a grid of β together get as many lines as one fit.
struct Lines {
    /// The line to print before all others, until it is printed.
    start: Option<String>,
    /// The number of parts into which a training is divided; each gets at most one line.
    parts: usize,
    /// The number of parts of the current training that are finished, with or without a line.
    said: usize,
    first: TrainingStart,
}

impl Lines {
    fn new(what: &str) -> Lines {
        Lines { start: Some(format!("fit starts: {what}")), parts: PARTS, said: 0, first: None }
    }

    fn take(&mut self, event: &Event) -> Vec<String> {
        let line = match event {
            Event::Epoch { record, limits } => {
                let part = (self.parts as f64 * share(record, limits)) as usize;
                // A separate line reports the end of the fit.
                let worth = part > self.said && part < self.parts;
                self.said = part;
                let words = words(record, limits, &mut self.first);
                worth.then_some(words)
            }
            Event::Stage(stage) => {
                (self.said, self.first) = (0, None);
                if let Stage::Beta { of, .. } = stage {
                    self.parts = (PARTS / (of + 1)).max(1);
                }
                self.is_worth(stage).then(|| stage.to_string())
            }
        };
        self.started(line)
    }

    fn take_fit(&mut self, done: usize, total: usize, text: &str) -> Vec<String> {
        let part = PARTS * done / total.max(1);
        let worth = part > self.said;
        self.said = part;
        self.started(worth.then(|| format!("{done}/{total}  {text}")))
    }

    /// Returns true if a stage gets a line. In a long series of similar stages, about ten get a line.
    fn is_worth(&self, stage: &Stage) -> bool {
        match stage {
            Stage::Restart { .. } | Stage::Beta { .. } => {
                let (done, of) = place(stage);
                done == 0 || of <= PARTS || PARTS * (done + 1) / of > PARTS * done / of
            }
            // In a grid of β, the line about each value replaces that about its warm start.
            Stage::WarmStart { done, .. } => *done == 0 && self.parts == PARTS,
            _ => true,
        }
    }

    /// Returns the line, preceded once by the line about the start of the work. The start is not printed earlier, so that an early error is
    /// the only output.
    fn started(&mut self, line: Option<String>) -> Vec<String> {
        self.start.take().into_iter().chain(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: usize, epochs: usize, seconds: Option<f64>) -> Event {
        let record = Record::of(epoch, epoch as f64, 1.0.into(), None);
        let limits = Limits {
            epochs,
            steps: None,
            seconds,
            tolerance: 0.0,
            window: 10,
            range: None,
            plateaus: 0,
            patience: 10,
            target: None,
        };
        Event::Epoch { record, limits }
    }

    fn training(lines: &mut Lines, epochs: usize, seconds: Option<f64>) -> Vec<String> {
        (1..=epochs).flat_map(|number| lines.take(&epoch(number, epochs, seconds))).collect()
    }

    #[test]
    fn every_tenth_of_the_epochs_or_of_the_time_gets_a_line() {
        let said = training(&mut Lines::new("data"), 200, None);
        assert_eq!((said.len(), said[0].as_str()), (10, "fit starts: data"));
        assert!(said[1].starts_with("epoch 20/200  ") && said[9].starts_with("epoch 180/200  "), "{said:?}");
        let said = training(&mut Lines::new("data"), 1000, Some(100.0));
        assert_eq!(said.len(), 10);
        assert!(said[1].starts_with("epoch 10/1000  "), "{said:?}");
        assert_eq!(training(&mut Lines::new("data"), 3, None).len(), 3);
        assert_eq!(Lines::new("data").take(&epoch(1, 200, None)), ["fit starts: data"]);
    }
}
