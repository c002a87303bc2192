//! Rows in parts on other machines: the answer of a part to a question, and all parts as rows of a fit.

use super::check::check_groups;
use super::round::{Draw, OwnedFactor, PartSums, PartedPortion, PartedRows, Round, Sums};
use super::row_buffer::RowBuffer;
use super::row_sums::{CHUNK, LevelSums, Sweep, add_all};
use super::rows::{AllRows, BatchSource, Portion};
use crate::collapsed::Dataset;
use crate::data::BatchPlan;
use crate::effects::{EffectRows, EffectSums, RowMoments};
use crate::error::{Error, Result};
use crate::gradient::{BatchPass, Problem, Wanted};

impl Round {
    /// Computes the sums over the rows of part `part`, on the scale the model sees. Parts are counted from 0, including parts without rows.
    ///
    /// # Errors
    ///
    /// If the rows have another number of inputs than the model.
    pub fn sums(&self, part: usize, rows: Dataset<'_>) -> Result<Sums> {
        let effects = &self.model.effects;
        let d = self.model.layer().input_dims() + effects.columns();
        if rows.x.shape() != (rows.len(), d) {
            let (n, found) = rows.x.shape();
            let expected = rows.len();
            return Err(Error::data(format!(
                "part {part} has inputs of {n} × {found}, expected {expected} × {d}"
            )));
        }
        check_groups(rows.x, effects.terms())?;
        match self.asked.draw {
            None => self.losses(part, rows),
            Some(draw) => {
                let drawn = draw.rows(part, rows.len());
                self.losses(part, RowBuffer::taken(rows, &drawn).data())
            }
        }
    }

    fn losses(&self, part: usize, rows: Dataset<'_>) -> Result<Sums> {
        let Round { model, asked } = self;
        let (layers, likelihood, effects) = (model.layers(), &model.likelihood, &model.effects);
        let problem = Problem {
            factor: asked.factor.as_ref().map(OwnedFactor::borrowed),
            groups: asked.groups.as_ref().map(|moments| RowMoments { effects, moments }),
            noises: &asked.noises,
            ..Problem::new(layers, likelihood, asked.objective, &asked.q)
        };
        let mut pass = BatchPass::new(problem, rows.len().min(CHUNK));
        pass.seed(asked.seed);
        pass.set_samples(asked.samples);
        pass.go_to_run(asked.run);
        let by_level = asked.wanted == Wanted::Origin && !effects.is_empty() && !model.sums_effects();
        let levels = by_level.then(|| EffectRows::new(effects, rows.x));
        let mut by_level = levels.as_ref().map(|levels| EffectSums::zeros(levels, layers.dim()));
        let own = by_level.as_mut().map(|sums| LevelSums { levels: levels.as_ref(), sums });
        let sweep = Sweep::of_part(&rows, asked.scale, part);
        let how = (asked.form, asked.wanted);
        if !add_all(sweep, &mut pass, model, problem, how, own, &mut |_, _| {})? {
            return Ok(Sums::NoFactor);
        }
        let batch = pass.sums_so_far().clone();
        Ok(Sums::Losses(Box::new(PartSums { batch, effects: by_level })))
    }
}

/// All rows of all parts.
#[derive(Clone, Copy)]
pub struct Parts<'a>(pub &'a dyn PartedRows);

impl<'a> Parts<'a> {
    /// Returns the batches of a plan.
    ///
    /// # Errors
    ///
    /// If the batches differ in size.
    pub fn batches(self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + 'a>> {
        if !matches!(plan, BatchPlan::Epochs(_)) {
            return Err(
                Error::usage("the batch size cannot vary if the rows are in parts").hint("give ⟨batch_size⟩")
            );
        }
        let draw = Draw { seed, per_epoch: plan.per_epoch(self.count()), batch: 0 };
        Ok(Box::new(PartedBatches { all: self, draw }))
    }
}

impl AllRows for Parts<'_> {
    fn count(&self) -> usize {
        self.0.counts().iter().sum()
    }

    fn for_each(&self, _most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        visit(Portion::There(PartedPortion { parts: self.0, draw: None, len: self.count() }));
        Ok(())
    }

    fn elsewhere(&self) -> Option<&dyn PartedRows> {
        Some(self.0)
    }
}

/// Batches that the holders of the rows draw.
struct PartedBatches<'a> {
    all: Parts<'a>,
    draw: Draw,
}

impl BatchSource for PartedBatches<'_> {
    fn all(&self) -> &dyn AllRows {
        &self.all
    }

    fn per_epoch(&self) -> usize {
        self.draw.per_epoch
    }

    fn next_batch(&mut self) -> Result<Portion<'_>> {
        let (parts, draw) = (self.all.0, self.draw);
        self.draw.batch += 1;
        Ok(Portion::There(PartedPortion { parts, draw: Some(draw), len: draw.size(parts.counts()) }))
    }

    fn seek(&mut self, batches: usize) -> Result<()> {
        self.draw.batch = batches;
        Ok(())
    }
}
