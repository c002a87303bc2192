//! Chooses unset options one after the other by short fits, which are judged on held-out training
//! rows.
//!
//! The fit that follows gets the chosen options, so a user who gives these options gets the same fit. It also gets the hyper-parameters of the
//! best short fit, and starts from them again if it ended at a worse explanation.

mod candidates;
mod fallback;
mod trial;

use crate::error::Result;
use crate::hyper::{Session, Stage};
use crate::likelihood::TargetKind;
use crate::model::{Choice, Choices, Tried};
use crate::options::{FitOptions, Hyper, ModelKind, ObjectiveKind, Open, Part};
use crate::training::failure::unless_failed;
use crate::training::fit::scaling_of;
use crate::training::rows::TrainingData;
use candidates::{COUNTS, FEW_NEIGHBOURS, KERNELS, WITH_LINES, base, isotropic, values, with_lines};
pub use fallback::Chosen;
use std::sync::Arc;
use std::time::Instant;
use trial::{FEWEST_COUNTS, FEWEST_ROWS, INDUCING, Judged, NEGLIGIBLE, Trials, leaves_inducing_open};
pub use trial::{Losses, close_rows, held_out};

/// A value replaces the current one if it lowers the log loss of held-out rows by more than this many nats per row, …
const LEAST_GAIN: f64 = 0.002;

/// … or by more than this if it is a likelihood other than the first one of the task: other
/// likelihoods take longer, and their means are often less accurate, …
const LIKELIHOOD_GAIN: f64 = 0.01;

/// … or by more than this if the first likelihood has closed forms, …
const CLOSED_FORM_GAIN: f64 = 0.05;

/// … and also by more than this share of the standard error of the differences, …
const STANDARD_ERRORS: f64 = 0.5;

/// … and does not raise the squared error by more than this share and the standard error of the differences: a sharper density is not
/// worth worse means.
const MORE_ERROR: f64 = 0.05;

/// Neighbours have to lower the loss of a likelihood with sites by more than this, because they
/// make the fit take several times as long.
const SITES_GAIN: f64 = 0.01;

/// The number of inputs up to which the density of the rows matters for the choice, because the
/// rows of a short fit surround the held-out rows.
const PLACES: usize = 3;

/// If a short fit has fewer than one row in this number, its 20 neighbours reach as far as 160 or
/// more neighbours among all rows, so 20 neighbours are not chosen. The kernel with a linear term is
/// not tried either: only close rows show how rough a function is.
const THINNED: usize = 8;

/// The number of rows up to which one lengthscale for all columns is tried.
const FEW_FOR_LENGTHSCALES: usize = 2000;

/// The maximum number of classes for which the kernel is chosen.
const MANY_CLASSES: usize = 5;

/// Chooses every unset part of the options. `rows` are training rows in the user's units, all of them or a sample of the rows on disk;
/// validation rows are not used.
///
/// # Errors
///
/// Errors about the options or the data, and interruptions. Values whose fits fail are not chosen.
pub fn choose(rows: TrainingData<'_>, options: &FitOptions, session: &mut Session<'_>) -> Result<Chosen> {
    let asked = options;
    if options.open.is_empty() {
        return Ok(Chosen::as_asked(options.clone()));
    }
    let (open, plain) = (allowed(options, rows), plain_of(options));
    if open.is_empty() && rows.train.len() < FEWEST_ROWS {
        return Ok(Chosen::new(asked, plain, None));
    }
    let Some(trials) = Trials::new(rows, options.seed) else {
        return Ok(Chosen::new(asked, plain, None));
    };
    let trials = trials.with_zeros(open.contains(Part::Likelihood));
    let options = base(options, open);
    let mut search = Search::new(rows, &options, open, trials, session);
    let Some(best) = search.judge_first(&options)? else {
        return Ok(Chosen::new(asked, plain, None));
    };
    let (best, parts) = search.decide_all(best, open)?;
    let choices = Choices {
        training_rows: search.trials.train_rows(),
        held_out_rows: search.trials.held_rows(),
        seconds: search.started.elapsed().as_secs_f64(),
        parts,
    };
    let scaling = scaling_of(&best.options, rows.train.x, rows.train.targets.y)?;
    let found = best.hyperparameters(&scaling);
    let options = FitOptions { found, ..best.options.clone() };
    let mut chosen = Chosen::new(asked, options, Some(choices));
    chosen.best = Some(Arc::new(best));
    Ok(chosen)
}

impl Chosen {
    /// Compares the inputs of `rows` with more inputs of the same rows, with options `with`, by short fits with the held-out rows of
    /// [`choose`]. Returns the scores of both, and the options to fit with more inputs if these lower the loss by more than the standard
    /// error of the difference; `None` if there are too few rows or a fit fails.
    ///
    /// More inputs may need more rows, so these fits have the rows of [`close_rows`]. They may make neighbours unnecessary, so they are
    /// judged with the chosen neighbours and without. If they are better, likelihood and warp of the target are chosen again.
    ///
    /// # Errors
    ///
    /// Errors about the options or the data, and interruptions.
    pub fn judge_inputs(
        &self,
        part: Part,
        rows: TrainingData<'_>,
        (more, with): (TrainingData<'_>, &FitOptions),
        session: &mut Session<'_>,
    ) -> Result<Option<(Choice, Option<FitOptions>)>> {
        let Some(best) = &self.best else { return Ok(None) };
        let zeros = self.asked.open.contains(Part::Likelihood);
        let trials = |rows| Some(Trials::with_close_rows(rows, self.options.seed)?.with_zeros(zeros));
        let (Some(own), Some(others)) = (trials(rows), trials(more)) else { return Ok(None) };
        let Some(plain) = unless_failed(own.judge(&best.options, Some(best), session))? else {
            return Ok(None);
        };
        let with = FitOptions { found: Vec::new(), open: Open::NOTHING, ..with.clone() };
        let alone = if with.neighbours.is_some() {
            // Direct losses without neighbours are minimised by mini-batches, which short fits cannot judge.
            let alone = FitOptions { objective: ObjectiveKind::Elbo, ..with.without_neighbours() };
            unless_failed(others.judge(&alone, Some(best), session))?
        } else {
            None
        };
        // Without Gaussian noise, short fits with neighbours keep the hyper-parameters of their start: those of the new inputs have to be
        // trained before.
        let trained = alone.as_ref().filter(|_| !with.likelihood_kind().has_gaussian_noise());
        let richer = unless_failed(others.judge(&with, trained.or(Some(best)), session))?;
        let both = [richer, alone].into_iter().flatten();
        let richer = both.reduce(|best, of| if of.loss() < best.loss() { of } else { best });
        let Some(mut richer) = richer.filter(|_| !session.is_late()) else { return Ok(None) };
        let (gain, error) = plain.losses().gain_of(richer.losses());
        let objection = || doubt((gain, error), LEAST_GAIN).or_else(|| more_error(&plain, &richer));
        let objection = (gain > 0.0).then(objection).flatten();
        let is_better = gain > 0.0 && objection.is_none();
        let tried = vec![
            Tried { value: plain.options.word_of(part), ..plain.tried() },
            Tried { value: with.word_of(part), objection, ..richer.tried() },
        ];
        if is_better {
            // The part of the target that trees leave may have another shape.
            let kept =
                Part::ALL.into_iter().filter(|part| ![Part::Likelihood, Part::WarpTarget].contains(part));
            let open = allowed(&self.asked, more).without(&kept.collect::<Vec<_>>());
            richer =
                Search::new(more, &richer.options.clone(), open, others, session).decide_all(richer, open)?.0;
        }
        let scaling = scaling_of(&richer.options, more.train.x, more.train.targets.y)?;
        let found = richer.hyperparameters(&scaling);
        let options = FitOptions { found, ..richer.options };
        Ok(Some((Choice { part, tried }, is_better.then_some(options))))
    }
}

/// Returns the options without anything to choose.
fn plain_of(options: &FitOptions) -> FitOptions {
    // Without neighbours, options about them have no meaning.
    let plain = if options.neighbours.is_none() { options.without_neighbours() } else { options.clone() };
    FitOptions { open: Open::NOTHING, ..plain.with_automatic_posterior() }
}

/// Marks the values of the final options as chosen. Unset parts that were not compared but changed are added, so the marked values together
/// describe the fit.
fn settled(mut choices: Choices, asked: &FitOptions, options: &FitOptions) -> Choices {
    for part in Part::ALL.into_iter().filter(|&part| asked.open.contains(part)) {
        let value = options.word_of(part);
        if !choices.parts.iter().any(|choice| choice.part == part) && value != asked.word_of(part) {
            choices.parts.push(Choice { part, tried: Vec::new() });
        }
        for choice in choices.parts.iter_mut().filter(|choice| choice.part == part) {
            if !choice.tried.iter().any(|one| one.value == value) {
                choice.tried.push(Tried { value: value.clone(), ..Tried::default() });
            }
            choice.tried.iter_mut().for_each(|one| one.chosen = one.value == value);
        }
    }
    choices
}

/// Returns the unset parts that can be chosen with the options that are set.
fn allowed(options: &FitOptions, rows: TrainingData<'_>) -> Open {
    use Part::{Kernel, Likelihood, Neighbours, Objective, WarpInputs, WarpTarget};
    let TrainingData { train: data, levels, .. } = rows;
    let all_but_likelihood: Vec<Part> = Part::ALL.into_iter().filter(|&part| part != Likelihood).collect();
    let linear = options.model == ModelKind::Glm;
    let few = data.len() < FEWEST_ROWS;
    let many_classes = levels > MANY_CLASSES && options.likelihood_kind().target_kind() == TargetKind::Class;
    let solves = options.with_neighbours(1).validate().is_ok() && data.targets.weights.is_empty();
    // Sites of several functions take so long that short fits would take most of the time.
    let slow = options.likelihood_kind().is_joint();
    let trains_otherwise =
        options.restarts > 1 || options.hyper.is_some() || options.hyper_optimizer.is_some();
    let exact = options.likelihood_kind().has_gaussian_noise() && options.is_exact_for(data.len());
    let closed: [(bool, &[Part]); 9] = [
        // So few rows can tell counts from numbers, and kernels by the evidence of exact GPs.
        (linear || few && !exact, &all_but_likelihood),
        (few, &[Neighbours, Objective]),
        (few && (options.task.is_some() || data.len() < FEWEST_COUNTS), &[Likelihood]),
        (!options.standardize, &[WarpInputs, WarpTarget]),
        // An offset has the scale of f, which they determine.
        (options.offsets > 0, &[WarpTarget, Likelihood]),
        // Constraints name hyper-parameters of the current kernel, with values on the scale of standardised columns.
        (!options.constraints.is_empty() && !linear, &[WarpInputs, WarpTarget, Kernel, Likelihood]),
        // A short fit of this many functions costs as much as the fit itself, and held-out rows hardly distinguish kernels.
        (many_classes, &[Kernel]),
        // So few rows cannot distinguish kernels of so many columns, and these fits take the longest.
        (data.x.ncols() > data.len(), &[Kernel, Neighbours, Objective]),
        (slow || !solves || trains_otherwise, &[Neighbours, Objective]),
    ];
    let closed = closed.into_iter().filter(|(applies, _)| *applies);
    closed.fold(options.open, |open, (_, parts)| open.without(parts))
}

/// A search under way.
struct Search<'s, 'a> {
    rows: TrainingData<'s>,
    seed: u64,
    trials: Trials,
    /// True if the rows of short fits lie much further apart than all rows.
    thin: bool,
    started: Instant,
    session: &'s mut Session<'a>,
    /// The number of short fits that were made, and the expected total.
    done: usize,
    planned: usize,
}

impl<'s, 'a> Search<'s, 'a> {
    /// Creates the search for the open parts of options; it begins now.
    fn new(
        rows: TrainingData<'s>,
        options: &FitOptions,
        open: Open,
        trials: Trials,
        session: &'s mut Session<'a>,
    ) -> Self {
        let planned = Part::ALL
            .into_iter()
            .filter(|&part| open.contains(part))
            .map(|part| values(part, options, rows).len());
        let planned = 1 + planned.sum::<usize>() + usize::from(open.contains(Part::Inducing));
        let thin = rows.train.x.ncols() <= PLACES && trials.train_rows() * THINNED < rows.train.len();
        let (seed, started) = (options.seed, Instant::now());
        Search { rows, seed, trials, thin, started, session, done: 0, planned }
    }

    /// Chooses the unset parts one after the other, starting from the first fit; returns the best fit, and the scores of every part.
    fn decide_all(&mut self, mut best: Judged, open: Open) -> Result<(Judged, Vec<Choice>)> {
        let mut parts = Vec::new();
        // Fits of exact GPs are cheap, and only with a kernel that suits the function do they tell noise from what the kernel misses.
        let kernel_first = if best.is_exact() { &[Part::Kernel][..] } else { &[] };
        let others = Part::ALL.into_iter().filter(|part| !kernel_first.contains(part));
        for part in kernel_first.iter().copied().chain(others) {
            let mut values =
                if open.contains(part) { values(part, &best.options, self.rows) } else { Vec::new() };
            let mut lines = false;
            match part {
                Part::Kernel if self.thin || best.is_free_of_noise() => {
                    let before = values.len();
                    values.retain(|value| value.kernel != WITH_LINES);
                    // Without noise, the linear term is tried beside the best kernel instead.
                    lines = best.is_free_of_noise() && values.len() < before;
                }
                Part::Likelihood if best.is_free_of_noise() => {
                    // Without noise, only another kind of target is an alternative.
                    values.retain(|value| value.likelihood_kind().target_kind() != best.kind());
                }
                // An exact GP leaves nothing to neighbours.
                Part::Neighbours if best.is_exact() => values.clear(),
                _ => {}
            }
            if !values.is_empty() && !self.session.is_late() {
                let sites = part == Part::Neighbours && !best.options.likelihood_kind().has_gaussian_noise();
                let choice;
                (best, choice) = match sites {
                    true => self.decide_neighbours_of_sites(best)?,
                    false => self.decide(part, best, values)?,
                };
                parts.push(choice);
            }
            let more = [
                (lines, with_lines as fn(&FitOptions, usize) -> Vec<FitOptions>),
                (part == Part::Kernel && self.rows.train.len() <= FEW_FOR_LENGTHSCALES, isotropic),
            ];
            for (_, of) in more.into_iter().filter(|(applies, _)| *applies && open.contains(part)) {
                let values = of(&best.options, self.rows.train.x.ncols());
                if !values.is_empty() && !self.session.is_late() {
                    let choice: Choice;
                    (best, choice) = self.decide(part, best, values)?;
                    parts
                        .last_mut()
                        .into_iter()
                        .for_each(|known| known.tried.extend_from_slice(&choice.tried[1..]));
                }
            }
        }
        if open.contains(Part::Inducing) && !self.session.is_late() {
            let choice;
            (best, choice) = self.decide_inducing(best, self.rows.train.len())?;
            parts.extend(choice);
        }
        Ok((best, parts))
    }

    /// Reports that a short fit begins.
    fn enter(&mut self, part: &'static str) {
        let seconds = self.started.elapsed().as_secs_f64();
        let of = self.planned.max(self.done + 1);
        let left = (self.done > 0).then(|| seconds / self.done as f64 * (of - self.done) as f64);
        self.done += 1;
        let (rows, number) = (self.trials.train_rows(), self.done);
        self.session.enter(Stage::Choice { part, rows, number, of, left });
    }

    /// Makes the first short fit. It has half of the usual inducing inputs if these are enough, and so have later ones.
    fn judge_first(&mut self, options: &FitOptions) -> Result<Option<Judged>> {
        self.enter("a first fit");
        self.trials.half = self.trials.can_halve(options);
        let first = unless_failed(self.trials.judge(options, None, self.session))?;
        if !self.trials.half || self.session.is_late() {
            return Ok(first);
        }
        self.trials.half = false;
        let usual = unless_failed(self.trials.judge(options, first.as_ref(), self.session))?;
        let enough = |half: &Judged| usual.as_ref().is_none_or(|usual| half.is_as_good_as(usual));
        self.trials.half = first.as_ref().is_some_and(enough);
        Ok(if self.trials.half { first } else { usual })
    }

    /// Returns the best options with few inducing inputs if a short fit with half of its inducing inputs is as good, otherwise with the
    /// default number.
    fn decide_inducing(&mut self, best: Judged, n: usize) -> Result<(Judged, Option<Choice>)> {
        let few = few_inducing(self.trials.train_rows(), n);
        if !leaves_inducing_open(&best.options)
            || best.options.is_exact_for(n)
            || few >= best.options.inducing_for(n)
        {
            return Ok((best, None));
        }
        self.enter(Part::Inducing.word());
        let is_half = self.trials.half;
        self.trials.half = !is_half;
        let other = unless_failed(self.trials.judge(&best.options, Some(&best), self.session))?;
        let Some(other) = other.filter(|_| !self.session.is_late()) else { return Ok((best, None)) };
        let (mut usual, half) = if is_half { (other, best) } else { (best, other) };
        if !half.is_as_good_as(&usual) {
            return Ok((usual, None));
        }
        let tried = vec![
            Tried { value: few.to_string(), ..usual.tried() },
            Tried { value: (few / 2).to_string(), ..half.tried() },
        ];
        usual.options.inducing = Some(few);
        Ok((usual, Some(Choice { part: Part::Inducing, tried })))
    }

    /// Decides whether a likelihood with sites gets few neighbours. Neighbours help more if rows lie closer together, so with few inputs
    /// these fits have more rows than usual. They keep the hyper-parameters of the best fit, because training them with neighbours would take long.
    fn decide_neighbours_of_sites(&mut self, best: Judged) -> Result<(Judged, Choice)> {
        let part = Part::Neighbours;
        let mut tried = vec![Tried { value: best.options.word_of(part), ..best.tried() }];
        let with = best.options.with_neighbours(FEW_NEIGHBOURS);
        self.enter(part.word());
        let taken = unless_failed(self.judge_neighbours_of_sites(&best, &with, &mut tried))?;
        if taken.is_none() {
            tried.push(Tried { value: with.word_of(part), ..Tried::default() });
        }
        Ok((taken.flatten().unwrap_or(best), Choice { part, tried }))
    }

    /// Returns the short fit with neighbours if they help, and records the losses of both fits.
    fn judge_neighbours_of_sites(
        &mut self,
        best: &Judged,
        with: &FitOptions,
        tried: &mut Vec<Tried>,
    ) -> Result<Option<Judged>> {
        let has_places = self.rows.train.x.ncols() <= PLACES;
        let close = has_places.then(|| Trials::with_close_rows(self.rows, self.seed)).flatten();
        let close = close.map(|close| close.with_zeros(self.trials.has_zeros()));
        let trials = close.as_ref().unwrap_or(&self.trials);
        let plain = FitOptions { hyper: Some(Hyper::Fixed), ..best.options.clone() };
        let plain = trials.judge(&plain, Some(best), self.session)?;
        let beside = trials.judge(with, Some(best), self.session)?;
        if self.session.is_late() {
            return Ok(None);
        }
        let objection = objection(&plain, &beside, SITES_GAIN);
        let is_better = plain.gain_of(&beside).0 > 0.0 && objection.is_none();
        tried[0] = Tried { value: best.options.word_of(Part::Neighbours), ..plain.tried() };
        tried.push(Tried { value: with.word_of(Part::Neighbours), objection, ..beside.tried() });
        Ok(match close {
            _ if !is_better => None,
            None => Some(beside),
            // Later options are judged on the rows of the other short fits.
            Some(_) => Some(self.trials.judge(with, Some(best), self.session)?),
        })
    }

    /// Returns the best value of a part, and the scores of all its values.
    fn decide(&mut self, part: Part, best: Judged, values: Vec<FitOptions>) -> Result<(Judged, Choice)> {
        let mut tried = vec![Tried { value: best.options.word_of(part), ..best.tried() }];
        let mut judged: Vec<Judged> = Vec::new();
        for options in values {
            if self.session.is_late() {
                break;
            }
            if part == Part::Kernel && lies_beyond(&options.kernel, &best, &judged) {
                continue;
            }
            self.enter(part.word());
            match unless_failed(self.trials.judge(&options, Some(&best), self.session))? {
                // A fit that the time limit cut short says nothing about its options.
                Some(_) if self.session.is_late() => break,
                Some(value) => judged.push(value),
                None => tried.push(Tried { value: options.word_of(part), ..Tried::default() }),
            }
        }
        if part == Part::Neighbours
            && let Some(fitted) = judged.first()
        {
            // One fit serves all numbers of neighbours.
            let mut others: Vec<Judged> = Vec::new();
            for other in COUNTS.iter().filter_map(|&count| fitted.with_count(count, &self.trials)) {
                // The time of predictions grows with the third power of the number.
                let last = others.last().unwrap_or(fitted).is_as_good_as(&other);
                others.push(other);
                if last {
                    break;
                }
            }
            if self.thin {
                judged.clear();
            }
            judged.extend(others);
        }
        let least = match part {
            Part::Likelihood if best.options.likelihood_kind().has_gaussian_noise() => CLOSED_FORM_GAIN,
            Part::Likelihood => LIKELIHOOD_GAIN,
            _ => LEAST_GAIN,
        };
        tried.extend(judged.iter().map(|one| {
            let objection = if part == Part::Neighbours { None } else { objection(&best, one, least) };
            Tried { value: one.options.word_of(part), objection, ..one.tried() }
        }));
        let best = if part == Part::Neighbours { fewest(best, judged) } else { lowest(best, judged, least) };
        if part == Part::Neighbours {
            let close = format!("within {NEGLIGIBLE} nats of fewer");
            let better = tried.iter_mut().filter(|one| one.loss.is_some_and(|loss| loss < best.loss()));
            better.for_each(|one| one.objection = Some(close.clone()));
        }
        Ok((best, Choice { part, tried }))
    }
}

/// Returns the number of inducing inputs for `n` rows, if half of the inducing inputs of a short
/// fit are enough for `rows`. The function is then smooth, and the number of inducing inputs it
/// needs grows slowly with the number of rows (Burt, Rasmussen & van der Wilk 2020).
fn few_inducing(rows: usize, n: usize) -> usize {
    (INDUCING.1 as f64 * (n as f64 / rows as f64).cbrt()).round() as usize
}

/// Returns true if a kernel lies beyond a worse one in the order of smoothness. Losses are assumed to have one minimum along this order.
/// [`KERNELS`] has the order of trials.
fn lies_beyond(kernel: &str, first: &Judged, judged: &[Judged]) -> bool {
    let Some(smooth) = judged.iter().find(|one| one.options.kernel == KERNELS[0]) else { return false };
    let smoother_is_better = first.gain_of(smooth).0 > 0.0;
    (kernel == KERNELS[1] && !smoother_is_better) || (kernel == KERNELS[2] && smoother_is_better)
}

/// Returns the reason why a value with a lower loss than the current one is not chosen; `None` if it is chosen, or its loss is not lower.
fn objection(best: &Judged, other: &Judged, least: f64) -> Option<String> {
    let (gain, error) = best.gain_of(other);
    if gain <= 0.0 {
        return (other.loss() < best.loss()).then(|| "lower log evidence".to_owned());
    }
    if best.has_more_evidence_than(other) {
        return Some("lower log evidence".to_owned());
    }
    // Between exact GPs the evidence of all rows has the word.
    let judged_by_errors = !(best.is_exact() && other.is_exact()) && best.kind() == other.kind();
    doubt((gain, STANDARD_ERRORS * error), least)
        .or_else(|| judged_by_errors.then(|| more_error(best, other)).flatten())
}

/// Returns the reason why a gain is not clear: it has to be above `least` and above a bound on chance.
fn doubt((gain, chance): (f64, f64), least: f64) -> Option<String> {
    if gain <= least {
        return Some(format!("gains no more than {least} nats"));
    }
    (gain <= chance).then(|| "may be chance".to_owned())
}

/// Returns the words for squared errors that rise too much.
fn more_error(best: &Judged, other: &Judged) -> Option<String> {
    let rise = 100.0 * best.error_rise_to(other);
    best.has_less_error_than(other, MORE_ERROR).then(|| format!("squared errors rise by {rise:.0} %"))
}

/// Returns the value with the lowest loss among the values that are clearly better than the current one; otherwise the current value.
fn lowest(best: Judged, others: Vec<Judged>, least: f64) -> Judged {
    let better = others
        .into_iter()
        .filter(|other| best.gain_of(other).0 > 0.0 && objection(&best, other, least).is_none());
    let mut better: Vec<Judged> = better.collect();
    better.sort_by(|a, b| best.gain_of(b).0.total_cmp(&best.gain_of(a).0));
    better.into_iter().next().unwrap_or(best)
}

/// Returns the smallest number of neighbours whose loss is close to the lowest.
fn fewest(best: Judged, others: Vec<Judged>) -> Judged {
    let mut all: Vec<Judged> = others;
    all.push(best);
    let lowest = all.iter().map(Judged::loss).fold(f64::INFINITY, f64::min);
    all.retain(|one| one.loss() <= lowest + NEGLIGIBLE);
    all.sort_by_key(|one| one.options.neighbours.unwrap_or(0));
    all.swap_remove(0)
}
