//! A sweep that predicts the rows of a data set with grouped effects: means and variances of their
//! latent values.

use super::{DataStream, residuals, whitened_block};
use crate::collapsed::Dataset;
use crate::columns;
use crate::effects::RowMoments;
use crate::latent::LatentLayer;
use crate::linalg::{Operand, block_product};
use faer::{Accum, MatRef};

/// The means `E η_i` and variances `Var η_i` of the rows of a data set.
#[derive(Clone, Debug, Default)]
pub struct RowMarginals {
    /// The means, one for each row.
    pub mean: Vec<f64>,
    /// The variances, one for each row.
    pub variance: Vec<f64>,
}

impl DataStream {
    /// Returns `E η = o + aᵀm + zᵀE b` and `Var η = r + Var(aᵀw + zᵀb)` of all rows, where `w ~ N(m, S)` and `effects` has the moments of b.
    /// The residual variance r is that of the latent function given the inducing variables. Takes b·M² flops for each block of b rows.
    pub fn marginals(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        mean: &[f64],
        cov: MatRef<'_, f64>,
        effects: RowMoments<'_>,
    ) -> RowMarginals {
        let mut out = RowMarginals::default();
        let process = self.processes[0];
        self.sweep(
            data,
            |part, buffers, block| {
                let len = part.len();
                let (mut a, mut t) = (buffers.a, buffers.t);
                whitened_block(layer, process, part, buffers.k, a.as_mut(), block);
                let a = a.as_ref();
                residuals(a, layer.kappa(), &mut block.base[..len], &mut block.bar[..len]);
                block_product(t.as_mut(), Accum::Replace, Operand::full(cov), a, 1.0);
                let (quad, fit) = (&mut block.weight[..len], &mut block.bar[..len]);
                quad.fill(0.0);
                columns::add_column_dots(a, t.as_ref(), quad);
                fit.fill(0.0);
                columns::add_transposed_matvec(a, mean, fit);
                effects.add(part.x, a, t.as_mut(), (quad, fit));
                // The centred target is c = y − o, so the mean is o + fit = y − c + fit.
                for (i, y) in part.targets.y.iter().enumerate() {
                    block.c[i] = y - block.c[i] + fit[i];
                    block.base[i] = (block.base[i] + quad[i]).max(f64::MIN_POSITIVE);
                }
            },
            |window| {
                let mut left = window.a.ncols();
                for block in window.blocks {
                    let len = block.c.len().min(left);
                    out.mean.extend_from_slice(&block.c[..len]);
                    out.variance.extend_from_slice(&block.base[..len]);
                    left -= len;
                }
            },
        );
        out
    }
}
