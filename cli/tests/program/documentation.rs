//! The chapters for developers and the comments of all crates name only files, headings and identifiers that exist.

use std::collections::HashSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The chapters in which every name in backticks is checked.
const CHAPTERS: [&str; 3] = ["docs/development.md", "docs/extending.md", "CONTRIBUTING.md"];

/// The folders that contain code.
const FOLDERS: [&str; 11] =
    [".ci", "benches", "cli", "examples", "fuzz", "kernels", "python", "src", "tables", "testkit", "tests"];

/// The extensions of names that are file names.
const ENDINGS: [&str; 5] = [".rs", ".md", ".py", ".toml", ".json"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files below a folder, except the output of builds.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        match path.is_dir() {
            true if name.starts_with('.') || ["target", "__pycache__", "node_modules"].contains(&&*name) => {}
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    FOLDERS.iter().for_each(|folder| files(&root().join(folder), &mut found));
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the words in the name and the code of every file, without comments.
fn known_words() -> Vec<HashSet<String>> {
    let of_file = |path: &PathBuf| {
        let text = read_to_string(path).ok()?;
        let comment = if path.extension().is_some_and(|ending| ending == "rs") { "//" } else { "# " };
        let code = text.lines().map(|line| line.split(comment).next().unwrap_or_default());
        let name = path.strip_prefix(root()).expect("a file of the project").to_string_lossy();
        Some(words(&name).chain(code.flat_map(words)).map(str::to_owned).collect())
    };
    let mut files = sources();
    files.push(root().join("Cargo.toml"));
    files.iter().filter_map(of_file).collect()
}

/// Returns true if every two consecutive names of a path occur together in some file.
fn is_known(path: &str, known: &[HashSet<String>]) -> bool {
    let names: Vec<&str> = path.split("::").collect();
    let together = |names: &[&str]| known.iter().any(|file| names.iter().all(|&name| file.contains(name)));
    if names.len() == 1 { together(&names) } else { names.windows(2).all(together) }
}

/// Returns the texts in backticks, except in blocks of code.
fn spans(text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
    prose.iter().flat_map(|part| part.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

/// Expands a name with alternatives in braces.
fn alternatives(name: &str) -> Vec<String> {
    match name.split_once('{').and_then(|(start, rest)| Some((start, rest.split_once('}')?))) {
        Some((start, (inner, end))) => inner.split(',').map(|part| format!("{start}{part}{end}")).collect(),
        None => vec![name.to_owned()],
    }
}

fn is_file_name(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./{},".contains(c);
    let ends = ENDINGS.iter().any(|ending| span.ends_with(ending) && span.len() > ending.len());
    span.chars().all(plain) && (ends || (span.contains('/') && !span.starts_with('/')))
}

/// Returns true if a file has this name. Words in capitals match any name.
fn exists(name: &str, beside: &Path) -> bool {
    let name = name.split("NAME").next().unwrap_or_default();
    name.starts_with("target/") || [root(), beside.to_owned()].iter().any(|folder| folder.join(name).exists())
}

fn is_identifier(span: &str) -> bool {
    let part = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    span.split("::")
        .all(|name| name.len() > 1 && part(name) && !name.starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn chapters_for_developers_name_what_exists() {
    let known = known_words();
    let mut wrong = Vec::new();
    for chapter in CHAPTERS {
        for span in spans(&read_to_string(root().join(chapter)).expect("a chapter")) {
            let name = span.trim_end_matches("()");
            let found = if is_file_name(name) {
                alternatives(name).iter().all(|name| exists(name, &root().join("docs")))
            } else {
                !is_identifier(name) || is_known(name, &known)
            };
            if !found {
                wrong.push(format!("{chapter}: `{span}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "these do not exist:\n{}", wrong.join("\n"));
}

/// Returns the anchors of a chapter's headings.
fn headings(chapter: &Path) -> HashSet<String> {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let slug = |line: &str| line.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
    let text = read_to_string(chapter).expect("a chapter");
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| slug(line.trim_start_matches(['#', ' '])))
        .collect()
}

#[test]
fn comments_name_files_and_headings_that_exist() {
    let mut wrong = Vec::new();
    for path in sources().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let text = read_to_string(&path).expect("a source");
        let beside = path.parent().expect("a folder");
        let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./#{},".contains(c);
        let names = comments.flat_map(|line| line.split(move |c: char| !plain(c)));
        for name in names.map(|name| name.trim_end_matches(['.', ','])) {
            let (file, heading) =
                name.split_once('#').map_or((name, None), |(file, heading)| (file, Some(heading)));
            if !(file.ends_with(".rs") || file.ends_with(".md")) || file.starts_with('.') {
                continue;
            }
            let there = alternatives(file).iter().all(|file| exists(file, beside));
            if !there || heading.is_some_and(|heading| !headings(&root().join(file)).contains(heading)) {
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
    let text = read_to_string(src.join("lib.rs")).expect("src/lib.rs");
    let rows = text.lines().filter(|line| line.starts_with("//! | [`"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let mut order: Vec<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .filter(|module| module != "kernels")
        .collect();
    order.splice(order.len() - 1.., ["threads", "words", "error"].map(str::to_owned));
    let place = |module: &str| order.iter().position(|known| known == module);
    let mut paths = Vec::new();
    files(&src, &mut paths);
    let (mut upward, mut checked) = (Vec::new(), 0);
    for path in paths {
        let inside = path.strip_prefix(&src).expect("a source").to_string_lossy().replace(".rs", "");
        let module = inside.split('/').next().unwrap_or_default().to_owned();
        // The crate itself, its prelude and the adapter for linfa may import every module.
        let Some(own) = place(&module) else {
            assert!(["lib", "prelude", "linfa"].contains(&&*module), "src/lib.rs does not list {module}");
            continue;
        };
        let text = read_to_string(&path).expect("a source");
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
