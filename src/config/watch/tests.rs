use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;
use tokio::time::timeout;

/// Less than [`POLL`]: what comes in time was told by an event.
const SOON: Duration = Duration::from_secs(4);

/// A folder in a folder, `policies/a.yaml` in it.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("policies")).unwrap();
    fs::write(folder.path().join("policies/a.yaml"), "a").unwrap();
    folder
}

/// Watches one path below `root` and expects a message after each of the changes.
async fn each_is_noticed(root: &Path, watched: &str, changes: &[&dyn Fn(&Path)]) {
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    let mut messages = watch(vec![root.join(watched)], &tasks, stop.clone()).await;
    for (n, change) in changes.iter().enumerate() {
        change(root);
        let message = timeout(SOON, messages.recv()).await;
        assert_eq!(message, Ok(Some(())), "change {n} was noticed");
    }
    stop.cancel();
    tasks.close();
    timeout(SOON, tasks.wait()).await.unwrap();
}

fn write(name: &'static str, text: &'static str) -> impl Fn(&Path) {
    move |root| fs::write(root.join(name), text).unwrap()
}

fn rename_over(name: &'static str, text: &'static str) -> impl Fn(&Path) {
    move |root| {
        let draft = root.join("draft.tmp");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, root.join(name)).unwrap();
    }
}

fn unlink_and_create(name: &'static str, text: &'static str) -> impl Fn(&Path) {
    move |root| {
        fs::copy(root.join(name), root.join("backup~")).unwrap();
        fs::remove_file(root.join(name)).unwrap();
        fs::write(root.join(name), text).unwrap();
    }
}

#[tokio::test]
async fn a_file_rewritten_in_place_is_noticed() {
    let changes: [&dyn Fn(&Path); 2] =
        [&write("policies/a.yaml", "b"), &write("policies/a.yaml", "c")];
    each_is_noticed(folder().path(), "policies", &changes).await;
    each_is_noticed(folder().path(), "policies/a.yaml", &changes).await;
}

#[tokio::test]
async fn a_file_renamed_over_another_is_noticed_every_time() {
    let changes: [&dyn Fn(&Path); 3] = [
        &rename_over("policies/a.yaml", "b"),
        &rename_over("policies/a.yaml", "c"),
        &write("policies/a.yaml", "d"),
    ];
    each_is_noticed(folder().path(), "policies", &changes).await;
    each_is_noticed(folder().path(), "policies/a.yaml", &changes).await;
}

#[tokio::test]
async fn an_editors_unlink_and_create_is_noticed() {
    let changes: [&dyn Fn(&Path); 2] =
        [&unlink_and_create("policies/a.yaml", "b"), &write("policies/a.yaml", "c")];
    each_is_noticed(folder().path(), "policies", &changes).await;
    each_is_noticed(folder().path(), "policies/a.yaml", &changes).await;
}

#[tokio::test]
async fn files_and_folders_that_come_and_go_are_noticed() {
    let changes: [&dyn Fn(&Path); 4] = [
        &write("policies/b.yaml", "b"),
        &|root| fs::create_dir(root.join("policies/more")).unwrap(),
        &write("policies/more/c.yaml", "c"),
        &|root| fs::remove_dir_all(root.join("policies/more")).unwrap(),
    ];
    each_is_noticed(folder().path(), "policies", &changes).await;
}

#[tokio::test]
async fn a_folder_that_is_removed_and_comes_back_is_noticed() {
    let changes: [&dyn Fn(&Path); 4] = [
        &|root| fs::remove_dir_all(root.join("policies")).unwrap(),
        &|root| fs::create_dir(root.join("policies")).unwrap(),
        &write("policies/b.yaml", "b"),
        &write("policies/b.yaml", "c"),
    ];
    each_is_noticed(folder().path(), "policies", &changes).await;
}

#[tokio::test]
async fn a_path_of_which_nothing_exists_yet_is_noticed_when_it_comes() {
    let changes: [&dyn Fn(&Path); 2] = [
        &|root| {
            fs::create_dir_all(root.join("x/y")).unwrap();
            fs::write(root.join("x/y/a.yaml"), "a").unwrap();
        },
        &write("x/y/a.yaml", "b"),
    ];
    each_is_noticed(folder().path(), "x/y/a.yaml", &changes).await;
}

#[tokio::test]
async fn a_folder_above_that_is_swapped_is_noticed() {
    let changes: [&dyn Fn(&Path); 2] = [
        &|root| {
            fs::rename(root.join("policies"), root.join("old")).unwrap();
            fs::create_dir_all(root.join("policies/deep")).unwrap();
        },
        &write("policies/deep/a.yaml", "a"),
    ];
    let folder = folder();
    fs::create_dir(folder.path().join("policies/deep")).unwrap();
    each_is_noticed(folder.path(), "policies/deep", &changes).await;
}

/// As the kubelet writes a `ConfigMap`: `a.yaml` → `..data/a.yaml`, `..data` → `..1`.
fn config_map(root: &Path) {
    fs::create_dir_all(root.join("mount/..1")).unwrap();
    fs::write(root.join("mount/..1/a.yaml"), "1").unwrap();
    symlink("..1", root.join("mount/..data")).unwrap();
    symlink("..data/a.yaml", root.join("mount/a.yaml")).unwrap();
}

fn swap_config_map(from: &'static str, to: &'static str) -> impl Fn(&Path) {
    move |root| {
        let mount = root.join("mount");
        fs::create_dir(mount.join(to)).unwrap();
        fs::write(mount.join(to).join("a.yaml"), to).unwrap();
        symlink(to, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
        fs::remove_dir_all(mount.join(from)).unwrap();
    }
}

#[tokio::test]
async fn a_config_map_that_kubernetes_swaps_is_noticed_every_time() {
    let changes: [&dyn Fn(&Path); 2] =
        [&swap_config_map("..1", "..2"), &swap_config_map("..2", "..3")];
    for watched in ["mount", "mount/a.yaml"] {
        let folder = folder();
        config_map(folder.path());
        each_is_noticed(folder.path(), watched, &changes).await;
    }
}

#[tokio::test]
async fn a_link_on_the_way_that_is_swapped_is_noticed() {
    let folder = folder();
    let root = folder.path();
    for release in ["r1/config", "r2/config"] {
        fs::create_dir_all(root.join(release)).unwrap();
        fs::write(root.join(release).join("a.yaml"), release).unwrap();
    }
    symlink("r1", root.join("current")).unwrap();
    let changes: [&dyn Fn(&Path); 2] = [
        &|root| {
            symlink("r2", root.join("next")).unwrap();
            fs::rename(root.join("next"), root.join("current")).unwrap();
        },
        &write("r2/config/a.yaml", "new"),
    ];
    each_is_noticed(root, "current/config", &changes).await;
}

#[test]
fn a_look_without_events_finds_every_change_too() {
    let folder = folder();
    let root = folder.path();
    config_map(root);
    let paths = [root.join("policies"), root.join("mount")];
    let mut last = Interests::of(&paths);
    let changes: [&dyn Fn(&Path); 5] = [
        &write("policies/a.yaml", "longer"),
        &rename_over("policies/a.yaml", "LONGER"),
        &write("policies/b.yaml", ""),
        &swap_config_map("..1", "..2"),
        &|root| fs::remove_dir_all(root.join("policies")).unwrap(),
    ];
    for (n, change) in changes.iter().enumerate() {
        change(root);
        let next = Interests::of(&paths);
        assert_ne!(next, last, "change {n}");
        last = next;
    }
    assert_eq!(Interests::of(&paths), last);
}

#[test]
fn only_what_lies_on_the_way_or_below_concerns() {
    let folder = folder();
    let root = folder.path();
    let interests = Interests::of(&[root.join("policies")]);
    for concerning in ["policies", "policies/a.yaml", "policies/new.yaml"] {
        assert!(interests.concern(&root.join(concerning)), "{concerning}");
    }
    assert!(interests.concern(root));
    for other in ["log.txt", "other/a.yaml", "policies2"] {
        assert!(!interests.concern(&root.join(other)), "{other}");
    }
}

#[test]
fn links_that_go_in_a_circle_end() {
    let folder = folder();
    let root = folder.path();
    symlink("b", root.join("a")).unwrap();
    symlink("a", root.join("b")).unwrap();
    symlink("..", root.join("policies/up")).unwrap();
    let interests = Interests::of(&[root.join("a"), root.join("policies")]);
    assert!(interests.concern(&root.join("a")));
}
