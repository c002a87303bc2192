//! The causes of differences from the paper: β chosen by few validation rows, and too few training rows.

use crate::fits::{Fits, is_square};
use crate::paper::prelude::*;
use crate::raw::Row;
use crate::results::{Figure, Mean, Results};
use sparsegp_tables::compare::Contender::{self, DlmLogFixed, DlmSquareFixed, Elbo};

/// The most training rows of the fits that test whether a claim needs more rows, and the most inducing inputs with which they take
/// seconds.
const MORE_ROWS: usize = 4000;
const FEW_INDUCING: usize = 100;

/// Runs of minutes on cadata, which has more inducing inputs: repeat 1 with 4,000 rows, with the β of hindsight for 1,000 rows.
const CADATA: &str = "; in runs with 4000 rows dlm-log:fixed has 0.6509 and dlm-log 0.5375, dlm-square:fixed 0.2379 and beta-elbo 0.2346";

/// The lead of an objective over another one: the figure of the other one less its own.
#[derive(Clone, Copy)]
pub struct Lead {
    pub best: Contender,
    pub second: Contender,
    pub figure: Figure,
}

impl Lead {
    pub fn cause(&self, paper: &Paper, results: &Results) -> String {
        let Lead { best, second, figure } = *self;
        let lead = results.gain(best, second, figure);
        if lead.is_clear() {
            return String::new();
        }
        let beta = results.hindsight(best, figure).0;
        let known = results.gain_at(best, beta, second, figure);
        let with_beta = format!("with β = {beta:.3}, chosen in hindsight, the lead over {second} is {known}");
        if known.is_clear() || lead.mean < 0.0 && known.mean > 0.5 * lead.mean {
            let rest = if known.is_clear() { "" } else { ", which is not clear either" };
            return format!(
                "the validation rows are too few to choose β: {with_beta} instead of {lead}{rest}"
            );
        }
        let sizes = results.sizes();
        let leads = by_size(&sizes, |results| results.gain(best, second, figure));
        let text = in_words(&leads);
        let is_clear_before = leads.iter().any(|(_, lead)| lead.is_clear());
        let more = if is_clear_before { None } else { self.with_more_rows(paper, results) };
        if rises(&leads) || more.as_ref().is_some_and(|(ahead, _)| *ahead) {
            let more = more.map_or(String::new(), |(_, more)| format!("; {more}"));
            return format!(
                "too few rows: the lead over {second} is {text}{more}; {}",
                self.overfit(results)
            );
        }
        if is_clear_before {
            return format!("cause not known: the lead over {second} is clear with fewer rows alone: {text}");
        }
        let fits = results.selected(best);
        let converged = fits.iter().filter(|row| row.converged).count();
        let cadata = if results.set.name == "cadata" { CADATA } else { "" };
        let more = more.map_or(cadata.to_owned(), |(_, more)| format!("; {more}"));
        format!(
            "cause not known: not β ({with_beta}), not the number of rows (the lead is {text}{more}), not unfinished fits ({converged} of {} \
             converged)",
            fits.len()
        )
    }

    /// Returns how much lower the figure is on the training rows. The training objective bounds it there, because the KL term is not
    /// negative and the square loss is half the squared error.
    fn overfit(&self, results: &Results) -> String {
        let (factor, what) = if is_square(self.best) { (2.0, "squared error") } else { (1.0, "NLL") };
        let bound = |row: &Row| (self.figure)(row) - factor * row.training;
        let gap: Mean = results.selected(self.best).into_iter().map(bound).collect();
        format!("the {what} of {} is lower by at least {:.4} on its training rows", self.best, gap.mean)
    }

    /// Fits both objectives to more rows in repeat 0, with the β of hindsight. Returns true if the lead is positive then, and the
    /// figures in words; `None` without data or if the fits would take minutes.
    fn with_more_rows(&self, paper: &Paper, results: &Results) -> Option<(bool, String)> {
        if results.set.inducing > FEW_INDUCING {
            return None;
        }
        let fit = |objective| {
            let mut fits = Fits::new(paper, results.set, MORE_ROWS, 0).ok()??;
            if matches!(objective, DlmLogFixed | DlmSquareFixed) {
                fits.one(Elbo, 1.0).ok()?;
            }
            fits.one(objective, results.hindsight(objective, self.figure).0).ok()
        };
        let (ours, theirs) = rayon::join(|| fit(self.best), || fit(self.second));
        let (n, [ours, theirs]) = (ours.as_ref()?.n, [ours?, theirs?].map(|row| (self.figure)(&row)));
        let words =
            format!("in a run with {n} rows {} has {ours:.4} and {} {theirs:.4}", self.best, self.second);
        Some((ours < theirs, words))
    }
}

pub fn by_size(sizes: &[Results], of: impl Fn(&Results) -> Mean) -> Vec<(usize, Mean)> {
    sizes.iter().map(|results| (results.n, of(results))).collect()
}

/// Returns true if the mean of the largest size is above that of the smallest by more than two standard errors of the difference.
pub fn rises(means: &[(usize, Mean)]) -> bool {
    let [(_, first), .., (_, last)] = means else { return false };
    last.mean - first.mean > 2.0 * first.error.hypot(last.error)
}

pub fn in_words(means: &[(usize, Mean)]) -> String {
    let words: Vec<String> = means.iter().map(|(n, mean)| format!("{mean} ({n} rows)")).collect();
    words.join(", ")
}
