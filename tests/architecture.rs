//! The rules of ARCHITECTURE.md that a compiler does not check: who may import whom, and what each
//! room must not know.

#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

#[path = "support/markdown.rs"]
#[allow(dead_code, unreachable_pub, missing_debug_implementations, reason = "others use the rest")]
mod markdown;

use std::fs;
use std::path::{Path, PathBuf};

/// Modules from the bottom up: each imports only from the layers below its own.
const LAYERS: [&[&str]; 9] = [
    &["clock"],
    &["settings", "algorithm"],
    &["rules"],
    &["telemetry"],
    &["config", "store"],
    &["limiter", "idempotency"],
    &["envoy"],
    &["server"],
    &["cli"],
];

/// Names that only some rooms may use.
const KEPT_TO: [(&str, &[&str]); 11] = [
    ("prost", &["envoy"]),
    ("prost_types", &["envoy"]),
    ("prost_reflect", &["envoy"]),
    ("envoy_types", &["envoy"]),
    ("tonic", &["envoy", "server"]),
    ("axum", &["server"]),
    ("serde_saphyr", &["config"]),
    ("notify", &["config"]),
    ("redis", &["store", "idempotency"]),
    ("prometheus", &["telemetry", "limiter"]),
    ("clap", &["settings", "cli"]),
];

/// Rooms that cannot fail to answer, wait, or tell the time.
const PURE: [&str; 2] = ["algorithm", "rules"];

/// What such rooms must not name.
const IMPURE: [&str; 18] = [
    "tokio",
    "async",
    "await",
    "Mutex",
    "RwLock",
    "Atomic",
    "Instant",
    "SystemTime",
    "Clock",
    "fs",
    "io",
    "net",
    "env",
    "thread",
    "process",
    "serde",
    "tracing",
    "rand",
];

/// A source file, without comments.
struct Source {
    path: PathBuf,
    /// Its path as a module: `store/memory.rs` is `store`, `memory`.
    module: Vec<String>,
    code: String,
}

impl Source {
    fn new(path: &Path, text: &str) -> Self {
        let mut module: Vec<String> =
            path.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            module.pop();
        }
        let code = text.lines().map(without_comment).collect::<Vec<_>>().join("\n");
        Self { path: path.to_owned(), module, code }
    }

    /// The top-level module that it belongs to; `None` for `lib.rs` and `main.rs`.
    fn room(&self) -> Option<&str> {
        self.module.first().map(String::as_str)
    }

    fn names(&self, word: &str) -> bool {
        words(&self.code).any(|(_, found)| found == word)
    }

    /// Top-level modules that it imports or names by a path from the root of the crate.
    fn imports(&self) -> Vec<&str> {
        let roots = words(&self.code).filter_map(|(at, word)| match word {
            "crate" | "tidegate" => self.code[at + word.len()..].strip_prefix("::"),
            "super" => self.beyond_supers(at),
            _ => None,
        });
        roots.flat_map(first_names).filter(|name| layer(name).is_some()).collect()
    }

    /// What follows a chain of `super::` that is long enough to reach the root of the crate.
    fn beyond_supers(&self, at: usize) -> Option<&str> {
        let inside_a_chain = self.code[..at].ends_with("super::");
        let mut rest = &self.code[at..];
        let mut n_supers = 0;
        while let Some(shorter) = rest.strip_prefix("super::") {
            (rest, n_supers) = (shorter, n_supers + 1);
        }
        (!inside_a_chain && n_supers > 0 && n_supers >= self.module.len()).then_some(rest)
    }
}

/// The first names of a path or of a group of paths: `a::b` gives a, `{a::{x, y}, c}` gives a and c.
fn first_names(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return words(path).next().map(|(_, word)| word).into_iter().collect();
    };
    let mut depth = 0;
    let mut starts = vec![0];
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(at + 1),
            _ => {}
        }
    }
    starts.into_iter().filter_map(|at| words(&group[at..]).next()).map(|(_, word)| word).collect()
}

/// Identifiers and keywords with their places.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + code[rest..].find(is_part)?;
        let length = code[start..].find(|character| !is_part(character));
        rest = length.map_or(code.len(), |length| start + length);
        Some((start, &code[start..rest]))
    })
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Whether code of one top-level module may name another; `main.rs` and `lib.rs` may name all.
fn may_import(from: Option<&str>, to: &str) -> bool {
    let Some(from) = from else { return true };
    from == to || layer(to).unwrap() < layer(from).unwrap()
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder of the project, as paths relative to that folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_dir() {
                files.push(path.strip_prefix(folder).unwrap().to_owned());
            } else if !is_made_by_tools(&path) {
                folders.push(path);
            }
        }
    }
    files.sort();
    files
}

fn is_made_by_tools(path: &Path) -> bool {
    [".git", ".tools", "target"].iter().any(|name| path == project().join(name))
}

fn sources() -> Vec<Source> {
    let folder = project().join("src");
    let files =
        files_below(&folder).into_iter().filter(|path| path.extension() == Some("rs".as_ref()));
    files.map(|path| Source::new(&path, &fs::read_to_string(folder.join(&path)).unwrap())).collect()
}

fn top_level_modules() -> Vec<String> {
    let lib = fs::read_to_string(project().join("src/lib.rs")).unwrap();
    let module = |line: &str| line.strip_prefix("pub mod ")?.strip_suffix(';').map(str::to_owned);
    lib.lines().filter_map(module).collect()
}

#[track_caller]
fn assert_none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n  {}", faults.join("\n  "));
}

#[test]
fn imports_are_found_in_every_form() {
    let check = |path: &str, code: &str, expected: &[&str]| {
        assert_eq!(Source::new(Path::new(path), code).imports(), expected, "{path}: {code}");
    };
    check("limiter/mod.rs", "use crate::rules::Entry;", &["rules"]);
    check(
        "limiter/mod.rs",
        "use crate::{clock::{A, B}, rules, envoy::X};",
        &["clock", "rules", "envoy"],
    );
    check(
        "limiter/mod.rs",
        "let x = crate::store::memory();\n  crate::config::load()",
        &["store", "config"],
    );
    check("limiter/mod.rs", "// crate::server\nuse mycrate::server;", &[]);
    check("limiter/mod.rs", "use super::server::Server;", &["server"]);
    check("limiter/account.rs", "use super::server::Server;", &[]);
    check("limiter/account.rs", "use super::super::server::Server;", &["server"]);
    check("limiter/account.rs", "use super::super::{server, cli};", &["server", "cli"]);
    check("main.rs", "tidegate::cli::run()", &["cli"]);
}

#[test]
fn the_map_lists_the_modules_in_the_order_of_the_layers() {
    let modules = top_level_modules();
    let places: Vec<usize> = modules.iter().map(|module| layer(module).expect(module)).collect();
    assert!(places.is_sorted(), "src/lib.rs: {modules:?}");
    for source in sources() {
        let known = source.room().is_none_or(|room| modules.iter().any(|module| module == room));
        assert!(known, "src/{} is in no module of the map", source.path.display());
    }
}

#[test]
fn imports_go_down_only() {
    let mut faults = Vec::new();
    for source in sources() {
        for import in source.imports() {
            if !may_import(source.room(), import) {
                faults.push(format!("src/{} names `{import}`", source.path.display()));
            }
        }
    }
    assert_none("imports that go up or sideways", &faults);
    assert!(may_import(Some("limiter"), "rules") && !may_import(Some("rules"), "limiter"));
    assert!(!may_import(Some("store"), "config"));
}

#[test]
fn foreign_names_stay_in_their_rooms() {
    let mut faults = Vec::new();
    for source in sources() {
        for (name, rooms) in KEPT_TO {
            let allowed = source.room().is_some_and(|room| rooms.contains(&room));
            let path = format!("{name}::");
            if !allowed && source.names(name) && source.code.contains(&path) {
                faults.push(format!("src/{} names `{name}`", source.path.display()));
            }
        }
    }
    assert_none("names that are kept to other rooms", &faults);
}

#[test]
fn pure_rooms_do_not_wait_lock_or_tell_the_time() {
    let mut faults = Vec::new();
    for source in sources() {
        if source.room().is_none_or(|room| !PURE.contains(&room)) {
            continue;
        }
        for (_, word) in words(&source.code).filter(|(_, word)| IMPURE.contains(word)) {
            faults.push(format!("src/{} names `{word}`", source.path.display()));
        }
    }
    assert_none("algorithm and rules are pure", &faults);
}

#[test]
fn every_source_file_says_first_what_it_holds() {
    let mut faults = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(project().join("src").join(&source.path)).unwrap();
        if !source.path.ends_with("tests.rs") && !text.starts_with("//! ") {
            faults.push(format!("src/{}", source.path.display()));
        }
    }
    assert_none("files without a first line that says what they hold", &faults);
}

#[test]
fn an_algorithm_has_a_file_of_its_name() {
    for name in [
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
        "token_bucket",
        "leaky_bucket",
    ] {
        let file = project().join("src/algorithm").join(name).with_extension("rs");
        assert!(file.is_file(), "{} is missing", file.display());
    }
}

#[test]
fn the_documents_speak_of_what_there_is() {
    let read = |name: &str| fs::read_to_string(project().join(name)).unwrap();
    let architecture = read("ARCHITECTURE.md");
    for module in top_level_modules() {
        assert!(architecture.contains(&module), "ARCHITECTURE.md does not name `{module}`");
    }
    let readme = read("README.md");
    for subject in [
        "cargo run --release",
        "config/policies",
        "config/idempotency.yaml",
        "Dockerfile",
        "charts/tidegate",
        "examples/envoy",
        "examples/kubernetes",
        "examples/prometheus",
        "examples/idempotency",
        "tests/run",
        "tidegate check",
    ] {
        assert!(readme.contains(subject), "README.md does not name `{subject}`");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut faults = Vec::new();
    for path in files_below(project()) {
        if path.extension() != Some("md".as_ref()) {
            continue;
        }
        let text = fs::read_to_string(project().join(&path)).unwrap();
        let folder = project().join(&path).parent().unwrap().to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !target.contains("://") && !leads_somewhere(&folder, &path, target) {
                faults.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert_none("links to files or sections that do not exist", &faults);
}

/// Whether a link of a document in a folder leads to a file, and to a section of it if it names one.
fn leads_somewhere(folder: &Path, document: &Path, target: &str) -> bool {
    let (file, section) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { project().join(document) } else { folder.join(file) };
    if section.is_empty() {
        return file.exists();
    }
    fs::read_to_string(file).is_ok_and(|text| markdown::anchors(&text).contains(section))
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let places = [
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/ro", "ot/"),
        concat!("/t", "mp/"),
    ];
    let mut faults = Vec::new();
    for path in files_below(project()) {
        let text = String::from_utf8_lossy(&fs::read(project().join(&path)).unwrap()).into_owned();
        for (line, number) in text.lines().zip(1..) {
            if places.iter().any(|place| line.contains(place)) {
                faults.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert_none("paths of one machine", &faults);
}
