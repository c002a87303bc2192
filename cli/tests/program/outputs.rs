//! Several targets of a table: separate models and shared processes, missing cells, one model file, the columns of predictions, and draws,
//! which have the covariances that the program reports, between targets and between rows, for functions and for targets with noise.

use faer::Mat;
use serde_json::Value;
use sparsegp::collapsed::{Dataset, Solution, noise_derivative, solve};
use sparsegp::gradient::{Batch, BatchPass, Form, Problem, Wanted};
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingPrior, Jitter, Layer, LayerGradient};
use sparsegp::likelihood::{Gaussian, Likelihood, OneFunction, Outputs};
use sparsegp::model::LatentModel;
use sparsegp::objective::{Objective, Targets};
use sparsegp::training::CollapsedObjective;
use sparsegp::variational::{Family, Normal};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::read_table;
use sparsegp_tables::tabular::TableOutputs;
use sparsegp_testkit::outputs::table;
use sparsegp_testkit::program::{Csv, Run, Work, csv_text, number};
use std::collections::HashMap;

#[test]
fn outputs_that_mix_processes_learn_from_each_other() {
    let work = Work::with("t.csv", table(200));
    let options = "--target y1,y2,y3 --mixing 2 --test-fraction 0.2 --inducing 25 --epochs 40 --quiet";
    let files = "--model-out m --predictions p.csv --report r.html";
    let document = work.run(&format!("fit t.csv {options} --json {files}")).json();
    for (target, noise) in [("y1", 0.05), ("y2", 1.0), ("y3", 0.05)] {
        let of_target = &document["outputs"][target];
        let rmse = number(of_target, "/test/rmse");
        assert!(rmse < 3.0 * noise, "{target}: {rmse}");
        assert!(number(of_target, "/test/nll") < number(of_target, "/baselines/linear/nll"), "{target}");
    }
    assert!(number(&document, "/outputs/y3/data/train") < number(&document, "/outputs/y1/data/train"));
    assert!(work.read("r.html").contains("y3"));
    let all = work.run("predict m t.csv --out - --row-numbers --keep a --quantiles 0.1 --draws 1").csv();
    let held_out = work.csv("p.csv");
    assert_eq!(held_out.names[..3], ["row", "mean_y1", "variance_y1"]);
    let of_target = |target: &str| {
        ["mean", "variance", "q0.1", "log_density", "draw0"].map(|name| format!("{name}_{target}"))
    };
    assert_eq!(all.names[..2], ["row", "a"]);
    assert_eq!(all.names[2..], ["y1", "y2", "y3"].map(of_target).concat());
    assert_eq!(all.rows.len(), 200);
    // The held-out rows have their numbers in the data.
    assert_eq!(held_out.rows.len(), number(&document, "/outputs/y1/data/test") as usize);
    for row in &held_out.rows {
        let number: usize = row[0].parse().expect("a number");
        assert_eq!(row[1], all.rows[number - 1][2]);
    }
    // A fit from the models with the same hyper-parameters is as good, and an update with the first rows hardly moves predictions.
    let again = work
        .run("fit t.csv --target y1,y2,y3 --from m --outputs mixed:2 --hyper fixed --quiet --json")
        .json();
    assert_eq!(again["outputs"]["y1"]["hyperparameters"], document["outputs"]["y1"]["hyperparameters"]);
    work.run("update m t.csv --model-out n").ok();
    let updated = work.run("evaluate n t.csv --json").json();
    assert!(number(&updated, "/outputs/y1/test/nll") < number(&document, "/outputs/y1/baselines/linear/nll"));
    let both = "--target y1,y2,y3 --mixing 2 --inducing 25 --epochs 10 --neighbours 5 --shuffle-buffer 50 --test-fraction 0.2";
    let near = work.run(&format!("fit t.csv {both} --json")).json();
    assert!(number(&near, "/outputs/y1/test/rmse") < 0.2);
    // Damaged files are refused.
    let bytes = work.bytes("m");
    for length in [9, 15, 20, 300, bytes.len() / 2, bytes.len() - 1] {
        work.write("cut", &bytes[..length]);
        work.run("inspect cut").fails(3, &["cut", "damaged"]);
    }
}

#[test]
fn options_of_single_fits_apply_to_every_target() {
    let text = table(200);
    let two: String =
        text.lines().map(|line| format!("{}\n", line.rsplit_once(',').expect("y3").0)).collect();
    let work = Work::with("t.csv", &two);
    let base = "fit t.csv --epochs 5 --quiet --json";
    for options in ["--betas 1,0.5", "--shuffle-buffer 50 --hyper joint", "--from m --hyper fixed"] {
        let saved = if options.contains("--betas") { "--model-out m" } else { "" };
        let both = work.run(&format!("{base} --target y1,y2 {options} {saved}")).json();
        for (target, other) in [("y1", "y2"), ("y2", "y1")] {
            let exclude = if options.contains("--from") { "" } else { &format!("--exclude {other}") };
            let alone = work.run(&format!("{base} --target {target} {exclude} {options}")).json();
            let of_both = &both["outputs"][target];
            assert!(alone["hyperparameters"].as_object().is_some_and(|values| !values.is_empty()));
            assert_eq!(of_both["hyperparameters"], alone["hyperparameters"], "{target} {options}");
            assert_eq!(of_both["fit"]["objective"], alone["fit"]["objective"], "{target} {options}");
        }
    }
    // Standard input is read once for all targets.
    let piped = "fit - --epochs 5 --quiet --json --betas 1,0.5 --target y1,y2";
    let piped = work.run_with_input(piped, two.as_bytes()).json();
    assert!(piped["outputs"]["y2"]["fit"]["objective"].is_number());
    work.run(&format!("{base} --target a --from m")).fails(2, &["y1, y2", "'a'"]);
    work.run(&format!("{base} --target y1,y2 --from m --outputs shared"))
        .fails(2, &["start models", "share"]);
}

/// Rows in long form: `c` mirrors `a`; in training it is known only on the left.
#[test]
fn a_kernel_between_outputs_predicts_one_output_from_another() {
    let rows = |sign: f64, output: &'static str, keep: fn(f64) -> bool| -> String {
        let places = (0..60).map(|i| (i, 6.0 * (f64::from(i) * 0.618).fract()));
        let y = |i: i32, x: f64| sign * (2.0 * x).sin() + 0.05 * (f64::from(i) * 1.7).sin();
        let kept = places.filter(|(_, x)| keep(*x));
        kept.map(|(i, x)| format!("{x:.4},{output},{:.4}\n", y(i, x))).collect()
    };
    let train = rows(1.0, "a", |_| true) + &rows(-1.0, "c", |x| x < 3.0);
    let work = Work::with("t.csv", format!("x,output,y\n{train}"));
    work.write("new.csv", format!("x,output,y\n{}", rows(-1.0, "c", |x| x > 3.2)));
    let fit = |kernel: &str| {
        let mut command = work.command("fit t.csv --target y --test new.csv --inducing 30 --json --quiet");
        Run(command.args(["--kernel", kernel]).output().expect("the program ends"))
    };
    let [shared, apart] = ["coregion(rank=1)[output] * matern52[x]", "matern52(ard)"]
        .map(|kernel| number(&fit(kernel).json(), "/test/rmse"));
    assert!(shared < 0.15 && apart > 0.5, "{shared}, by distance {apart}");
    fit("coregion[outputs]").fails(2, &["no input called 'outputs', expected one of x, output"]);
}

const MEANS: [f64; 3] = [0.3, -0.2, 0.1];
const NOISES: [f64; 3] = [0.1, 0.4, 0.05];

fn layer(x: &Mat<f64>, means: Vec<f64>) -> Layer {
    let z = x.as_ref().subrows(0, 7).to_owned();
    let kernel = parse("matern52(ard) + linear", 2).expect("a kernel");
    let layer = InducingPrior::new(kernel, z, Jitter::DEFAULT).expect("a layer");
    layer.with_means(means, false).factorised().expect("a factor").into()
}

/// One pass over outputs in the same rows gives the sum of the bounds and gradients of the single outputs.
#[test]
fn bounds_of_outputs_that_share_a_kernel_are_sums_of_single_ones() {
    let x = Mat::from_fn(150, 2, |i, d| 4.0 * ((i + 1) as f64 * [2f64, 3.0][d].sqrt()).fract());
    let y = |i: usize, p: usize| (x[(i, 0)] * (1.0 + p as f64)).sin() + 0.3 * x[(i, 1)] * p as f64;
    let column = |p: usize| -> Vec<f64> { (0..150).map(|i| y(i, p)).collect() };
    let weights: Vec<f64> = (0..150).map(|i| 0.5 + (i % 3) as f64).collect();
    for (weights, form) in [(&[][..], Form::Direct), (&weights[..], Form::Stable)] {
        for outputs in [vec![0, 1, 2], vec![2, 0], vec![1]] {
            let means: Vec<f64> = outputs.iter().map(|&p| MEANS[p]).collect();
            let noises: Vec<f64> = outputs.iter().map(|&p| NOISES[p]).collect();
            let (outputs_of, first) = (|i| outputs.iter().map(move |&p| (i, p)), column(outputs[0]));
            let chosen: Vec<f64> = (0..150).flat_map(outputs_of).map(|(i, p)| y(i, p)).collect();
            let all = Targets { outputs: &chosen, weights, ..Targets::of(&first) };
            let gaussian = |noise: &f64| -> (String, Box<dyn OneFunction>) {
                (String::new(), Box::new(Gaussian::new(*noise)))
            };
            let joint: Box<dyn Likelihood> = Box::new(Outputs::apart(noises.iter().map(gaussian).collect()));
            let model = LatentModel::new(layer(&x, means), joint, false);
            let objective = Objective::elbo(0.7);
            let standard = vec![Normal::standard(Family::Full, 7); outputs.len()];
            let problem = Problem {
                noises: &noises,
                ..Problem::new(model.layers(), &model.likelihood, objective, &standard)
            };
            let mut pass = BatchPass::new(problem, 150);
            let batch = Batch { x: x.as_ref(), targets: all, scale: 1.0 };
            pass.begin(problem, form, Wanted::Origin);
            pass.add(problem, batch, 0);
            pass.finish(problem);
            let origin = pass.sums().clone();
            let Solution { value, q } = solve(&origin, 0.7).expect("bounds");
            let problem = Problem { q: &q, ..problem };
            pass.begin(problem, form, Wanted::Envelope);
            pass.add(problem, batch, 0);
            pass.finish(problem);
            pass.finish_envelope(problem, &origin, 1.0);
            let LayerGradient { kernel, mean, z, .. } = pass.layer_gradients()[0].clone();
            let (mut wanted_value, mut wanted) = (0.0, vec![0.0; kernel.len() + 14]);
            for (place, &p) in outputs.iter().enumerate() {
                let y = column(p);
                let single = LatentModel::new(layer(&x, vec![MEANS[p]]), Gaussian::new(NOISES[p]), false);
                let data = Dataset { x: x.as_ref(), targets: Targets { weights, ..Targets::of(&y) } };
                let mut single = CollapsedObjective::new(single, data, objective);
                let (value, flat) = single.natural_gradient().expect("a bound");
                wanted_value += value;
                let bar =
                    noise_derivative(&origin.processes[place], origin.weight, NOISES[p], 0.7, &q[place]);
                assert!((bar - flat[kernel.len() + 1]).abs() < 1e-9 * bar.abs());
                assert!((mean[place] - flat[kernel.len()]).abs() < 1e-9 * (1.0 + mean[place].abs()));
                let others = flat[..kernel.len()].iter().chain(&flat[kernel.len() + 2..]);
                wanted.iter_mut().zip(others).for_each(|(sum, g)| *sum += g);
            }
            assert!((value - wanted_value).abs() < 1e-11 * wanted_value.abs(), "{value} and {wanted_value}");
            let z = (0..2).flat_map(|d| z.col(d).iter().copied().collect::<Vec<_>>());
            let largest = wanted.iter().fold(0.0, |most: f64, g| most.max(g.abs()));
            for (got, wanted) in kernel.into_iter().chain(z).zip(&wanted) {
                assert!((got - wanted).abs() < 1e-9 * largest, "{got} and {wanted}");
            }
        }
    }
}

/// Without a closed form, outputs with one kernel are a likelihood of several functions: with Gaussian noise its optimum is that of the sum of the
/// bounds, and other losses, neighbours and groups predict as well as separate models.
#[test]
fn a_shared_kernel_is_trained_in_every_way() {
    let text = csv_text("a,b,g,y1,y2", 0..200, |i| {
        let (a, b) = ((i as f64 * 0.618).fract(), (i as f64 * 0.414).fract());
        let (f, g) = ((6.0 * a).sin(), (5.0 * b + 2.0 * a).cos());
        let effect = [0.5, -0.4, 0.1, -0.2][i % 4];
        let noise = |k: f64| 0.05 * (i as f64 * (1.7 + k)).sin() + effect;
        // Every seventh row lacks a target.
        let y2 = if i % 7 == 3 { String::new() } else { format!("{:.4}", f - 0.5 * g + noise(2.0)) };
        format!("{a:.3},{b:.3},{},{:.4},{y2}", ["p", "q", "r", "s"][i % 4], 2.0 * f + g + noise(1.0))
    });
    let work = Work::with("t.csv", text);
    let fit = |options: &str| {
        let rest = "t.csv --target y1,y2 --auto none --inducing 30 --test-fraction 0.2 --quiet --json";
        work.run(&format!("fit {rest} {options}")).json()
    };
    let of = |fit: &Value, target: &str, path: &str| number(&fit["outputs"][target], path);
    let closed = fit("--outputs shared --exclude g");
    let stepped = fit("--outputs shared --exclude g --hyper alternating");
    let sum = of(&closed, "y1", "/fit/objective_sum") + of(&closed, "y2", "/fit/objective_sum");
    let joint = of(&stepped, "y1", "/fit/objective_sum");
    assert!((sum - joint).abs() < 0.1, "{sum} in closed form, {joint} by steps");
    for options in
        ["--exclude g --neighbours 10", "--neighbours 10 --group g", "--group g --objective dlm-log"]
    {
        let [own, shared] = ["own", "shared"].map(|how| fit(&format!("{options} --outputs {how}")));
        for target in ["y1", "y2"] {
            let [own, shared] = [&own, &shared].map(|fit| of(fit, target, "/test/rmse"));
            assert!(shared < 1.3 * own, "{options}, {target}: {shared}, by separate models {own}");
        }
    }
}

/// Held-out rows show that the outputs mix a process, and the printed option repeats the fit.
#[test]
fn the_sharing_between_outputs_is_chosen_on_held_out_rows() {
    let text = csv_text("a,b,y1,y2", 0..160, |i| {
        let (a, b) = ((i as f64 * 0.618).fract(), (i as f64 * 0.414).fract());
        let f = (7.0 * a).sin() + (6.0 * b).cos();
        let noise = |k: f64| 0.15 * ((i * i) as f64 * (0.3 + k)).sin();
        // Each row has one of the two targets.
        match i % 2 {
            0 => format!("{a:.4},{b:.4},{:.4},", f + noise(0.1)),
            _ => format!("{a:.4},{b:.4},,{:.4}", 3.0 - 2.0 * f + noise(0.2)),
        }
    });
    let work = Work::with("t.csv", text);
    let rest = "t.csv --target y1,y2 --kernel matern52 --neighbours none --objective elbo --inducing 40 --epochs 30 --quiet";
    let text = work.text(&format!("fit {rest} --auto all --outputs auto --metrics first.json"));
    assert!(text.starts_with("outputs  mixed:") && text.contains("shared "), "{text:.300}");
    let line = text.lines().next().and_then(|line| line.split_once("the same with "));
    let (_, option) = line.expect("an option");
    work.run(&format!("fit {rest} {option} --metrics second.json")).ok();
    let [first, second] = ["first.json", "second.json"].map(|name| work.json(name)["outputs"].clone());
    for target in ["y1", "y2"] {
        assert_eq!(first[target]["hyperparameters"], second[target]["hyperparameters"]);
        assert_eq!(first[target]["config"]["outputs"].as_str(), option.split(' ').nth(1));
    }
}

const DRAWS: usize = 3000;
const TARGETS: [&str; 3] = ["y1", "y2", "y3"];

/// Two neighbouring rows among the training rows, and two neighbouring rows far from them, where functions are uncertain.
const ROWS: &str = "a,b\n0.50,0.50\n0.55,0.50\n1.40,1.40\n1.45,1.40\n";
const POINTS: usize = 4;

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / DRAWS as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum::<f64>() / (DRAWS - 1) as f64
}

/// Asserts that the covariance of draws is the expected one within five of its standard errors.
fn assert_covariance(a: &[f64], b: &[f64], expected: f64, what: &str) {
    let found = covariance(a, b);
    let error = ((covariance(a, a) * covariance(b, b) + expected * expected) / DRAWS as f64).sqrt();
    assert!((found - expected).abs() < 5.0 * error, "{what}: {found}, expected {expected} ± {error}");
}

/// Draws, indexed by target and by row.
type Draws = HashMap<(usize, usize), Vec<f64>>;

/// Returns the draws among predictions, from the columns whose names begin with `kind`.
fn draws(predicted: &Csv, kind: &str) -> Draws {
    let mut all = Draws::new();
    for (column, name) in predicted.names.iter().enumerate() {
        let target = name.strip_prefix(kind).and_then(|rest| rest.split_once('_'));
        let place = target.and_then(|(_, target)| TARGETS.iter().position(|known| *known == target));
        let Some(place) = place else { continue };
        for (row, cells) in predicted.rows.iter().enumerate() {
            all.entry((place, row)).or_default().push(cells[column].parse().expect("a number"));
        }
    }
    all
}

#[test]
fn draws_have_the_covariances_that_are_reported() {
    for how in ["--outputs own", "--outputs shared", "--mixing 2"] {
        let work = Work::with("t.csv", table(120));
        work.write("at.csv", ROWS);
        let options = "--target y1,y2,y3 --inducing 12 --epochs 8 --quiet --model-out m";
        work.run(&format!("fit t.csv {options} {how}")).ok();
        let predicted =
            work.run(&format!("predict m at.csv --out - --draws {DRAWS} --samples {DRAWS}")).csv();
        let (functions, targets) = (draws(&predicted, "sample"), draws(&predicted, "draw"));
        let outputs = TableOutputs::load(&work.path("m")).expect("models");
        let rows = read_table(&work.path("at.csv")).expect("rows");
        let unseen = UnseenLevels::Error;
        let of_row = outputs.covariances(&rows, unseen).expect("covariances");
        let models: Vec<_> = outputs.models().collect();
        let inputs: Vec<_> =
            models.iter().map(|model| model.schema().design(&rows, unseen).expect("inputs")).collect();
        let joint: Vec<_> =
            models.iter().zip(&inputs).map(|(model, x)| model.joint(x.as_ref()).expect("moments")).collect();
        // Cov(f_p(x), f_q(x')) of outputs that mix processes; other outputs are independent.
        let mixing: Option<Vec<_>> = models.iter().map(|model| model.mixing()).collect();
        let processes: Vec<_> = (0..if mixing.is_some() { 2 } else { 0 })
            .map(|process| models[0].joint_of_process(inputs[0].as_ref(), process).expect("moments").1)
            .collect();
        let between = |p: usize, q: usize, r: usize, s: usize| match &mixing {
            Some(mixing) => {
                let term = |l: usize| mixing[p].0[l] * mixing[q].0[l] * processes[l][(r, s)];
                (0..2).map(term).sum()
            }
            None if p == q => joint[p].1[(r, s)],
            None => 0.0,
        };
        for (p, model) in models.iter().enumerate() {
            let predictions = model.predict(&rows, unseen).expect("predictions");
            for r in 0..POINTS {
                let found = functions[&(p, r)].iter().sum::<f64>() / DRAWS as f64;
                let sd = (joint[p].1[(r, r)] / DRAWS as f64).sqrt();
                assert!((found - joint[p].0[r]).abs() < 5.0 * sd, "{how}: the mean of {p} at {r}");
                let variance = predictions.row(r).variance;
                for (q, s) in (0..3).flat_map(|q| (0..POINTS).map(move |s| (q, s))) {
                    let what = format!("{how}: {p} at {r} and {q} at {s}");
                    let expected = between(p, q, r, s);
                    assert_covariance(&functions[&(p, r)], &functions[&(q, s)], expected, &what);
                    let reported = of_row[(r * 3 + p) * 3 + q];
                    let of_targets = match (p == q, r == s) {
                        (true, true) => variance,
                        (false, true) => reported,
                        (_, false) => 0.0,
                    };
                    assert_covariance(&targets[&(p, r)], &targets[&(q, s)], of_targets, &what);
                    let close = r != s || (reported - expected).abs() < 1e-9 * variance;
                    assert!(close, "{what}: {reported} and {expected}");
                }
            }
        }
        // With a negligible process, the test would compare only zeros.
        if mixing.is_some() {
            let correlation = between(0, 1, 2, 2) / (between(0, 0, 2, 2) * between(1, 1, 2, 2)).sqrt();
            assert!(correlation.abs() > 0.1, "{correlation}");
        }
    }
}
