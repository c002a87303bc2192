//! Reports of every kind of fit, and the demo: expected figures, well-formed XML, escaped names, and their files; the scores that a fit shows
//! with the test scores (training rows, a constant, a linear model), and its suggestions.

use roxmltree::Document;
use serde_json::Value;
use sparsegp_testkit::program::{QUICK, Work, assert_contains, csv_text, number};

/// Returns the figures of a page as well-formed documents.
fn figures(page: &str) -> Vec<String> {
    let figures = page.split("<svg").skip(1).filter_map(|rest| rest.split_once("</svg>"));
    let figures: Vec<String> = figures.map(|(inside, _)| format!("<svg{inside}</svg>")).collect();
    assert_eq!(figures.len(), page.matches("<svg").count());
    for svg in &figures {
        let document = Document::parse(svg).expect("well-formed XML");
        assert_eq!(document.root_element().attribute("role"), Some("img"));
        assert!(!texts(svg, "desc")[0].is_empty(), "{svg}");
    }
    figures
}

fn texts(svg: &str, tag: &str) -> Vec<String> {
    let document = Document::parse(svg).expect("well-formed XML");
    let found = document.descendants().filter(|node| node.tag_name().name() == tag);
    found.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

fn titles(page: &str) -> Vec<String> {
    figures(page).iter().map(|svg| texts(svg, "title").remove(0)).collect()
}

/// Returns a table of `count` rows; `cells` writes the cells of a row from its number and two pseudo-random inputs.
fn rows(header: &str, count: usize, cells: impl Fn(usize, f64, f64) -> String) -> String {
    let number = |i: usize, step: usize| ((i * step * 7919) % 1009) as f64 / 200.0;
    csv_text(header, 0..count, |i| cells(i, number(i, 3), number(i, 5)))
}

/// Titles of figures, separated by semicolons.
const INTERVALS: &str = "Probability integral transforms;Coverage;Observed against predicted;Residuals";
const PERMUTED: &str = "Relevance by permutation";
const PROBABILITIES: &str = "Reliability of probabilities;Decision regions";

#[test]
fn every_kind_of_fit_has_the_expected_figures() {
    let text = rows("a,b,colour,real,class,side,count", 150, |i, a, b| {
        let colour = ["red", "green", "blue"][i % 3];
        let real = 10.0 + a.sin() + 0.3 * b + 0.1 * ((i * 37 % 11) as f64 - 5.0);
        let class = if a + 0.3 * (i % 3) as f64 > b { "yes" } else { "no" };
        let side = ["n", "e", "s", "w"][usize::from(a > 2.5) + 2 * usize::from(b > 2.5)];
        format!("{a},{b},{colour},{real},{class},{side},{}", (a.sin() + 1.0 + (i % 3) as f64) as u32)
    });
    let work = Work::with("t.csv", text);
    // Options, the figures that the page must have, and the figures that it must not have.
    let cases: [(&str, &[&str], &str); 9] = [
        (
            "--target real --features a,b,colour --test-fraction 0.3",
            &["Trace", PERMUTED, INTERVALS, "Partial dependence on colour"],
            "Receiver operating characteristic;Relevance by lengthscale",
        ),
        ("--target real --features a --test-fraction 0.3", &["Trace", INTERVALS, "The function"], "The mean"),
        (
            "--target real --features a,b",
            &["Trace", "Relevance by lengthscale;The mean;The standard deviation"],
            "Relevance by permutation;Coverage",
        ),
        (
            "--target class --features a,b --test-fraction 0.3",
            &["Trace", PERMUTED, PROBABILITIES, "Receiver operating characteristic"],
            "Residuals;Coverage",
        ),
        (
            "--target side --features a,b --task classification --test-fraction 0.3",
            &["Trace", PERMUTED, PROBABILITIES, "Partial dependence on a"],
            "Receiver operating characteristic",
        ),
        (
            "--target count --features a,b --task count --test-fraction 0.3",
            &["Trace", PERMUTED, INTERVALS],
            "Reliability of probabilities",
        ),
        (
            "--target real --features a,b,colour --model glm --test-fraction 0.3",
            &["Effect of one standard deviation", PERMUTED, INTERVALS],
            "Relevance by lengthscale",
        ),
        (
            "--target real --features a --test-fraction 0.3 --likelihood gaussian-heteroskedastic",
            &["Trace", "Noise;The function"],
            "",
        ),
        ("--target real --features a,b --betas 1,0.1 --test-fraction 0.2", &["Trace", "Score against β"], ""),
    ];
    for (options, wanted, unwanted) in cases {
        work.quick_fit(&format!("t.csv {options} --report r.html --plots plots"));
        let page = work.read("r.html");
        let found = titles(&page);
        for title in wanted.join(";").split(';') {
            assert!(found.iter().any(|known| known == title), "{options}: {title} in {found:?}");
        }
        assert!(
            !found.iter().any(|title| unwanted.split(';').any(|known| known == title)),
            "{options}: {found:?}"
        );
        assert_contains(&page, &["How to reproduce this page", "sparsegp fit ", "(UTC)"]);
        // The page loads nothing and runs nothing.
        for text in ["<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(text), "{options}: {text}");
        }
        // The hyper-parameters are details after the first figure.
        let (before, _) = page.split_once("hyper-parameters (on the scale").expect("parameters");
        assert!(before.contains("<svg") && before.rfind("<details>") > before.rfind("</details>"));
        // Every figure is also an SVG file.
        let files: Vec<_> = std::fs::read_dir(work.path("plots")).expect("a folder").collect();
        assert_eq!(files.len(), found.len(), "{options}: {files:?}");
        for path in files.into_iter().map(|entry| entry.expect("an entry").path()) {
            let bytes = std::fs::read(&path).expect("a file");
            let is_figure = bytes.starts_with(b"<svg") && bytes.len() > 1000;
            assert!(is_figure && path.extension().is_some_and(|ending| ending == "svg"), "{path:?}");
        }
        std::fs::remove_dir_all(work.path("plots")).expect("removed");
    }
}

#[test]
fn several_targets_are_linked_parts_of_one_page() {
    let cells = |i, a, b| format!("{a},{b},{},{}", a + b, a - 0.1 * (i % 7) as f64);
    let work = Work::with("t.csv", rows("a,b,y1,y2", 80, cells));
    work.quick_fit("t.csv --target y1,y2 --test-fraction 0.3 --report r.html --plots plots");
    let page = work.read("r.html");
    assert_contains(&page, &["<a href=\"#part1\">y2</a>", "id=\"part1\""]);
    assert_eq!(titles(&page).iter().filter(|title| *title == "Trace").count(), 2);
    assert!(work.path("plots/1-trace.svg").exists() && work.path("plots/2-trace.svg").exists());
}

#[test]
fn long_and_hostile_names_are_escaped() {
    let long = "a very long name ".repeat(30).trim().to_owned();
    let evil = "</title></svg><script>alert('x')</script>&\u{1}";
    let cells = |i, a, b| format!("{a},{},{}", ["<i>", "it's", "\u{202e}x"][i % 3], a + b);
    let work = Work::with("t.csv", rows(&format!("\"{evil}\",\"{long}\",\"<b>\""), 60, cells));
    work.quick_fit("t.csv --target <b> --test-fraction 0.3 --report r.html --model-out m");
    work.run("explain m t.csv --out e --report e.html --orders 5").ok();
    for page in ["r.html", "e.html"] {
        let page = work.read(page);
        let figures = figures(&page);
        assert!(figures.len() > 3);
        for tag in ["<script", "<b>&", "<i>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        // Figures cut long names, but their titles have the whole names.
        assert!(figures.iter().flat_map(|svg| texts(svg, "text")).all(|text| text.len() < 250));
        assert!(page.contains(&format!("Partial dependence on {long}")));
    }
}

#[test]
fn explain_writes_tables_that_agree_with_predictions() {
    let work = Work::modelled();
    work.run("explain model data.csv --out e --rows 2,5-6 --report e.html --orders 20").ok();
    let parts = work.csv("e/contributions.csv");
    let [of, base, prediction, contribution] =
        ["row", "base", "prediction", "contribution"].map(|name| parts.numbers(name));
    let means = work.run("predict model data.csv --out -").csv().numbers("mean");
    for row in [2, 5, 6] {
        let places: Vec<usize> = (0..of.len()).filter(|&place| of[place] == row as f64).collect();
        let total: f64 = places.iter().map(|&place| contribution[place]).sum();
        let prediction = prediction[places[0]];
        assert!((base[places[0]] + total - prediction).abs() < 1e-9);
        assert!((means[row - 1] - prediction).abs() < 1e-9 * prediction.abs().max(1.0));
    }
    assert!(of.iter().all(|row| [2.0, 5.0, 6.0].contains(row)), "{of:?}");
    let increases = work.csv("e/relevance.csv").numbers("increase");
    assert!(increases.is_sorted_by(|a, b| a >= b), "{increases:?}");
    assert!(work.csv("e/dependence.csv").numbers("mean").into_iter().all(f64::is_finite));
    let page = work.read("e.html");
    let is_row = |svg: &String| texts(svg, "title")[0].starts_with("Row ");
    let rows: Vec<String> = figures(&page).into_iter().filter(is_row).collect();
    assert_eq!(rows.len(), 3);
    for name in ["a", "b", "colour"] {
        assert!(rows[0].contains(&format!(">{name} = ")), "{name}: {}", rows[0]);
    }
    // The same command gives the same files; another seed gives other orders.
    work.run("explain model data.csv --out f --rows 2,5-6 --orders 20").ok();
    assert_eq!(work.read("f/contributions.csv"), work.read("e/contributions.csv"));
    work.run("explain model data.csv --out f --rows none --seed 1").ok();
    assert_eq!(work.read("f/contributions.csv").lines().count(), 1);
    for (code, options, words) in [
        (2, "data.csv --out e --rows 1,999", &["--rows", "999", "120"][..]),
        (2, "data.csv --out e --rows 0", &["--rows", "'0'"]),
        (3, "data.csv --out data.csv", &["data.csv", "cannot be created"]),
        (3, "absent.csv --out e", &["absent.csv"]),
    ] {
        work.refuses(code, "explain model", &[(options, words)]);
    }
}

#[test]
fn a_named_data_set_of_the_demo_is_fitted_alone() {
    let work = Work::empty();
    let text = work.text("demo breast_cancer --quiet --out demo");
    assert_contains(&text, &["elbo", "dlm-log"]);
    assert_eq!(text.lines().filter(|line| line.starts_with("tumours")).count(), 2, "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    let html = work.read("demo/report.html");
    // Each figure is also an SVG file.
    let files = std::fs::read_dir(work.path("demo")).expect("a folder").count();
    assert_eq!(files, html.matches("<svg").count() + 1);
    assert_contains(&html, &["sparsegp demo: breast_cancer", "fits: 2, data sets: 1"]);
    let text = work.text("demo co2_monthly --quiet");
    assert!(text.contains("1992-2001 forecast") && text.lines().count() == 2, "{text}");
    assert_eq!(work.names(), ["demo"]);
}

/// Returns the metrics document of a fit to an embedded file. The book shows what such fits print.
fn fit((data, options): (&str, &str), more: &str) -> Value {
    let (work, path) = (Work::empty(), concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data"));
    let fit = format!("fit {path}/{data} --quiet {options} {more} --metrics m.json --report r.html");
    let text = work.text(&fit);
    let page = work.read("r.html");
    assert!(page.contains("<caption>Figures</caption>"), "{page}");
    assert_eq!(page.contains("Confusion matrix"), text.contains("confusion "));
    work.json("m.json")
}

const REGRESSION: (&str, &str) = ("co2_monthly.csv", "--target co2 --test-fraction 0.2");
const CLASSES: (&str, &str) = ("breast_cancer.csv", "--target diagnosis --test-fraction 0.2");
const COUNTS: (&str, &str) =
    ("doctor_visits.csv", "--target visits --test-fraction 0.2 --likelihood negative-binomial");

#[test]
fn documents_have_the_scores_of_training_rows_and_baselines() {
    for (data, train, likelihood) in [
        (REGRESSION, 417, "gaussian"),
        (CLASSES, 455, "bernoulli-probit"),
        (COUNTS, 4000, "negative-binomial"),
    ] {
        let document = fit(data, QUICK);
        assert_eq!(number(&document, "/train/rows"), f64::from(train.min(4096)), "{data:?}");
        assert_eq!(number(&document, "/baselines/constant/training_rows"), f64::from(train));
        assert_eq!(number(&document, "/baselines/linear/training_rows"), f64::from(train));
        assert_eq!(document["baselines"]["linear"]["likelihood"], likelihood);
        // Predictors that use the inputs have better scores than predictors that do not.
        let nll = |of: &str| number(&document, &format!("{of}/nll"));
        assert!(nll("/baselines/linear") < nll("/baselines/constant"), "{data:?}");
        let gain = nll("/baselines/constant") - nll("/test");
        assert!((number(&document, "/baselines/constant/nll_gain") - gain).abs() < 1e-9);
        assert!(document["next"].is_array());
    }
}

#[test]
fn the_linear_baseline_is_the_linear_fit() {
    for (data, how) in [(REGRESSION, ""), (CLASSES, "--hyper alternating --epochs 10")] {
        let beside = fit(data, QUICK);
        let alone = fit(data, &format!("--model glm {how}"));
        assert!(alone["baselines"]["linear"].is_null() && alone["baselines"]["constant"].is_object());
        for figure in ["nll", "crps"] {
            let found = number(&beside, &format!("/baselines/linear/{figure}"));
            let expected = number(&alone, &format!("/test/{figure}"));
            assert!((found - expected).abs() < 1e-6, "{data:?}: {figure} {found}, alone {expected}");
        }
    }
}

#[test]
fn baselines_do_not_change_the_fit_and_a_test_file_gets_them_too() {
    let work = Work::new();
    let [mut bare, mut held] = ["", "--test data.csv"].map(|options| work.fit(options));
    // The same rows are training and test rows.
    let [train, test] = ["/train/nll", "/test/nll"].map(|figure| number(&held, figure));
    assert!((train - test).abs() < 1e-9, "{train} {test}");
    for document in [&mut bare, &mut held] {
        document["config"]["test"] = Value::Null;
    }
    for place in ["/hyperparameters", "/config", "/fit/objective"] {
        assert_eq!(bare.pointer(place), held.pointer(place));
    }
    for key in ["train", "baselines"] {
        assert!(bare[key].is_null() && held[key].is_object(), "{key}");
    }
    let disk = work.fit("--test-fraction 0.2 --shuffle-buffer 50");
    assert!(disk["train"].is_null() && disk["baselines"].is_null() && disk["test"].is_object());
}

#[test]
fn following_the_suggestions_improves_the_scores_of_held_out_rows() {
    let u = |i: usize, k: usize| {
        ((i as f64 * [0.7548776662, 0.5698402909, 0.8191725134, 0.3247179572][k]) % 1.0) - 0.5
    };
    let wide = |i: usize| {
        let far = if i.is_multiple_of(97) { 40.0 * u(i, 3) } else { 0.0 };
        format!("{},{}", u(i, 0), (4.0 * u(i, 0)).sin() + 0.1 * u(i, 1) + far)
    };
    // More columns than rows can distinguish; the target is a sum of columns.
    let lines = |i: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| u(i, k));
        format!("{a},{b},{c},{d},{}", a + b + c + d + 0.3 * u(7 * i + 3, 2))
    };
    let useless =
        |i: usize| format!("{},{},{}", u(i, 0), u(3 * i + 1, 1), (6.0 * u(i, 0)).sin() + 0.05 * u(i, 2));
    let fixed = "--features b --kernel rbf(lengthscales=0.01) --hyper fixed";
    let [wide, lines, useless] = [
        csv_text("a,y", 0..600, wide),
        csv_text("a,b,c,d,y", 0..60, lines),
        csv_text("a,b,y", 0..500, useless),
    ];
    // A fit whose summary has these words in a suggestion, and the options that follow the suggestion.
    for (data, options, words, advice) in [
        (wide, "", "too wide", "--likelihood student-t"),
        (lines, "--kernel matern12 --epochs 1", "a linear model", "--model glm"),
        (useless, fixed, "the mean alone", "--features a"),
    ] {
        let work = Work::with("data.csv", data);
        let [before, followed] = [options, advice].map(|options| {
            work.run(&format!("fit data.csv --target y --test-fraction 0.4 --quiet --json {options}")).json()
        });
        assert!(before["next"].to_string().contains(words), "{options}: {}", before["next"]);
        let [nll, followed] = [before, followed].map(|document| number(&document, "/test/nll"));
        assert!(followed < nll - 0.01, "{advice}: {followed}, before {nll}");
    }
}
