//! Updates a model with neighbours by new rows: they are added to the kept rows, and q learns from
//! them; hyper-parameters stay.

use super::in_rounds;
use super::objective::{TRAINED_WITH, layer};
use super::sites::{Observed, Sites};
use crate::collapsed::Dataset;
use crate::effects::Effects;
use crate::error::{Error, Result};
use crate::gradient::{BatchPass, GivenRows, Problem, Wanted};
use crate::hyper::Monitor;
use crate::latent::{InducingLayer, LatentLayer};
use crate::model::{LatentModel, Nearby, NearbyRows};
use crate::neighbours::{
    COMPARISONS, Lists, Predictor, Source, Windows, half_lengths, in_units_of, nearest_before, nearest_others,
};
use crate::objective::{Objective, Targets};
use crate::options::NeighbourPlan;
use crate::training::failure::new_rows_not_finite;
use crate::variational::{Evidence, Family, Normal};
use faer::Mat;
use sparsegp_kernels::Scratch;
use std::sync::Arc;

/// The state of a model with neighbours before new rows.
pub(in crate::training) struct Known<'a> {
    pub model: &'a LatentModel,
    pub nearby: &'a Nearby,
    /// The evidence of earlier rows about q, reduced by the forgotten share.
    pub evidence: &'a Evidence,
    /// The share to forget.
    pub forget: f64,
}

/// Returns q and the kept rows after `new` rows, which are on the scale the model sees.
///
/// Each new row is conditioned on its nearest neighbours among the kept rows and the new rows before it. If the noise is not Gaussian, sites
/// are matched for the new rows, and the sites of kept rows stay. Forgetting divides the noise variance of kept rows by 1 − forget, which
/// takes their likelihood to the power 1 − forget; at 1 the kept rows are dropped.
///
/// # Errors
///
/// If the new rows cannot be conditioned on the others, or the session is interrupted.
pub(in crate::training) fn with_new_rows(
    known: Known<'_>,
    new: Dataset<'_>,
    plan: &NeighbourPlan,
    seed: u64,
    monitor: &mut Monitor<'_>,
) -> Result<(Normal, Arc<Nearby>)> {
    let mut rows = Joined::of(&known, new);
    let Known { model, nearby, evidence, .. } = known;
    let layer = layer(model)?;
    let x = rows.x.as_ref().transpose();
    let inputs = x.subcols(0, layer.z().ncols());
    let near = in_units_of(layer.kernel(), inputs, &half_lengths(layer.kernel(), inputs));
    let near = near.as_ref();
    let order: Vec<u32> = (0..rows.y.len() as u32).collect();
    let added = &order[rows.kept..];
    let lists = nearest_before(near, &order, added, plan.count, COMPARISONS);
    let windows = Windows::near(near, added, &lists, Windows::most_members(layer.dim()));
    let objective = Objective { beta: plan.beta, ..Objective::fitc() };
    let standard = [Normal::standard(Family::Full, evidence.shift.len())];
    let pass =
        BatchPass::given(model.layers(), &model.likelihood, objective, &standard, &windows, &model.effects);
    let mut solver = Solver { model, layer, evidence, objective, standard, pass, windows };
    if model.likelihood.gaussian_noise().is_none() {
        let (order, lists) = nearest_others(near, added, plan.count.min(TRAINED_WITH), COMPARISONS);
        let likelihood = model
            .likelihood
            .one()
            .ok_or_else(|| Error::usage("⟨neighbours⟩ need a likelihood of one latent function"))?;
        rows.match_sites(
            Observed { likelihood, targets: new.targets },
            &mut solver,
            &order,
            &lists,
            plan.nodes,
            monitor,
        )?;
    }
    let q = solver.q(&rows).ok_or_else(new_rows_not_finite)?;
    // Noise variances of rows are stored only if some of them differ from that of the likelihood.
    let own_noise =
        model.likelihood.gaussian_noise().is_none_or(|noise| rows.noise.iter().any(|own| *own != noise));
    let noise = own_noise.then_some(&rows.noise[..]);
    let kept = NearbyRows::new(rows.x.as_ref().transpose(), &rows.y, noise, plan.keeping, seed);
    Ok((q, Arc::new(Nearby::new(layer, kept, nearby.count()))))
}

/// Kept rows followed by new ones.
struct Joined<'a> {
    /// `D × n`.
    x: Mat<f64>,
    /// The targets, or the targets of sites.
    y: Vec<f64>,
    noise: Vec<f64>,
    /// The number of stored rows.
    kept: usize,
    /// The grouped effects of the model.
    effects: &'a Effects,
}

impl<'a> Joined<'a> {
    /// Joins the rows.
    fn of(known: &Known<'a>, new: Dataset<'_>) -> Joined<'a> {
        let Known { model, nearby, forget, .. } = *known;
        let (old, targets) = nearby.data();
        let kept = if forget < 1.0 { targets.len() } else { 0 };
        let noise = model.likelihood.gaussian_noise().unwrap_or(f64::NAN);
        let of_kept = |row: usize| nearby.noise().map_or(noise, |own| own[row]) / (1.0 - forget);
        Joined {
            x: Mat::from_fn(old.ncols(), kept + new.len(), |d, i| {
                if i < kept { old[(i, d)] } else { new.x[(i - kept, d)] }
            }),
            y: targets[..kept].iter().chain(new.targets.y).copied().collect(),
            noise: (0..kept).map(of_kept).chain(new.targets.y.iter().map(|_| noise)).collect(),
            kept,
            effects: &model.effects,
        }
    }

    fn source(&self) -> Source<'_> {
        let x = self.x.as_ref().transpose();
        Source { x, y: &self.y, noise: &self.noise, queries: None, effects: self.effects }
    }

    /// Updates the sites of the new rows and q in turn, as training does.
    fn match_sites(
        &mut self,
        observed: Observed<'_>,
        solver: &mut Solver<'_>,
        order: &[u32],
        lists: &Lists,
        nodes: Option<usize>,
        monitor: &mut Monitor<'_>,
    ) -> Result<()> {
        let kept = self.kept;
        let mut variance = vec![0.0; self.y.len() - kept];
        let new = self.x.as_ref().transpose().subrows(kept, variance.len());
        let inputs = new.subcols(0, solver.layer.z().ncols());
        solver.layer.kernel().diag(inputs, &mut variance, &mut Scratch::new());
        self.effects.add_prior_variances(new, &mut variance);
        let mut sites = Sites::new(observed, &variance, nodes);
        self.take(&sites);
        in_rounds(|step| {
            if monitor.is_interrupted() {
                return None;
            }
            let q = solver.q(self)?;
            let (mean, variance) = solver.left_out(self, &q, order, lists);
            let moved = sites.update(observed, mean, variance, step);
            self.take(&sites);
            Some(moved)
        });
        monitor.check()
    }

    /// Sets the targets and noise variances of the new rows to those of the sites.
    fn take(&mut self, sites: &Sites) {
        self.y[self.kept..].copy_from_slice(&sites.targets);
        self.noise[self.kept..].copy_from_slice(&sites.noise);
    }
}

/// Solves for q from the evidence of earlier and new rows.
struct Solver<'a> {
    model: &'a LatentModel,
    layer: &'a InducingLayer,
    evidence: &'a Evidence,
    objective: Objective,
    /// The q of a pass at the origin.
    standard: [Normal; 1],
    windows: Windows,
    pass: BatchPass,
}

impl Solver<'_> {
    fn q(&mut self, rows: &Joined<'_>) -> Option<Normal> {
        let (model, sources) = (self.model, [rows.source()]);
        let problem = Problem::new(model.layers(), &model.likelihood, self.objective, &self.standard);
        let given = GivenRows {
            windows: &self.windows,
            sources: &sources,
            targets: Targets::of(&rows.y),
            scale: 1.0,
        };
        self.pass.run_given(problem, given, Wanted::Origin, &[]);
        let mut all = self.evidence.clone();
        all.add_sums(&self.pass.sums().processes[0], self.objective.beta);
        all.posterior()
    }

    /// Returns means and variances of f at the new rows given their nearest other rows, without their own contribution to q.
    fn left_out(&self, rows: &Joined<'_>, q: &Normal, order: &[u32], lists: &Lists) -> (Vec<f64>, Vec<f64>) {
        let Source { x, y, noise, effects, .. } = rows.source();
        let (layer, posterior) = (self.layer, (q.mean(), q.cov().full()));
        let predictor = Predictor { layer, effects, posterior, data: (x, y), noise };
        let (mean, variance) = predictor.left_out(order, lists, &vec![1.0 / self.objective.beta; y.len()]);
        (mean[rows.kept..].to_vec(), variance[rows.kept..].to_vec())
    }
}
