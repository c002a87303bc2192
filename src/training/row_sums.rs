//! Sums of passes over all rows of a fit, wherever the rows are.

use super::round::Losses;
use super::rows::{AllRows, Portion};
use crate::collapsed::Dataset;
use crate::effects::{EffectRows, EffectSums};
use crate::error::Result;
use crate::gradient::{Batch, BatchPass, BlockRows, Form, Problem, Wanted};
use crate::model::LatentModel;
use crate::objective::Objective;
use crate::variational::Normal;

/// The maximum number of rows that a pass evaluates between two reductions; it bounds the memory of a pass.
pub(super) const CHUNK: usize = 8192;

/// The sums by level of grouped effects, which a pass at the origin fills in addition to the sums over features.
pub(super) struct LevelSums<'a> {
    /// The levels of all rows, if the rows are in memory.
    pub levels: Option<&'a EffectRows>,
    /// The sums.
    pub sums: &'a mut EffectSums,
}

/// Returns a pass for sums over `rows` with posteriors like `q`.
pub(super) fn pass_over(
    rows: &dyn AllRows,
    model: &LatentModel,
    objective: Objective,
    q: &[Normal],
) -> BatchPass {
    let chunk = if rows.elsewhere().is_some() { 0 } else { rows.count().min(CHUNK) };
    BatchPass::new(model.layers(), &model.likelihood, objective, q, chunk)
}

/// Returns the value of the sums of a pass over all rows, each with weight 1.
///
/// # Errors
///
/// If rows cannot be read, or sums over remote rows are unavailable.
pub(super) fn sum_over(
    rows: &dyn AllRows,
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    how: (Form, Wanted),
) -> Result<f64> {
    sum_over_with(rows, pass, model, problem, how, None, &mut |_, _| {})
}

/// Like [`sum_over`], with sums by level. Every block of rows in memory is passed to `visit`, with the place of its first row.
///
/// # Errors
///
/// As for [`sum_over`]; also if sums by level of rows on disk or elsewhere do not add up.
pub(super) fn sum_over_with(
    rows: &dyn AllRows,
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    (form, wanted): (Form, Wanted),
    mut levels: Option<LevelSums<'_>>,
    visit: &mut dyn FnMut(usize, &BlockRows<'_>),
) -> Result<f64> {
    if !pass.begin(problem, form, wanted) {
        return Ok(f64::NAN);
    }
    if let Some(LevelSums { sums, .. }) = &mut levels {
        sums.clear();
    }
    let (mut first, mut outcome) = (0, Ok(()));
    rows.for_each(CHUNK, &mut |portion| {
        if outcome.is_err() {
            return;
        }
        match portion {
            Portion::Here(rows) => {
                let mut see = |block: &BlockRows<'_>| visit(first + block.first, block);
                outcome = add_rows(pass, model, problem, rows, first, levels.as_mut(), &mut see);
                first += rows.len();
            }
            Portion::There(parts) => {
                let asked = Losses::of(pass, problem, (form, wanted), 1.0);
                outcome = parts.losses(model, asked).and_then(|sums| {
                    let Some(sums) = sums else { return Ok(()) };
                    pass.merge(&sums.batch)?;
                    match (&mut levels, &sums.effects) {
                        (Some(own), Some(other)) => own.sums.merge(other),
                        _ => Ok(()),
                    }
                });
            }
        }
    })?;
    outcome?;
    if let Some(LevelSums { levels: Some(rows), sums }) = levels {
        sums.add_products(rows);
    }
    Ok(pass.finish(problem))
}

/// Adds rows in memory to the sums of a pass.
fn add_rows(
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    rows: Dataset<'_>,
    first: usize,
    levels: Option<&mut LevelSums<'_>>,
    visit: &mut dyn FnMut(&BlockRows<'_>),
) -> Result<()> {
    let batch = Batch { x: rows.x, targets: rows.targets, scale: 1.0 };
    let Some(LevelSums { levels, sums }) = levels else {
        pass.add_with(problem, batch, 0, &mut |block| visit(&block));
        return Ok(());
    };
    match levels {
        Some(all) => pass.add_with(problem, batch, 0, &mut |block| {
            add_levels(sums, all, first, &block);
            visit(&block);
        }),
        None => {
            let own = EffectRows::new(&model.effects, rows.x);
            let mut part = EffectSums::zeros(&own, model.layer().dim());
            pass.add_with(problem, batch, 0, &mut |block| add_levels(&mut part, &own, 0, &block));
            part.add_products(&own);
            sums.merge(&part)?;
        }
    }
    Ok(())
}

/// Adds the rows of a block of a pass at the origin to the sums by level: their weights are ω = 2h, and their weighted residuals −g.
pub(super) fn add_levels(sums: &mut EffectSums, rows: &EffectRows, first: usize, block: &BlockRows<'_>) {
    let weights: Vec<f64> = block.half_curvature.iter().map(|h| 2.0 * h).collect();
    let weighted: Vec<f64> = block.slope.iter().map(|g| -g).collect();
    sums.add_features(rows, first + block.first, block.features, &weights, &weighted);
}
