//! The kernels of this crate by name.

use crate::entry::{Entry, Options, ParseError};
use crate::kernel::Kernel;
use crate::{
    Additive, ArcCosine, Constant, Coregion, Cosine, Periodic, Polynomial, Profile, SpectralMixture,
    Stationary, hamming,
};

/// The highest rank for levels that are given as one column of codes.
const MOST_RANK: usize = 64;

/// The kernels that [`parse`](crate::parse()) knows by name.
pub(crate) const BUILT_IN: &[Entry] = &[
    Entry {
        names: &["rbf", "squared_exponential"],
        build: |options| stationary(Profile::SquaredExponential, options),
    },
    Entry { names: &["matern12"], build: |options| stationary(Profile::Matern12, options) },
    Entry { names: &["matern32"], build: |options| stationary(Profile::Matern32, options) },
    Entry { names: &["matern52"], build: |options| stationary(Profile::Matern52, options) },
    Entry {
        names: &["rational_quadratic", "rq"],
        build: |options| stationary(Profile::RationalQuadratic, options),
    },
    Entry {
        names: &["wendland"],
        build: |options| {
            let profile = match options.integer("smoothness", 1, 0..=2)? {
                0 => Profile::Wendland0,
                1 => Profile::Wendland1,
                _ => Profile::Wendland2,
            };
            stationary(profile, options)
        },
    },
    Entry {
        names: &["periodic"],
        build: |options| {
            let lengthscales = options.ones("lengthscales", "ard");
            Ok(Periodic::new(1.0, &lengthscales, &options.ones("period", "ard_period")).into())
        },
    },
    Entry {
        names: &["cosine"],
        build: |options| Ok(Cosine::new(1.0, &options.ones("lengthscales", "ard")).into()),
    },
    Entry {
        names: &["spectral_mixture"],
        build: |options| {
            let components = options.integer("components", 2, 1..=100)? as usize;
            let each = vec![1.0; components * options.dims().max(1)];
            Ok(SpectralMixture::new(&vec![1.0; components], &each, &each).into())
        },
    },
    Entry {
        names: &["additive"],
        build: |options| {
            let dims = options.dims().max(1);
            let highest = dims.min(Additive::MAX_ORDER) as u32;
            let order = options.integer("order", highest.min(2), 1..=highest)? as usize;
            Ok(Additive::new(&vec![1.0; order], &vec![1.0; dims]).into())
        },
    },
    Entry {
        names: &["linear"],
        build: |options| Ok(Polynomial::linear(&options.ones("variance", "ard")).into()),
    },
    Entry {
        names: &["polynomial"],
        build: |options| {
            let degree = options.integer("degree", 2, 1..=Polynomial::MAX_DEGREE)?;
            Ok(Polynomial::new(degree, &options.ones("variance", "ard"), 1.0).into())
        },
    },
    Entry {
        names: &["arccosine"],
        build: |options| {
            let order = options.integer("order", 1, 0..=ArcCosine::MAX_ORDER)?;
            Ok(ArcCosine::new(order, 1.0, &options.ones("weight_variances", "ard"), 1.0).into())
        },
    },
    Entry { names: &["constant"], build: |_| Ok(Constant::new(1.0).into()) },
    Entry { names: &["white"], build: |_| Ok(Constant::white(1.0).into()) },
    Entry {
        names: &["coregion", "index"],
        build: |options| {
            // One column may hold the codes of many levels; their number is not yet known.
            let most = if options.dims() == 1 { MOST_RANK } else { options.dims() };
            let rank = options.integer("rank", 1, 0..=u32::try_from(most.max(1)).unwrap_or(u32::MAX))?;
            Ok(Coregion::new(options.dims(), rank as usize).into())
        },
    },
    Entry {
        names: &["hamming"],
        build: |options| Ok(hamming(1.0, &options.ones("lengthscales", "ard")).into()),
    },
];

fn stationary(profile: Profile, options: &Options<'_>) -> Result<Box<dyn Kernel>, ParseError> {
    Ok(Stationary::new(profile, 1.0, &options.ones("lengthscales", "ard")).into())
}
