//! Policies inside of Kubernetes manifests: `check` looks into them, the server says what they are.

use super::compile::Document;
use super::raw::{Place, Raw, RawEntry, RawValue, shown};
use super::report::{Fault, Severity};
use super::source::SourceFile;
use super::yaml::{self, Parsed, Shift};
use std::sync::Arc;

/// What to do with a Kubernetes manifest among the policy files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manifests {
    /// Read the policies in it.
    Open,
    /// It is a fault.
    Refuse,
}

/// Reads the documents of a file.
pub(super) fn documents(
    file: &Arc<SourceFile>,
    manifests: Manifests,
    faults: &mut Vec<Fault>,
) -> Vec<Document> {
    let Parsed { documents, faults: broken } = yaml::parse(file.text(), Shift::default());
    if documents.is_empty() && broken.is_empty() {
        faults.push(Fault::of_file(Arc::clone(&file.name), EMPTY.to_owned()));
    }
    let mut reader = Reader { file, documents: Vec::new(), faults };
    reader.add_faults(broken);
    let holds_policies = documents
        .iter()
        .any(|raw| matches!(kind(raw), Some("ConfigMap" | "List" | "ConfigMapList")));
    for raw in documents {
        match (kind(&raw), manifests) {
            (None, _) => reader.add(raw),
            (Some("ConfigMap" | "List" | "ConfigMapList"), Manifests::Open) => reader.open(&raw),
            // A Deployment beside its ConfigMap.
            (Some(_), Manifests::Open) if holds_policies => {}
            (Some(kind), _) => reader.refuse(&raw, kind),
        }
    }
    reader.documents
}

const EMPTY: &str = "config file cannot have empty domain: there is nothing in this file";

struct Reader<'a> {
    file: &'a Arc<SourceFile>,
    documents: Vec<Document>,
    faults: &'a mut Vec<Fault>,
}

/// The kind of a Kubernetes object, if it is one.
fn kind(raw: &Raw) -> Option<&str> {
    raw.get("apiVersion")?;
    raw.get("kind")?.text()
}

impl Reader<'_> {
    fn add(&mut self, raw: Raw) {
        self.documents.push(Document { file: Arc::clone(self.file), raw });
    }

    fn add_faults(&mut self, faults: Vec<(Place, String)>) {
        let fault = |(place, message)| self.file.fault(Severity::Error, place, message);
        self.faults.extend(faults.into_iter().map(fault));
    }

    fn refuse(&mut self, raw: &Raw, kind: &str) {
        let message = if kind == "ConfigMap" {
            "this is a Kubernetes ConfigMap: mount it as a volume and load that folder, or run \
             `tidegate check` on it"
                .to_owned()
        } else {
            format!("this is a Kubernetes object of kind {}, not a policy file", shown(kind))
        };
        self.add_faults(vec![(raw.place, message)]);
    }

    fn open(&mut self, raw: &Raw) {
        if let Some(RawValue::List(items)) = raw.get("items").map(|items| &items.value) {
            for item in items {
                self.open(item);
            }
        }
        if let Some(RawValue::Map(entries)) = raw.get("data").map(|data| &data.value) {
            for entry in entries {
                self.open_file(entry);
            }
        }
    }

    /// Reads an embedded file with places that point into the manifest.
    fn open_file(&mut self, entry: &RawEntry) {
        let Some(text) = entry.value.text() else {
            let name = entry.key.described();
            let found = entry.value.described();
            let message = format!("the file {name} of this ConfigMap is {found}, expected a text");
            return self.add_faults(vec![(entry.key.place, message)]);
        };
        let Some(shift) = self.shift(entry.value.place, text) else {
            return self.open_unplaced(entry, text);
        };
        let Parsed { documents, faults } = yaml::parse(text, shift);
        self.add_embedded(entry, documents, faults);
    }

    /// A quoted or folded text: its lines are not the manifest's.
    fn open_unplaced(&mut self, entry: &RawEntry, text: &str) {
        let Parsed { documents, faults } = yaml::parse(text, Shift::default());
        let place = entry.value.place;
        let faults = faults.into_iter().map(|(inner, message)| {
            (place, format!("line {} of the embedded file: {message}", inner.line))
        });
        let faults = faults.collect();
        let documents = documents.into_iter().map(|mut document| {
            document.move_to(place);
            document
        });
        self.add_embedded(entry, documents.collect(), faults);
    }

    fn add_embedded(
        &mut self,
        entry: &RawEntry,
        documents: Vec<Raw>,
        faults: Vec<(Place, String)>,
    ) {
        if documents.is_empty() && faults.is_empty() {
            let name = entry.key.described();
            let message = format!("config file cannot have empty domain: {name} is empty");
            self.add_faults(vec![(entry.key.place, message)]);
        }
        self.add_faults(faults);
        for raw in documents {
            self.add(raw);
        }
    }

    /// How the lines of a literal block (`|`) lie in the manifest; none for a text of another
    /// style, unless its lines stand there as they are. The parser puts the block at its first
    /// line that is not blank.
    fn shift(&self, place: Place, text: &str) -> Option<Shift> {
        let n_blank = text.lines().take_while(|line| line.trim().is_empty()).count();
        let lines = place.line.checked_sub(1)?.checked_sub(u32::try_from(n_blank).ok()?)?;
        let shift = Shift { lines, columns: place.column.checked_sub(1)? };
        let n_columns = usize::try_from(shift.columns).ok()?;
        let stands = |(number, inner): (u32, &str)| {
            let outer = self.file.line(number).unwrap_or_default();
            outer.chars().skip(n_columns).eq(inner.chars())
        };
        (lines.checked_add(1)?..).zip(text.lines()).all(stands).then_some(shift)
    }
}
