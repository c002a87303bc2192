//! The kernels, likelihoods and feature maps that names denote: the built-in ones, and the ones that users add.

use crate::error::{Error, Result};
use crate::latent::FeatureMap;
use crate::likelihood::{Likelihood, LikelihoodKind, ObservationModel};
use faer::Mat;
use sparsegp_kernels::{Entry, Grammar, Kernel, Make};
use std::fmt;
use std::sync::Arc;

/// The kernels and likelihoods that names in options and model files refer to. The default registry
/// knows the built-in ones.
///
/// ```
/// use sparsegp::Registry;
/// use sparsegp::kernels::{Entry, Stationary};
///
/// let smooth = Entry {
///     names: &["smooth"],
///     build: |_| Ok(Box::new(Stationary::rbf(1.0, &[1.0]))),
/// };
/// let registry = Registry::default().with_kernel(smooth)?;
/// assert!(registry.kernel("smooth + linear", 2).is_ok());
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    grammar: Grammar,
    likelihoods: Vec<(LikelihoodKind, Build)>,
    features: Vec<(String, Restore)>,
}

/// Builds a likelihood for targets with a number of ordered levels or classes.
type Build = Arc<dyn Fn(usize) -> Box<dyn Likelihood> + Send + Sync>;

/// Builds a feature map from the constants in a model file.
type Restore = Arc<dyn Fn(&[Mat<f64>]) -> Result<Box<dyn FeatureMap>> + Send + Sync>;

impl Registry {
    /// Returns the registry with one more kernel.
    ///
    /// # Errors
    ///
    /// When its name is not a word or already denotes a kernel.
    pub fn with_kernel(self, entry: Entry) -> Result<Registry> {
        let grammar = self.grammar.with(entry).map_err(|error| Error::usage(error.to_string()))?;
        Ok(Registry { grammar, ..self })
    }

    /// Returns the registry with a kernel of this name that a closure builds.
    ///
    /// # Errors
    ///
    /// As for [`Registry::with_kernel`].
    pub fn with_made_kernel(self, name: &str, make: Make) -> Result<Registry> {
        let grammar = self.grammar.with_made(name, make).map_err(|error| Error::usage(error.to_string()))?;
        Ok(Registry { grammar, ..self })
    }

    /// Returns the registry with one more likelihood under its own [name](Likelihood::name).
    /// `build` receives the number of ordered levels or classes of the target, which only likelihoods of such targets use.
    ///
    /// # Errors
    ///
    /// When there is a likelihood of that name.
    pub fn with_likelihood(
        mut self,
        build: impl Fn(usize) -> Box<dyn Likelihood> + Send + Sync + 'static,
    ) -> Result<Registry> {
        let kind = LikelihoodKind::of(&*build(2));
        if self.likelihood_kind(kind.name()).is_some() {
            return Err(Error::usage(format!("another likelihood already has the name '{kind}'"))
                .hint("choose another name"));
        }
        self.likelihoods.push((kind, Arc::new(build)));
        Ok(self)
    }

    /// Returns the registry with a likelihood that every model copies.
    ///
    /// # Errors
    ///
    /// When there is a likelihood of that name.
    pub fn with_likelihood_like(self, likelihood: Arc<dyn Likelihood>) -> Result<Registry> {
        self.with_likelihood(move |_| likelihood.boxed_clone())
    }

    /// Returns the registry with feature maps of this [name](FeatureMap::name), so that model files with them can be read. `build` receives
    /// the [constants](FeatureMap::constants), which it has to check.
    ///
    /// # Errors
    ///
    /// When there are feature maps of that name.
    pub fn with_features(
        mut self,
        name: &str,
        build: impl Fn(&[Mat<f64>]) -> Result<Box<dyn FeatureMap>> + Send + Sync + 'static,
    ) -> Result<Registry> {
        if self.features.iter().any(|(known, _)| known == name) {
            return Err(Error::usage(format!("other features already have the name '{name}'")));
        }
        self.features.push((name.to_owned(), Arc::new(build)));
        Ok(self)
    }

    /// Builds the feature map of a name from its constants; `None` if the name is unknown.
    pub(crate) fn features(&self, name: &str, constants: &[Mat<f64>]) -> Option<Result<Box<dyn FeatureMap>>> {
        let (_, build) = self.features.iter().find(|(known, _)| known == name)?;
        Some(build(constants))
    }

    /// The kernel grammar.
    pub fn grammar(&self) -> &Grammar {
        &self.grammar
    }

    /// Reads a kernel for `dims` inputs.
    ///
    /// # Errors
    ///
    /// A usage error that names the problem in the text and its position.
    pub fn kernel(&self, text: &str, dims: usize) -> Result<Box<dyn Kernel>> {
        self.grammar.parse(text, dims).map_err(|error| Error::usage(format!("⟨kernel⟩ '{text}': {error}")))
    }

    /// Returns the kind of the likelihood of a name, if it is known.
    pub fn likelihood_kind(&self, name: &str) -> Option<LikelihoodKind> {
        let entered = || self.likelihoods.iter().map(|(kind, _)| *kind).find(|kind| kind.name() == name);
        name.parse().ok().or_else(entered)
    }

    /// Creates a likelihood of this kind, whose values start from the data. The number of ordered levels or classes is ignored for other targets.
    ///
    /// # Errors
    ///
    /// A usage error when it is not known.
    pub fn likelihood(&self, kind: LikelihoodKind, levels: usize) -> Result<ObservationModel> {
        let entered = || self.likelihoods.iter().find(|(known, _)| *known == kind);
        let built = kind.maker().map(|build| build(levels));
        let mut likelihood =
            built.or_else(|| entered().map(|(_, build)| build(levels))).ok_or_else(|| {
                Error::usage(format!("the registry contains no likelihood named {kind}"))
                    .hint("add it to the registry of the options, or start from a model that has it")
            })?;
        // A name says nothing about values, which start from the data.
        likelihood.for_each_parameter_mut(&mut |p| p.given = false);
        Ok(likelihood)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.likelihoods.iter().map(|(kind, _)| kind).collect();
        f.debug_struct("Registry").field("grammar", &self.grammar).field("likelihoods", &kinds).finish()
    }
}

/// Two registries are equal if they know the same names.
impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        let kinds =
            |registry: &Registry| registry.likelihoods.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
        kinds(self) == kinds(other) && self.grammar.names().eq(other.grammar.names())
    }
}
