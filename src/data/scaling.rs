//! Shift and scale of inputs and target, after maps of single columns, and the inverse.

use faer::{ColRef, MatMut, MatRef};
use serde::{Deserialize, Serialize};

use super::offsets::Offsets;
use super::warp::{InputWarp, NormalScores, TargetMap, TargetWarp};
use crate::error::{Error, Result};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Moments, TargetKind};
use sparsegp_kernels::{Axis, Dimension};

/// The largest distance from the centre, in standard deviations, at which inputs are distinguished. Beyond it, squared differences would
/// overflow, and every kernel has long decayed to 0.
const FARTHEST: f64 = 1e100;

/// The shift and scale of one quantity: `scaled = (original − shift) / scale`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Affine {
    /// The original value that becomes 0.
    pub shift: f64,
    /// The original distance that becomes 1; positive and finite.
    pub scale: f64,
}

impl Affine {
    /// No change.
    pub const IDENTITY: Affine = Affine { shift: 0.0, scale: 1.0 };

    /// Returns the mean and the population standard deviation of finite values; the scale is 1 if all are equal (or there are none).
    /// Values of any size neither overflow nor lose digits.
    pub(super) fn standardise<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Affine {
        let (low, high) = values()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low >= high {
            return if low == high { Affine { shift: low, scale: 1.0 } } else { Affine::IDENTITY };
        }
        // The moments are those of the relative position within [low, high], a number in [0, 1], so
        // that no square can overflow or vanish. Halving both ends keeps their distance
        // representable if the values span the whole range of floats; otherwise nothing is halved,
        // because the smallest numbers have no halves.
        let part = if (high - low).is_finite() { 1.0 } else { 0.5 };
        let range = high * part - low * part;
        let mut place = Moments::default();
        for value in values() {
            place.push((value * part - low * part) / range);
        }
        let mean = place.mean().unwrap_or(0.0);
        let deviation = place.variance().unwrap_or(0.0).sqrt();
        let scale = range * (deviation / part);
        Affine {
            shift: low * (1.0 - mean) + high * mean,
            scale: if scale > 0.0 { scale } else { high - low },
        }
    }

    /// Returns the scaled value; it is infinite only if it cannot be represented.
    pub fn apply(&self, value: f64) -> f64 {
        let difference = value - self.shift;
        if difference.is_finite() {
            difference / self.scale
        } else {
            (value / 2.0 - self.shift / 2.0) / (self.scale / 2.0)
        }
    }

    /// Returns the original value of a scaled one.
    pub(crate) fn invert(&self, value: f64) -> f64 {
        value * self.scale + self.shift
    }
}

/// The scaling of inputs and target; part of the model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The affine map of each input, after its column map.
    pub inputs: Vec<Affine>,
    /// The affine map of the target, after its column map.
    pub target: Affine,
    /// The column map of every input; empty if no input has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scores: Vec<Option<NormalScores>>,
    /// The map of the target.
    #[serde(default, skip_serializing_if = "TargetMap::is_none")]
    map: TargetMap,
    /// The offsets among the inputs, which come last.
    #[serde(default, skip_serializing_if = "Offsets::is_none")]
    pub(super) offsets: Offsets,
    /// True if targets have known standard errors, which have the scale of the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    measured: bool,
}

impl Scaling {
    /// No scaling of `d` inputs and the target.
    pub fn none(d: usize) -> Scaling {
        Scaling::linear(vec![Affine::IDENTITY; d], Affine::IDENTITY)
    }

    /// Standardises every input of `x` (`n × D`, finite) and the target `y` (n, finite) to mean 0 and population standard deviation 1.
    /// Constant columns are shifted to 0 and not scaled.
    pub fn standardise(x: MatRef<'_, f64>, y: &[f64]) -> Scaling {
        let inputs = x.col_iter().map(|input| Affine::standardise(|| input.iter().copied())).collect();
        Scaling::linear(inputs, Affine::standardise(|| y.iter().copied()))
    }

    /// Shifts and scales alone.
    pub fn linear(inputs: Vec<Affine>, target: Affine) -> Scaling {
        let (scores, map, offsets) = (Vec::new(), TargetMap::None, Offsets::None);
        Scaling { inputs, target, scores, map, offsets, measured: false }
    }

    /// Standardises every input of `x` (`n × D`, finite) and the target `y` (n, finite) after their warps. Inputs that `dimensions` describe as
    /// anything but numbers have no warp.
    ///
    /// # Errors
    ///
    /// A data error if the target does not suit its warp.
    pub(crate) fn warped(
        x: MatRef<'_, f64>,
        y: &[f64],
        inputs: InputWarp,
        target: TargetWarp,
        dimensions: &[Dimension],
    ) -> Result<Scaling> {
        let mut scaling = Scaling::standardise(x, y);
        if inputs == InputWarp::NormalScores {
            let is_number = |d: usize| dimensions.get(d).is_none_or(|of| *of == Dimension::Number);
            let scores = |(d, input): (usize, ColRef<'_, f64>)| {
                is_number(d).then(|| NormalScores::of(input.iter().copied()))?
            };
            scaling.scores = x.col_iter().enumerate().map(scores).collect();
            for ((input, scores), affine) in x.col_iter().zip(&scaling.scores).zip(&mut scaling.inputs) {
                if let Some(scores) = scores {
                    *affine = Affine::standardise(|| input.iter().map(|&value| scores.apply(value)));
                }
            }
        }
        scaling.map = TargetMap::of(target, y)?;
        if !scaling.map.is_none() {
            scaling.target = Affine::standardise(|| y.iter().map(|&value| scaling.map.apply(value)));
        }
        Ok(scaling)
    }

    /// Returns the axes of the first `inputs` inputs and of the target: for warped ones, the axes of the scale the model sees.
    pub(crate) fn axes(&self, inputs: usize) -> (Vec<Axis>, Axis) {
        let axis = |(affine, warped): (&Affine, bool)| match warped {
            true => Axis { origin: 0.0, size: 1.0 },
            false => Axis { origin: affine.shift, size: affine.scale },
        };
        let of_input = |(input, affine)| axis((affine, self.warps_input(input)));
        let columns = self.inputs.iter().take(inputs).enumerate().map(of_input).collect();
        (columns, axis((&self.target, !self.map.is_none())))
    }

    /// The scaling of the target alone.
    pub(crate) fn of_target(&self) -> Scaling {
        Scaling { map: self.map, measured: self.measured, ..Scaling::linear(Vec::new(), self.target) }
    }

    /// Removes the maps of the inputs from `first` on.
    pub(super) fn without_scores(&mut self, first: usize) {
        self.scores.iter_mut().skip(first).for_each(|scores| *scores = None);
    }

    /// Returns true if the input has a map in addition to shift and scale.
    pub fn warps_input(&self, input: usize) -> bool {
        self.scores_of(input).is_some()
    }

    fn scores_of(&self, input: usize) -> Option<&NormalScores> {
        self.scores.get(input)?.as_ref()
    }

    /// Returns the map of the target, apart from shift and scale.
    pub fn target_map(&self) -> &TargetMap {
        &self.map
    }

    /// Returns true if a scaling that was read from a file is consistent: its list of maps has an
    /// entry for every input, or is empty.
    pub(crate) fn is_consistent(&self) -> bool {
        let maps = self.scores.is_empty() || self.scores.len() == self.inputs.len();
        maps && self.offsets.columns() <= self.dims()
    }

    /// Returns the scaling with codes of categories left unchanged, and with one scale for all coordinates of a place: the root mean square
    /// of their deviations, so that distances keep their proportions.
    pub fn suited_to(mut self, dimensions: &[Dimension]) -> Scaling {
        for (input, _) in dimensions.iter().enumerate().filter(|(_, of)| of.is_category()) {
            if let Some(affine) = self.inputs.get_mut(input) {
                *affine = Affine::IDENTITY;
            }
            if let Some(scores) = self.scores.get_mut(input) {
                *scores = None;
            }
        }
        let mut from = 0;
        while from < dimensions.len().min(self.inputs.len()) {
            let follows = |of: &Dimension| *of == Dimension::Coordinate { first: false };
            let to = from + 1 + dimensions[from + 1..].iter().take_while(|of| follows(of)).count();
            if dimensions[from].is_coordinate() {
                let place = &mut self.inputs[from..to];
                // A constant coordinate has a scale of exactly 1 and does not count.
                let squares: Vec<f64> =
                    place.iter().map(|of| of.scale * of.scale).filter(|&square| square != 1.0).collect();
                let scale = (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt();
                place.iter_mut().for_each(|of| of.scale = if scale > 0.0 { scale } else { 1.0 });
            }
            from = to;
        }
        self
    }

    /// Returns the scaling with the target left unchanged, for likelihoods whose target has a fixed meaning.
    pub fn with_original_target(self) -> Scaling {
        Scaling { target: Affine::IDENTITY, ..self }
    }

    /// The number of inputs D.
    pub(crate) fn dims(&self) -> usize {
        self.inputs.len()
    }

    /// Scales inputs (`n × D`, a row per datum) in place. A scaled input farther than 1e100 from 0 is moved to that
    /// distance, so that predictions there are the prior's rather than not a number.
    ///
    /// # Panics
    ///
    /// When `x` does not have D columns.
    pub fn scale_inputs(&self, x: MatMut<'_, f64>) {
        assert_eq!(x.ncols(), self.dims(), "one column of x per input");
        for ((input, affine), column) in self.inputs.iter().enumerate().zip(x.col_iter_mut()) {
            let scores = self.scores_of(input);
            for value in column.iter_mut() {
                *value = scores.map_or(*value, |scores| scores.apply(*value));
                if *affine != Affine::IDENTITY {
                    *value = affine.apply(*value).clamp(-FARTHEST, FARTHEST);
                }
            }
        }
    }

    /// Scales inputs (`n × D`) back in place.
    ///
    /// # Panics
    ///
    /// When `x` does not have D columns.
    pub fn unscale_inputs(&self, x: MatMut<'_, f64>) {
        assert_eq!(x.ncols(), self.dims(), "one column of x per input");
        for ((input, affine), column) in self.inputs.iter().enumerate().zip(x.col_iter_mut()) {
            let scores = self.scores_of(input);
            for value in column.iter_mut() {
                let linear = affine.invert(*value);
                *value = scores.map_or(linear, |scores| scores.invert(linear));
            }
        }
    }

    /// Scales targets in place.
    pub fn scale_target(&self, y: &mut [f64]) {
        for value in y {
            *value = self.scaled_target(*value);
        }
    }

    /// Returns the scaling for a likelihood of targets of this kind.
    pub(crate) fn for_targets(self, kind: TargetKind) -> Scaling {
        Scaling { measured: kind == TargetKind::Measured, ..self }
    }

    /// Changes the standard errors and the other ends of this number of targets from the user's units to the scale the model sees. Standard
    /// errors that are not given are 0. Exposures have no unit.
    pub fn scale_known(&self, rows: usize, exposure: &mut Vec<f64>, other_ends: &mut [f64]) {
        if self.measured && exposure.is_empty() {
            exposure.resize(rows, 0.0);
        }
        exposure.iter_mut().for_each(|known| *known = self.scaled_exposure(*known));
        self.scale_target(other_ends);
    }

    /// Returns the exposure or standard error of a row on the scale the model sees.
    pub(crate) fn scaled_exposure(&self, known: f64) -> f64 {
        if self.measured { known / self.target.scale } else { known }
    }

    /// A target as the model sees it.
    pub(crate) fn scaled_target(&self, y: f64) -> f64 {
        self.target.apply(self.map.apply(y))
    }

    /// The target of a scaled one, such as a quantile or a draw, in original units.
    pub(crate) fn unscaled_target(&self, scaled: f64) -> f64 {
        self.map.invert(self.target.invert(scaled))
    }

    /// Returns the mean of the mapped target on its original scale; without a map, the mean of the target.
    pub fn unscale_mean(&self, mean: f64) -> f64 {
        self.target.invert(mean)
    }

    /// Returns the variance of the mapped target on its original scale.
    pub fn unscale_variance(&self, variance: f64) -> f64 {
        variance * self.target.scale * self.target.scale
    }

    /// Returns mean and variance of the target, given those of its scaled value, which is normal if the target has a map.
    pub(crate) fn unscale_moments(
        &self,
        mean: f64,
        variance: f64,
        integrator: &mut Integrator,
    ) -> (f64, f64) {
        self.map.moments(self.unscale_mean(mean), self.unscale_variance(variance), integrator)
    }

    /// The derivative of the target in original units in its scaled value.
    pub(crate) fn target_slope(&self, scaled: f64) -> f64 {
        self.target.scale / self.map.log_slope(self.unscaled_target(scaled)).exp()
    }

    /// The derivative of every scaled input in the input in original units.
    ///
    /// # Errors
    ///
    /// A usage error when inputs are warped: their maps have kinks.
    pub(crate) fn input_slopes(&self) -> Result<Vec<f64>> {
        if !self.scores.is_empty() {
            return Err(Error::usage(
                "gradients with respect to the inputs are unavailable for warped inputs",
            )
            .hint("fit with ⟨warp_inputs none⟩"));
        }
        Ok(self.inputs.iter().map(|input| input.scale.recip()).collect())
    }

    /// Returns the term that converts a log density of the scaled target at y to original units.
    pub(crate) fn log_density_shift(&self, y: f64) -> f64 {
        self.map.log_slope(y) - self.target.scale.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use faer::{Mat, mat};
    use proptest::prelude::*;

    #[test]
    fn inputs_and_target_get_mean_zero_and_deviation_one() {
        let mut x = mat![[1.0, 7.0, 0.0], [2.0, 7.0, 0.0], [3.0, 7.0, 1.0], [4.0, 7.0, 1.0]];
        let mut y = [10.0, 30.0, 10.0, 30.0];
        let scaling = Scaling::standardise(x.as_ref(), &y);
        assert_eq!(scaling.inputs[1], Affine { shift: 7.0, scale: 1.0 });
        assert_eq!(scaling.target, Affine { shift: 20.0, scale: 10.0 });
        scaling.scale_inputs(x.as_mut());
        scaling.scale_target(&mut y);
        assert_eq!(y, [-1.0, 1.0, -1.0, 1.0]);
        assert_relative_eq!(x[(0, 0)], -1.5 / 1.25f64.sqrt(), max_relative = 1e-14);
        assert!((0..4).all(|row| x[(row, 1)] == 0.0 && x[(row, 2)].abs() == 1.0));
        assert_eq!(scaling.unscale_mean(-1.0), 10.0);
        assert_eq!(scaling.unscale_variance(0.5), 50.0);
        assert_relative_eq!(scaling.log_density_shift(7.0), -(10f64.ln()));
        assert_eq!(scaling.with_original_target().target, Affine::IDENTITY);
    }

    #[test]
    fn columns_at_the_ends_of_the_range_of_floats_are_standardised() {
        for size in [1e300, f64::MAX, 1e-300, 2.0 * f64::MIN_POSITIVE] {
            let x = mat![[size], [-size], [size], [-size]];
            let affine = Scaling::standardise(x.as_ref(), &[]).inputs[0];
            assert_eq!(affine.shift, 0.0);
            assert_relative_eq!(affine.scale, size, max_relative = 1e-12);
            assert_relative_eq!(affine.apply(size), 1.0, max_relative = 1e-12);
            assert_relative_eq!(affine.apply(-size), -1.0, max_relative = 1e-12);
        }
        for tiny in [[5e-324, 1e-323], [0.0, 5e-324]] {
            let affine = Affine::standardise(|| tiny.into_iter());
            assert!(affine.shift.is_finite() && affine.scale > 0.0, "{affine:?}");
            assert!(tiny.into_iter().all(|value| affine.apply(value).is_finite()));
        }
        let far = Affine::standardise(|| [f64::MAX, 0.9 * f64::MAX].into_iter());
        assert!(far.apply(-f64::MAX).is_finite());
        assert_eq!(Affine::standardise(std::iter::empty), Affine::IDENTITY);
    }

    #[test]
    fn an_input_out_of_all_proportion_stays_usable_and_unscaled_inputs_stay_exact() {
        let scaling = Scaling::standardise(mat![[0.0], [1e-200]].as_ref(), &[]);
        let mut far = mat![[1e300], [-1e300]];
        scaling.scale_inputs(far.as_mut());
        assert_eq!((far[(0, 0)], far[(1, 0)]), (1e100, -1e100));
        let mut same = mat![[1e300]];
        Scaling::none(1).scale_inputs(same.as_mut());
        assert_eq!(same[(0, 0)], 1e300);
    }

    proptest! {
        #[test]
        fn scaling_there_and_back_changes_nothing(
            values in proptest::collection::vec(-1e3..1e3f64, 2..40), offset in -1e6..1e6f64, exponent in -200i32..200
        ) {
            let size = 10f64.powi(exponent);
            let original = Mat::from_fn(values.len(), 1, |row, _| (values[row] + offset) * size);
            let scaling = Scaling::standardise(original.as_ref(), &[]);
            let mut x = original.clone();
            scaling.scale_inputs(x.as_mut());
            let (mut sum, mut squares) = (0.0, 0.0);
            for row in 0..x.nrows() {
                sum += x[(row, 0)];
                squares += x[(row, 0)] * x[(row, 0)];
            }
            let n = values.len() as f64;
            prop_assert!((sum / n).abs() < 1e-6);
            prop_assert!((squares / n - 1.0).abs() < 1e-6);
            scaling.unscale_inputs(x.as_mut());
            let largest = (1e3 + offset.abs()) * size;
            for row in 0..x.nrows() {
                prop_assert!((x[(row, 0)] - original[(row, 0)]).abs() <= 1e-13 * largest);
            }
        }
    }
}
