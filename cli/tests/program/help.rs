//! Help for commands and options: the short help, completions, manual pages.

use sparsegp_testkit::program::Work;

/// Returns the number of options without a short form in a help text. Explanations do not count, because they are indented further.
fn options(help: &str) -> usize {
    help.lines().filter(|line| line.starts_with("      --")).count()
}

#[test]
fn the_short_help_shows_twenty_options_of_a_fit_and_the_long_one_all() {
    let work = Work::empty();
    let short = work.run("fit -h").ok().stdout();
    let long = work.run("fit --help").ok().stdout();
    assert_eq!(options(&short), 20, "{short}");
    assert!(options(&long) > 60 && short.contains("see more with '--help'"), "{long}");
    for option in ["--target", "--kernel", "--neighbours", "--test-fraction", "--model-out", "--report"] {
        assert!(short.contains(option), "{option}");
    }
    let compare = work.run("compare -h").ok().stdout();
    assert!(compare.contains("--objectives") && compare.contains("--out") && !compare.contains("--q-step"));
    assert!(long.contains("--q-step"));
}

#[test]
fn shells_and_man_know_every_command() {
    let work = Work::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = work.run(&format!("completions {shell}")).ok().stdout();
        assert!(script.contains("validation-fraction") && script.contains("evaluate"), "{shell}");
    }
    let page = work.run("man").ok().stdout();
    for command in ["fit", "predict", "evaluate", "compare", "inspect", "demo"] {
        assert!(page.contains(command));
        let page = work.run(&format!("man {command}")).ok().stdout();
        assert!(page.contains(".TH") && page.contains(".SH OPTIONS"), "{page}");
    }
    work.run("man fits").fails(2, &["'fits'"]);
}
