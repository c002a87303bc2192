//! Reports of every kind of fit, and the demo: expected figures, well-formed XML, escaped names, and their files.

use sparsegp_testkit::program::{Work, assert_contains, csv_text};
use std::collections::HashSet;

fn elements<'a>(page: &'a str, tag: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
    let found = page.split(open.as_str()).skip(1);
    found.filter_map(|rest| rest.split_once(close.as_str()).map(|(inside, _)| inside)).collect()
}

/// Returns the figures of a page by their titles, and checks every figure.
fn figures(page: &str) -> Vec<(&str, &str)> {
    let figures = elements(page, "svg");
    assert_eq!(figures.len(), page.matches("<svg").count());
    let titled = |figure| {
        let svg = format!("<svg{figure}</svg>");
        check_xml(&svg);
        assert!(svg.contains("role=\"img\"") && !elements(&svg, "desc")[0].ends_with("><"), "{svg}");
        (elements(figure, "title")[0].trim_start_matches('>'), figure)
    };
    figures.into_iter().map(titled).collect()
}

/// Asserts that the text is well-formed: tags match, attributes are quoted, and entities are known.
fn check_xml(text: &str) {
    let entities = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    let is_known = |after: &str| entities.iter().any(|entity| after.starts_with(entity));
    assert!(text.split('&').skip(1).all(is_known), "an entity in {text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{text}");
            continue;
        }
        let (inside, is_single) = (tag.trim_end_matches('/'), tag.ends_with('/'));
        let (name, attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let quotes: Vec<&str> = attributes.split('"').collect();
        assert_eq!(quotes.len() % 2, 1, "{tag}");
        let mut names = HashSet::new();
        for name in quotes.iter().step_by(2).map(|name| name.trim()).filter(|name| !name.is_empty()) {
            assert!(name.ends_with('=') && names.insert(name), "{name} in {tag}");
        }
        open.extend((!is_single).then_some(name));
    }
    assert!(open.is_empty(), "{open:?}");
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
        let found: Vec<&str> = figures(&page).into_iter().map(|(title, _)| title).collect();
        for title in wanted.join(";").split(';') {
            assert!(found.contains(&title), "{options}: {title} in {found:?}");
        }
        assert!(!unwanted.split(';').any(|title| found.contains(&title)), "{options}: {found:?}");
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
    assert_eq!(figures(&page).iter().filter(|(title, _)| *title == "Trace").count(), 2);
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
        assert!(figures(&page).len() > 3);
        for tag in ["<script", "<b>&", "<i>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        // Figures cut long names, but their titles have the whole names.
        let texts = elements(&page, "text");
        assert!(texts.iter().all(|text| text.len() < 250), "{texts:?}");
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
    let rows: Vec<_> = figures(&page).into_iter().filter(|(title, _)| title.starts_with("Row ")).collect();
    assert_eq!(rows.len(), 3);
    for name in ["a", "b", "colour"] {
        assert!(rows[0].1.contains(&format!(">{name} = ")), "{name}: {}", rows[0].1);
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
