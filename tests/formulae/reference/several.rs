//! Reference numbers of stochastic variational GPs with several latent processes: marginals, ELBO, log-loss DLM, natural gradients.

use super::expectations::{assert_losses, likelihood};
use super::svgp::weighted;
use super::{assert_vector, cases, columns_of};
use crate::prelude::*;

/// Returns true if a case has several outputs, which mix the processes; otherwise the processes are
/// the functions of one likelihood.
fn has_outputs(inputs: &Value) -> bool {
    inputs["likelihood"] == "gaussian"
}

fn outputs(inputs: &Value) -> Outputs {
    let (offsets, noises) = (numbers(&inputs["b"]), numbers(&inputs["params"]["noise_variance"]));
    let output = |p: usize| {
        let noise = Box::new(Gaussian::new(noises[p]));
        (format!("y{p}"), Mixed::new(noise, numbers(&inputs["W"][p]), offsets[p]))
    };
    Outputs::new((0..offsets.len()).map(output).collect())
}

/// The targets of a case: a number for every row, or P of them, with NaN if none was observed.
struct Observed {
    y: Vec<f64>,
    outputs: Vec<f64>,
}

impl Observed {
    fn of(inputs: &Value) -> Observed {
        let rows = inputs["y"].as_array().expect("rows");
        if !has_outputs(inputs) {
            return Observed { y: numbers(&inputs["y"]), outputs: Vec::new() };
        }
        let cells = rows.iter().flat_map(|row| row.as_array().expect("cells"));
        let outputs = cells.map(|cell| cell.as_f64().unwrap_or(f64::NAN)).collect();
        Observed { y: vec![0.0; rows.len()], outputs }
    }

    fn targets(&self) -> Targets<'_> {
        Targets { outputs: &self.outputs, ..Targets::of(&self.y) }
    }

    fn batch<'a>(&'a self, x: MatRef<'a, f64>) -> Batch<'a> {
        Batch { x, targets: self.targets(), scale: 1.0 }
    }
}

/// Returns entry `i` of a list with one entry for each process, or the only entry if all processes share it.
fn entry(list: &Value, i: usize) -> &Value {
    let all = list.as_array().expect("a list");
    &all[i.min(all.len() - 1)]
}

/// Returns the model and the posteriors of a case; processes with the same kernel and Z share a layer.
fn start(shared: &Value, inputs: &Value) -> (LatentModel, Vec<Normal>) {
    let mixes = has_outputs(inputs);
    let processes = inputs["q_mu"].as_array().expect("posteriors").len();
    // If outputs are mixed, they have offsets instead of means of processes.
    let means = if mixes { vec![0.0; processes] } else { numbers(&inputs["b"]) };
    let one = inputs["kernels"].as_array().expect("kernels").len() == 1;
    let layer = |i: usize, means: Vec<f64>| -> Layer<InducingPrior> {
        let z = matrix(entry(&inputs["Z"], i));
        let layer = InducingPrior::new(
            build(entry(&inputs["kernels"], i)),
            z,
            Jitter::Absolute(number(&shared["jitter"])),
        );
        layer.expect("a layer").with_means(means, mixes).into()
    };
    let layers = match one {
        true => vec![layer(0, means.clone())],
        false => means.iter().enumerate().map(|(i, mean)| layer(i, vec![*mean])).collect(),
    };
    let likelihood = if mixes {
        outputs(inputs).into()
    } else {
        likelihood(inputs["likelihood"].as_str().expect("a name"), &inputs["params"])
    };
    let model = LatentModel::of_layers(layers, likelihood, false).factorised().expect("K_uu factorises");
    let q = (0..means.len()).map(|i| {
        let sqrt = matrix(entry(&inputs["q_sqrt"], i));
        Normal::new(numbers(entry(&inputs["q_mu"], i)), &sqrt * sqrt.transpose()).expect("q")
    });
    (model, q.collect())
}

/// Compares the flat gradient with `sign` times the reference gradient in kernels, means and Z;
/// gradients in a shared Z are summed.
fn assert_theta(flat: &[f64], sign: f64, inputs: &Value, want: &Value, what: &str) {
    let flat: Vec<f64> = flat.iter().map(|g| sign * g).collect();
    let (kernels, means) = (inputs["kernels"].as_array().expect("kernels"), numbers(&inputs["b"]));
    let mixes = has_outputs(inputs);
    let mut at = 0;
    let mut got_means = Vec::new();
    for (i, description) in kernels.iter().enumerate() {
        let paths = paths(description, "");
        let reference = entry(&want["kernels"], i);
        let count: usize = paths.iter().map(|path| numbers(&reference[path]).len()).sum();
        assert_parameters(&flat[at..at + count], reference, &paths, &format!("{what}, kernel {i}"));
        at += count;
        let own = if kernels.len() == 1 { means.len() } else { 1 };
        got_means.extend_from_slice(&flat[at..at + own]);
        at += own;
    }
    if mixes {
        got_means.clear();
        let (mixing, noises) = (&want["W"], numbers(&want["likelihood"]["noise_variance"]));
        for (p, noise) in noises.into_iter().enumerate() {
            let row = numbers(&mixing[p]);
            assert_gradient_vector(&flat[at..at + row.len()], &mixing[p], &format!("{what}, W {p}"));
            got_means.push(flat[at + row.len()]);
            at += row.len() + 2;
            assert_close(flat[at - 1], noise, GRADIENT_TOLERANCE, &format!("{what}, noise {p}"));
        }
    }
    assert_gradient_vector(&got_means, &want["b"], &format!("{what}, b"));
    let all: Vec<Mat<f64>> = want["Z"].as_array().expect("Z").iter().map(matrix).collect();
    let (m, d) = all[0].shape();
    let mut got: Vec<Vec<f64>> = flat[at..].chunks(m * d).map(<[f64]>::to_vec).collect();
    if got.len() > all.len() {
        let sum = (0..m * d).map(|k| got.iter().map(|z| z[k]).sum()).collect();
        got = vec![sum];
    }
    for (got, want) in got.iter().zip(&all) {
        assert_all_close(got, &entries(want.as_ref()), GRADIENT_TOLERANCE, &format!("{what}, Z"));
    }
}

/// Compares the gradients in `(q_mu, q_sqrt)` of every process, including the KL term, with `sign`
/// times those of the reference.
fn assert_q(svgp: &VariationalModel, sign: f64, inputs: &Value, want: &Value, what: &str) {
    let (means, roots) = (&want["q_mu"], &want["q_sqrt"]);
    for (process, q) in svgp.posteriors().iter().enumerate() {
        let what = format!("{what}, process {process}");
        let data = svgp.q_gradient_of(process);
        let mean: Vec<f64> = data.mean.iter().zip(q.mean()).map(|(g, m)| sign * (g + m)).collect();
        assert_gradient_vector(&mean, entry(means, process), &what);
        // ∇_C (B : C Cᵀ + ½ tr C Cᵀ − log|C|) = 2 B C + C − C⁻ᵀ; only the lower triangle counts.
        let root = matrix(entry(&inputs["q_sqrt"], process));
        let gradient = 2.0 * data.cov.full().to_owned() * &root;
        let want = matrix(entry(roots, process));
        for j in 0..root.ncols() {
            for i in j..root.nrows() {
                let entropy = if i == j { 1.0 / root[(i, i)] } else { 0.0 };
                let got = sign * (gradient[(i, j)] + root[(i, j)] - entropy);
                assert_close(got, want[(i, j)], GRADIENT_TOLERANCE, &format!("{what}, C ({i}, {j})"));
            }
        }
    }
}

fn assert_gradient_vector(got: &[f64], want: &Value, what: &str) {
    assert_vector(got, want, GRADIENT_TOLERANCE, what);
}

#[test]
fn elbos_and_direct_losses_of_several_processes() {
    let file = load("multioutput_svgp.json");
    let shared = &file["inputs"];
    let x = columns_of(&shared["X"]);
    let mut count = 0;
    for case in cases(&file) {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let (model, q) = start(shared, inputs);
        let observed = Observed::of(inputs);
        let (n, batch) = (observed.y.len(), observed.batch(x.transpose()));
        let marginals = Posterior::new(&model, &q).marginals(x.transpose());
        let (mean, variance) = if has_outputs(inputs) { ("g_mean", "g_var") } else { ("f_mean", "f_var") };
        for (got, key) in [(&marginals.mean, mean), (&marginals.variance, variance)] {
            let rows = want[key].as_array().expect("rows");
            let wanted: Vec<f64> = rows.iter().flat_map(numbers).collect();
            assert_all_close(got, &wanted, VALUE_TOLERANCE, &format!("{name} marginals"));
        }
        let of_losses = weighted(&want["grad_loss_sum"], &want["grad_kl"], 1.0);
        let losses = number(&want["loss_sum"]) + number(&want["kl"]);
        for (objective, sign, wanted, slopes) in [
            (Objective::elbo(1.0), -1.0, number(&want["elbo"]), &want["grad_elbo"]),
            (Objective::dlm(1.0), 1.0, losses, &of_losses),
        ] {
            for guard in [None, Some(f64::INFINITY)] {
                let mut svgp =
                    VariationalModel::new(model.clone(), q.clone(), objective, n).with_direct_guard(guard);
                let value = svgp.evaluate(batch, true);
                let what = format!("{name} {:?}, {:?}", objective.loss, svgp.form());
                assert_close(sign * value, wanted, 1e-8, &what);
                assert_close(svgp.kl(), number(&want["kl"]), VALUE_TOLERANCE, &what);
                assert_theta(svgp.theta_gradient(), sign, inputs, slopes, &what);
                assert_q(&svgp, sign, inputs, slopes, &what);
            }
        }
        count += 1;
    }
    assert_eq!(count, 5);
}

#[test]
fn expectations_of_several_functions_at_those_marginals() {
    let file = load("multioutput_svgp.json");
    for case in cases(&file).iter().filter(|case| !has_outputs(&case["inputs"])) {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let (model, _) = start(&file["inputs"], inputs);
        for predictive in [false, true] {
            let y = numbers(&inputs["y"]);
            assert_losses(&*model.likelihood, predictive, &y, want, GRADIENT_TOLERANCE, &name.to_string());
        }
    }
}

/// Takes one simultaneous step of all posteriors.
#[test]
fn natural_gradients_of_several_processes() {
    let file = load("multioutput_svgp.json");
    let shared = &file["inputs"];
    let x = columns_of(&shared["X"]);
    let stepped = cases(&file).iter().filter(|case| case["outputs"]["natgrad"].is_object());
    assert_eq!(stepped.clone().count(), 2);
    stepped.for_each(|case| {
        let (inputs, want) = (&case["inputs"], &case["outputs"]["natgrad"]);
        let (model, q) = start(shared, inputs);
        let observed = Observed::of(inputs);
        let batch = observed.batch(x.transpose());
        let rules = q.iter().map(|q| Box::new(NaturalGradient::new(q)) as Box<dyn UpdateRule>);
        let mut rules = Rules::from(rules.collect::<Vec<_>>());
        let mut svgp = VariationalModel::new(model, q, Objective::elbo(1.0), observed.y.len());
        svgp.evaluate(batch, false);
        let info = svgp.update_all(&mut rules, number(&want["gamma"]));
        assert_eq!(info.rollbacks, 0);
        for (process, q) in svgp.posteriors().iter().enumerate() {
            assert_vector(q.mean(), entry(&want["q_mu"], process), 1e-8, "natgrad mean");
            let root = matrix(entry(&want["q_sqrt"], process));
            let wanted = entries((&root * root.transpose()).as_ref());
            assert_all_close(&flat(q.cov()), &wanted, 1e-8, "natgrad covariance");
        }
        let elbo = -svgp.evaluate(batch, false);
        assert_close(elbo, number(&want["elbo"]), 1e-8, "ELBO after the step");
    });
}
