//! Which files hold policies, and their text.

use super::raw::{Place, shown};
use super::report::{Fault, Severity};
use super::source::SourceFile;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Larger files are not policies.
const MAX_BYTES: u64 = 64 << 20;

/// Deeper folders are not read: they are a mistake, such as a mounted root.
const MAX_FOLDERS: usize = 32;

/// Reads every file that the paths name, in order. Those that cannot be read are faults.
pub(super) fn read(paths: &[PathBuf], ignore_dot_files: bool) -> (Vec<SourceFile>, Vec<Fault>) {
    let mut listing = Listing {
        ignore_dot_files,
        files: Vec::new(),
        seen: HashSet::new(),
        folders: Vec::new(),
        faults: Vec::new(),
    };
    for path in paths {
        listing.add(path);
    }
    let mut files = Vec::with_capacity(listing.files.len());
    for path in &listing.files {
        let file = read_file(path);
        listing.faults.extend(file.faults);
        files.extend(file.source);
    }
    (files, listing.faults)
}

/// What became of a file: its text, or what is wrong with it.
struct Outcome {
    source: Option<SourceFile>,
    faults: Vec<Fault>,
}

struct Listing {
    ignore_dot_files: bool,
    files: Vec<PathBuf>,
    /// Real paths: a file that is reached in two ways is read once.
    seen: HashSet<PathBuf>,
    /// Real paths of the folders that we are in: a link back to one of them is a loop.
    folders: Vec<PathBuf>,
    faults: Vec<Fault>,
}

impl Listing {
    /// Adds a file, or a folder with all that is in it.
    fn add(&mut self, path: &Path) {
        match fs::metadata(path).and_then(|metadata| Ok((metadata, fs::canonicalize(path)?))) {
            Ok((metadata, real)) if metadata.is_dir() => self.add_folder(path, real),
            Ok((metadata, real)) if metadata.is_file() => {
                if self.seen.insert(real) {
                    self.files.push(path.to_owned());
                }
            }
            // A socket or a pipe that lies in a folder is no policy; one that is named is wrong.
            Ok(_) if !self.folders.is_empty() => {}
            Ok(_) => self.fault(path, "neither a file nor a folder".to_owned()),
            Err(error) => self.fault(path, unreadable(&error)),
        }
    }

    fn add_folder(&mut self, path: &Path, real: PathBuf) {
        if self.folders.contains(&real) {
            return;
        }
        if self.folders.len() >= MAX_FOLDERS {
            let message = format!("folders are nested more than {MAX_FOLDERS} deep");
            return self.fault(path, message);
        }
        self.folders.push(real);
        match sorted(path) {
            Ok(children) => {
                for child in children {
                    if !self.skips(&child) {
                        self.add(&child);
                    }
                }
            }
            Err(error) => self.fault(path, unreadable(&error)),
        }
        self.folders.pop();
    }

    /// Kubernetes keeps the generations of a mounted `ConfigMap` under names that begin with `..`.
    fn skips(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if is_of_an_editor(name) {
            tracing::info!(file = %path.display(), "left behind by an editor, not read as a policy");
            return true;
        }
        name.starts_with(b"..") || (self.ignore_dot_files && name.starts_with(b"."))
    }

    fn fault(&mut self, path: &Path, message: String) {
        self.faults.push(Fault::of_file(path.display().to_string(), message));
    }
}

/// What editors write beside a file while they have it open: `p.yaml~`, `.p.yaml.swp`, `#p.yaml#`,
/// `.#p.yaml`, and vim's `4913`, which tells it whether it may write at all.
fn is_of_an_editor(name: &[u8]) -> bool {
    let is_vims = name.starts_with(b".") && matches!(name, [.., b'.', b's', b'w', b'a'..=b'z']);
    let is_emacs = name.starts_with(b".#") || (name.starts_with(b"#") && name.ends_with(b"#"));
    name.ends_with(b"~") || name == b"4913" || is_vims || is_emacs
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut children =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    children.sort();
    Ok(children)
}

fn unreadable(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "no such file or folder".to_owned();
    }
    format!("cannot be read: {error}")
}

fn read_file(path: &Path) -> Outcome {
    let name = path.display().to_string();
    match read_bytes(path).map_err(|error| unreadable(&error)).and_then(decode) {
        Ok(text) => checked(SourceFile::new(name, text)),
        Err(message) => Outcome { source: None, faults: vec![Fault::of_file(name, message)] },
    }
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// UTF-8 or UTF-16, with or without a byte order mark, as YAML says.
fn decode(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("larger than {} MiB, which no policy file is", MAX_BYTES >> 20));
    }
    match bytes.as_slice() {
        [0xFF, 0xFE, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => decode_utf8(rest.to_vec()),
        _ => decode_utf8(bytes),
    }
}

fn decode_utf8(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.contains(&0) {
        return Err("a binary file, expected YAML".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.split(|byte| *byte == b'\n').count();
        format!("not UTF-8 text: line {line} holds a byte that is none; expected YAML in UTF-8")
    })
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    String::from_utf16(&units).map_err(|_| "not UTF-16 text in spite of its first bytes".to_owned())
}

/// YAML allows no control characters but tab and line breaks.
fn checked(source: SourceFile) -> Outcome {
    let Some((place, char)) = first_control(source.text()) else {
        return Outcome { source: Some(source), faults: Vec::new() };
    };
    let message =
        format!("the control character {} is not allowed in YAML", shown(&char.to_string()));
    Outcome { faults: vec![source.fault(Severity::Error, place, message)], source: None }
}

fn first_control(text: &str) -> Option<(Place, char)> {
    let forbidden =
        |char: char| char.is_control() && !matches!(char, '\t' | '\n' | '\r' | '\u{85}');
    let (index, char) = text.char_indices().find(|(_, char)| forbidden(*char))?;
    let before = text.get(..index)?;
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|char| *char != '\n').count() + 1;
    Some((Place { line: line.try_into().ok()?, column: column.try_into().ok()? }, char))
}
