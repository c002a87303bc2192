//! The figures and tables of the learning curves.

use crate::fits::{LOG, is_square};
use crate::paper::prelude::*;
use crate::raw::Row;
use crate::results::{ERROR, Figure, Mean, NLL, Results};
use crate::sets::SETS;
use sparsegp_tables::compare::Contender::{self, BetaElbo, DlmLog, DlmLogFixed, Elbo, Fitc};
use std::fmt::Write;

/// The colours of joint and of fixed DLM.
const JOINT: &str = "#0072B2";
const FIXED: &str = "#D55E00";

pub fn write(paper: &Paper, rows: &[Row]) -> Result<()> {
    for set in &SETS {
        let sizes = Results::of(rows, set);
        draw_sizes(paper, &sizes)?;
        if let ("cadata", [small, .., large]) = (set.name, &sizes[..]) {
            draw_betas(paper, small, "small")?;
            draw_betas(paper, large, "large")?;
        }
    }
    let sizes: Vec<Results> = SETS.iter().flat_map(|set| Results::of(rows, set)).collect();
    let header = "ELBO | β-ELBO | joint DLM | fixed DLM | FITC";
    paper.write("papers", "curves.md", &table(&sizes, header, &means))?;
    let largest: Vec<Results> = SETS.iter().filter_map(|set| Results::largest(rows, set)).collect();
    let header = "joint over ELBO | fixed over ELBO | joint over β-ELBO | fixed over β-ELBO";
    paper.write("papers", "gains.md", &table(&largest, header, &gains))?;
    paper.write("figures", "gains.svg", &gains_figure(&largest))
}

/// Draws the test NLL, and the squared error of regressions, against the training rows.
fn draw_sizes(paper: &Paper, sizes: &[Results]) -> Result<()> {
    let Some(first) = sizes.first() else { return Ok(()) };
    let name = first.set.name;
    let series = |figure: Figure, among: Vec<Contender>| -> Vec<CurveSeries> {
        let curve = |objective: Contender| {
            let point = |results: &Results| {
                let Mean { mean, error, .. } = results.mean(objective, figure);
                (results.n as f64, mean, error)
            };
            CurveSeries { name: objective.to_string(), points: sizes.iter().map(point).collect() }
        };
        among.into_iter().map(curve).collect()
    };
    let (all, axis) = (first.set.objectives(), "training rows");
    let of_log = all.iter().copied().filter(|objective| !is_square(*objective)).collect();
    paper.figure(&format!("{name}.svg"), (axis, "test NLL"), Axes::LogX, series(NLL, of_log))?;
    if first.set.is_regression() {
        paper.figure(&format!("{name}_square.svg"), (axis, "test MSE"), Axes::LogX, series(ERROR, all))?;
    }
    Ok(())
}

fn draw_betas(paper: &Paper, results: &Results, size: &str) -> Result<()> {
    let curve = |objective: &Contender| {
        let points =
            results.curve(*objective, NLL).into_iter().map(|(beta, nll)| (beta, nll.mean, nll.error));
        CurveSeries { name: objective.to_string(), points: points.collect() }
    };
    let series = LOG[1..].iter().map(curve).collect();
    paper.figure(&format!("cadata_beta_{size}.svg"), ("β", "test NLL"), Axes::LogX, series)
}

fn table(sizes: &[Results], header: &str, cells: &dyn Fn(&Results) -> Vec<Mean>) -> String {
    let rule = " --- |".repeat(3 + header.matches('|').count() + 1);
    let mut text = format!("| set | rows | repeats | {header} |\n|{rule}\n");
    for results in sizes {
        let cells: Vec<String> = cells(results).iter().map(ToString::to_string).collect();
        let (name, n, repeats) = (results.set.name, results.n, results.repeats());
        let _ = writeln!(text, "| {name} | {n} | {repeats} | {} |", cells.join(" | "));
    }
    text
}

fn means(results: &Results) -> Vec<Mean> {
    [Elbo, BetaElbo, DlmLog, DlmLogFixed, Fitc].map(|objective| results.mean(objective, NLL)).to_vec()
}

fn gains(results: &Results) -> Vec<Mean> {
    let pairs = [(DlmLog, Elbo), (DlmLogFixed, Elbo), (DlmLog, BetaElbo), (DlmLogFixed, BetaElbo)];
    pairs.map(|(dlm, elbo)| results.gain(dlm, elbo, NLL)).to_vec()
}

/// Draws the gains over the ELBO with bars of two standard errors, a line per set. The axis is the signed square root,
/// because the gains differ by orders of magnitude.
fn gains_figure(largest: &[Results]) -> String {
    let x = |gain: f64| 420.0 + 190.0 * (gain.signum() * gain.abs().sqrt()).clamp(-0.8, 2.6);
    let bottom = 40 + 44 * largest.len();
    let mut svg = String::new();
    for tick in [-0.3, 0.0, 0.1, 0.3, 1.0, 3.0, 6.0] {
        let (at, colour, below) = (x(tick), if tick == 0.0 { "#787878" } else { "#E4E4E4" }, bottom + 28);
        svg += &format!("<path d='M{at:.0} 20V{bottom}' stroke='{colour}' stroke-width='2'/>\n");
        svg += &format!("<text x='{at:.0}' y='{below}' text-anchor='middle' fill='#222222'>{tick}</text>\n");
    }
    for (line, results) in largest.iter().enumerate() {
        let (y, name, n) = (50 + 44 * line, results.set.name, results.n);
        svg += &format!("<text x='14' y='{}' fill='#222222'>{name}, {n}</text>\n", y + 7);
        for (objective, colour, y) in [(DlmLog, JOINT, y - 7), (DlmLogFixed, FIXED, y + 9)] {
            let Mean { mean, error, .. } = results.gain(objective, Elbo, NLL);
            let [low, at, high] = [mean - 2.0 * error, mean, mean + 2.0 * error].map(x);
            if error.is_finite() {
                svg += &format!("<path d='M{low:.1} {y}H{high:.1}' stroke='{colour}' stroke-width='3'/>\n");
            }
            svg += &format!("<circle cx='{at:.1}' cy='{y}' r='6' fill='{colour}'/>\n");
        }
    }
    let (width, height, legend) = (960, bottom + 90, bottom + 66);
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' role='img' width='{}' height='{}' viewBox='0 0 {width} {height}' \
         font-family='system-ui, \"DejaVu Sans\", sans-serif' font-size='22'>\n<title>Gain in test NLL over the ELBO</title>\n\
         <rect class='ground' width='{width}' height='{height}' fill='#FFFFFF'/>\n{svg}\
         <text x='560' y='{legend}' text-anchor='middle' fill='#222222'>gain in test NLL over the ELBO (nats): \
         <tspan fill='{JOINT}'>joint DLM</tspan>, <tspan fill='{FIXED}'>fixed DLM</tspan></text>\n</svg>\n",
        width / 2,
        height / 2
    )
}
