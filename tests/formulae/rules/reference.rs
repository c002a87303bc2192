//! Reference numbers of update rules: projections, and iterates for logistic regression.

use crate::prelude::*;
use sparsegp::variational::research::{Wasserstein, prox_negative_entropy};

fn cases(file: &Value) -> &Vec<Value> {
    file["cases"].as_array().expect("cases")
}

#[test]
fn reference_projections() {
    let file = load("projections.json");
    let mut seen = 0;
    for case in cases(&file) {
        let name = case["name"].as_str().expect("name");
        let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
        let entry = |key: &str| matrix(&inputs[key]);
        let check = |got: &Mat<f64>, key: &str| {
            assert_matrices_close(
                got.as_ref(),
                matrix(&outputs[key]).as_ref(),
                1e-12,
                &format!("{name}, {key}"),
            );
        };
        if name.starts_with("eigenvalue_clipping") {
            let (low, high) = (number(&inputs["alpha"]), number(&inputs["beta"]));
            check(&clip_eigenvalues(entry("Sigma").as_ref(), low, high).expect("finite"), "Sigma_projected");
        } else if name.starts_with("prox_negative_entropy") {
            let mut c = entry("C");
            prox_negative_entropy(c.as_mut(), number(&inputs["gamma"]));
            check(&c, "C_prox");
        } else {
            let (c, floor) = (entry("C"), 1.0 / number(&inputs["M"]).sqrt());
            let definite = clip_eigenvalues(c.as_ref(), floor, f64::INFINITY).expect("finite");
            check(&definite, "C_projected_positive_definite");
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}

/// Runs a case of logistic_vn.json: the listed iterates, and the optimum after many more if the rule is to reach it. The coefficients
/// are `w/√λ`, so their covariance is that of w divided by λ.
fn logistic_case(name: &str, rule: impl Fn(&Normal) -> Box<dyn UpdateRule>, step: f64, reaches: bool) {
    let file = load("logistic_vn.json");
    let (shared, tolerance) = (&file["inputs"], 1e-8);
    let (x, y) = (matrix(&shared["X"]).transpose().to_owned(), numbers(&shared["y"]));
    let lambda = number(&shared["lambda"]);
    let layer = Layer::from(LinearLayer::isotropic(x.nrows(), 0.0, 1.0 / lambda).expect("prior"));
    let likelihood = Bernoulli::Logit.into();
    let case = |name: &str| cases(&file).iter().find(|case| case["name"] == name).expect("the case");
    let (inputs, want, optimum) =
        (&case(name)["inputs"], &case(name)["outputs"], &case("optimum")["outputs"]);
    let start = matrix(&inputs["C0"]);
    let mean = numbers(&inputs["m0"]).iter().map(|m| lambda.sqrt() * m).collect();
    let mut q = Normal::new(mean, lambda * (&start * start.transpose())).expect("q");
    let mut rule = rule(&q);
    let objective = Objective::elbo(1.0);
    let mut pass = BatchPass::new(Layers::one(&layer), &likelihood, objective, q.as_ref(), y.len());
    let iterates = want["m"].as_array().expect("iterates").len();
    assert_eq!(iterates, 11);
    let last = if reaches { 200 } else { iterates };
    for k in 0..=last {
        let problem = Problem {
            factor: rule.factor(),
            ..Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref())
        };
        let data = pass.run(problem, Batch::of(x.transpose(), &y, 1.0), Form::Stable, false);
        let wanted = match k {
            _ if k < iterates => Some([&want["neg_elbo"][k], &want["m"][k], &want["S"][k]]),
            200 => Some([&optimum["neg_elbo"], &optimum["m"], &optimum["S"]]),
            _ => None,
        };
        if let Some([value, wanted_mean, wanted_cov]) = wanted {
            let what = format!("{name}, iterate {k}");
            assert_close(data + q.kl(), number(value), tolerance, &what);
            let mean: Vec<f64> = q.mean().iter().map(|m| m / lambda.sqrt()).collect();
            assert_all_close(&mean, &numbers(wanted_mean), tolerance, &what);
            let cov = q.cov().full() * faer::Scale(1.0 / lambda);
            assert_matrices_close(cov.as_ref(), matrix(wanted_cov).as_ref(), tolerance, &what);
        }
        if let (Some(Factor::Lower(c)), Some(factor)) = (rule.factor(), want["C"].get(k)) {
            let c = c * faer::Scale(1.0 / lambda.sqrt());
            assert_matrices_close(c.as_ref(), matrix(factor).as_ref(), tolerance, name);
        }
        let info = rule.step(&mut q, pass.q_gradient(0), 1.0, step);
        assert_eq!(info.rollbacks, 0, "{name}, iterate {k}");
    }
}

#[test]
fn reference_variational_newton() {
    logistic_case("vn_0.3", |q| Box::new(NaturalGradient::new(q)), 0.3, true);
    logistic_case("vn_1.0", |q| Box::new(NaturalGradient::new(q)), 1.0, true);
}

#[test]
fn reference_square_root_newton() {
    logistic_case("srvn_0.3", |q| Box::new(SquareRoot::new(q)), 0.3, true);
}

/// With `z = w/√λ`, gradients in w are gradients in z divided by √λ or λ, so a step γ in z is a step γλ in w.
#[test]
fn reference_bures_wasserstein() {
    let lambda = number(&load("logistic_vn.json")["inputs"]["lambda"]);
    let options = RuleOptions::of(QUpdate::BwGd);
    logistic_case("bures_wasserstein", |q| Box::new(Wasserstein::new(q, &options)), 0.079 * lambda, false);
}
