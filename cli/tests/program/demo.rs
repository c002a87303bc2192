//! The demo of a single data set.

use sparsegp_testkit::program::{Work, assert_contains};

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
