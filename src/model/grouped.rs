//! Grouped effects of a fitted model: their arrays in the model file, variance components,
//! estimates of levels.

use super::arrays::{Array, Arrays, Checked, Unusable, name};
use super::fitted::Model;
use super::latent::LatentPrior;
use super::posterior::Posterior;
use crate::effects::{
    Components, EffectIntervals, EffectPosterior, EffectTerm, Effects, Ends, Moments, Sparse,
    VarianceComponent,
};
use crate::error::{Error, Result};
use crate::latent::RawFeatures;
use crate::variational::Normal;
use faer::Mat;
use serde::Serialize;

/// The estimate of one effect of one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelEffect {
    /// The number of the term.
    pub term: usize,
    /// The code of the level.
    pub level: usize,
    /// The latent function.
    pub function: usize,
    /// The number of the effect among the effects of the level.
    pub effect: usize,
    /// The posterior mean, in units of the target (per unit of the column for a slope).
    pub estimate: f64,
    /// The posterior standard deviation, in the unit of the estimate.
    pub sd: f64,
}

/// The intraclass correlation of a grouping.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntraclassCorrelation {
    /// The name of the grouping.
    pub group: String,
    /// The share of the variance of intercepts.
    pub share: f64,
    /// Its 95 % interval, if it is known.
    pub interval: Option<Ends>,
}

impl Model {
    /// The standard deviations and correlations of grouped effects, in units of the target per unit of the slope's column; empty for models
    /// without them.
    pub fn variance_components(&self) -> Vec<VarianceComponent> {
        let units: Vec<f64> = self.effect_units().collect();
        let of_layer = |(layer, prefix): (usize, String)| {
            let effects = self.latent.effects.of_layer(layer);
            let own = effects.variance_components(self.scaling.target.scale, &units, self.intervals());
            own.into_iter()
                .map(move |own| VarianceComponent { group: format!("{prefix}{}", own.group), ..own })
        };
        let layers = self.latent.prefixes().into_iter().enumerate().take(self.latent.effects.layers());
        layers.flat_map(of_layer).collect()
    }

    fn intervals(&self) -> Option<&EffectIntervals> {
        self.summary.effects.as_ref()?.intervals.as_ref()
    }

    /// The standard deviation of Gaussian noise in a model with grouped effects, in units of the
    /// target.
    pub fn residual_deviation(&self) -> Option<f64> {
        Some(self.scaling.target.scale * self.latent.noise_variance()?.sqrt())
    }

    /// The 95 % interval of the standard deviation of Gaussian noise in a model with grouped
    /// effects, in units of the target, if it is known.
    pub fn residual_interval(&self) -> Option<Ends> {
        Some(self.intervals()?.noise?.map(|end| self.scaling.target.scale * end))
    }

    /// The intraclass correlation of every grouping with an intercept: the share of the variance of its intercepts in the sum of the variances
    /// of all intercepts and of an observation ([`observation_variance`](crate::likelihood::OneFunction::observation_variance)). The variance of
    /// the latent function is not part of it. Empty if the likelihood has no such variance.
    pub fn intraclass_correlations(&self) -> Vec<IntraclassCorrelation> {
        let target_mean = self.summary.effects.as_ref().map_or(f64::NAN, |known| known.target_mean);
        let LatentPrior { effects, likelihood, .. } = &self.latent;
        let components = Components { effects: effects.clone(), likelihood: likelihood.clone(), target_mean };
        let interval = |term: usize| self.intervals()?.terms.get(term)?.share;
        let of_term = |(index, term): (usize, &EffectTerm)| {
            let (group, share) = (term.name.clone(), components.share(index)?);
            Some(IntraclassCorrelation { group, share, interval: interval(index) })
        };
        effects.terms().iter().enumerate().filter_map(of_term).collect()
    }

    /// The log likelihood of a linear mixed model, or the log evidence bound of a model with a
    /// latent function, at the estimates, in original units; for REML fits the restricted log
    /// likelihood. If the noise is not Gaussian, it is a lower bound in both cases. `None` for
    /// models without grouped effects, and for ⟨beta⟩ other than 1.
    #[doc(hidden)]
    pub fn grouped_log_likelihood(&self) -> Option<f64> {
        let value = self.log_evidence().0.filter(|_| !self.latent.effects.is_empty())?;
        let Some(layer) = self.latent.layer().linear().filter(|_| self.options.reml) else {
            return Some(value);
        };
        // Scales change |XᵀV⁻¹X|; shifts do not, since an intercept absorbs them.
        let fixed = layer.coefficient_count() as f64 * self.scaling.target.scale.ln();
        let scales = self.scaling.inputs[..layer.input_dims()].iter().map(|input| input.scale.ln());
        Some(value + fixed - scales.sum::<f64>())
    }

    /// The estimates of all levels, function by function, term by term and level by level; empty for models without grouped effects.
    pub fn level_effects(&self) -> Vec<LevelEffect> {
        let units: Vec<f64> = self.effect_units().collect();
        let scale = self.scaling.target.scale;
        let mut out = Vec::new();
        for function in 0..self.latent.processes() {
            let Some(posterior) = self.posterior.effects(function) else { continue };
            for (term, of) in self.latent.effects.terms().iter().enumerate() {
                let own: Vec<f64> = of.units(&units).iter().map(|unit| scale / unit).collect();
                for level in 0..of.levels {
                    let (means, covariance) = posterior.level_at_origin(term, level);
                    out.extend((0..of.width()).map(|effect| LevelEffect {
                        term,
                        level,
                        function,
                        effect,
                        estimate: own[effect] * means[effect],
                        sd: own[effect] * covariance[(effect, effect)].max(0.0).sqrt(),
                    }));
                }
            }
        }
        out
    }

    /// Refuses an operation that models with grouped effects do not support.
    ///
    /// # Errors
    ///
    /// A usage error that names it.
    #[doc(hidden)]
    pub fn check_no_groups(&self, what: &str) -> Result<()> {
        if self.latent.effects.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!("{what} cannot be combined with ⟨group⟩, and the model was fitted with it"))
            .hint("predictions and intervals of single rows are available"))
    }

    /// The scale of every column after the inputs of f.
    fn effect_units(&self) -> impl Iterator<Item = f64> + '_ {
        self.scaling.inputs[self.latent.layer().input_dims()..].iter().map(|input| input.scale)
    }
}

/// The arrays of the grouped effects of a process, whose place among several is part of their names.
pub(super) fn arrays(posterior: &Posterior, process: usize) -> Vec<Array> {
    let Some(effects) = posterior.effects(process) else { return Vec::new() };
    let mut arrays = of_moments(effects.moments());
    let several = posterior.factors.len() > 1;
    arrays.iter_mut().for_each(|array| array.name = name::of(&array.name, process, several));
    arrays
}

fn of_moments(moments: &Moments) -> Vec<Array> {
    let mut arrays = vec![
        Array::matrix(name::EFFECT_CROSS, moments.cross.as_ref()),
        Array::vector(name::EFFECT_MEANS, &moments.coefficients),
        Array::matrix(name::EFFECT_OTHERS, moments.others.as_ref()),
    ];
    if moments.is_joint() {
        return arrays;
    }
    let whole =
        |values: &mut dyn Iterator<Item = usize>| -> Vec<f64> { values.map(|value| value as f64).collect() };
    arrays.extend([
        Array::vector(name::EFFECT_BLOCKS, &moments.blocks),
        Array::matrix(name::EFFECT_LOADS, moments.weight_loads.as_ref()),
        Array::vector(
            name::EFFECT_MET,
            &whole(&mut moments.loads.columns.iter().map(|&column| column as usize)),
        ),
        Array::vector(name::EFFECT_MET_LOADS, &moments.loads.values),
        Array::vector(name::EFFECT_STARTS, &whole(&mut moments.loads.offsets.iter().copied())),
    ]);
    arrays
}

/// Returns the posterior with the grouped effects in the file.
pub(super) fn beside(
    posterior: Posterior,
    latent: &LatentPrior,
    q: &[Normal],
    arrays: &Arrays<'_>,
) -> Checked<Posterior> {
    let factorised = latent.factorised();
    let factorised = factorised
        .map_err(|_| Unusable::damaged("the covariance matrix of its inducing inputs is singular"))?;
    let layers = factorised.layers();
    let of_process = |(process, own): (usize, &Normal)| {
        let name = |array: &str| name::of(array, process, q.len() > 1);
        let layer = layers.of(process);
        let moments = moments(&latent.effects, own, &name, arrays)?;
        Ok(EffectPosterior::new(latent.effects.of_layer(layer), moments, layers.get(layer)))
    };
    Ok(posterior.with_effects(q.iter().enumerate().map(of_process).collect::<Checked<_>>()?))
}

/// Reads the moments of the effects of a process.
fn moments(
    effects: &Effects,
    q: &Normal,
    name: &dyn Fn(&str) -> String,
    arrays: &Arrays<'_>,
) -> Checked<Moments> {
    // Only one function without neighbours has an eliminated term.
    let is_joint = !arrays.has(name::EFFECT_STARTS);
    let terms = effects.terms();
    let eliminated = if is_joint { terms.len() } else { effects.eliminated() };
    let (m, all) = (q.dim(), effects.coefficients());
    let own = terms.get(eliminated).map_or(0, EffectTerm::coefficients);
    let others = all - own;
    let mut moments = Moments {
        eliminated,
        weights: q.mean().to_vec(),
        covariance: q.cov().to_dense(),
        coefficients: arrays.values(&name(name::EFFECT_MEANS), &[all])?,
        cross: arrays.matrix(&name(name::EFFECT_CROSS), m, all)?,
        loads: Sparse { offsets: vec![0], columns: Vec::new(), values: Vec::new() },
        weight_loads: Mat::zeros(m, 0),
        blocks: Vec::new(),
        others: arrays.matrix(&name(name::EFFECT_OTHERS), others, others)?,
    };
    if let Some(term) = terms.get(eliminated) {
        moments.loads = loads(term, others, arrays)?;
        moments.weight_loads = arrays.matrix(name::EFFECT_LOADS, m, own)?;
        moments.blocks = arrays.values(name::EFFECT_BLOCKS, &[own * term.width()])?;
    }
    Ok(moments)
}

/// Reads the loads of the eliminated term, for `others` other coefficients.
fn loads(term: &EffectTerm, others: usize, arrays: &Arrays<'_>) -> Checked<Sparse> {
    let whole = |name: &str, length: usize, most: usize| -> Checked<Vec<usize>> {
        let values = arrays.values(name, &[length])?;
        let fits = values.iter().all(|value| value.fract() == 0.0 && *value >= 0.0 && *value <= most as f64);
        if !fits {
            return Err(Unusable::damaged(format!("array {name} holds a number that is not a valid index")));
        }
        Ok(values.into_iter().map(|value| value as usize).collect())
    };
    let met = arrays.shape(name::EFFECT_MET)?.first().copied().unwrap_or(0);
    let offsets = whole(name::EFFECT_STARTS, term.levels + 1, met)?;
    let columns = whole(name::EFFECT_MET, met, others.saturating_sub(1))?;
    if offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Unusable::damaged("the levels of its groups are not sorted"));
    }
    let columns = columns.into_iter().map(|column| column as u32).collect();
    Ok(Sparse { offsets, columns, values: arrays.values(name::EFFECT_MET_LOADS, &[met * term.width()])? })
}
