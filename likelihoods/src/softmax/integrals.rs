//! Integrands of the integrals over classes at a panel of nodes, and running sums with a separate
//! scale.

use super::curve::{Accuracy, Block, LANES, Lanes, STEP};
use super::{Grid, TINY};
use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, mul_add};

/// Adds a panel to the integrals of `E log Σ`; returns φ of the largest mean at the last node.
pub(super) struct LogSum<'a> {
    pub blocks: &'a [Block],
    pub weights: &'a Lanes,
    pub top: usize,
    pub value: &'a mut Lanes,
    pub sums: &'a mut [[Lanes; 2]],
}

impl Pass for LogSum<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> f64 {
        let LogSum { blocks, weights, top, value, sums } = self;
        let mut others = [1.0; LANES];
        for (c, block) in blocks.iter().enumerate() {
            if c != top {
                multiply(&mut others, &block.values[0]);
            }
        }
        let reference = &blocks[top].values[0];
        for l in 0..LANES {
            value[l] += weights[l] * reference[l] * (1.0 - others[l]);
        }
        for (block, [first, second]) in blocks.iter().zip(sums) {
            let [phi, slope, bend] = &block.values;
            for l in 0..LANES {
                let share = weights[l] * reference[l] * others[l] / if phi[l] > TINY { phi[l] } else { TINY };
                first[l] -= share * slope[l];
                second[l] += share * bend[l];
            }
        }
        reference[LANES - 1]
    }
}

#[inline(always)]
pub(super) fn multiply(product: &mut Lanes, factors: &Lanes) {
    product.iter_mut().zip(factors).for_each(|(product, factor)| *product *= factor);
}

pub(super) fn add(sum: &mut Lanes, more: &Lanes) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// The numbers of a block of an integrand that bound the rest of the integral.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// The sum over the block.
    pub total: f64,
    /// The integrand at both ends.
    pub ends: [f64; 2],
    /// The share by which the integrand at the first node is below the exponential `e^s` that it
    /// equals far to the left; 1 if unknown.
    pub lacking: f64,
}

impl Ends {
    pub fn of(terms: &Lanes, weights: &Lanes, lacking: f64) -> Ends {
        let total = terms.iter().zip(weights).map(|(term, weight)| term * weight).sum();
        Ends { total, ends: [terms[0], terms[LANES - 1]], lacking }
    }

    /// Returns true if the log-concave integrand falls beyond the block, and the rest is negligible.
    pub(crate) fn is_last(self, right: bool, total: f64) -> bool {
        let [near, far] = if right { self.ends } else { [self.ends[1], self.ends[0]] };
        // To the left of an exponential there is a closed form.
        let rest = if right { self.total } else { self.total.min(self.lacking * far) };
        far <= near && rest <= Accuracy::EXACT.negligible * total
    }

    /// Returns the sum over all evenly spaced nodes to the left of the block, if the integrand is
    /// an exponential there; otherwise the sum is negligible.
    pub(crate) fn left_tail(self) -> f64 {
        STEP * self.ends[0] / STEP.exp_m1()
    }
}

/// A sum over nodes times `e^{log_scale}`, which may be beyond floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub total: f64,
    pub log_scale: f64,
    /// The ends of the last block.
    pub last: Ends,
}

impl Default for Running {
    fn default() -> Self {
        Running { total: 0.0, log_scale: f64::NEG_INFINITY, last: Ends::default() }
    }
}

impl Running {
    /// Returns the factor for terms of this scale, and the factor for all sums so far.
    pub(crate) fn admit(&mut self, log_scale: f64) -> (f64, f64) {
        let mut past = 1.0;
        if log_scale > self.log_scale + 100.0 {
            past = if self.total == 0.0 { 0.0 } else { (self.log_scale - log_scale).exp() };
            self.log_scale = log_scale;
            self.total *= past;
        }
        ((log_scale - self.log_scale).exp(), past)
    }

    /// Adds a block; returns true if it is the last one in its direction.
    pub fn add(&mut self, ends: Ends, right: bool) -> bool {
        self.total += ends.total;
        self.last = ends;
        // To the right a total of 0 stays 0; to the left there may still be mass after terms that
        // underflowed.
        let known = self.total > 0.0 || right;
        known && ends.is_last(right, self.total) || self.total.is_nan()
    }

    /// Adds the rest to the left of the last block.
    pub fn finish(&mut self, grid: Grid) {
        if grid.tabulated {
            self.total += self.last.left_tail();
        }
    }

    pub fn log(self) -> f64 {
        self.total.ln() + self.log_scale
    }
}

/// The integral of `E softmax_y` over a block, with the derivatives of its logarithm if there are sums.
pub(super) struct Density<'a> {
    pub blocks: &'a [Block],
    pub density: &'a Lanes,
    pub class: usize,
    /// The factor of the terms.
    pub factor: f64,
    pub weights: &'a Lanes,
    pub sums: &'a mut [[Lanes; 2]],
}

impl Pass for Density<'_> {
    type Output = Ends;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> Ends {
        let Density { blocks, density, class, factor, weights, sums } = self;
        let mut product = *density;
        for (c, block) in blocks.iter().enumerate() {
            if c != class {
                multiply(&mut product, &block.values[0]);
            }
        }
        let lacking = 1.0 - product[0];
        product.iter_mut().for_each(|value| *value *= factor);
        let ends = Ends::of(&product, weights, lacking);
        for l in 0..LANES {
            product[l] *= weights[l];
        }
        let (mut slope, mut bend) = ([0.0; LANES], [0.0; LANES]);
        for (c, (block, [first_sum, second_sum])) in blocks.iter().zip(&mut *sums).enumerate() {
            if c == class {
                continue;
            }
            let [phi, first, second] = &block.values;
            for l in 0..LANES {
                let inverse = 1.0 / if phi[l] > TINY { phi[l] } else { TINY };
                let (r, q) = (first[l] * inverse, second[l] * inverse);
                first_sum[l] = mul_add::<S>(product[l], r, first_sum[l]);
                second_sum[l] = mul_add::<S>(product[l], q, second_sum[l]);
                slope[l] += r;
                bend[l] += mul_add::<S>(-r, r, q);
            }
        }
        if let Some([_, second_sum]) = sums.get_mut(class) {
            // Integrated by parts twice: the second derivative of the product of all other curves.
            for l in 0..LANES {
                second_sum[l] += product[l] * mul_add::<S>(slope[l], slope[l], bend[l]);
            }
        }
        ends
    }
}

/// The integral of `E softmax_c` over a block for one class c, when the probabilities of all
/// classes are computed.
pub(super) struct Share<'a> {
    pub product: &'a Lanes,
    pub block: &'a Block,
    pub density: &'a Lanes,
    pub factor: f64,
    pub weights: &'a Lanes,
}

impl Pass for Share<'_> {
    type Output = Ends;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> Ends {
        let Share { product, block, density, factor, weights } = self;
        let mut terms = [0.0; LANES];
        for l in 0..LANES {
            let phi = block.values[0][l];
            terms[l] = product[l] / if phi > TINY { phi } else { TINY } * density[l];
        }
        let lacking = 1.0 - terms[0];
        terms.iter_mut().for_each(|value| *value *= factor);
        Ends::of(&terms, weights, lacking)
    }
}
