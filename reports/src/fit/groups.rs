//! The section of a report about grouped effects: variance components with intervals, and the
//! estimates of levels in order.

use crate::figures::{Interval, intervals};
use crate::html::{Block, Figure, TableBlock, figures};
use crate::words::{correlations, count, interval_words, number, with_interval};
use sparsegp::effects::EffectTerm;
use sparsegp::functions::normal::HALF_95;
use sparsegp_tables::tabular::{NamedEffect, TableModel};

/// The maximum number of levels in a figure (half lowest, half highest), and of figures.
const MOST_LEVELS: usize = 60;
const MOST_FIGURES: usize = 8;

/// The blocks of the section; none for models without grouped effects.
pub(super) fn blocks(model: &TableModel) -> Vec<Block> {
    if model.schema().groups().is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Table(components(model)), Block::Text(about(model).to_owned())];
    let effects = model.effects();
    let of_term = |term: &EffectTerm| -> Vec<Option<Figure>> {
        term.effect_names().into_iter().map(|effect| levels(model, term, effect, &effects)).collect()
    };
    let drawn = model.latent().effects.terms().iter().flat_map(of_term).take(MOST_FIGURES);
    blocks.extend(figures(drawn));
    blocks
}

fn about(model: &TableModel) -> &'static str {
    if model.intraclass_correlations().is_empty() {
        "Standard deviations (sd) show how much levels differ, on the scale of the link. If an interval begins at 0, the levels may not differ at all."
    } else {
        "Standard deviations (sd) show how much levels differ. The intraclass correlation is the variance \
        of the intercepts of one grouping as a share of the variance of all groupings and the noise. If an \
        interval begins at 0, the levels may not differ at all."
    }
}

fn components(model: &TableModel) -> TableBlock {
    let shares = model.intraclass_correlations();
    let correlated = model.latent().effects.terms().iter().any(|term| term.correlated && term.width() > 1);
    let header = ["grouping", "levels", "effect", "sd", "95 % interval"];
    let mut header: Vec<String> = header.map(str::to_owned).to_vec();
    header.extend(correlated.then(|| "correlation".to_owned()));
    header.extend((!shares.is_empty()).then(|| "intraclass correlation".to_owned()));
    let mut rows = vec![header];
    for component in model.variance_components() {
        let term = model.latent().effects.terms().iter().find(|term| term.name == component.group);
        let mut row = vec![
            component.group.clone(),
            term.map_or(String::new(), |term| count(term.levels)),
            component.effect.clone(),
            number(component.sd),
            interval_words(component.interval),
        ];
        row.extend(correlated.then(|| correlations(&component).join(", ")));
        if !shares.is_empty() {
            let own =
                shares.iter().find(|own| own.group == component.group && component.effect == "intercept");
            row.push(own.map_or(String::new(), |own| with_interval(own.share, own.interval)));
        }
        rows.push(row);
    }
    if let Some(sd) = model.residual_deviation() {
        let mut row = vec![String::new(); rows[0].len()];
        row[0] = "noise".to_owned();
        row[3] = number(sd);
        row[4] = interval_words(model.residual_interval());
        rows.push(row);
    }
    TableBlock::new("How much levels differ", rows)
}

/// Draws the estimates of one effect of all levels in order, or of the lowest and the highest levels if there are many.
fn levels(model: &TableModel, term: &EffectTerm, effect: &str, all: &[NamedEffect]) -> Option<Figure> {
    let mut own: Vec<&NamedEffect> =
        all.iter().filter(|level| level.group == term.name && level.effect == effect).collect();
    own.sort_by(|a, b| a.value.estimate.total_cmp(&b.value.estimate));
    let (known, half) = (own.len(), MOST_LEVELS / 2);
    let mut told = format!("all {} levels", count(known));
    if known > MOST_LEVELS {
        own.drain(half..known - half);
        told = format!("{MOST_LEVELS} of {} levels: the {half} lowest and the {half} highest", count(known));
    }
    let interval = |level: &NamedEffect| {
        Interval::around(level.level.clone(), level.value.estimate, HALF_95 * level.value.sd)
    };
    let shown: Vec<Interval> = own.into_iter().rev().map(interval).collect();
    let target = model.schema().target_name();
    let (title, axis) = match effect {
        "intercept" => (format!("Levels of {}", term.name), format!("effect on {target}")),
        slope => {
            (format!("Slopes in {slope} by {}", term.name), format!("effect on {target} per unit of {slope}"))
        }
    };
    let caption = format!(
        "Estimates with 95 % intervals, {told}. They are differences from the mean of all levels{}; \
        estimates of levels with few rows are shrunk towards 0.",
        if model.residual_deviation().is_some() { "" } else { ", on the scale of the link" }
    );
    let name = format!("levels-{}-{effect}", term.name);
    Figure::of(&name, &title, &caption, intervals(&axis, &shown, false))
}
