//! Expectations of many rows with one evaluation of the likelihood at the nodes of all of them.

use super::expectation::{SCAN_STEPS, SCANS, inside, range_around, step_of_product, tilted_weights};
use super::{Expectation, Local, Observation, OneFunction};
use crate::quadrature::{Integrator, Interval, REACH, smallest, weighted_sums};
use std::ops::Range;

/// The number of collected nodes at which the likelihood is evaluated.
const NODES: usize = 8192;

/// Values of f at which the likelihood is evaluated, row after row.
#[derive(Clone, Copy, Debug)]
pub struct RowNodes<'a> {
    /// The rows.
    pub rows: &'a [Observation<'a>],
    /// For each row, the end of its nodes in `f`.
    pub ends: &'a [usize],
    /// The nodes.
    pub f: &'a [f64],
}

impl<'a> RowNodes<'a> {
    /// Iterates over the rows, each with the range of its nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Observation<'a>, Range<usize>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        self.rows.iter().zip(starts.zip(self.ends)).map(|(row, (start, &end))| (row, start..end))
    }
}

/// The rows of a block with their likelihood and the marginals of their latent values.
#[derive(Clone, Copy)]
pub(crate) struct LatentRows<'a> {
    pub(crate) likelihood: &'a dyn OneFunction,
    pub(crate) rows: &'a [Observation<'a>],
    pub(crate) mean: &'a [f64],
    pub(crate) variance: &'a [f64],
    /// Weights of the rows in the gradient of the own parameters.
    pub(crate) weight: &'a [f64],
}

impl LatentRows<'_> {
    fn range(&self, rows: Range<usize>) -> LatentRows<'_> {
        LatentRows {
            likelihood: self.likelihood,
            rows: &self.rows[rows.clone()],
            mean: &self.mean[rows.clone()],
            variance: &self.variance[rows.clone()],
            weight: &self.weight[rows],
        }
    }

    fn sd(&self, i: usize) -> f64 {
        smallest(self.mean[i], self.variance[i]).sqrt()
    }
}

/// The nodes of some rows and the log density at them.
#[derive(Default)]
struct Nodes {
    ends: Vec<usize>,
    z: Vec<f64>,
    f: Vec<f64>,
    weight: Vec<f64>,
    value: Vec<f64>,
    first: Vec<f64>,
}

impl Nodes {
    fn clear(&mut self) {
        self.ends.clear();
        self.z.clear();
        self.f.clear();
        self.weight.clear();
    }

    /// Appends the nodes that the integrator holds: they become the nodes of the next row.
    fn push(&mut self, integrator: &Integrator) {
        self.z.extend_from_slice(&integrator.z);
        self.f.extend_from_slice(&integrator.f);
        self.weight.extend_from_slice(&integrator.weight);
        self.ends.push(self.f.len());
    }

    fn evaluate(&mut self, likelihood: &dyn OneFunction, rows: &[Observation<'_>]) {
        self.value.resize(self.f.len(), 0.0);
        self.first.resize(self.f.len(), 0.0);
        let nodes = RowNodes { rows, ends: &self.ends, f: &self.f };
        likelihood.log_densities(nodes, &mut self.value, &mut self.first);
    }

    fn range(&self, i: usize) -> Range<usize> {
        i.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[i]
    }

    /// Weights the nodes of a row by `N(f; μ, v) p(y|f)`, normalised; returns the log of the integral.
    fn tilt(&mut self, i: usize) -> f64 {
        let at = self.range(i);
        let Nodes { z, weight, value, first, .. } = self;
        tilted_weights(&mut weight[at.clone()], &z[at.clone()], &mut value[at.clone()], &mut first[at])
    }

    /// The weighted sums of every row, with derivatives through `f = μ + √v z`; adds the gradient in the own parameters to `own`
    /// unless that is empty.
    fn sum(&mut self, of: LatentRows<'_>, own: &mut [f64], out: &mut [Local]) {
        for (i, out) in out.iter_mut().enumerate() {
            let at = self.range(i);
            let [value, mean, slope] = weighted_sums(
                &self.weight[at.clone()],
                &self.z[at.clone()],
                &self.value[at.clone()],
                &self.first[at.clone()],
            );
            *out = Local { value, mean, variance: 0.5 * slope / of.sd(i) };
            self.weight[at].iter_mut().for_each(|w| *w *= of.weight[i]);
        }
        if !own.is_empty() {
            let nodes = RowNodes { rows: of.rows, ends: &self.ends, f: &self.f };
            of.likelihood.own_gradients(nodes, &self.weight, own);
        }
    }
}

impl Integrator {
    /// `E log p(y|f)` or `log E p(y|f)` of every row with its derivatives; adds the weighted derivatives in ψ to `own` unless that is empty.
    pub(crate) fn expectations(
        &mut self,
        of: Expectation,
        block: LatentRows<'_>,
        own: &mut [f64],
        out: &mut [Local],
    ) {
        let LatentRows { likelihood, rows, mean, .. } = block;
        if of == Expectation::ExpectedLog {
            let place = |integrator: &mut Integrator, i: usize| {
                integrator.place(likelihood.resolution(rows[i]), mean[i], block.sd(i));
            };
            return self.by_parts(block, place, |nodes, some| {
                nodes.sum(block.range(some.clone()), own, &mut out[some]);
            });
        }
        // Grids in the search for the range have 64 nodes per row.
        for start in (0..rows.len()).step_by(NODES / 64) {
            let end = (start + NODES / 64).min(rows.len());
            self.log_predictives(block.range(start..end), own, &mut out[start..end]);
        }
    }

    /// Places the nodes of one row after the other, and evaluates the likelihood whenever there are
    /// enough; `finish` then receives the nodes of these rows.
    fn by_parts(
        &mut self,
        of: LatentRows<'_>,
        place: impl Fn(&mut Integrator, usize),
        mut finish: impl FnMut(&mut Nodes, Range<usize>),
    ) {
        let mut nodes = Nodes::default();
        let mut start = 0;
        for i in 0..of.rows.len() {
            place(self, i);
            nodes.push(self);
            if nodes.f.len() >= NODES || i + 1 == of.rows.len() {
                nodes.evaluate(of.likelihood, &of.rows[start..=i]);
                finish(&mut nodes, start..i + 1);
                nodes.clear();
                start = i + 1;
            }
        }
    }

    /// `log E p(y|f)` of rows whose grids fit into one evaluation.
    fn log_predictives(&mut self, of: LatentRows<'_>, own: &mut [f64], out: &mut [Local]) {
        let ranges = match &self.fixed {
            Some(rule) => vec![(-REACH, REACH, rule.step); of.rows.len()],
            None => self.scanned_ranges(of),
        };
        let place = |integrator: &mut Integrator, i: usize| {
            let (low, high, step) = ranges[i];
            integrator.place_evenly(Interval { low, high }, step, of.mean[i], of.sd(i));
        };
        self.by_parts(of, place, |nodes, rows| {
            let integrals: Vec<f64> = (0..rows.len()).map(|k| nodes.tilt(k)).collect();
            let out = &mut out[rows.clone()];
            nodes.sum(of.range(rows), own, out);
            for (out, value) in out.iter_mut().zip(integrals) {
                let undefined = Local { value, mean: f64::NAN, variance: f64::NAN };
                *out = if value.is_finite() { Local { value, ..*out } } else { undefined };
            }
        });
    }

    /// The ranges that hold `p(y|f) N(f; μ, v)` of every row, each with a step that resolves it there.
    fn scanned_ranges(&mut self, of: LatentRows<'_>) -> Vec<(f64, f64, f64)> {
        let mut peaks = vec![0.0; of.rows.len()];
        of.likelihood.peaks(of.rows, &mut peaks);
        let mut ranges: Vec<Interval> =
            peaks.iter().enumerate().map(|(i, peak)| range_around((peak - of.mean[i]) / of.sd(i))).collect();
        let mut open: Vec<usize> = (0..of.rows.len()).collect();
        let (mut nodes, mut rows) = (Nodes::default(), Vec::new());
        for _ in 0..SCANS {
            nodes.clear();
            rows.clear();
            for &i in &open {
                let range = ranges[i];
                let step = (range.high - range.low) / SCAN_STEPS as f64;
                self.place_evenly(range, step, of.mean[i], of.sd(i));
                nodes.push(self);
                rows.push(of.rows[i]);
            }
            nodes.evaluate(of.likelihood, &rows);
            let mut place = 0;
            open.retain(|&i| {
                let at = nodes.range(place);
                place += 1;
                let (range, done) = inside(&nodes.z[at.clone()], &nodes.value[at]);
                ranges[i] = range;
                !done
            });
            if open.is_empty() {
                break;
            }
        }
        let with_step = |(i, range): (usize, Interval)| {
            let ratio = of.sd(i) / of.likelihood.resolution(of.rows[i]).step;
            (range.low, range.high, step_of_product(range, ratio))
        };
        ranges.into_iter().enumerate().map(with_step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::{LatentMarginal, Poisson, Row, StudentT};

    /// Compares on enough rows for several evaluations, with marginals from narrow to wide.
    fn compare(likelihood: &dyn OneFunction, targets: &[f64], nodes: Option<usize>) {
        let rows: Vec<_> = (0..300).map(|i| Observation::of(targets[i % targets.len()])).collect();
        let mean: Vec<f64> = (0..300).map(|i| (0.37 * i as f64).sin()).collect();
        let variance: Vec<f64> = (0..300).map(|i| 10f64.powi(i % 7 - 4)).collect();
        let weight: Vec<f64> = (0..300).map(|i| 1.0 + (i % 3) as f64).collect();
        let of = LatentRows { likelihood, rows: &rows, mean: &mean, variance: &variance, weight: &weight };
        for kind in [Expectation::ExpectedLog, Expectation::LogPredictive] {
            let mut integrator = Integrator::new(nodes);
            let (mut own, mut many) = (vec![0.0; likelihood.own_len()], vec![Local::default(); rows.len()]);
            integrator.expectations(kind, of, &mut own, &mut many);
            let mut expected = vec![0.0; own.len()];
            for (i, many) in many.iter().enumerate() {
                let row = Row::new(rows[i], LatentMarginal::new(mean[i], variance[i]));
                let mut part = vec![0.0; own.len()];
                let one = integrator.expectation(kind, likelihood, row, &mut part);
                let apart = [many.value - one.value, many.mean - one.mean, many.variance - one.variance];
                assert!(
                    apart.iter().all(|d| d.abs() < 1e-9 * (1.0 + one.variance.abs())),
                    "{many:?} {one:?}"
                );
                expected.iter_mut().zip(part).for_each(|(sum, part)| *sum += weight[i] * part);
            }
            for (own, expected) in own.iter().zip(expected) {
                assert!((own - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{own} {expected}");
            }
        }
    }

    #[test]
    fn many_rows_have_the_expectations_of_single_ones() {
        compare(&StudentT::new(0.5, 4.0), &[-2.0, 0.1, 30.0], None);
        compare(&StudentT::new(0.5, 4.0), &[-2.0, 0.1, 30.0], Some(20));
        compare(&Poisson::Exp, &[0.0, 2.0, 7.0], None);
    }
}
