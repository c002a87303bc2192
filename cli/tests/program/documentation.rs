//! The chapters for developers and the comments of all crates name only files, headings and identifiers that exist.

use std::collections::HashSet;
use std::fs::{DirEntry, read_to_string};
use std::path::{Path, PathBuf};

/// The chapters in which every name in backticks is checked.
const CHAPTERS: [&str; 3] = ["docs/development.md", "docs/extending.md", "CONTRIBUTING.md"];

const FOLDERS: [&str; 12] = [
    ".ci",
    "benches",
    "cli",
    "examples",
    "fuzz",
    "kernels",
    "likelihoods",
    "python",
    "src",
    "tables",
    "testkit",
    "tests",
];

const ENDINGS: [&str; 5] = [".rs", ".md", ".py", ".toml", ".json"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    read_to_string(root().join(path)).expect("a text")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let skipped = ["target", "__pycache__", "node_modules"];
    let of_entry = |entry: std::io::Result<DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        match path.is_dir() {
            true if name.starts_with('.') || skipped.contains(&&*name) => vec![],
            true => files(&path),
            false => vec![path],
        }
    };
    std::fs::read_dir(folder).expect("a folder").flat_map(of_entry).collect()
}

fn sources() -> Vec<PathBuf> {
    FOLDERS.iter().flat_map(|folder| files(&root().join(folder))).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the words in the name and the code of every file, without comments.
fn known_words() -> Vec<HashSet<String>> {
    let of_file = |path: PathBuf| {
        let text = read_to_string(&path).ok()?;
        let comment = if path.extension().is_some_and(|ending| ending == "rs") { "//" } else { "# " };
        let code = text.lines().map(|line| line.split(comment).next().unwrap_or_default());
        let name = path.strip_prefix(root()).expect("a file of the project").to_string_lossy();
        Some(words(&name).chain(code.flat_map(words)).map(str::to_owned).collect())
    };
    sources().into_iter().chain([root().join("Cargo.toml")]).filter_map(of_file).collect()
}

/// Returns true if a path has one name, which is in some file, or if every two consecutive names occur together in some file.
fn is_known(path: &str, known: &[HashSet<String>]) -> bool {
    let names: Vec<&str> = path.split("::").collect();
    let together = |names: &[&str]| known.iter().any(|file| names.iter().all(|&name| file.contains(name)));
    names.windows(names.len().min(2)).all(together)
}

/// Returns true if every file of a name exists, with one file for each alternative in braces. Words in capitals match any name.
fn exist(name: &str, beside: &Path) -> bool {
    let (start, inner, end) =
        match name.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?))) {
            Some((start, (inner, end))) => (start, inner, end),
            None => (name, "", ""),
        };
    inner.split(',').all(|part| {
        let name = format!("{start}{part}{end}");
        let name = name.split("NAME").next().unwrap_or_default();
        name.starts_with("target/") || root().join(name).exists() || beside.join(name).exists()
    })
}

fn is_file_name(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
    let ends = ENDINGS.iter().any(|ending| span.ends_with(ending) && span.len() > ending.len());
    span.chars().all(plain) && (ends || (span.contains('/') && !span.starts_with('/')))
}

fn is_identifier(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = |name: &str| name.len() > 1 && !name.starts_with(|c: char| c.is_ascii_digit());
    span.split("::").all(|name| is_name(name) && name.chars().all(plain))
}

#[test]
fn chapters_for_developers_name_what_exists() {
    let (known, docs) = (known_words(), root().join("docs"));
    let exists = |name: &str| match is_file_name(name) {
        true => exist(name, &docs),
        false => !is_identifier(name) || is_known(name, &known),
    };
    for chapter in CHAPTERS {
        let text = read(chapter);
        // The texts in backticks, except in blocks of code.
        let spans = text.split("\n```").step_by(2).flat_map(|part| part.split('`').skip(1).step_by(2));
        let wrong: Vec<&str> = spans.filter(|span| !exists(span.trim_end_matches("()"))).collect();
        assert!(wrong.is_empty(), "{chapter}: these do not exist: {wrong:#?}");
    }
}

fn headings(chapter: &str) -> HashSet<String> {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let slug = |line: &str| line.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
    let (text, sharp) = (read(chapter), ['#', ' ']);
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| slug(line.trim_start_matches(sharp))).collect()
}

#[test]
fn comments_name_files_and_headings_that_exist() {
    let mut wrong = Vec::new();
    for path in sources().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let text = read(&path);
        let beside = path.parent().expect("a folder");
        let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./#{},".contains(c);
        let names = comments.flat_map(|line| line.split(move |c: char| !plain(c)));
        for name in names.map(|name| name.trim_end_matches(['.', ','])) {
            let (file, heading) = name.split_once('#').unwrap_or((name, ""));
            let is_file = file.ends_with(".rs") || file.ends_with(".md");
            let is_there = || exist(file, beside) && (heading.is_empty() || headings(file).contains(heading));
            if is_file && !file.starts_with('.') && !is_there() {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these do not exist:\n{}", wrong.join("\n"));
}

/// The order of modules is that of the table in `src/lib.rs`; private helpers come after them.
#[test]
fn modules_import_only_modules_after_them() {
    let src = root().join("src");
    let text = read("src/lib.rs");
    let section =
        text.lines().skip_while(|line| *line != "//! # Modules").take_while(|line| *line != "//! # Features");
    // Hidden modules are named without a link.
    let rows = section.filter(|line| line.starts_with("//! | [`") || line.starts_with("//! | `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let modules = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let mut order: Vec<&str> = modules.filter(|module| *module != "kernels").collect();
    order.splice(order.len() - 1.., ["threads", "parallel", "words", "error"]);
    let place = |module: &str| order.iter().position(|known| *known == module);
    let (mut upward, mut checked) = (Vec::new(), 0);
    for path in files(&src) {
        let inside = path.strip_prefix(&src).expect("a source").to_string_lossy().replace(".rs", "");
        let module = inside.split('/').next().unwrap_or_default();
        // The crate itself, its prelude and the adapter for linfa may import every module.
        let Some(own) = place(module) else {
            assert!(["lib", "prelude", "linfa"].contains(&module), "src/lib.rs does not list {module}");
            continue;
        };
        let text = read(&path);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for other in code.flat_map(|line| line.split("crate::").skip(1)) {
            let other = words(other).next().unwrap_or_default();
            if other != module && place(other).is_some_and(|other| other < own) {
                upward.push(format!("{} imports {other}", path.display()));
            }
            checked += usize::from(place(other).is_some());
        }
    }
    assert!(checked > 500, "{checked} imports");
    assert!(upward.is_empty(), "{upward:#?}");
}
