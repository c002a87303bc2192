//! The options about hyper-parameters, which users select by name.

use super::{Effect, Entry, Kind, parses};
use sparsegp::hyper::{BoundsFor, FixFor, PriorFor, StartFor, Tie};

pub(super) const OPTIONS: &[Entry] = &[
    Entry::new("start", Kind::Texts(parses::<StartFor>))
        .value("NAME=VALUE")
        .help("Starting value of hyper-parameters, for example 'kernel.lengthscales[hour]=2'")
        .place("constraints")
        .excludes(&["from"]),
    Entry::new("fix", Kind::Texts(parses::<FixFor>))
        .value("NAME[=VALUE]")
        .help(
            "Fix hyper-parameters at a value, for example likelihood.noise_variance=0.01; without =VALUE, \
             at their starting values",
        )
        .place("constraints"),
    Entry::new("bounds", Kind::Texts(parses::<BoundsFor>))
        .value("NAME=LO,HI")
        .help(
            "Keep hyper-parameters between two values; either bound may be left out, as in \
             '*.lengthscales=0.1,'",
        )
        .place("constraints"),
    Entry::new("prior", Kind::Texts(parses::<PriorFor>))
        .value("NAME=DIST")
        .help(
            "Prior of hyper-parameters: lognormal(mu,sigma), gamma(shape,rate), normal(mean,sd), \
             halfcauchy(scale), or none. Training adds the negative log density of the prior to the \
             objective",
        )
        .place("constraints"),
    Entry::new("tie", Kind::Texts(parses::<Tie>))
        .value("NAME,NAME")
        .help("Keep hyper-parameters equal, for example kernel.rbf.lengthscales,kernel.matern52.lengthscales")
        .place("constraints"),
    Entry::new("default_priors", Kind::OnOff)
        .value("ON|OFF")
        .help(
            "Weak prior on each lengthscale that has no other constraint (gp on standardised columns) \
             [default: on]",
        )
        .effect(Effect::Sparse),
];
