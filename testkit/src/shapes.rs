//! Shared code of the benchmarks: points, targets and models of given sizes.

use faer::Mat;
use sparsegp::kernels::Stationary;
use sparsegp::latent::{InducingPrior, Jitter};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::LatentModel;

/// Returns points (`D × n`) that fill a cube of width 4 evenly, without a random generator (the R_d
/// sequence of Roberts, 2018).
pub fn points(dims: usize, n: usize, shift: f64) -> Mat<f64> {
    // g is the positive root of g^{D+1} = g + 1.
    let g = (0..64).fold(1.5f64, |g, _| (1.0 + g).powf(1.0 / (dims as f64 + 1.0)));
    Mat::from_fn(dims, n, |i, j| 4.0 * ((j as f64 + shift) * g.powi(-(i as i32 + 1))).fract())
}

/// Returns the values of a smooth function of the first input.
pub fn targets(x: &Mat<f64>) -> Vec<f64> {
    (0..x.ncols()).map(|j| (2.0 * x[(0, j)]).sin()).collect()
}

/// Returns targets of the kind that a likelihood needs: the function as classes, counts or numbers.
pub fn targets_for(kind: LikelihoodKind, x: &Mat<f64>) -> Vec<f64> {
    use sparsegp::likelihood::TargetKind;
    let code = |f: f64| match kind.target_kind() {
        TargetKind::Real | TargetKind::Measured | TargetKind::Censored => f,
        TargetKind::Binary => f64::from(f > 0.0),
        TargetKind::Trials => f64::from(f > 0.0),
        TargetKind::Count | TargetKind::CensoredCount => (2.0 * f.exp()).round(),
        TargetKind::Positive | TargetKind::Lifetime => f.exp(),
        TargetKind::Amount => f.exp().max(1.0) - 1.0,
        TargetKind::UnitInterval => 1.0 / (1.0 + (-f).exp()),
        TargetKind::Share => (0.5 + f).clamp(0.0, 1.0),
        TargetKind::Ordinal | TargetKind::Class => (f + 1.0).round().clamp(0.0, 2.0),
    };
    targets(x).into_iter().map(code).collect()
}

/// Returns a model with M inducing inputs and a squared exponential kernel, with `K_uu` factorised.
pub fn model(kind: LikelihoodKind, m: usize, dims: usize) -> LatentModel {
    let kernel = Box::new(Stationary::rbf(1.0, &vec![(dims as f64).sqrt(); dims]));
    let z = points(dims, m, 0.37).transpose().to_owned();
    let layer = InducingPrior::new(kernel, z, Jitter::DEFAULT).expect("layer");
    let model = LatentModel::new(layer.into(), kind.build(4), false);
    model.factorised().expect("K_uu factorises")
}
