//! Offsets on the command line: fits, predictions, updates, explanations and requests to the server.

use sparsegp_testkit::program::{Work, csv_text, number};

/// Returns a folder with training rows, test rows and new rows: a count whose rate has `e` as a factor, and a number with the offset `o`.
fn work() -> Work {
    let rows = |from: usize, to: usize| {
        csv_text("x,e,log_e,o,count,y", from..to, |row| {
            let uniform = |k: f64| (k * (row + 1) as f64).fract();
            let (x, e) = (6.0 * uniform(0.618_034), 0.2 + 4.0 * uniform(0.414_214));
            let count = (e * (0.7 * x.sin() + 0.8).exp() + 2.0 * uniform(0.732_051) - 1.0).round().max(0.0);
            let (o, rest) = (50.0 * uniform(0.236_068), 3.0 * x.sin() + uniform(0.645_751));
            format!("{x},{e},{},{o},{count},{}", e.ln(), rest + o)
        })
    };
    let work = Work::with("train.csv", rows(0, 200));
    work.write("test.csv", rows(200, 260));
    work.write("more.csv", rows(260, 320));
    work
}

const COUNTS: &str = "train.csv --target count --features x --likelihood poisson --quiet --test test.csv";
const NUMBERS: &str = "train.csv --target y --features x --quiet --test test.csv";

#[test]
fn an_offset_has_the_scores_of_the_exposure_and_its_row_in_the_summary() {
    let work = work();
    let fit = |options: &str| work.run(&format!("fit {COUNTS} --json {options}")).ok().json();
    let (exposed, raised) = (fit("--exposure e"), fit("--offset log_e --model-out m"));
    let difference = number(&raised, "/test/nll") - number(&exposed, "/test/nll");
    assert!(difference.abs() < 1e-6, "{difference}");
    assert_eq!(raised["config"]["offset"], serde_json::json!(["log_e"]));
    assert_eq!(number(&raised, "/data/features"), 1.0, "an offset is no input");
    work.prints(
        &format!("fit {COUNTS} --offset log_e --max-steps 1"),
        &["offset log_e, on the scale of the link"],
    );
    work.prints("inspect m", &["offset log_e, on the scale of the link"]);
    work.prints(&format!("fit {NUMBERS} --offset o --max-steps 1"), &["offset o, in units of y"]);
}

#[test]
fn commands_need_the_column_and_name_it() {
    let work = work();
    work.run(&format!("fit {NUMBERS} --offset o --model-out m")).ok();
    work.write("none.csv", "x,y\n1,2\n");
    work.write("text.csv", "x,o,y\n1,high,2\n");
    work.write("gap.csv", "x,o,y\n1,,2\n");
    for command in
        ["predict m FILE --out p.csv", "evaluate m FILE", "update m FILE --model-out n", "explain m FILE"]
    {
        for (file, words) in [
            ("none.csv", &["none.csv", "there is no column named 'o'"][..]),
            ("text.csv", &["text.csv", "row 1", "'o'", "high"]),
            ("gap.csv", &["gap.csv", "row 1", "'o'", "missing"]),
        ] {
            work.run(&command.replace("FILE", file)).fails(3, words);
        }
    }
    let fit = "fit train.csv --target y --quiet";
    let cases: &[(&str, &[&str])] = &[
        ("--offset o,e", &["offset"]),
        ("--offset o --features o,x", &["the offset 'o' cannot be a feature too"]),
        (
            "--offset o --mean trees --warp-target softplus",
            &["--mean trees cannot be combined with --offset and --warp-target together"],
        ),
        ("--offset o --from m", &["--offset", "--from"]),
    ];
    work.refuses(2, fit, cases);
    work.refuses(
        2,
        "fit train.csv --target y,count --quiet --offset o",
        &[("--outputs shared", &["--outputs", "--offset"])],
    );
    work.refuses(3, fit, &[("--offset p", &["there is no column named 'p'"])]);
}

#[test]
fn predictions_have_the_offset_and_models_carry_it_on() {
    let work = work();
    work.run(&format!("fit {NUMBERS} --offset o --model-out m")).ok();
    work.write("two.csv", "x,o\n1,0\n1,1000\n");
    let predicted = work.run("predict m two.csv --out - --quantiles 0.1").csv();
    for column in ["mean", "q0.1"] {
        let values = predicted.numbers(column);
        assert!((values[1] - values[0] - 1000.0).abs() < 1e-6, "{column}: {values:?}");
    }
    work.run("update m more.csv --model-out updated").ok();
    work.run("fit more.csv --target y --from m --quiet --model-out continued").ok();
    for model in ["updated", "continued"] {
        let values = work.run(&format!("predict {model} two.csv --out -")).csv().numbers("mean");
        assert!((values[1] - values[0] - 1000.0).abs() < 1e-6, "{model}: {values:?}");
    }
    work.run("explain m test.csv --out why --report why.html").ok();
    for file in ["relevance.csv", "dependence.csv", "contributions.csv"] {
        let text = work.read(&format!("why/{file}"));
        assert!(text.contains(",x,") && !text.contains("offset") && !text.contains(",o,"), "{file}: {text}");
    }
    work.run(&format!("fit {NUMBERS} --offset o --max-steps 3 --report fit.html")).ok();
    assert!(work.read("fit.html").contains("The predictions are for offsets of 0."));
    work.run("compare train.csv --target y --features x --offset o --objectives vfe --out both --quiet").ok();
    work.run("fit train.csv --target y --features x --offset o --cv 3 --max-steps 2 --quiet").ok();
}

#[test]
fn rows_on_disk_have_the_fit_of_rows_in_memory() {
    let work = work();
    // The last step of fixed hyper-parameters is exact, so both have the same q.
    work.run(&format!("fit {COUNTS} --offset log_e --model-out start")).ok();
    let fit = |options: &str| {
        let fit =
            "fit more.csv --target count --from start --hyper fixed --likelihood poisson --objective elbo";
        number(&work.run(&format!("{fit} --test test.csv --quiet --json {options}")).ok().json(), "/test/nll")
    };
    let (memory, disk) = (fit("--batch-size 20"), fit("--batch-size 20 --shuffle-buffer 30"));
    assert!((memory - disk).abs() < 1e-3, "{memory} {disk}");
    let fit = |options: &str| {
        let fit = format!("fit {NUMBERS} --offset o --objective elbo --batch-size 20 --json {options}");
        number(&work.run(&fit).ok().json(), "/test/nll")
    };
    let (memory, disk) = (fit("--epochs 60"), fit("--epochs 60 --shuffle-buffer 50"));
    assert!((memory - disk).abs() < 0.1, "{memory} {disk}");
}

#[cfg(feature = "serve")]
#[test]
fn requests_carry_the_offset_like_any_column() {
    use super::serve::Server;
    use serde_json::json;
    let work = work();
    work.run(&format!("fit {NUMBERS} --offset o --model-out model")).ok();
    let server = Server::start(&work, "");
    let answer = server.post(&json!({"rows": [{"x": 1, "o": 0}, {"x": 1, "o": 7}]})).predictions();
    let mean = |row: usize| number(&answer[row], "/mean");
    assert!((mean(1) - mean(0) - 7.0).abs() < 1e-9, "{answer:?}");
    let refused = server.post(&json!({"rows": [{"x": 1}]}));
    assert!(refused.status == 400 && refused.body.contains("'o'"), "{refused:?}");
}
