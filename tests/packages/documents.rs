//! What the documents say of the program holds: their policies load, and what they name is there.

use crate::support::markdown::{Block, blocks};
use crate::support::tidegate::PROGRAM;
use crate::{project, read, reference, run, succeeds};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use tidegate::store::StoreError;

/// Words in capitals that are none of our settings.
const WORDS: [&str; 9] = [
    "BYTES_SENT",
    "DEADLINE_EXCEEDED",
    "DRAFT_VERSION_03",
    "DYNAMIC_METADATA",
    "GRPC_XDS_SOTW",
    "INVALID_ARGUMENT",
    "NOT_SERVING",
    "OVER_LIMIT",
    "STRICT_DNS",
];

/// The pages for users; the reference itself is compared with the code.
fn pages() -> Vec<String> {
    let names = fs::read_dir(project("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages = names.map(|name| format!("docs/{}", name.to_str().unwrap()));
    let mut pages: Vec<_> = pages.filter(|page| page != "docs/reference.md").collect();
    pages.push("README.md".to_owned());
    pages.sort();
    pages
}

/// What stands below a heading.
fn section(page: &str, heading: &str) -> String {
    let text = read(page);
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    below.split("\n## ").next().unwrap().to_owned()
}

/// The longest runs of such characters in a text.
fn runs(text: &str, of: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    text.split(move |c| !of(c)).filter(|run| !run.is_empty())
}

/// What the pages name and the program does not have. A name that ends with `_` stands for all that
/// begin so.
fn unknown(known: &BTreeSet<String>, names: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    let is_known = |name: &str| {
        known.contains(name)
            || (name.ends_with('_') && known.iter().any(|known| known.starts_with(name)))
    };
    let of_page = |page: String| -> Vec<_> {
        let names = names(&read(&page));
        assert!(!names.contains(&String::new()));
        let unknown = names.into_iter().filter(|name| !is_known(name));
        unknown.map(|name| format!("{page}: {name}")).collect()
    };
    pages().into_iter().flat_map(of_page).collect()
}

#[test]
fn every_policy_in_a_page_is_sound() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("policy.yaml");
    let mut n_policies = 0;
    for page in pages() {
        let text = read(&page);
        for Block { line, text, .. } in blocks(&text).iter().filter(|one| one.language == "yaml") {
            let value: Value = serde_saphyr::from_str(text)
                .unwrap_or_else(|error| panic!("{page}:{line}: {error}"));
            if value.get("domain").is_some() || value.get("idempotency").is_some() {
                fs::write(&file, text).unwrap();
                let mut check = Command::new(PROGRAM);
                let (output, printed) = run(check.args(["check", "--strict"]).arg(&file));
                assert!(output.status.success(), "{page}:{line}: {printed}");
                n_policies += 1;
            }
        }
    }
    assert!(n_policies > 15, "{n_policies}");
}

#[test]
fn every_setting_that_a_page_names_exists() {
    let mut known = reference::settings();
    known.extend(WORDS.map(str::to_owned));
    let names = |page: &str| {
        let words = runs(page, |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let names = words.filter(|word| {
            word.contains('_') && word.starts_with(|c: char| c.is_ascii_uppercase())
        });
        names.map(str::to_owned).collect()
    };
    let unknown = unknown(&known, names);
    assert!(unknown.is_empty(), "there are no such settings: {unknown:#?}");
}

#[test]
fn every_series_that_a_page_names_exists() {
    let mut known = reference::series();
    let histograms: Vec<_> =
        known.iter().filter_map(|name| name.strip_suffix("_bucket")).map(str::to_owned).collect();
    known.extend(histograms);
    let names = |page: &str| {
        let words = runs(page, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let ours =
            |word: &&str| word.starts_with("tidegate_") || word.starts_with("ratelimit_service_");
        words.filter(ours).map(str::to_owned).collect()
    };
    let unknown = unknown(&known, names);
    assert!(unknown.is_empty(), "there are no such series: {unknown:#?}");
}

#[test]
fn every_address_in_a_page_is_an_endpoint() {
    let endpoints = section("docs/reference.md", "Endpoints");
    let known = runs(&endpoints, |c| c.is_ascii_lowercase() || "/-".contains(c));
    let known: BTreeSet<_> = known.map(str::to_owned).collect();
    let names = |page: &str| {
        let behind = |port: &str| -> Vec<String> {
            let paths = page.split(port).skip(1);
            let path = |rest: &str| {
                rest.split(|c: char| !c.is_ascii_lowercase() && c != '-')
                    .next()
                    .map(|path| format!("/{path}"))
            };
            paths.filter_map(path).collect()
        };
        [behind("127.0.0.1:6070/"), behind("127.0.0.1:8080/")].concat()
    };
    let unknown = unknown(&known, names);
    assert!(unknown.is_empty(), "there are no such endpoints: {unknown:#?}");
}

#[test]
fn every_command_in_a_page_exists() {
    let mut commands = BTreeSet::new();
    for page in pages() {
        let text = read(&page);
        let inline = text.split('`').filter_map(|code| code.strip_prefix("tidegate "));
        let code = blocks(&text);
        let code = code.iter().filter(|block| ["sh", "console"].contains(&block.language));
        let lines = code.flat_map(|block| block.text.lines());
        let lines =
            lines.filter_map(|line| line.trim_start_matches("$ ").strip_prefix("tidegate "));
        let commands_only = inline.chain(lines).filter_map(|line| line.split('#').next());
        commands.extend(commands_only.map(str::to_owned));
    }
    assert!(commands.iter().any(|command| command.starts_with("explain")), "{commands:?}");
    for command in commands {
        // Flags and commands before it must be known.
        succeeds(Command::new(PROGRAM).args(command.split_whitespace()).arg("--help"));
    }
}

#[test]
fn the_page_about_incidents_explains_every_reason() {
    let section = section("docs/incidents.md", "Redis is down or slow");
    for reason in StoreError::ALL.map(StoreError::reason) {
        assert!(section.contains(&format!("`{reason}`")), "{reason} is not explained");
    }
}

#[test]
fn the_log_says_what_the_page_about_incidents_looks_for() {
    let table = section("docs/incidents.md", "It does not become ready");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let texts = rows.flat_map(|row| row.split('|').next().unwrap().trim_end().split('`'));
    let texts: Vec<_> = texts.filter(|text| text.contains(char::is_alphabetic)).collect();
    assert!(texts.len() > 4, "{texts:?}");
    let sources = ["reload", "stop", "filter"].map(|name| format!("src/server/{name}.rs"));
    let sources = sources.map(|path| read(&path)).concat() + &read("src/store/redis/health.rs");
    for text in texts {
        assert!(sources.contains(text), "the log never says `{text}`");
    }
}
