//! The chapter of the book and the help of the commands agree with the list of options; completions and manual pages.

use sparsegp_tables::options::{Effect, Entry, Kind, SECTIONS, options};
use sparsegp_testkit::program::{Work, assert_contains};
use std::path::Path;

fn dashes(name: &str, value: Option<&str>) -> String {
    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
    format!("`--{}{value}`", name.replace('_', "-"))
}

fn usage(option: &Entry) -> String {
    let name = option.name.replace('_', "-");
    match option.kind {
        Kind::Flag => format!("`--{name}`"),
        Kind::Switch => format!("`--no-{name}`"),
        _ => format!("`--{name} {}`", option.value_name().replace('|', "\\|")),
    }
}

fn row(option: &Entry) -> String {
    let mut text = option.long_help_with(&dashes).unwrap_or_else(|| option.help_with(&dashes));
    if !option.default.is_empty() {
        text = text.replacen("\n\n", &format!(" [default: {}]\n\n", option.default), 1);
        if !text.contains("[default: ") {
            text += &format!(" [default: {}]", option.default);
        }
    }
    if let Some(words) = option.kind.words() {
        text += &format!(". One of {}", words.join(", "));
    }
    let fits = match option.effect {
        Effect::Steps => "steps on mini-batches",
        Effect::Sparse => "gp",
        Effect::Linear => "glm",
        Effect::LinearSteps => "glm, steps on mini-batches",
        _ => "all",
    };
    let text = text.replace("\n\n", ". ").replace("..", ".").replace('*', "\\*").replace('|', "\\|");
    format!("| {} | {fits} | {} |\n", usage(option), text.trim_end_matches('.'))
}

fn tables() -> String {
    let of_section = SECTIONS.iter().map(|section| {
        let heading = section.heading.split(" (").next().unwrap_or_default();
        let rows: String = section.options.iter().map(row).collect();
        format!("\n## {heading}\n\n| option | for | meaning |\n| --- | --- | --- |\n{rows}")
    });
    of_section.collect()
}

#[test]
fn the_chapter_agrees_with_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let chapter = std::fs::read_to_string(root.join("docs/options.md")).expect("the chapter");
    let start = chapter.find("\n## ").unwrap_or(chapter.len());
    let expected = format!("{}{}", &chapter[..start], tables());
    if chapter != expected {
        std::fs::write(root.join("target/options.md"), expected).expect("a file");
        panic!("docs/options.md differs from the list of options: copy target/options.md to it");
    }
}

#[test]
fn the_help_of_every_command_has_the_options_of_the_list() {
    let work = Work::empty();
    let [fit, compare] = ["fit --help", "compare --help"].map(|command| work.text(command));
    for option in options() {
        let usage = usage(option).replace(['`', '\\'], "");
        let name = usage.split_once(' ').map_or(usage.clone(), |(name, value)| format!("{name} <{value}>"));
        let is_in = |help: &str| help.contains(&format!("      {name}\n"));
        // `compare` has a share of validation rows of its own.
        let shared = option.compared || option.name == "validation_fraction";
        assert_eq!([is_in(&fit), is_in(&compare)], [true, shared], "{name}");
    }
    let short = work.text("fit -h");
    assert_eq!(short.lines().filter(|line| line.starts_with("      --")).count(), 20, "{short}");
    assert_contains(&short, &["see more with '--help'", "--report"]);
    assert!(!short.contains("--q-step"), "{short}");
}

#[test]
fn help_completions_and_manual_pages_know_every_command() {
    let work = Work::empty();
    assert!(work.text("--version").starts_with("sparsegp "));
    let list = work.text("man");
    for command in ["fit", "predict", "serve", "evaluate", "compare", "forecast", "inspect", "demo"] {
        let help = work.text(&format!("{command} --help"));
        // A line that ends after the name of an option has its explanation below, which is indented further than names.
        let options = help.split("Examples:").next().unwrap_or_default();
        for line in options.lines().filter(|line| line.starts_with("      --")).map(str::trim) {
            assert!(line.contains("  ") || help.contains(&format!("{line}\n   ")), "{command}: {line}");
        }
        assert!(list.contains(command));
        work.prints(&format!("man {command}"), &[".TH", ".SH OPTIONS"]);
    }
    work.run("man fits").fails(2, &["'fits'"]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        work.prints(&format!("completions {shell}"), &["validation-fraction", "evaluate"]);
    }
}
