//! Sums of passes over all rows of a fit, wherever the rows are.

use super::round::Losses;
use super::rows::{AllRows, Portion};
use crate::effects::{EffectRows, EffectSums};
use crate::error::Result;
use crate::gradient::{Batch, BatchPass, BlockRows, Form, Problem, Wanted};
use crate::model::LatentModel;
use crate::objective::Objective;
use crate::threads::on_pool;
use crate::variational::Normal;

/// The maximum number of rows that a pass evaluates between two reductions; it bounds the memory of a pass.
pub(super) const CHUNK: usize = 8192;

/// The sums by level of grouped effects, which a pass at the origin fills in addition to the sums over features.
pub(super) struct LevelSums<'a> {
    /// The levels of all rows, if the rows are in memory.
    pub levels: Option<&'a EffectRows>,
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
    BatchPass::new(Problem::new(model.layers(), &model.likelihood, objective, q), chunk)
}

/// All rows of a fit, or a sample that stands for them, for a pass.
#[derive(Clone, Copy)]
pub(super) struct Sweep<'a> {
    pub rows: &'a dyn AllRows,
    /// The number of rows that are evaluated at once.
    part: usize,
    /// The weight of every row.
    scale: f64,
    /// The number of the holder of the rows, on which random draws depend.
    number: u64,
}

impl<'a> Sweep<'a> {
    /// Creates a pass over `rows` in parts of `part` rows.
    pub fn of(rows: &'a dyn AllRows, part: usize) -> Self {
        Sweep { rows, part, scale: 1.0, number: 0 }
    }

    /// Creates a pass over `rows` in large parts.
    pub fn over(rows: &'a dyn AllRows) -> Self {
        Sweep::of(rows, CHUNK)
    }

    /// Creates a pass over rows that are evaluated at once, each with the weight `scale`.
    pub fn of_weight(rows: &'a dyn AllRows, scale: f64) -> Self {
        Sweep { rows, part: usize::MAX, scale, number: 0 }
    }

    /// Creates a pass over the rows of part `number`, each with the weight `scale`.
    pub fn of_part(rows: &'a dyn AllRows, scale: f64, number: usize) -> Self {
        Sweep { scale, number: number as u64, ..Sweep::over(rows) }
    }

    /// Marks the rows as a sample that represents `n` rows.
    pub fn standing_for(self, n: usize) -> Self {
        Sweep { scale: n as f64 / self.rows.count() as f64, ..self }
    }

    /// Returns the number of rows that the pass stands for.
    pub fn count(&self) -> f64 {
        self.scale * self.rows.count() as f64
    }

    /// Returns true if all rows are evaluated at once.
    pub fn is_one_part(&self) -> bool {
        self.rows.is_one_part(self.part)
    }
}

/// Returns the value of the sums of a pass over all rows.
pub(super) fn sum_over(
    sweep: Sweep<'_>,
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    how: (Form, Wanted),
) -> Result<f64> {
    sum_over_with(sweep, pass, model, problem, how, None, &mut |_, _| {})
}

/// Like [`sum_over`], with sums by level. Every block of rows in memory is passed to `visit`, with the place of its first row.
pub(super) fn sum_over_with(
    sweep: Sweep<'_>,
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    how: (Form, Wanted),
    levels: Option<LevelSums<'_>>,
    visit: &mut (dyn FnMut(usize, &BlockRows<'_>) + Send),
) -> Result<f64> {
    if !add_all(sweep, pass, model, problem, how, levels, visit)? {
        return Ok(f64::NAN);
    }
    let cubes = problem.q.iter().map(|q| q.dim().pow(3)).sum();
    Ok(on_pool(cubes, || pass.finish(problem)))
}

/// Like [`sum_over_with`], but leaves the sums to be merged with others. Returns false if S has no Cholesky factor to draw samples.
pub(super) fn add_all(
    Sweep { rows, part, scale, number }: Sweep<'_>,
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    (form, wanted): (Form, Wanted),
    mut levels: Option<LevelSums<'_>>,
    visit: &mut (dyn FnMut(usize, &BlockRows<'_>) + Send),
) -> Result<bool> {
    if !pass.begin(problem, form, wanted) {
        return Ok(false);
    }
    if let Some(LevelSums { sums, .. }) = &mut levels {
        sums.clear();
    }
    let squares: usize = problem.q.iter().map(|q| q.dim().pow(2)).sum();
    let (mut first, mut draws, mut outcome) = (0, number, Ok(true));
    rows.for_each(part, &mut |portion| {
        if outcome.is_err() {
            return;
        }
        match portion {
            Portion::Here(rows) => {
                let mut see = |block: &BlockRows<'_>| visit(first + block.first, block);
                let batch = Batch { x: rows.x, targets: rows.targets, scale };
                let (levels, work) = (levels.as_mut(), squares * rows.len());
                let added =
                    on_pool(work, || add_rows(pass, model, problem, (batch, draws), first, levels, &mut see));
                outcome = added.map(|()| true);
                first += rows.len();
                draws += 1 << 32;
            }
            Portion::There(parts) => {
                let asked = Losses::of(pass, problem, (form, wanted), scale);
                outcome = parts.losses(model, asked).and_then(|sums| {
                    let Some(sums) = sums else { return Ok(false) };
                    pass.merge(&sums.batch)?;
                    if let (Some(own), Some(other)) = (&mut levels, &sums.effects) {
                        own.sums.merge(other)?;
                    }
                    Ok(true)
                });
            }
        }
    })?;
    if let Some(LevelSums { levels: Some(rows), sums }) = levels {
        sums.add_products(rows);
    }
    outcome
}

/// Adds rows in memory, with the number of their draws, to the sums of a pass.
fn add_rows(
    pass: &mut BatchPass,
    model: &LatentModel,
    problem: Problem<'_>,
    (batch, part): (Batch<'_>, u64),
    first: usize,
    levels: Option<&mut LevelSums<'_>>,
    visit: &mut (dyn FnMut(&BlockRows<'_>) + Send),
) -> Result<()> {
    let Some(LevelSums { levels, sums }) = levels else {
        pass.add_with(problem, batch, part, &mut |block| visit(&block));
        return Ok(());
    };
    match levels {
        Some(all) => pass.add_with(problem, batch, part, &mut |block| {
            add_levels(sums, all, first, &block);
            visit(&block);
        }),
        None => {
            let own = EffectRows::new(&model.effects, batch.x);
            let mut more = EffectSums::zeros(&own, model.layer().dim());
            pass.add_with(problem, batch, part, &mut |block| add_levels(&mut more, &own, 0, &block));
            more.add_products(&own);
            sums.merge(&more)?;
        }
    }
    Ok(())
}

/// Adds the rows of a block of a pass at the origin to the sums by level: their weights are ω = 2h, and their weighted residuals −g.
fn add_levels(sums: &mut EffectSums, rows: &EffectRows, first: usize, block: &BlockRows<'_>) {
    let weights: Vec<f64> = block.half_curvature.iter().map(|h| 2.0 * h).collect();
    let weighted: Vec<f64> = block.slope.iter().map(|g| -g).collect();
    sums.add_features(rows, first + block.first, block.features, &weights, &weighted);
}
