//! The grouped effects of the rows of a block, as part of their latent values.

use super::moments::Moments;
use super::term::Effects;
use faer::{Mat, MatMut, MatRef};

/// The effects of a model with their moments under q.
#[derive(Clone, Copy)]
pub struct RowMoments<'a> {
    /// The terms and their factors.
    pub(crate) effects: &'a Effects,
    /// The moments.
    pub(crate) moments: &'a Moments,
}

impl RowMoments<'_> {
    /// Adds the effects of the rows `x` to `T = (S − κI) A` (`M × b`), which becomes `T + Cov(w, b) Z`, to the means of f and, if wanted, to
    /// its variances. `cross` is `Cov(w, u)` in the coordinates of the features `a`.
    pub(crate) fn add(
        &self,
        x: MatRef<'_, f64>,
        (a, cross): (MatRef<'_, f64>, &Mat<f64>),
        mut t: MatMut<'_, f64>,
        mean: &mut [f64],
        mut variance: Option<&mut [f64]>,
    ) {
        let mut own = vec![0.0; t.nrows()];
        for (i, mean) in mean.iter_mut().enumerate() {
            let entries = self.effects.entries(x.row(i));
            own.fill(0.0);
            self.moments.add_with(cross, (self.effects, &entries), &mut own);
            t.as_mut().col_mut(i).iter_mut().zip(&own).for_each(|(t, x)| *t += x);
            *mean += self.moments.mean(self.effects, &entries);
            if let Some(variance) = &mut variance {
                let shared: f64 = a.col(i).iter().zip(&own).map(|(a, x)| a * x).sum();
                variance[i] += 2.0 * shared + self.moments.variance(self.effects, &entries);
            }
        }
    }
}
