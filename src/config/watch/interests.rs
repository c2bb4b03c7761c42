//! What to watch for a path: every name on the way to it, through every link, and all below it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// More links or folders inside each other are a loop.
const MAX_DEPTH: usize = 64;

/// What paths lead to, as of now. Two that are equal lead to the same files with the same content,
/// as far as can be told without reading them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interests {
    /// Names that may come, go or be replaced. Kubernetes swaps a link somewhere on the way.
    names: BTreeSet<PathBuf>,
    /// Folders in which every name counts.
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Stamp>,
}

/// What changes when a file's content does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Interests {
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut interests = Self::default();
        for path in paths {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            interests.follow(&path, 0);
        }
        interests
    }

    /// Whether what happened at `path` may change the policies.
    pub(super) fn concern(&self, path: &Path) -> bool {
        self.names.contains(path)
            || self.folders.contains(path)
            || path.parent().is_some_and(|folder| self.folders.contains(folder))
    }

    /// Folders that exist and hold what matters.
    pub(super) fn folders_to_watch(&self) -> BTreeSet<PathBuf> {
        let holding = self.names.iter().filter_map(|name| name.parent());
        let holding = holding.filter(|folder| folder.is_dir()).map(Path::to_path_buf);
        holding.chain(self.folders.iter().cloned()).collect()
    }

    fn follow(&mut self, path: &Path, depth: usize) {
        let mut prefix = PathBuf::new();
        let mut components = path.components();
        while let Some(component) = components.next() {
            prefix.push(component);
            if !matches!(component, Component::Normal(_)) {
                continue;
            }
            self.names.insert(prefix.clone());
            if let Ok(target) = fs::read_link(&prefix) {
                prefix.pop();
                prefix.push(target);
                prefix.extend(components);
                return if depth < MAX_DEPTH {
                    self.follow(&prefix, depth + 1)
                };
            }
        }
        self.add(&prefix, depth);
    }

    /// Adds what is there; it is no link.
    fn add(&mut self, path: &Path, depth: usize) {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.add_folder(path, depth),
            Ok(metadata) => {
                self.files.insert(path.to_path_buf(), Stamp::of(&metadata));
            }
            // It may come: its name is watched.
            Err(_) => {}
        }
    }

    fn add_folder(&mut self, folder: &Path, depth: usize) {
        if depth >= MAX_DEPTH || !self.folders.insert(folder.to_path_buf()) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            // Such names are never policies, and what Kubernetes keeps there is reached by links.
            if entry.file_name().as_encoded_bytes().starts_with(b"..") {
                continue;
            }
            if is_link {
                self.follow(&entry.path(), depth + 1);
            } else {
                self.add(&entry.path(), depth + 1);
            }
        }
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
