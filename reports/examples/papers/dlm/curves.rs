//! Learning curves of objectives on the data sets of the paper and their stand-ins: figures 1 to 8.

use crate::data::evenly;
use crate::paper::{Axes, Paper, Verdict, stand_in};
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::options::{Betas, FitOptions, MeanKind};
use sparsegp::{Error, Result};
use sparsegp_reports::CurveSeries;
use sparsegp_tables::compare::{
    Contender, Group, Plan, Role, Settings, Store, run as fit_all, summarise, summary_csv,
};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::{Table, read_csv};

/// The settings of a run.
pub struct Wanted {
    pub sizes: Vec<usize>,
    pub betas: Betas,
    pub repeats: u64,
    /// Names of data sets; all when empty.
    pub sets: Vec<String>,
}

/// The paper's claim about a data set.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    /// Joint DLM clearly has the lowest log loss.
    Joint,
    /// Fixed DLM clearly has the lowest log loss.
    Fixed,
    /// Joint or fixed DLM is at least as good as the other objectives.
    Either,
    /// The objectives differ little.
    Little,
}

struct Set {
    name: &'static str,
    kind: TargetKind,
    /// M of table 2.
    inducing: usize,
    says: Says,
    /// The data set of the paper that it replaces.
    stands_for: Option<&'static str>,
}

const fn set(name: &'static str, kind: TargetKind, inducing: usize, says: Says) -> Set {
    Set { name, kind, inducing, says, stands_for: None }
}

const SETS: [Set; 12] = [
    set("pol", TargetKind::Real, 100, Says::Joint),
    set("cadata", TargetKind::Real, 206, Says::Fixed),
    set("sarcos_test", TargetKind::Real, 100, Says::Joint),
    set("kin40k", TargetKind::Real, 100, Says::Joint).in_place_of("song"),
    set("banana", TargetKind::Binary, 53, Says::Little),
    set("thyroid", TargetKind::Binary, 37, Says::Little),
    set("twonorm", TargetKind::Binary, 74, Says::Little),
    set("ringnorm", TargetKind::Binary, 74, Says::Either),
    set("abalone", TargetKind::Count, 41, Says::Either),
    set("bike_count", TargetKind::Count, 40, Says::Either).in_place_of("Peds1, direction 0"),
    set("randhie", TargetKind::Count, 40, Says::Either).in_place_of("Peds1, direction 1"),
    set("nmes1988", TargetKind::Count, 40, Says::Either).in_place_of("Peds1, direction 2"),
];

const LOG: [Contender; 4] = [Contender::Elbo, Contender::BetaElbo, Contender::DlmLog, Contender::DlmLogFixed];
const SQUARE: [Contender; 3] = [Contender::Fitc, Contender::DlmSquare, Contender::DlmSquareFixed];

impl Set {
    const fn in_place_of(self, of: &'static str) -> Set {
        Set { stands_for: Some(of), ..self }
    }

    fn likelihood(&self) -> LikelihoodKind {
        match self.kind {
            TargetKind::Real => LikelihoodKind::Gaussian,
            TargetKind::Binary => LikelihoodKind::BernoulliProbit,
            _ => LikelihoodKind::Poisson,
        }
    }

    /// Returns settings with an isotropic kernel, a mean of zero (constant for classes), and the M of the
    /// paper.
    fn settings(&self, wanted: &Wanted, (quick, target): (bool, &str)) -> Settings {
        let real = self.kind == TargetKind::Real;
        let options = FitOptions {
            likelihood: Some(self.likelihood()),
            kernel: "rbf".into(),
            mean: if self.kind == TargetKind::Binary { MeanKind::Constant } else { MeanKind::Zero },
            inducing: Some(if quick { 15 } else { self.inducing }),
            epochs: quick.then_some(15),
            validation_fraction: 0.15,
            ..FitOptions::default()
        };
        let square = if real && !quick { &SQUARE[..] } else { &[] };
        Settings {
            objectives: LOG.iter().chain(square).copied().collect(),
            betas: Some(wanted.betas.clone()),
            repeats: wanted.repeats,
            train_sizes: wanted.sizes.clone(),
            test_fraction: 0.2,
            columns: SchemaOptions {
                target: target.into(),
                target_kind: Some(self.kind),
                ..SchemaOptions::default()
            },
            options,
        }
    }

    /// Returns the rows, at most 1,000 more than the largest training set and its test rows need, and the name
    /// of the target.
    fn table(&self, paper: &Paper, wanted: &Wanted) -> Result<Option<(Table, &'static str)>> {
        let first = |table: Table, most: usize| table.take(&evenly(table.rows(), most));
        if paper.quick {
            let (table, target) = match self.kind {
                TargetKind::Real => {
                    (read_csv("co2_monthly.csv", sparsegp_data::CO2_MONTHLY.as_bytes())?, "co2")
                }
                kind => stand_in(kind)?,
            };
            return Ok(Some((first(table, 1000), target)));
        }
        let most = wanted.sizes.iter().max().copied().unwrap_or(0) + 1000;
        Ok(paper.table(self.name)?.map(|table| (first(table, most * 5 / 4), "y")))
    }
}

pub fn run(paper: &mut Paper, wanted: &Wanted) -> Result<()> {
    let sizes: Vec<String> = wanted.sizes.iter().map(ToString::to_string).collect();
    paper.settings(format!(
        "Learning curves: training sizes {}, β from {}, {} repeats, isotropic squared exponential, M of table 2, Poisson counts, probit \
         classes; of larger sets, evenly spaced rows. song, airline and Peds1 are missing.",
        sizes.join(", "), wanted.betas, wanted.repeats
    ));
    let quick = [&SETS[3], &SETS[4], &SETS[10]];
    let sets = if paper.quick { quick.to_vec() } else { SETS.iter().collect() };
    for set in sets {
        if !wanted.sets.is_empty() && !wanted.sets.iter().any(|name| name == set.name) {
            continue;
        }
        let Some((table, target)) = set.table(paper, wanted)? else { continue };
        let settings = set.settings(wanted, (paper.quick, target));
        let groups = fit(paper, set, (&settings, &table))?;
        judge(paper, set, &groups)?;
    }
    Ok(())
}

fn fit(paper: &Paper, set: &Set, (settings, table): (&Settings, &Table)) -> Result<Vec<Group>> {
    let plan = Plan::new(settings, table)?;
    let folder = paper.out.join(set.name);
    let words: Vec<String> = settings.objectives.iter().map(ToString::to_string).collect();
    let fingerprint = serde_json::json!({
        "set": set.name, "rows": table.rows(), "objectives": words, "betas": settings.betas.as_ref().map(ToString::to_string),
        "repeats": settings.repeats, "sizes": settings.train_sizes, "options": settings.options,
    });
    let store = Store::open(&folder, &fingerprint)?;
    let results = fit_all(&plan, &store, rayon::current_num_threads(), &mut |_| ())?;
    results.check()?;
    let groups = summarise(&results);
    sparsegp::files::AtomicFile::write_all_to(&folder.join("summary.csv"), summary_csv(&groups)?.as_bytes())?;
    draw(paper, set, &groups)?;
    Ok(groups)
}

/// Draws the test NLL against training rows, and against β at the smallest and the largest size.
fn draw(paper: &Paper, set: &Set, groups: &[Group]) -> Result<()> {
    let curve = |contender: Contender, pick: &dyn Fn(&Group) -> Option<f64>| {
        let points = groups.iter().filter(|group| group.objective == contender).filter_map(|group| {
            let x = pick(group)?;
            let nll = group.figure("nll")?;
            Some((x, nll.mean, nll.standard_error.unwrap_or(f64::NAN)))
        });
        CurveSeries { name: contender.to_string(), points: points.collect() }
    };
    let sized = |group: &Group| (group.role != Role::Grid).then_some(group.train_size as f64);
    let series = LOG.iter().map(|contender| curve(*contender, &sized)).collect();
    let file = format!("{}.svg", set.name);
    paper.figure(&file, ("training rows", "test NLL"), Axes::LogX, series)?;
    let sizes: Vec<usize> = groups.iter().map(|group| group.train_size).collect();
    for size in [sizes.iter().min(), sizes.iter().max()].into_iter().flatten() {
        let by_beta = |group: &Group| {
            let grid = group.role == Role::Grid && group.train_size == *size;
            group.beta.filter(|_| grid)
        };
        let series = LOG[1..].iter().map(|contender| curve(*contender, &by_beta)).collect();
        let file = format!("{}_beta_{size}.svg", set.name);
        paper.figure(&file, ("β", "test NLL"), Axes::LogX, series)?;
    }
    Ok(())
}

/// Returns the objective with the lowest figure.
fn lowest(found: &[(Contender, f64)]) -> Contender {
    found.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(Contender::Elbo, |found| found.0)
}

fn judge(paper: &mut Paper, set: &Set, groups: &[Group]) -> Result<()> {
    let size = groups.iter().map(|group| group.train_size).max().unwrap_or(0);
    let of = |contender: Contender| {
        let found = groups.iter().find(|group| {
            group.objective == contender && group.train_size == size && group.role != Role::Grid
        });
        found
            .filter(|group| group.runs > 0)
            .ok_or_else(|| Error::fit(format!("{contender} failed on {}", set.name)))
    };
    let figures = |contenders: &[Contender], figure: &str| -> Result<Vec<(Contender, f64)>> {
        let mean = |group: &Group| group.figure(figure).map_or(f64::NAN, |figure| figure.mean);
        contenders.iter().map(|contender| Ok((*contender, mean(of(*contender)?)))).collect()
    };
    let nlls = figures(&LOG, "nll")?;
    let lead = |contender: Contender| -> Result<(f64, f64)> {
        let lead = of(contender)?.lead_over(of(Contender::Elbo)?);
        Ok(lead.map_or((f64::NAN, 0.0), |lead| (lead.mean, lead.standard_error.unwrap_or(0.0))))
    };
    let (gain, error) = lead(Contender::DlmLog)?;
    let (fixed_gain, fixed_error) = lead(Contender::DlmLogFixed)?;
    let text = nlls.iter().map(|(contender, nll)| {
        let beta = of(*contender)?.beta.map_or(String::new(), |beta| format!(" (β {beta:.3})"));
        Ok(format!("{contender} {nll:.4}{beta}"))
    });
    let text: Vec<String> = text.collect::<Result<_>>()?;
    let best = lowest(&nlls);
    let (claim, holds, otherwise) = match set.says {
        Says::Joint => (
            "joint DLM clearly has the lowest log loss (Fig. 2)",
            best == Contender::DlmLog && gain > 2.0 * error,
            "joint DLM is not clearly ahead",
        ),
        Says::Fixed => (
            "fixed DLM has the lowest log loss, joint DLM is sensitive (Fig. 2)",
            best == Contender::DlmLogFixed,
            "joint DLM trains without trouble here and is ahead",
        ),
        Says::Either => (
            "joint or fixed DLM has the lowest log loss (Figs. 4, 6)",
            matches!(best, Contender::DlmLog | Contender::DlmLogFixed),
            "another objective has the lowest mean, by chance or not",
        ),
        Says::Little => (
            "differences are small, DLM is comparable (Fig. 4)",
            (nlls[2].1 - nlls[0].1).abs() < 0.02 || gain.abs() < 2.0 * error,
            "joint DLM differs",
        ),
    };
    let replaced = set.stands_for.map_or(String::new(), |of| format!(" (for {of})"));
    let of_quick = paper.setting("", "a stand-in for ");
    let name = format!("{of_quick}{}{replaced}, {size} rows", set.name);
    paper.claim(
        &format!("{name}: log loss"),
        claim,
        format!(
            "{}; joint ahead of the ELBO by {gain:.3} ± {error:.3}, fixed by {fixed_gain:.3} ± {fixed_error:.3}",
            text.join(", ")
        ),
        Verdict::of(holds, otherwise),
    );
    if set.kind != TargetKind::Binary {
        paper.expect(&format!("{name}: gain of joint DLM over the ELBO"), gain, -0.05..=5.0);
    }
    if set.kind == TargetKind::Real && !paper.quick {
        let [elbo, beta, joint, _] = LOG;
        let [fitc, square, fixed] = SQUARE;
        let errors = figures(&[elbo, beta, fitc, joint, fixed, square], "mse")?;
        let wanted = if set.says == Says::Fixed { fixed } else { square };
        let text: Vec<String> =
            errors.iter().map(|(contender, mse)| format!("{contender} {mse:.4e}")).collect();
        paper.claim(
            &format!("{name}: squared error"),
            &format!("{wanted} has the lowest (Fig. 3)"),
            text.join(", "),
            Verdict::of(lowest(&errors) == wanted, "another objective has the lowest mean"),
        );
    }
    Ok(())
}
