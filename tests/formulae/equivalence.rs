//! Different methods must agree: SVGP at its optimum = VFE, Z = X = the dense GP, the forms of a step, the linear model.

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

/// Takes the natural-gradient step in the canonical parameters `(η₁, η₂) = (S⁻¹m, −½S⁻¹)`, with the
/// gradient in expectation parameters (docs/mathematics.md#moving-q).
#[test]
fn natural_gradient_is_variational_newton() {
    let (x, y) = data(2, 2, 40);
    let (m, beta, rho, scale) = (6, 0.7, 0.3, 2.0);
    let q = posterior(2, m);
    let mut rule = NaturalGradient::new(&q);
    let start = model(2, "matern52(ard)", 2, m, Jitter::DEFAULT);
    let mut svgp = VariationalModel::new(start, q.clone(), Objective::elbo(beta), y.len());
    svgp.evaluate(Batch::of(x.transpose(), &y, scale), false);
    let g = svgp.q_gradient();
    let precision = inverse(q.cov().full());
    let gradient_mean = faer::Col::from_fn(m, |i| g.mean[i] + beta * q.mean()[i]);
    let gradient_cov = Mat::from_fn(m, m, |i, j| {
        g.cov.full()[(i, j)] + 0.5 * beta * (if i == j { 1.0 } else { 0.0 } - precision[(i, j)])
    });
    // ∂F/∂ξ₁ = ∇_m − 2 ∇_S m and ∂F/∂ξ₂ = ∇_S for ξ = (m, S + mmᵀ); a step of ρ/β on η.
    let mean = faer::Col::from_fn(m, |i| q.mean()[i]);
    let eta1 = &precision * &mean - (rho / beta) * (&gradient_mean - 2.0 * &gradient_cov * &mean);
    let eta2: Mat<f64> = -0.5 * &precision - (rho / beta) * &gradient_cov;
    let cov = inverse((-2.0 * eta2).as_ref());
    let new_mean = &cov * eta1;
    svgp.update_q(&mut rule, rho);
    let got: Vec<f64> = (0..m).map(|i| new_mean[i]).collect();
    assert_all_close(svgp.q().mean(), &got, 1e-10, "mean");
    assert_all_close(&entries(svgp.q().cov().full()), &entries(cov.as_ref()), 1e-10, "covariance");
    let fresh = Normal::new(svgp.q().mean().to_vec(), svgp.q().cov().full().to_owned()).expect("q");
    assert_close(svgp.q().kl(), fresh.kl(), 1e-10, "the KL kept along");
}

#[test]
fn inducing_every_datum_is_the_dense_gp() {
    let (x, y) = data(3, 2, 60);
    let (x_test, _) = data(4, 2, 9);
    for fitc in [false, true] {
        let mut start = model(3, "matern32(ard)", 2, 60, Jitter::Absolute(0.0)).to_prior();
        start.layers[0].inducing_mut().expect("inducing points").z_mut().copy_from(x.transpose());
        let start = start.factorised().expect("K_uu factorises");
        let layer = start.layer().inducing().expect("inducing points");
        let (kernel, mean) = (layer.kernel().boxed_clone(), layer.mean().values[0]);
        let (evidence, mu, var) = dense_gp(kernel.as_ref(), mean, 0.2, (&x, &y), &x_test);
        let bound = if fitc { Objective::fitc() } else { Objective::elbo(1.0) };
        let set = Dataset::of(x.transpose(), &y);
        let mut sparse = CollapsedObjective::new(start, set, bound);
        let (value, _) = sparse.natural_gradient().expect("bound");
        assert_close(-value, evidence, 1e-9, "evidence");
        let upper = sparse.evidence_upper_bound();
        if !fitc {
            assert_close(upper.expect("upper bound"), evidence, 1e-9, "upper bound");
        }
        let marginals = Posterior::new(sparse.model(), sparse.q()).marginals(x_test.transpose());
        assert_all_close(&marginals.mean, &mu, 1e-8, "mean");
        assert_all_close(&marginals.variance, &var, 1e-8, "variance");
    }
}

#[test]
fn stable_and_direct_forms_agree() {
    let (x, y) = data(6, 3, 300);
    let q = posterior(6, 24);
    let build = |guard| {
        let mut svgp = VariationalModel::new(
            model(6, "rbf(ard)", 3, 24, Jitter::DEFAULT),
            q.clone(),
            Objective::elbo(1.3),
            300,
        )
        .with_direct_guard(guard);
        let value = svgp.evaluate(Batch::of(x.transpose(), &y, 3.0), true);
        let q_gradient = svgp.q_gradient();
        let gradient_q = (q_gradient.mean.to_vec(), entries(q_gradient.cov.full()));
        (value, gradient_q, svgp.theta_gradient().to_vec(), svgp.model.layer().condition_estimate())
    };
    let (value, (mean, cov), theta, condition) = build(None);
    // The error that the guard allows is rounding amplified by the condition number.
    let tolerance = 100.0 * f64::EPSILON * condition;
    assert!(condition < VariationalModel::DIRECT_GUARD, "the problem is inside the guard: {condition}");
    let (direct, (direct_mean, direct_cov), direct_theta, _) = build(Some(VariationalModel::DIRECT_GUARD));
    assert_close(direct, value, tolerance, "direct value");
    assert_all_close(&direct_mean, &mean, tolerance, "direct mean gradient");
    assert_all_close(&direct_cov, &cov, tolerance, "direct covariance gradient");
    assert_all_close(&direct_theta, &theta, tolerance, "direct gradient");
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

/// A Bayesian linear model and a GP with a linear kernel on inducing inputs that span the space are the same model.
#[test]
fn linear_model_is_a_gp_with_a_linear_kernel() {
    let (d, n) = (4, 90);
    let (x, y) = data(9, d, n);
    let variances = [0.5, 1.0, 2.0, 1.5];
    let prior = Mat::from_fn(d, d, |i, j| if i == j { variances[i] } else { 0.0 });
    let layer = LinearLayer::new(prior.as_ref()).expect("prior");
    let set = Dataset::of(x.transpose(), &y);
    for beta in [1.0, 0.4] {
        let start = LatentModel::new(layer.clone().into(), Gaussian::new(0.3), true);
        let start = start.factorised().expect("nothing to factorise");
        let mut linear = CollapsedObjective::new(start, set, Objective::elbo(beta));
        let linear_value = linear.solve(&linear.start()).expect("bound");
        let kernel = Box::new(Polynomial::linear(&variances));
        let z = Normals::new(9).mat(d, d);
        let layer_gp = InducingPrior::new(kernel, z, Jitter::Absolute(0.0)).expect("layer");
        let likelihood = Gaussian::new(0.3);
        let start = LatentModel::new(layer_gp.into(), likelihood, false);
        let start = start.factorised().expect("K_uu factorises");
        let mut gp = CollapsedObjective::new(start, set, Objective::elbo(beta));
        let (value, _) = gp.natural_gradient().expect("bound");
        assert_close(value, linear_value, 1e-9, "bound");
        let (beta_mean, _) = layer.coefficient_posterior(linear.q());
        let predicted = Posterior::new(gp.model(), gp.q()).means(x.transpose());
        let expected: Vec<f64> = (0..n).map(|j| (0..d).map(|i| beta_mean[i] * x[(i, j)]).sum()).collect();
        assert_all_close(&predicted, &expected, 1e-8, "predictions");
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
