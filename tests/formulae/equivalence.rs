//! Different methods must agree: SVGP at its optimum = VFE, a pass = predictions; conditions for the direct form; parameterizations of q.

use crate::prelude::*;

#[test]
fn one_natural_gradient_step_on_all_data_is_the_collapsed_optimum() {
    // There are more data than in one window of the collapsed sweep, so that streaming is tested
    // too.
    let (x, y) = data(1, 3, 2500);
    for beta in [0.3, 1.0, 2.0] {
        let start = model(1, "rbf(ard)", 3, 20, Jitter::DEFAULT);
        let set = Dataset::of(x.transpose(), &y);
        let mut vfe = CollapsedObjective::new(start.clone(), set, Objective::elbo(beta));
        let (bound, gradient) = vfe.natural_gradient().expect("bound");
        let q = posterior(1, 20);
        let mut rule = NaturalGradient::new(&q);
        let mut svgp = VariationalModel::new(start, q, Objective::elbo(beta), y.len());
        svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false);
        svgp.update_q(&mut rule, 1.0);
        assert_all_close(svgp.q().mean(), vfe.q().mean(), 1e-9, "mean");
        assert_all_close(&entries(svgp.q().cov().full()), &entries(vfe.q().cov().full()), 1e-9, "covariance");
        let value = svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), true);
        assert_close(value, bound, 1e-10, "objective");
        // At the optimal q the gradient in q is zero, so the gradients in θ and Z agree as well.
        assert_all_close(svgp.theta_gradient(), &gradient, 1e-6, "gradient");
    }
}

/// If the jitter bounds cond(K_uu), it is not estimated; otherwise the estimate decides.
#[test]
fn the_direct_form_is_taken_where_the_condition_number_allows_it() {
    let limits = |jitter| {
        let model = model(6, "rbf(ard)", 3, 24, jitter);
        let layer = model.layer().inducing().expect("inducing points").clone();
        let (estimate, m) = (layer.condition_estimate(), layer.z().nrows() as f64);
        let bound = 1.0 + m / layer.relative_jitter();
        assert!(estimate <= bound, "{estimate} and {bound}");
        assert!(layer.condition_is_at_most(bound) && layer.condition_is_at_most(estimate));
        assert!(!layer.condition_is_at_most(0.99 * estimate), "{estimate}");
        (estimate, bound)
    };
    let (estimate, bound) = limits(Jitter::DEFAULT);
    assert!(bound < VariationalModel::DIRECT_GUARD, "certain at the default jitter: {estimate}, {bound}");
    let (_, bound) = limits(Jitter::Relative(1e-12));
    assert!(bound > VariationalModel::DIRECT_GUARD, "to be estimated: {bound}");
}

/// When the inducing inputs and the kernel move, the whitened form keeps q(w) bit for bit, and the
/// form of sites keeps `L⁻ᵀ(S⁻¹ − I)L⁻¹` and `L⁻ᵀS⁻¹m`.
#[test]
fn parameterizations_keep_their_quantity_fixed() {
    for parameterization in [Parameterization::Whitened, Parameterization::Sites] {
        let start = model(7, "rbf", 2, 8, Jitter::DEFAULT);
        // An S below I has sites of positive precision, which give a posterior with every prior.
        let q = posterior(7, 8);
        let bound = entries(q.cov().full()).iter().map(|s| s.abs()).sum::<f64>();
        let q = Normal::new(q.mean().to_vec(), Mat::from_fn(8, 8, |i, j| q.cov().full()[(i, j)] / bound))
            .expect("q");
        let mut svgp =
            VariationalModel::new(start, q, Objective::elbo(1.0), 10).with_parameterization(parameterization);
        let sites = |svgp: &VariationalModel| {
            let linv = svgp.model.layer().inducing().expect("inducing points").inverse_factor();
            let precision = inverse(svgp.q().cov().full());
            let shift = linv.transpose() * &precision * faer::ColRef::from_slice(svgp.q().mean());
            let rest = &precision - Mat::<f64>::identity(8, 8);
            let mut sites = entries((linv.transpose() * rest * linv).as_ref());
            sites.extend(shift.iter());
            sites
        };
        let (before, w) = (sites(&svgp), entries(svgp.q().cov().full()));
        let mut natural = svgp.model.natural();
        natural.iter_mut().for_each(|x| *x *= 1.1);
        assert!(svgp.set_natural(&natural));
        let fresh = Normal::new(svgp.q().mean().to_vec(), svgp.q().cov().full().to_owned()).expect("q");
        assert_close(svgp.q().kl(), fresh.kl(), 1e-9, "KL");
        let (after, w_after) = (sites(&svgp), entries(svgp.q().cov().full()));
        let changed = |a: &[f64], b: &[f64]| a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-3);
        if parameterization == Parameterization::Sites {
            assert_all_close(&after, &before, 1e-9, "sites");
            assert!(changed(&w_after, &w));
        } else {
            assert_all_close(&w_after, &w, 0.0, "q(w)");
            assert!(changed(&after, &before));
        }
    }
}

#[test]
fn predictions_of_a_posterior_wider_than_the_prior() {
    // With β < 1 or an arbitrary q, S may exceed I; the signed factor must still give v = k − aᵀa +
    // aᵀSa.
    let (x, y) = data(10, 2, 50);
    let start = model(10, "rbf(ard)", 2, 12, Jitter::DEFAULT);
    let wide = Mat::from_fn(12, 12, |i, j| if i == j { 0.2 + 0.3 * i as f64 } else { 0.01 });
    let q = Normal::new(Normals::new(10).vec(12), wide).expect("q");
    let mut svgp = VariationalModel::new(start.clone(), q.clone(), Objective::elbo(1.0), y.len());
    svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), false);
    let (mu, v) = svgp.last_marginals(y.len());
    let posterior = Posterior::new(&start, &q);
    let marginals = posterior.marginals(x.transpose());
    assert_all_close(&marginals.mean, &mu, 1e-10, "mean");
    assert_all_close(&marginals.variance, &v, 1e-10, "variance");
    let cov = posterior.covariance(x.transpose());
    let diagonal: Vec<f64> = (0..y.len()).map(|i| cov[(i, i)]).collect();
    assert_all_close(&diagonal, &v, 1e-10, "diagonal of the covariance");
}
