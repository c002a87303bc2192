//! Reports of every kind of fit, and the demo: expected figures, well-formed XML, escaped names, and their files.

use sparsegp_testkit::program::{QUICK, Work, assert_contains, csv_text};
use std::collections::HashSet;

/// The options of a fit, the groups of figure titles that its page must have, and the titles that it must not have.
type Case<'a> = (&'a str, &'a [&'a [&'a str]], &'a [&'a str]);

/// Returns the contents of all elements with a tag.
fn elements<'a>(page: &'a str, tag: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
    let found = page.split(open.as_str()).skip(1);
    found.filter_map(|rest| rest.split_once(close.as_str()).map(|(inside, _)| inside)).collect()
}

/// Returns the titles of the figures of a page, and checks every figure.
fn titles(page: &str) -> Vec<String> {
    let figures = elements(page, "svg");
    assert_eq!(figures.len(), page.matches("<svg").count());
    let title = |figure: &&str| {
        let svg = format!("<svg{figure}</svg>");
        check_xml(&svg);
        assert!(svg.contains("role=\"img\"") && !elements(&svg, "desc")[0].ends_with("><"), "{svg}");
        elements(&svg, "title")[0].trim_start_matches('>').to_owned()
    };
    figures.iter().map(title).collect()
}

/// Asserts that the text is well-formed: tags match, attributes are quoted, and entities are known.
fn check_xml(text: &str) {
    let mut open = Vec::new();
    for (index, part) in text.split('<').enumerate() {
        let (tag, content) = if index == 0 { ("", part) } else { part.split_once('>').expect("a tag ends") };
        assert!(
            content.split('&').skip(1).all(|after| {
                let name = after.split(';').next().unwrap_or_default();
                ["amp", "lt", "gt", "quot", "#39"].contains(&name)
            }),
            "an entity in {content:?}"
        );
        assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        if tag.is_empty() {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{text}");
            continue;
        }
        let single = tag.ends_with('/');
        let tag = tag.trim_end_matches('/');
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let quotes: Vec<&str> = attributes.split('"').collect();
        assert_eq!(quotes.len() % 2, 1, "{tag}");
        let mut names = HashSet::new();
        for name in quotes.iter().step_by(2).filter(|name| !name.trim().is_empty()) {
            assert!(name.ends_with('=') && names.insert(name.trim()), "{name} in {tag}");
        }
        if !single {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Returns a table of `count` rows; `cells` writes the cells after the row number.
fn rows(header: &str, count: usize, cells: impl Fn(usize, f64, f64) -> String) -> String {
    let number = |i: usize, step: usize| ((i * step * 7919) % 1009) as f64 / 200.0;
    csv_text(header, 0..count, |i| cells(i, number(i, 3), number(i, 5)))
}

#[test]
fn every_kind_of_fit_has_the_expected_figures() {
    let work = Work::empty();
    let wave = |i: usize, a: f64, b: f64| 10.0 + a.sin() + 0.3 * b + 0.1 * ((i * 37 % 11) as f64 - 5.0);
    let colour = |i: usize| ["red", "green", "blue"][i % 3];
    let yes = |i: usize, a: f64, b: f64| if a + 0.3 * (i % 3) as f64 > b { "yes" } else { "no" };
    let side = |a: f64, b: f64| ["n", "e", "s", "w"][usize::from(a > 2.5) + 2 * usize::from(b > 2.5)];
    let count = |i: usize, a: f64| (a.sin() + 1.0 + (i % 3) as f64) as u32;
    let write = |name: &str, header: &str, cells: &dyn Fn(usize, f64, f64) -> String| {
        work.write(name, &rows(header, 150, cells));
    };
    write("real.csv", "a,b,colour,y", &|i, a, b| format!("{a},{b},{},{}", colour(i), wave(i, a, b)));
    write("one.csv", "a,y", &|i, a, b| format!("{a},{}", wave(i, a, b)));
    write("two.csv", "a,b,y", &|i, a, b| format!("{a},{b},{}", wave(i, a, b)));
    write("class.csv", "a,b,y", &|i, a, b| format!("{a},{b},{}", yes(i, a, b)));
    write("four.csv", "a,b,y", &|_, a, b| format!("{a},{b},{}", side(a, b)));
    write("count.csv", "a,b,y", &|i, a, b| format!("{a},{b},{}", count(i, a)));
    let always = ["Trace"];
    let tested = ["Relevance by permutation"];
    let interval = ["Probability integral transforms", "Coverage", "Observed against predicted", "Residuals"];
    let cases: &[Case] = &[
        (
            "real.csv --target y --test-fraction 0.3",
            &[&always, &tested, &interval, &["Partial dependence on colour"]],
            &["Receiver operating characteristic", "Relevance by lengthscale"],
        ),
        ("one.csv --target y --test-fraction 0.3", &[&always, &interval, &["The function"]], &["The mean"]),
        (
            "two.csv --target y",
            &[&always, &["Relevance by lengthscale", "The mean", "The standard deviation"]],
            &["Relevance by permutation", "Coverage"],
        ),
        (
            "class.csv --target y --test-fraction 0.3",
            &[
                &always,
                &tested,
                &["Reliability of probabilities", "Receiver operating characteristic", "Decision regions"],
            ],
            &["Residuals", "Coverage"],
        ),
        (
            "four.csv --target y --task classification --test-fraction 0.3",
            &[
                &always,
                &tested,
                &["Reliability of probabilities", "Decision regions", "Partial dependence on a"],
            ],
            &["Receiver operating characteristic"],
        ),
        (
            "count.csv --target y --task count --test-fraction 0.3",
            &[&always, &tested, &interval],
            &["Reliability of probabilities"],
        ),
        (
            "real.csv --target y --model glm --test-fraction 0.3",
            &[&["Effect of one standard deviation", "Relevance by permutation"], &interval],
            &["Relevance by lengthscale"],
        ),
        (
            "one.csv --target y --test-fraction 0.3 --likelihood gaussian-heteroskedastic",
            &[&always, &["Noise", "The function"]],
            &[],
        ),
        ("two.csv --target y --betas 1,0.1 --test-fraction 0.2", &[&always, &["Score against β"]], &[]),
    ];
    for (options, wanted, unwanted) in cases {
        let quick = if options.contains("glm") { "" } else { QUICK };
        work.run(&format!("fit {options} --quiet --report r.html --plots plots {quick}")).ok();
        let page = work.read("r.html");
        let found = titles(&page);
        for title in wanted.concat() {
            assert!(found.iter().any(|known| known == title), "{options}: {title} in {found:?}");
        }
        for title in *unwanted {
            assert!(!found.iter().any(|known| known == title), "{options}: {title} in {found:?}");
        }
        assert_contains(&page, &["How to reproduce this page", "sparsegp fit ", "(UTC)"]);
        // The page loads nothing and runs nothing.
        for text in ["<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(text), "{options}: {text}");
        }
        let first = page.find("<svg").expect("a figure");
        let parameters = page.find("hyper-parameters (on the scale").expect("parameters");
        assert!(
            parameters > first
                && page[..parameters].rfind("<details>") > page[..parameters].rfind("</details>")
        );
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

/// Returns the figure with this title, with its caption.
fn figure<'a>(page: &'a str, title: &str) -> &'a str {
    let found =
        elements(page, "figure").into_iter().find(|figure| figure.contains(&format!("<title>{title}<")));
    found.expect(title)
}

/// Returns the texts of a figure, in order.
fn texts(figure: &str) -> Vec<&str> {
    elements(figure, "text").into_iter().filter_map(|text| Some(text.split_once('>')?.1)).collect()
}

#[test]
fn several_targets_are_linked_parts_of_one_page() {
    let work = Work::empty();
    work.write(
        "t.csv",
        &rows("a,b,y1,y2", 80, |i, a, b| format!("{a},{b},{},{}", a + b, a - 0.1 * (i % 7) as f64)),
    );
    work.run(&format!(
        "fit t.csv --target y1,y2 --quiet --test-fraction 0.3 --report r.html --plots plots {QUICK}"
    ))
    .ok();
    let page = work.read("r.html");
    assert!(page.contains("<a href=\"#part1\">y2</a>") && page.contains("id=\"part1\""));
    let found = titles(&page);
    assert_eq!(found.iter().filter(|title| *title == "Trace").count(), 2);
    assert!(work.path("plots/1-trace.svg").exists() && work.path("plots/2-trace.svg").exists());
}

#[test]
fn long_and_hostile_names_are_escaped() {
    let work = Work::empty();
    let long = "a very long name ".repeat(30).trim().to_owned();
    let evil = "</title></svg><script>alert('x')</script>&\u{1}";
    work.write(
        "t.csv",
        &rows(&format!("\"{evil}\",\"{long}\",\"<b>\""), 60, |i, a, b| {
            format!("{a},{},{}", ["<i>", "it's", "\u{202e}x"][i % 3], a + b)
        }),
    );
    work.run(&format!(
        "fit t.csv --target <b> --quiet --test-fraction 0.3 --report r.html --model-out m {QUICK}"
    ))
    .ok();
    work.run("explain m t.csv --out e --report e.html --orders 5").ok();
    for page in ["r.html", "e.html"] {
        let page = work.read(page);
        assert!(titles(&page).len() > 3);
        for tag in ["<script", "<b>&", "<i>"] {
            assert!(!page.contains(tag), "{tag}");
        }
        // Figures cut long names, but their titles have the whole names.
        let texts: Vec<&str> = elements(&page, "text");
        assert!(texts.iter().all(|text| text.len() < 250), "{texts:?}");
        assert!(page.contains(&format!("Partial dependence on {long}")));
    }
}

#[test]
fn explain_writes_tables_that_agree_with_predictions() {
    let work = Work::new();
    work.model();
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
    assert_eq!(titles(&work.read("e.html")).iter().filter(|title| title.starts_with("Row ")).count(), 3);
    // The same command gives the same files; another seed gives other orders.
    work.run("explain model data.csv --out f --rows 2,5-6 --orders 20").ok();
    assert_eq!(work.read("f/contributions.csv"), work.read("e/contributions.csv"));
    work.run("explain model data.csv --out f --rows none --seed 1").ok();
    assert_eq!(work.read("f/contributions.csv").lines().count(), 1);
    // Without a folder, explain prints the relevances, their meaning, and the explanations of rows.
    let printed = work.run("explain model data.csv --rows 2,5 --orders 20").ok().stdout();
    for start in ["increase  ", "sensitivity  ", "row 2  ", "row 5  "] {
        assert!(printed.lines().any(|line| line.starts_with(start)), "{start}: {printed}");
    }
    // The explanations show the values of the row, as in the data.
    let (data, page) = (work.csv("data.csv"), work.read("e.html"));
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in ["a", "b", "colour"] {
        let (value, shown) = (data.column(name)[1], format!("{name} = "));
        let told = printed.split(&shown).nth(1).and_then(|rest| rest.split(':').next()).expect("a value");
        match (told.parse::<f64>(), value.parse::<f64>()) {
            (Ok(told), Ok(value)) => {
                assert!((told - value).abs() <= 1e-3 * value.abs(), "{told}, not {value}")
            }
            _ => assert_eq!(told, value, "{name}"),
        }
        assert!(texts(figure(&page, "Row 2")).iter().any(|text| text.starts_with(&shown)), "{name}");
    }
    let usage: [(&str, &[&str]); 2] =
        [("--out e --rows 1,999", &["--rows", "999", "120"]), ("--out e --rows 0", &["--rows", "'0'"])];
    work.refuses(2, "explain model data.csv", &usage);
    let data: [(&str, &[&str]); 2] = [
        ("data.csv --out data.csv", &["data.csv", "cannot be created"]),
        ("absent.csv --out e", &["absent.csv"]),
    ];
    work.refuses(3, "explain model", &data);
}

#[test]
fn a_named_data_set_of_the_demo_is_fitted_alone() {
    let work = Work::empty();
    let text = work.run("demo breast_cancer --quiet --out demo").ok().stdout();
    assert_contains(&text, &["elbo", "dlm-log"]);
    assert_eq!(text.lines().filter(|line| line.starts_with("tumours")).count(), 2, "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    let html = work.read("demo/report.html");
    // Each figure is also an SVG file.
    let files = std::fs::read_dir(work.path("demo")).expect("a folder").count();
    assert_eq!(files, html.matches("<svg").count() + 1);
    assert!(html.contains("sparsegp demo: breast_cancer") && html.contains("fits: 2, data sets: 1"));
    let text = work.run("demo co2_monthly --quiet").ok().stdout();
    assert!(text.contains("1992-2001 forecast") && text.lines().count() == 2, "{text}");
    assert_eq!(work.names(), ["demo"]);
}
