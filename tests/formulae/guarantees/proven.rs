//! Steps with a proof of convergence end within the bound that is known before them.

use super::factor;
use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::{Gaussian, PoissonExp};
use sparsegp::linalg::symmetric_eigen;
use sparsegp::model::LatentModel;
use sparsegp::objective::{Estimator, Loss, Objective, Targets};
use sparsegp::training::{Inference, InferenceOptions, VariationalModel};
use sparsegp::variational::{Family, Normal, QUpdate, Schedule};
use sparsegp_research::{Theorem, with_proven_steps};
use sparsegp_testkit::compare::inverse;
use sparsegp_testkit::problems::Normals;

#[test]
fn proven_steps_end_within_their_bound() {
    let (d, n) = (2, 20);
    let mut normals = Normals::new(5);
    let x = normals.mat(d, n);
    let y: Vec<f64> = (0..n).map(|j| x[(0, j)] - 0.5 * x[(1, j)] + normals.next()).collect();
    let rows = Dataset { x: x.transpose(), targets: Targets::of(&y) };
    let model = || {
        let layer = LinearLayer::isotropic(d, 0.0, 1.0).expect("a layer");
        LatentModel::new(layer.into(), Gaussian::new(1.0), true)
    };
    // Bayesian linear regression with noise and prior variance 1, in closed form.
    let hessian = &x * x.transpose() + Mat::<f64>::identity(d, d);
    let cov = inverse(hessian.as_ref());
    let mean = &cov * (&x * Mat::from_fn(n, 1, |j, _| y[j]));
    let (curvatures, _) = symmetric_eigen(hessian.as_ref()).expect("finite");
    for (update, theorem, estimator) in [
        (QUpdate::ProxSgd, Theorem::Proximal, Estimator::Energy { samples: 1 }),
        (QUpdate::ProjSgd, Theorem::Projected, Estimator::EnergyEntropy { samples: 1 }),
    ] {
        let objective =
            Objective { loss: Loss::ExpectedLog(estimator), beta: 1.0, nodes: None, coarse: false };
        let start = Normal::standard(Family::Full, d);
        let svgp = VariationalModel::new(model(), start.clone(), objective, n);
        let options = InferenceOptions::full_batch(update, Schedule::Constant(1.0));
        let (options, proven) = with_proven_steps(options, &svgp, rows, theorem).expect("a guarantee");
        let mut inference = Inference::new(model(), start, objective, rows, options);
        for _ in 0..300 {
            inference.step();
        }
        let guarantee = proven.after(300);
        assert!((guarantee.strong_convexity - curvatures[0]).abs() < 1e-9 * curvatures[0], "{guarantee:?}");
        assert!((guarantee.smoothness - curvatures[1]).abs() < 1e-9 * curvatures[1], "{guarantee:?}");
        let [c, optimum] =
            [&inference.q().cov().to_dense(), &cov].map(|cov| factor(cov, theorem == Theorem::Projected));
        let apart = (c - optimum).squared_norm_l2()
            + (0..d).map(|i| (inference.q().mean()[i] - mean[(i, 0)]).powi(2)).sum::<f64>();
        assert!(apart <= guarantee.distance, "{apart} and {guarantee:?}");
    }
    let mut unbounded = model();
    unbounded.likelihood = PoissonExp.into();
    let q = Normal::standard(Family::Full, d);
    let svgp = VariationalModel::new(unbounded, q, Objective::elbo(1.0), n);
    let options = InferenceOptions::full_batch(QUpdate::ProxSgd, Schedule::Constant(1.0));
    let error = with_proven_steps(options, &svgp, rows, Theorem::Proximal).err().expect("refused");
    assert!(error.to_string().contains("is unbounded"), "{error}");
}
