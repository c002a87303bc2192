//! Draws of several targets have the covariances that the program reports, between targets and between rows, for functions and for targets
//! with noise.

use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::read_table;
use sparsegp_tables::tabular::TableOutputs;
use sparsegp_testkit::outputs::table;
use sparsegp_testkit::program::{Csv, Work};
use std::collections::HashMap;

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
