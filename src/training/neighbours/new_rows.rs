//! Updates a model with neighbours by new rows: they are added to the kept rows, and q learns from
//! them; hyper-parameters stay.

use super::given::Given;
use super::in_rounds;
use super::objective::{TRAINED_WITH, layer, standard};
use super::sites::{Observed, Sites};
use crate::collapsed::Dataset;
use crate::error::Result;
use crate::gradient::{BatchPass, GivenRows, Problem, ProcessSums, Wanted};
use crate::hyper::Monitor;
use crate::model::{LatentModel, Nearby, NearbyRows};
use crate::neighbours::{
    COMPARISONS, Lists, Windows, half_lengths, in_units_of, nearest_before, nearest_others,
};
use crate::objective::{Objective, Targets};
use crate::options::NeighbourPlan;
use crate::training::failure::new_rows_not_finite;
use crate::variational::{Evidence, Normal};
use faer::Mat;
use std::sync::Arc;

/// The state of a model with neighbours before new rows.
pub(in crate::training) struct Known<'a> {
    pub(crate) model: &'a LatentModel,
    pub(crate) nearby: &'a Nearby,
    /// The evidence of earlier rows about the q of every function, reduced by the forgotten share.
    pub(crate) evidence: &'a [Evidence],
    /// The share to forget.
    pub(crate) forget: f64,
}

/// Returns q and the kept rows after `new` rows, which are on the scale the model sees.
///
/// Each new row is conditioned on its nearest neighbours among the kept rows and the new rows before it. If the noise is not Gaussian, sites
/// are matched for the new rows, and the sites of kept rows stay. Forgetting divides the noise variance of kept rows by 1 − forget, which
/// takes their likelihood to the power 1 − forget; at 1 the kept rows are dropped.
pub(in crate::training) fn with_new_rows(
    known: Known<'_>,
    new: Dataset<'_>,
    plan: &NeighbourPlan,
    seed: u64,
    monitor: &mut Monitor<'_>,
) -> Result<(Vec<Normal>, Arc<Nearby>)> {
    let mut rows = Joined::of(&known, new);
    let Known { model, nearby, evidence, .. } = known;
    let layer = layer(model)?;
    let x = rows.x.as_ref().transpose();
    let inputs = x.subcols(0, layer.z().ncols());
    let near = in_units_of(layer.kernel(), inputs, &half_lengths(layer.kernel(), inputs));
    let near = near.as_ref();
    let order: Vec<u32> = (0..rows.x.ncols() as u32).collect();
    let added = &order[rows.kept..];
    let lists = nearest_before(near, &order, added, plan.count, COMPARISONS);
    let windows = Windows::near(near, added, &lists, rows.given(model).most_members());
    let objective = Objective { beta: plan.beta, ..Objective::fitc() };
    let standard = standard(model);
    let problem = Problem::new(model.layers(), &model.likelihood, objective, &standard);
    let pass = BatchPass::given(problem, &windows, &model.effects);
    let mut solver = Solver { model, evidence, objective, standard, pass, windows };
    if model.likelihood.gaussian_noise().is_none() {
        let (order, lists) = nearest_others(near, added, plan.count.min(TRAINED_WITH), COMPARISONS);
        let observed = Observed { likelihood: &model.likelihood, targets: new.targets };
        rows.match_sites(observed, &mut solver, (&order, &lists), plan.nodes, monitor)?;
    }
    let q = solver.q(&rows).ok_or_else(new_rows_not_finite)?;
    // Noise variances of rows are stored only if some of them differ from that of the likelihood.
    let own_noise =
        model.likelihood.gaussian_noise().is_none_or(|noise| rows.noise.iter().any(|own| *own != noise));
    let noise = own_noise.then_some(&rows.noise[..]);
    let kept = NearbyRows::new(rows.x.as_ref().transpose(), &rows.y, noise, plan.keeping, seed);
    Ok((q, Arc::new(Nearby::new(layer, kept, nearby.count()))))
}

/// Kept rows followed by new ones. Targets and noise variances are n numbers for each function, one function after the other.
struct Joined {
    /// `D × n`.
    x: Mat<f64>,
    /// The targets, or the targets of sites.
    y: Vec<f64>,
    noise: Vec<f64>,
    /// The number of stored rows.
    kept: usize,
}

impl Joined {
    fn of(known: &Known<'_>, new: Dataset<'_>) -> Joined {
        let Known { model, nearby, forget, .. } = *known;
        let (old, targets) = nearby.data();
        let kept = if forget < 1.0 { nearby.len() } else { 0 };
        let noise = model.likelihood.gaussian_noise().unwrap_or(f64::NAN);
        let (mut y, mut noises) = (Vec::new(), Vec::new());
        for function in 0..model.likelihood.functions() {
            let of_kept = function * nearby.len()..function * nearby.len() + kept;
            y.extend_from_slice(&targets[of_kept.clone()]);
            y.extend_from_slice(new.targets.y);
            noises.extend(of_kept.map(|at| nearby.noise().map_or(noise, |own| own[at]) / (1.0 - forget)));
            noises.extend(new.targets.y.iter().map(|_| noise));
        }
        let x = Mat::from_fn(old.ncols(), kept + new.len(), |d, i| {
            if i < kept { old[(i, d)] } else { new.x[(i - kept, d)] }
        });
        Joined { x, y, noise: noises, kept }
    }

    fn given<'a>(&'a self, model: &'a LatentModel) -> Given<'a> {
        Given::new(model, self.x.as_ref().transpose(), &self.y, Some(&self.noise))
    }

    /// Updates the sites of the new rows and q in turn, as training does.
    fn match_sites(
        &mut self,
        observed: Observed<'_>,
        solver: &mut Solver<'_>,
        (order, lists): (&[u32], &Lists),
        nodes: Option<usize>,
        monitor: &mut Monitor<'_>,
    ) -> Result<()> {
        let (x, kept) = (self.x.as_ref().transpose(), self.kept);
        let variance = self.given(solver.model).prior_variances(x.subrows(kept, x.nrows() - kept));
        let mut sites = Sites::new(observed, &variance, nodes);
        self.take(&sites);
        in_rounds(|step| {
            if monitor.session.is_interrupted() {
                return None;
            }
            let q = solver.q(self)?;
            let (mean, variance) = solver.left_out(self, &q, order, lists);
            let moved = sites.update(observed, mean, variance, step);
            self.take(&sites);
            Some(moved)
        });
        monitor.session.check()
    }

    /// Sets the targets and noise variances of the new rows to those of the sites.
    fn take(&mut self, sites: &Sites) {
        let (n, kept) = (self.x.ncols(), self.kept);
        for (all, new) in [(&mut self.y, &sites.values.targets), (&mut self.noise, &sites.values.noise)] {
            let functions = all.chunks_exact_mut(n).zip(new.chunks_exact(n - kept));
            functions.for_each(|(all, new)| all[kept..].copy_from_slice(new));
        }
    }

    /// Returns the numbers of the new rows.
    fn of_new(&self, all: &[f64]) -> Vec<f64> {
        all.chunks_exact(self.x.ncols()).flat_map(|own| &own[self.kept..]).copied().collect()
    }
}

/// Solves for q from the evidence of earlier and new rows.
struct Solver<'a> {
    model: &'a LatentModel,
    evidence: &'a [Evidence],
    objective: Objective,
    /// The q of a pass at the origin.
    standard: Vec<Normal>,
    windows: Windows,
    pass: BatchPass,
}

impl Solver<'_> {
    fn q(&mut self, rows: &Joined) -> Option<Vec<Normal>> {
        let (model, given) = (self.model, rows.given(self.model));
        let sources = given.sources();
        let problem = Problem::new(model.layers(), &model.likelihood, self.objective, &self.standard);
        // The losses at the origin are those of the targets of the sources.
        let targets = Targets::of(&rows.y[..rows.x.ncols()]);
        let given = GivenRows { windows: &self.windows, sources: &sources, targets, scale: 1.0 };
        self.pass.run_given(problem, given, Wanted::Origin, &[]);
        let with_sums = |(evidence, sums): (&Evidence, &ProcessSums)| {
            let mut all = evidence.clone();
            all.add_sums(&sums.mean, sums.cov.as_ref(), self.objective.beta);
            all.posterior()
        };
        self.evidence.iter().zip(&self.pass.sums().processes).map(with_sums).collect()
    }

    /// Returns means and variances of every function at the new rows given their nearest other rows, without their own contribution to q.
    fn left_out(&self, rows: &Joined, q: &[Normal], order: &[u32], lists: &Lists) -> (Vec<f64>, Vec<f64>) {
        let counted = vec![1.0 / self.objective.beta; rows.x.ncols()];
        let (mean, variance) = rows.given(self.model).left_out(q, order, lists, &counted);
        (rows.of_new(&mean), rows.of_new(&variance))
    }
}
