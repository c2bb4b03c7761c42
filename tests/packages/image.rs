//! The Dockerfile, as far as it can be known without an engine; `tests/run` builds it where one is.

use crate::support::tidegate::PROGRAM;
use crate::{project, read, run, succeeds};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Instructions with their arguments, comments dropped and lines joined.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile");
    let lines: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.trim().is_empty());
    let parts =
        |line: &str| line.split_once(' ').map(|(name, rest)| (name.into(), rest.trim().into()));
    lines.map(|line| parts(line).unwrap()).collect()
}

fn arguments_of(name: &str) -> Vec<String> {
    let of_name = instructions().into_iter().filter(|(instruction, _)| instruction == name);
    of_name.map(|(_, arguments)| arguments).collect()
}

/// What is copied from the project, and where to.
fn copied() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for arguments in arguments_of("COPY") {
        if arguments.starts_with("--from=") {
            continue;
        }
        let words: Vec<_> = arguments.split_whitespace().collect();
        let (to, from) = words.split_last().unwrap();
        all.extend(from.iter().map(|&from| (from.to_owned(), (*to).to_owned())));
    }
    assert!(all.len() > 5, "{all:?}");
    all
}

/// The files that a source of `COPY` means.
fn files(source: &str) -> Vec<PathBuf> {
    let (folder, ending) = source.split_once("/*").map_or((source, ""), |parts| parts);
    let path = project(folder);
    if ending.is_empty() {
        assert!(path.exists(), "{source} is not there");
        return vec![source.into()];
    }
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter(|name| name.to_str().unwrap().ends_with(ending));
    let files: Vec<_> = names.map(|name| Path::new(folder).join(name)).collect();
    assert!(!files.is_empty(), "{source} means nothing");
    files
}

/// The project as the image's build sees it.
fn context() -> TempDir {
    let context = TempDir::new().unwrap();
    for file in copied().iter().flat_map(|(source, _)| files(source)) {
        let target = context.path().join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        symlink(project(file.to_str().unwrap()), target).unwrap();
    }
    context
}

#[test]
fn what_is_copied_is_there_and_let_through() {
    let ignore = read(".dockerignore");
    let mut rules = ignore.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"), "everything is kept out first");
    let let_through: Vec<_> = rules.map(|rule| rule.strip_prefix('!').unwrap()).collect();
    let mut sources: Vec<_> = copied().into_iter().map(|(source, _)| source).collect();
    sources.sort();
    let mut expected = let_through.clone();
    expected.sort_unstable();
    assert_eq!(sources, expected);
    context();
}

#[test]
fn cargo_finds_what_it_needs_in_what_is_copied() {
    let context = context();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    succeeds(command.current_dir(context.path()));
    for source in included() {
        assert!(context.path().join(&source).exists(), "{} is not copied", source.display());
    }
}

/// Files outside of `src` that the program's sources hold.
fn included() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![project("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let names = text.split("include_str!(\"").skip(1);
                let names = names.map(|rest| rest.split('"').next().unwrap());
                found.extend(names.map(|name| folder.join(name).canonicalize().unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    let root = project("").canonicalize().unwrap();
    found.into_iter().map(|path| path.strip_prefix(&root).unwrap().to_owned()).collect()
}

#[test]
fn the_image_is_not_root_and_starts_the_program() {
    assert_eq!(arguments_of("USER"), ["65532:65532"]);
    assert_eq!(arguments_of("ENTRYPOINT"), ["[\"/bin/tidegate\"]"]);
    assert_eq!(arguments_of("EXPOSE"), ["8080 8081"]);
    let bases = arguments_of("FROM");
    let [build, base] = &bases[..] else { panic!("{bases:?}") };
    assert!(build.starts_with("--platform=$BUILDPLATFORM rust:"), "{build}");
    assert!(base.starts_with("gcr.io/distroless/cc-"), "{base}");
    let from_build: Vec<_> =
        arguments_of("COPY").into_iter().filter(|copy| copy.starts_with("--from=")).collect();
    assert_eq!(from_build, ["--from=build /image/ /bin/"]);
}

/// Where the policies of who comes from envoyproxy/ratelimit are is said by `RUNTIME_ROOT` and so on.
#[test]
fn the_image_says_nothing_of_policies_that_would_win_over_their_own() {
    assert_eq!(arguments_of("ENV"), Vec::<String>::new());
}

/// The links that the build makes beside the program.
fn links() -> Vec<String> {
    let build = arguments_of("RUN").join(" ");
    let links = build.split("ln -s tidegate /image/").skip(1);
    links.map(|rest| rest.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn the_links_are_the_server_and_the_checker_and_find_the_policies() {
    assert_eq!(links(), ["ratelimit", "ratelimit_config_check"]);
    let folder = TempDir::new().unwrap();
    for name in links() {
        symlink(PROGRAM, folder.path().join(name)).unwrap();
    }
    // The working directory of the image.
    let (source, target) =
        copied().into_iter().find(|(source, _)| source.starts_with("config")).unwrap();
    let policies = folder.path().join(target);
    fs::create_dir_all(policies.parent().unwrap()).unwrap();
    symlink(project(&source), &policies).unwrap();
    let here = |name: &str| {
        let mut command = Command::new(folder.path().join(name));
        command.env_clear().current_dir(folder.path());
        command
    };

    let printed = succeeds(here("ratelimit").arg("settings"));
    let default = printed.lines().find_map(|line| line.strip_prefix("policies: ")).unwrap();
    assert!(folder.path().join(default).is_dir(), "{default}");
    let checked = succeeds(here("ratelimit_config_check").args(["-config_dir", default]));
    assert!(checked.starts_with("ok: "), "{checked}");
    let (_, theirs) =
        run(here("ratelimit").arg("settings").env("RUNTIME_SUBDIRECTORY", "ratelimit"));
    let path = "policies: /srv/runtime_data/current/ratelimit/config\n";
    assert!(theirs.contains(path), "{theirs}");
}
