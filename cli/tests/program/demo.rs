//! The list of the demo's data sets, and the demo of a single one.

use sparsegp_testkit::program::{Work, assert_contains};

#[test]
fn the_list_describes_every_data_set() {
    let text = Work::empty().run("demo --list").ok().stdout();
    assert_contains(
        &text,
        &[
            "co2_monthly    521 × 2 ",
            "2225 × 2 ",
            "569 × 3 ",
            "5000 × 10 ",
            "CC BY 4.0",
            "Cameron and Trivedi",
        ],
    );
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn a_named_data_set_is_fitted_alone() {
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

#[test]
fn unknown_names_are_refused_with_a_list_of_the_known_names() {
    let work = Work::empty();
    let words =
        ["'co2'", "expected one of co2_monthly, co2_weekly, breast_cancer, doctor_visits", "demo --list"];
    work.run("demo co2").fails(2, &words);
    work.run("demo co2_weekly --list").fails(2, &["cannot be used with"]);
}
