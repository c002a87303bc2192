//! The constraints and weak priors of a model's hyper-parameters: applying and describing them.

use super::latent::{LatentModel, LatentPrior};
use crate::error::Result;
use crate::hyper::{Constraints, FreeVector, PriorChoice, named, range_words};
use crate::latent::inducing::FactorizationFailure;
use crate::latent::{AsPrior, InducingPrior};
use sparsegp_kernels::{Dimension, Kernel, Prior};
use std::collections::HashSet;

/// The standard deviation of the logarithm of a lengthscale under its weak prior: that of Hvarfner, Hellsten & Nardi (2024).
const WEAK_SIGMA: f64 = 1.732_050_807_568_877_2;

/// The spread that is assumed for a category, which is exact for two equally frequent levels (with many levels it is 0.7).
const SPREAD_OF_LEVELS: f64 = 0.5;

impl LatentPrior {
    /// Adds constraints to the existing ones. If `weak_priors` is true, lengthscales without a constraint get [weak
    /// priors](LatentModel::weak_priors).
    ///
    /// # Errors
    /// Usage errors for names without a match, values and priors outside a range, and settings without an effect; the model
    /// is then as it was.
    #[doc(hidden)]
    pub fn constrain(&mut self, constraints: &Constraints, weak_priors: bool) -> Result<()> {
        let (own, mut values, mut settings) = (self.own_descriptors(), self.natural(), self.settings.clone());
        constraints.impose(&mut settings, &own, &self.value_inputs(), &mut values)?;
        settings.set_default_priors(if weak_priors { self.weak_priors() } else { Vec::new() });
        self.set_natural(&values);
        self.settings = settings;
        Ok(())
    }

    /// Moves hyper-parameters to the starting values of constraints.
    ///
    /// # Errors
    /// Usage errors for names without a match.
    #[doc(hidden)]
    pub fn start_at(&mut self, constraints: &Constraints) -> Result<()> {
        let (own, mut values) = (self.own_descriptors(), self.natural());
        constraints.start(&own, &self.value_inputs(), &mut values)?;
        self.set_natural(&values);
        Ok(())
    }
}

impl LatentModel {
    /// Sets tied values to the first value of their group again, after a part of the model was
    /// replaced.
    ///
    /// # Errors
    ///
    /// As for [`LatentModel::set_natural`].
    pub(crate) fn join_ties(&mut self) -> std::result::Result<(), FactorizationFailure> {
        let mut values = self.natural();
        FreeVector::new(&self.descriptors()).follow(&mut values);
        if values == self.natural() { Ok(()) } else { self.set_natural(&values) }
    }
}

impl<G: AsPrior> LatentModel<G> {
    /// Weak priors of the lengthscales of stationary kernels, by full name, for standardised
    /// inputs: log-normal with σ = √3, as in Hvarfner, Hellsten & Nardi (2024), and
    /// `mu = ln √D + σ²` for the D inputs that the kernel sees. The density of ln ℓ then has its
    /// mode at ln √D, where training starts. (Their mu, ln √D + √2, puts the mode at a fifth of
    /// √D.)
    #[doc(hidden)]
    pub fn weak_priors(&self) -> Vec<(String, Prior)> {
        // Values with a prior that was set in Rust keep it.
        let without = self.own_descriptors().into_iter().filter(|d| d.prior.is_none());
        let names: HashSet<String> = without.map(|d| d.name).collect();
        let prior =
            |start: f64| Prior::LogNormal { mu: start.ln() + WEAK_SIGMA * WEAK_SIGMA, sigma: WEAK_SIGMA };
        let mut priors = Vec::new();
        for (layer, prefix) in self.layers.iter().zip(self.prefixes()) {
            let Some(kernel) = layer.prior().map(InducingPrior::kernel) else { continue };
            let expected = weak_lengthscales(kernel, layer.input_dims()).into_iter();
            priors.extend(expected.map(|(name, start)| (format!("{prefix}kernel.{name}"), prior(start))));
        }
        priors.retain(|(name, _)| names.contains(name));
        priors
    }

    /// Returns the constraints of each value by name, in words: fixed, tied, bounds, prior. Values without constraints are left out.
    #[doc(hidden)]
    pub fn constraint_notes(&self) -> Vec<(String, String)> {
        let own = self.own_descriptors();
        let mut seen = own.clone();
        self.settings.apply(&mut seen);
        let mut notes = Vec::new();
        for (index, own) in named(&own) {
            let seen_one = &seen[index];
            let mut words = Vec::new();
            if seen_one.fixed {
                words.push("fixed".to_owned());
            }
            let leader = seen[..index].iter().find(|d| d.tie.is_some() && d.tie == seen_one.tie);
            words.extend(leader.map(|leader| format!("tied to {}", leader.name)));
            if seen_one.transform != own.transform {
                words.push(range_words(seen_one.transform));
            }
            if let Some(prior) = seen_one.prior.filter(|_| !seen_one.fixed && leader.is_none()) {
                let said = self.settings.setting(&seen_one.name).and_then(|setting| setting.prior);
                let weak = if matches!(said, Some(PriorChoice::Default(_))) { " (weak)" } else { "" };
                words.push(format!("prior {}{weak}", prior.rounded()));
            }
            if !words.is_empty() {
                notes.push((seen_one.name.clone(), words.join(", ")));
            }
        }
        notes
    }
}

/// The lengthscales of stationary kernels that compare inputs by distance, by name within the
/// kernel, with the lengthscale at which they start for inputs of unit spread.
fn weak_lengthscales(kernel: &dyn Kernel, dims: usize) -> Vec<(String, f64)> {
    let mut unit = kernel.boxed_clone();
    unit.for_each_parameter_mut(&mut |p| (p.fixed, p.given) = (false, false));
    let spread = |d: usize| match kernel.dimensions().get(d) {
        Some(Dimension::Category { .. }) => SPREAD_OF_LEVELS,
        Some(Dimension::Number | Dimension::Coordinate { .. }) | None => 1.0,
    };
    unit.initialise(&(0..dims).map(spread).collect::<Vec<f64>>(), 1.0);
    // Lengthscales of a periodic kernel refer to the sine of distances.
    let by_distance =
        kernel.parts().into_iter().flat_map(|part| vec![part.label != "periodic"; part.parameters.len()]);
    let mut about = kernel.parameter_names().into_iter().zip(by_distance);
    let mut out = Vec::new();
    unit.for_each_parameter(&mut |p| {
        let Some((name, true)) = about.next() else { return };
        if p.name != "lengthscales" {
            return;
        }
        out.extend(p.values.iter().enumerate().map(|(i, &start)| {
            let name = if p.values.len() == 1 { name.clone() } else { format!("{name}.{i}") };
            (name, start)
        }));
    });
    out
}
