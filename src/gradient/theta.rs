//! The completion of gradients in θ and Z through the whitening, once the sums over rows are known.

use super::shape::ProcessRoom;
use super::sums::ProcessSums;
use super::{BatchPass, BatchSums, Problem};
use crate::columns;
use crate::latent::{LatentLayer, Layers};
use crate::linalg::{self, Operand, Part, product};
use crate::objective::Loss;
use crate::variational::{DataGradient, Matrix};
use faer::{Accum, Mat, MatMut};

impl BatchPass {
    /// Completes the gradient in θ and Z of a pass at the optimum of q ([`Wanted::Envelope`](super::Wanted::Envelope)) through the whitening. `origin` has the sums of
    /// the pass at the origin, and `share` the ratio of the noise variance there to the present one.
    ///
    /// There `2 (S_l A + Cov(w, u) Z̃) diag(h) Aᵀ = β (I − S_l)` and `A g_l = −β m_l`, so
    /// `G = Ā Aᵀ = β Σ_l (I − S_l − m_l m_lᵀ) − 2κ A diag(r̄) Aᵀ`, where `r̄ = h` unless the residual variance is noise.
    pub fn finish_envelope(&mut self, problem: Problem<'_>, origin: &BatchSums, share: f64) {
        let (layers, beta) = (problem.layers, problem.objective.beta);
        let fitc = problem.objective.loss == Loss::Fitc;
        for (layer, (own, scratch)) in layers.iter().zip(&mut self.layer_scratch).enumerate() {
            if own.whitening().is_none() {
                continue;
            }
            let first = layers.members(layer).start;
            let g = &mut self.processes[first].half;
            g.as_mut().fill(0.0);
            for process in layers.members(layer) {
                let q = &problem.q[process];
                let (by_residual, share) = if fitc {
                    (&self.sums.processes[process].cov, 1.0)
                } else {
                    (&origin.processes[process].cov, share)
                };
                let Matrix::Full(by_residual) = by_residual else { continue };
                let (cov, mean) = (q.cov().full(), q.mean());
                for j in 0..mean.len() {
                    for i in j..mean.len() {
                        let unit = f64::from(i == j);
                        g[(i, j)] += beta * (unit - cov[(i, j)] - mean[i] * mean[j])
                            - 2.0 * own.kappa() * share * by_residual[(i, j)];
                    }
                }
            }
            own.whitening_adjoint(g.as_mut(), &mut self.sums.layers[layer], scratch);
        }
    }

    /// Completes the gradient in θ and Z of the last run through the whitening.
    ///
    /// `G = Ā Aᵀ = Σ_l m_l c_lᵀ + 2 (S_l − κI) B_l` over the processes of a layer needs no b-sized
    /// product. If q depends on θ, `moving` returns the additional term of a process (lower
    /// triangle read), given its gradient.
    pub fn finish_theta(&mut self, layers: Layers<'_>, mut moving: Option<&mut Moving<'_>>) {
        if !layers.whitens() {
            return;
        }
        for layer in 0..layers.count() {
            let members = layers.members(layer);
            let first = members.start;
            for process in members {
                let sums = &mut self.sums.processes[process];
                let room = &mut self.processes[process];
                // A diagonal q's G is computed in place of its inputs.
                let ProcessSums { mean, cov, curvature, outer, .. } = sums;
                let g = if outer.nrows() > 0 { outer } else { &mut room.half };
                if let Some(moving) = &mut moving {
                    let curvature = curvature.as_ref().map(Matrix::as_ref);
                    let gradient = DataGradient { mean, cov: cov.as_ref(), curvature, path: None };
                    moving(process, gradient, g.as_mut());
                } else {
                    twice_product(&room.quadratic, cov, g);
                    linalg::add_outer_lower(g.as_mut(), &room.mean, mean);
                }
                if process > first {
                    let (rooms, later) = self.processes.split_at_mut(process);
                    let (all, later_sums) = self.sums.processes.split_at_mut(process);
                    let total = square_of(&mut rooms[first], &mut all[first]);
                    columns::add(total.as_mut(), square_of(&mut later[0], &mut later_sums[0]).as_ref());
                }
            }
            let g = square_of(&mut self.processes[first], &mut self.sums.processes[first]);
            let gradient = &mut self.sums.layers[layer];
            layers.get(layer).whitening_adjoint(g.as_mut(), gradient, &mut self.layer_scratch[layer]);
        }
    }
}

/// A function that writes the term of `G` (lower triangle) of a process whose q depends on θ, given
/// the number of the process and its gradient.
pub(crate) type Moving<'a> = dyn FnMut(usize, DataGradient<'_>, MatMut<'_, f64>) + 'a;

/// Returns the memory for `G` of a process.
fn square_of<'a>(room: &'a mut ProcessRoom, sums: &'a mut ProcessSums) -> &'a mut Mat<f64> {
    if sums.outer.nrows() > 0 { &mut sums.outer } else { &mut room.half }
}

/// Writes `2 (S − κI) B` into the lower triangle of `g`; if q is diagonal, `g` holds B on entry.
fn twice_product(quadratic: &Matrix, gram: &Matrix, g: &mut Mat<f64>) {
    match (quadratic, gram) {
        (Matrix::Full(quadratic), Matrix::Full(gram)) => {
            let (left, right) = (Operand::full(quadratic.as_ref()), Operand::full(gram.as_ref()));
            product(g.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
        }
        (Matrix::Diagonal(quadratic), _) => {
            for column in g.as_mut().col_iter_mut() {
                column.iter_mut().zip(quadratic).for_each(|(g, d)| *g *= 2.0 * d);
            }
        }
        // All matrices are of one family.
        (Matrix::Full(_), Matrix::Diagonal(_)) => {}
    }
}
