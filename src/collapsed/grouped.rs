//! The evidence of a model with grouped effects, its gradient and the posterior, from sums over
//! rows.

use crate::columns;
use crate::effects::{EffectRows, EffectSums, Effects, Moments, Sparse};
use crate::gradient::{BatchSums, ProcessSums};
use crate::linalg::{self, Factorizer, NotPositiveDefinite, Operand, Part, dot, gram_of_inverse, product};
use crate::parallel::*;
use faer::{Accum, Mat, MatRef};
use std::f64::consts::PI;

/// The prior of the weights w of the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightPrior {
    /// `w ~ N(0, I)`: the latent Gaussian process.
    Unit,
    /// Fixed effects, at which the likelihood is maximised (ML).
    Profiled,
    /// Like [`Profiled`](Self::Profiled), under a weak normal prior for all coefficients except the last one if that is an intercept. Without
    /// it, a likelihood that is not Gaussian may be largest at infinity (separation).
    Weak {
        /// True if the last weight is an intercept.
        intercept: bool,
    },
    /// Fixed effects with a flat prior, integrated over (REML).
    Integrated,
}

/// The precision of weak priors, for standardised inputs (Gelman, Jakulin, Pittau & Su 2008: a scale of 2.5).
const WEAK: f64 = 1.0 / (2.5 * 2.5);

impl WeightPrior {
    /// Returns the precision of the weight `k` of `count`.
    fn precision(self, k: usize, count: usize) -> f64 {
        match self {
            WeightPrior::Unit => 1.0,
            WeightPrior::Weak { intercept } if intercept && k + 1 == count => 0.0,
            WeightPrior::Weak { .. } => WEAK,
            WeightPrior::Profiled | WeightPrior::Integrated => 0.0,
        }
    }

    /// Returns true if the weights are a point at which the objective is minimised.
    fn is_profiled(self) -> bool {
        matches!(self, WeightPrior::Profiled | WeightPrior::Weak { .. })
    }

    /// Returns `½ Σ p_k w_k²` with the precisions p of the prior.
    pub(crate) fn penalty(self, weights: &[f64]) -> f64 {
        let of_weight = |(k, w): (usize, &f64)| 0.5 * self.precision(k, weights.len()) * w * w;
        weights.iter().enumerate().map(of_weight).sum()
    }
}

/// The sums that determine the evidence.
#[derive(Clone, Copy)]
pub(crate) struct GroupedSums<'a> {
    /// The pairs of levels that occur in the same rows.
    pub rows: &'a EffectRows,
    /// Sums by level, with the weights of `origin`.
    pub sums: &'a EffectSums,
    /// The sums of a pass at the origin.
    pub origin: &'a BatchSums,
    /// σ², if the sums are those of the ELBO with a noise variance of 1, as in the variational bound (VFE); `None` for those of FITC, whose
    /// weights contain the noise.
    pub noise: Option<f64>,
    /// The sum of the weights of the rows with a normaliser; 0 for sites, without normalisers.
    pub count: f64,
    /// The prior of w.
    pub prior: WeightPrior,
}

/// The evidence with its derivatives, and the factors that give the posterior.
pub(crate) struct GroupedEvidence<'a> {
    /// Minus the log evidence, or the log likelihood at the best fixed effects: a sum over rows.
    pub value: f64,
    /// `½ (|E w|² + |E u|² + log|P|)`, plus `Σ r_i/2σ²` for VFE: the value without normalisers and
    /// without the misfit of the targets at the posterior mean, because very distant targets of
    /// small weight would cost its digits. Of fixed effects only those with a weak prior have a term of w.
    pub penalty: f64,
    /// The derivative with respect to σ² at fixed sums; 0 under FITC, whose weights contain it.
    pub noise_bar: f64,
    /// Derivatives with respect to the values of all factors, in the order of the flat vector.
    pub factors: Vec<f64>,
    solved: Solved<'a>,
    /// The covariances in the derivatives of the determinant.
    determinant: (Head, Levels),
    prior: WeightPrior,
}

impl GroupedEvidence<'_> {
    /// Returns the moments for the expectations in a bound. Fixed effects at which the likelihood
    /// is maximised have no variance.
    pub fn moments_of_bound(self) -> Moments {
        let (head, levels) = self.determinant;
        self.solved.moments(head, levels)
    }

    /// The posterior moments of w and of the whitened effects.
    pub fn moments(self) -> Moments {
        let (head, levels) = match self.prior {
            prior if prior.is_profiled() => {
                let head = self.solved.head(false);
                let levels = self.solved.levels(&head);
                (head, levels)
            }
            _ => self.determinant,
        };
        self.solved.moments(head, levels)
    }
}

/// Returns minus the log evidence of a model with features and grouped effects, with its gradient
/// and the posterior.
///
/// `u = F⁻¹b ~ N(0, I)` are the whitened coefficients, and `D = diag(d)` the precisions of the rows. A and Z̃ have the features and the
/// whitened effects of a row in each column. With `P = [[I + ADAᵀ, AD Z̃ᵀ], [·, I + Z̃DZ̃ᵀ]]` and `h = (A, Z̃) D c`:
///
/// ```text
/// J = ½ (cᵀDc − hᵀP⁻¹h + log|P| − Σ log d_i + n log 2π)  (+ Σ r_i/2σ² for VFE)
/// ```
///
/// For level l of the eliminated term, `I + G_l` is its block of P and C_l its block with all other coefficients. With
/// `T_l = (I + G_l)⁻¹`: `S = P_hh − Σ_l C_l T_l C_lᵀ` and
/// `log|P| = log|S| + Σ_l log|I + G_l|`. Derivatives use
/// `Fᵀ ∂ log evidence/∂F = Σ_l (E u_l u_lᵀ − I)`.
pub(crate) fn grouped_evidence<'a>(
    effects: &Effects,
    given: GroupedSums<'a>,
) -> Result<GroupedEvidence<'a>, NotPositiveDefinite> {
    let GroupedSums { rows, sums, origin, noise, count, prior } = given;
    let process = &origin.processes[0];
    let precision = noise.map_or(1.0, |noise| 1.0 / noise);
    let whitened = sums.whitened(rows, effects, precision);
    let solved = Solved::new(rows, &whitened, (process, precision), prior)?;
    let (quadratic, log_det) = (solved.quadratic, solved.log_det);
    let m = process.mean.len() as f64;
    // Σ r_i/σ².
    let residual = noise.map_or(0.0, |_| 2.0 * process.residual * precision);
    let normaliser = match noise {
        Some(noise) => count * (2.0 * PI * noise).ln() + residual,
        None => 2.0 * origin.value - process.squares,
    };
    let integrated = if prior == WeightPrior::Integrated { m * (2.0 * PI).ln() } else { 0.0 };
    let value = 0.5 * (quadratic + log_det + normaliser - integrated);

    let squares = |values: &[f64]| dot(values, values);
    let penalty = prior.penalty(&solved.weights) + 0.5 * (squares(&solved.coefficients) + log_det + residual);

    let determinant = solved.head(prior.is_profiled());
    let levels = solved.levels(&determinant);
    let excess = solved.excess(&determinant, &levels);
    let mut factors = Vec::with_capacity(effects.parameter_count());
    for (term, excess) in excess.iter().enumerate() {
        effects.flatten(term, factor_bar(&effects.factor(term), excess).as_ref(), &mut factors);
    }
    let noise_bar = noise.map_or(0.0, |_| {
        let traces = excess.iter().map(|excess| linalg::trace(excess.as_ref())).sum::<f64>();
        // Σ d E(c − η)² = cᵀDc − hᵀm − |m|² + tr(Cov(P − I)), and the excess is |u|² + tr Cov − I.
        let of_weights = match prior {
            WeightPrior::Unit => {
                m - linalg::trace(determinant.weights.as_ref()) - dot(&solved.weights, &solved.weights)
            }
            WeightPrior::Profiled => 0.0,
            WeightPrior::Weak { .. } => -2.0 * prior.penalty(&solved.weights),
            WeightPrior::Integrated => m,
        };
        let squares = quadratic - traces + of_weights;
        0.5 * (count - squares - residual) * precision
    });
    let determinant = (determinant, levels);
    Ok(GroupedEvidence { value, penalty, noise_bar, factors, solved, determinant, prior })
}

/// `∂J/∂F = −F⁻ᵀ Σ_l (E u uᵀ − I)`; a row of a factor with a zero on its diagonal has the
/// derivative 0.
fn factor_bar(factor: &Mat<f64>, excess: &Mat<f64>) -> Mat<f64> {
    let r = factor.nrows();
    let mut out = Mat::zeros(r, r);
    for j in 0..r {
        for i in (0..r).rev() {
            let known: f64 = (i + 1..r).map(|k| factor[(k, i)] * out[(k, j)]).sum();
            let diagonal = factor[(i, i)];
            out[(i, j)] = if diagonal > 0.0 { (-excess[(i, j)] - known) / diagonal } else { 0.0 };
        }
    }
    out
}

/// The elimination, with the matrices that moments and derivatives need.
struct Solved<'a> {
    rows: &'a EffectRows,
    /// The number of coefficients that are not eliminated.
    others: usize,
    /// `T_l`, `r × r` each.
    shrunk: Vec<f64>,
    /// `C_l T_l`: the rows of w (M × L·r), and the nonzero blocks of the other coefficients (r
    /// numbers each).
    loads: Loads,
    /// The inverse of the Cholesky factor of S, in which the other coefficients come before w.
    inverse: Mat<f64>,
    /// The means of w and u.
    weights: Vec<f64>,
    coefficients: Vec<f64>,
    /// `cᵀDc − hᵀP⁻¹h`.
    quadratic: f64,
    /// `log|P|`; without the fixed effects if the likelihood is maximised at them.
    log_det: f64,
}

/// `C_l T_l` of all levels.
struct Loads {
    weights: Mat<f64>,
    places: Vec<f64>,
}

/// The posterior covariance of the coefficients that are not eliminated, in blocks.
struct Head {
    /// The covariance of the coefficients of the other groupings.
    pub others: Mat<f64>,
    /// The covariance of w with these coefficients, M × others.
    pub cross: Mat<f64>,
    /// The covariance of w.
    pub weights: Mat<f64>,
}

/// The posterior covariances of the eliminated levels.
struct Levels {
    /// `Cov(u_l)`, `r × r` each.
    blocks: Vec<f64>,
    /// `Cov(w, u_l)`, M × L·r.
    cross: Mat<f64>,
}

impl<'a> Solved<'a> {
    fn new(
        rows: &'a EffectRows,
        sums: &EffectSums,
        (process, precision): (&ProcessSums, f64),
        prior: WeightPrior,
    ) -> Result<Self, NotPositiveDefinite> {
        let (m, others) = (process.mean.len(), rows.other_size());
        let gram = process.cov.as_ref().full();
        let (shrunk, mut log_det) = shrink(&sums.blocks, rows.terms[rows.eliminated].width)?;
        let loads = Loads::new(rows, sums, &shrunk);
        let mut factor = schur(rows, sums, &loads);
        for j in 0..m {
            for i in j..m {
                let prior = if i == j { prior.precision(i, m) } else { 0.0 };
                factor[(others + i, others + j)] += 2.0 * precision * gram[(i, j)] + prior;
            }
        }
        let size = others + m;
        let mut inverse = linalg::spread(size, size);
        Factorizer::new(size).cholesky_with_inverse(factor.as_mut(), inverse.as_mut())?;
        let counted = if prior.is_profiled() { others } else { size };
        log_det += linalg::log_det(factor.as_ref().submatrix(0, 0, counted, counted));
        let response: Vec<f64> = process.mean.iter().map(|x| -precision * x).collect();
        let (weights, coefficients) = means(rows, sums, (&loads, &shrunk), (&inverse, &response));
        let explained = dot(&response, &weights) + dot(&sums.response, &coefficients);
        let quadratic = precision * process.squares - explained;
        Ok(Solved { rows, others, shrunk, loads, inverse, weights, coefficients, quadratic, log_det })
    }

    fn width(&self) -> usize {
        self.rows.terms[self.rows.eliminated].width
    }

    /// Returns the covariance of the coefficients that are not eliminated; w is fixed at its mean
    /// if `profiled` is true.
    fn head(&self, profiled: bool) -> Head {
        let (m, others) = (self.weights.len(), self.others);
        let size = if profiled { others } else { others + m };
        let mut all = linalg::spread(size, size);
        gram_of_inverse(self.inverse.as_ref().submatrix(0, 0, size, size), all.as_mut());
        let block = |i: usize, j: usize, rows: usize, columns: usize| match profiled {
            true => Mat::zeros(rows, columns),
            false => all.as_ref().submatrix(i, j, rows, columns).to_owned(),
        };
        let (cross, weights) = (block(others, 0, m, others), block(others, others, m, m));
        Head { others: all.as_ref().submatrix(0, 0, others, others).to_owned(), cross, weights }
    }

    /// `Cov(u_l) = T + T C_lᵀ S⁻¹ C_l T` and `Cov(w, u_l) = −(S⁻¹ C_l)_w T`.
    fn levels(&self, head: &Head) -> Levels {
        let (m, r) = (self.weights.len(), self.width());
        let count = self.rows.terms[self.rows.eliminated].levels;
        let mut cross: Mat<f64> = Mat::zeros(m, count * r);
        let left = Operand::full(head.weights.as_ref());
        product(
            cross.as_mut(),
            Part::All,
            Accum::Replace,
            left,
            Operand::full(self.loads.weights.as_ref()),
            -1.0,
        );
        let mut blocks = self.shrunk.clone();
        let parts = blocks.par_chunks_exact_mut(r * r).zip(columns::col_chunks(cross.as_mut(), r.max(1)));
        parts.enumerate().for_each(|(level, (block, mut cross))| {
            let places = self.rows.meetings.of(level);
            for place in places.clone() {
                let column = head.cross.col(self.rows.meetings.columns[place] as usize);
                for a in 0..r {
                    let load = self.loads.places[place * r + a];
                    cross.as_mut().col_mut(a).iter_mut().zip(column.iter()).for_each(|(x, q)| *x -= load * q);
                }
            }
            self.add_explained(block, (level, places), cross.as_ref(), head);
        });
        Levels { blocks, cross }
    }

    /// Adds `K_lᵀ S⁻¹ K_l` with `K_l = C_l T_l` to the block of a level, given `Cov(w, u_l) = −(S⁻¹ K_l)_w`.
    fn add_explained(
        &self,
        block: &mut [f64],
        (level, places): (usize, std::ops::Range<usize>),
        cross: MatRef<'_, f64>,
        head: &Head,
    ) {
        let r = self.width();
        let columns = &self.rows.meetings.columns[places.clone()];
        let loads = &self.loads.places[places.start * r..places.end * r];
        let mut image = vec![0.0; r];
        for a in 0..r {
            let own = self.loads.weights.col(level * r + a);
            for b in 0..r {
                block[a * r + b] -= own.iter().zip(cross.col(b).iter()).map(|(k, x)| k * x).sum::<f64>();
            }
        }
        for (place, &column) in columns.iter().enumerate() {
            // (S⁻¹ K_l) at this coefficient.
            let (q, w) = (head.others.col(column as usize), head.cross.col(column as usize));
            for (b, image) in image.iter_mut().enumerate() {
                let near = columns.iter().zip(loads.iter().skip(b).step_by(r));
                let own = self.loads.weights.col(level * r + b);
                *image = near.map(|(&other, load)| q[other as usize] * load).sum::<f64>()
                    + own.iter().zip(w.iter()).map(|(k, w)| k * w).sum::<f64>();
            }
            for a in 0..r {
                let load = loads[place * r + a];
                block[a * r..(a + 1) * r].iter_mut().zip(&image).for_each(|(x, image)| *x += load * image);
            }
        }
    }

    /// Returns `Σ_l (E u_l u_lᵀ − I)` of every term.
    fn excess(&self, head: &Head, levels: &Levels) -> Vec<Mat<f64>> {
        let of_term = |term: usize| {
            let (r, count, from) =
                (self.rows.terms[term].width, self.rows.terms[term].levels, self.rows.offset(term));
            let mut sum = Mat::zeros(r, r);
            let first = self.rows.other_offset(term);
            for level in 0..count {
                let mean = &self.coefficients[from + level * r..from + (level + 1) * r];
                for i in 0..r {
                    for j in 0..r {
                        let covariance = if term == self.rows.eliminated {
                            levels.blocks[(level * r + i) * r + j]
                        } else {
                            head.others[(first + level * r + i, first + level * r + j)]
                        };
                        sum[(i, j)] += mean[i] * mean[j] + covariance - if i == j { 1.0 } else { 0.0 };
                    }
                }
            }
            sum
        };
        (0..self.rows.terms.len()).map(of_term).collect()
    }

    fn moments(self, head: Head, levels: Levels) -> Moments {
        let m = self.weights.len();
        let mut cross = Mat::zeros(m, self.coefficients.len());
        for term in 0..self.rows.terms.len() {
            let room = cross.as_mut().subcols_mut(self.rows.offset(term), self.rows.size(term));
            if term == self.rows.eliminated {
                { room }.copy_from(&levels.cross);
            } else {
                let from = self.rows.other_offset(term);
                { room }.copy_from(head.cross.as_ref().subcols(from, self.rows.size(term)));
            }
        }
        let loads = Sparse {
            offsets: self.rows.meetings.offsets.clone(),
            columns: self.rows.meetings.columns.clone(),
            values: self.loads.places,
        };
        Moments {
            eliminated: self.rows.eliminated,
            weights: self.weights,
            covariance: head.weights,
            coefficients: self.coefficients,
            cross,
            loads,
            weight_loads: self.loads.weights,
            blocks: levels.blocks,
            others: head.others,
        }
    }
}

/// Returns `T_l = (I + G_l)⁻¹` of every level, and `Σ_l log|I + G_l|`.
fn shrink(blocks: &[f64], r: usize) -> Result<(Vec<f64>, f64), NotPositiveDefinite> {
    let mut shrunk = blocks.to_vec();
    if r == 1 {
        let mut log_det = 0.0;
        for (pivot, block) in shrunk.iter_mut().enumerate() {
            let precision = 1.0 + *block;
            if !(precision > 0.0 && precision.is_finite()) {
                return Err(NotPositiveDefinite { pivot });
            }
            log_det += precision.ln();
            *block = 1.0 / precision;
        }
        return Ok((shrunk, log_det));
    }
    let (mut factor, mut inverse, mut out) = (Mat::zeros(r, r), Mat::zeros(r, r), Mat::zeros(r, r));
    let (mut factorizer, mut log_det) = (Factorizer::new(r), 0.0);
    for block in shrunk.chunks_exact_mut(r * r) {
        let own = MatRef::from_row_major_slice(block, r, r);
        factor.copy_from(own);
        linalg::add_diagonal(factor.as_mut(), 1.0);
        factorizer.cholesky_with_inverse(factor.as_mut(), inverse.as_mut())?;
        log_det += linalg::log_det(factor.as_ref());
        gram_of_inverse(inverse.as_ref(), out.as_mut());
        block.iter_mut().enumerate().for_each(|(at, value)| *value = out[(at / r, at % r)]);
    }
    Ok((shrunk, log_det))
}

impl Loads {
    fn new(rows: &EffectRows, sums: &EffectSums, shrunk: &[f64]) -> Loads {
        let r = rows.terms[rows.eliminated].width;
        let (m, from) = (sums.cross.nrows(), rows.offset(rows.eliminated));
        let levels = rows.terms[rows.eliminated].levels;
        let mut weights: Mat<f64> = Mat::zeros(m, levels * r);
        let mut places = vec![0.0; sums.pairs.len()];
        for level in 0..levels {
            let block = &shrunk[level * r * r..(level + 1) * r * r];
            for a in 0..r {
                for b in 0..r {
                    let (factor, column) = (block[b * r + a], sums.cross.col(from + level * r + b));
                    let out = weights.col_mut(level * r + a);
                    out.iter_mut().zip(column.iter()).for_each(|(k, c)| *k += factor * c);
                }
            }
            for place in rows.meetings.of(level) {
                for a in 0..r {
                    places[place * r + a] =
                        (0..r).map(|b| sums.pairs[place * r + b] * block[b * r + a]).sum();
                }
            }
        }
        Loads { weights, places }
    }
}

/// Returns the lower triangle of `S = P_hh − Σ_l K_l C_lᵀ`, without the contribution of the sums
/// over features alone. The other coefficients come before w.
fn schur(rows: &EffectRows, sums: &EffectSums, loads: &Loads) -> Mat<f64> {
    let (others, m) = (rows.other_size(), sums.cross.nrows());
    let (r, from) = (rows.terms[rows.eliminated].width, rows.offset(rows.eliminated));
    let size = rows.size(rows.eliminated);
    let mut out = linalg::spread(others + m, others + m);
    linalg::copy_lower(sums.others.as_ref(), out.as_mut().submatrix_mut(0, 0, others, others));
    linalg::add_diagonal(out.as_mut().submatrix_mut(0, 0, others, others), 1.0);
    for term in rows.others() {
        let room = out.as_mut().submatrix_mut(others, rows.other_offset(term), m, rows.size(term));
        { room }.copy_from(sums.cross.as_ref().subcols(rows.offset(term), rows.size(term)));
    }
    for level in 0..rows.terms[rows.eliminated].levels {
        let places = rows.meetings.of(level);
        for left in places.clone() {
            let column = rows.meetings.columns[left] as usize;
            let load = &loads.places[left * r..(left + 1) * r];
            for right in places.clone() {
                let row = rows.meetings.columns[right] as usize;
                if row >= column {
                    out[(row, column)] -= dot(load, &sums.pairs[right * r..(right + 1) * r]);
                }
            }
            for (a, load) in load.iter().enumerate() {
                let own = sums.cross.col(from + level * r + a);
                let room = out.as_mut().col_mut(column).subrows_mut(others, m);
                { room }.iter_mut().zip(own.iter()).for_each(|(s, c)| *s -= load * c);
            }
        }
    }
    let own = sums.cross.as_ref().subcols(from, size);
    let corner = out.as_mut().submatrix_mut(others, others, m, m);
    let left = Operand::full(loads.weights.as_ref());
    product(corner, Part::Lower, Accum::Add, left, Operand::full(own.transpose()), -1.0);
    out
}

/// The posterior means of w and of all coefficients: `m_h = S⁻¹ (h_h − Σ_l K_l h_l)` and `m_l = T_l h_l − K_lᵀ m_h`.
fn means(
    rows: &EffectRows,
    sums: &EffectSums,
    (loads, shrunk): (&Loads, &[f64]),
    (inverse, response): (&Mat<f64>, &[f64]),
) -> (Vec<f64>, Vec<f64>) {
    let (others, m, r) = (rows.other_size(), response.len(), rows.terms[rows.eliminated].width);
    let (from, size) = (rows.offset(rows.eliminated), rows.size(rows.eliminated));
    let own = &sums.response[from..from + size];
    let mut right = vec![0.0; others + m];
    for term in rows.others() {
        let (to, from) = (rows.other_offset(term), rows.offset(term));
        right[to..to + rows.size(term)].copy_from_slice(&sums.response[from..from + rows.size(term)]);
    }
    right[others..].copy_from_slice(response);
    for (column, h) in own.iter().enumerate() {
        right[others..].iter_mut().zip(loads.weights.col(column).iter()).for_each(|(x, k)| *x -= k * h);
    }
    for level in 0..size / r {
        let own = &own[level * r..(level + 1) * r];
        for place in rows.meetings.of(level) {
            right[rows.meetings.columns[place] as usize] -=
                dot(&loads.places[place * r..(place + 1) * r], own);
        }
    }
    let (mut half, mut head) = (vec![0.0; others + m], vec![0.0; others + m]);
    linalg::matvec(inverse.as_ref(), &right, &mut half);
    linalg::matvec(inverse.transpose(), &half, &mut head);
    let mut coefficients = vec![0.0; sums.response.len()];
    for term in rows.others() {
        let (to, from) = (rows.offset(term), rows.other_offset(term));
        coefficients[to..to + rows.size(term)].copy_from_slice(&head[from..from + rows.size(term)]);
    }
    for level in 0..size / r {
        for a in 0..r {
            let block = &shrunk[(level * r + a) * r..(level * r + a + 1) * r];
            let weights = loads.weights.col(level * r + a).iter().zip(&head[others..]);
            let met = rows.meetings.of(level);
            let met =
                met.map(|place| loads.places[place * r + a] * head[rows.meetings.columns[place] as usize]);
            let explained = weights.map(|(k, m)| k * m).sum::<f64>() + met.sum::<f64>();
            coefficients[from + level * r + a] = dot(block, &own[level * r..(level + 1) * r]) - explained;
        }
    }
    (head[others..].to_vec(), coefficients)
}
