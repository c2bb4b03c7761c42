//! Domains, each put together from one document or, if they may be merged, from several.

use super::fields::{At, Fields, Sink};
use super::level::{Seen, Walk};
use super::settings::Settings;
use super::unused::LimitNames;
use super::{Compiled, Document};
use crate::config::raw::{Place, shown};
use crate::config::report::{Fault, Severity};
use crate::config::shape::Level;
use crate::rules::{self, Defaults, Domain, Node, Rule, RuleSet};
use std::collections::HashMap;

/// Every domain that was found so far.
#[derive(Debug)]
pub(super) struct Domains<'a> {
    defaults: &'a Defaults,
    merge: bool,
    open: Vec<OpenDomain<'a>>,
    /// Places in `open`.
    by_name: HashMap<&'a str, usize, ahash::RandomState>,
    rules: Vec<Rule>,
    faults: Vec<Fault>,
    n_default_algorithm: usize,
}

/// A domain whose descriptors are still being read.
#[derive(Debug)]
pub(super) struct OpenDomain<'a> {
    name: &'a str,
    pub(super) at: At<'a>,
    pub(super) settings: Settings<'a>,
    pub(super) nodes: Vec<Node>,
    seen: Seen<'a>,
    pub(super) names: LimitNames<'a>,
}

/// A document that was understood so far that its descriptors can be read.
#[derive(Debug)]
pub(super) struct Part<'a> {
    document: &'a Document,
    fields: Fields<'a>,
    /// Its place in `open`.
    domain: usize,
}

impl<'a> Domains<'a> {
    pub(super) fn new(defaults: &'a Defaults, merge: bool) -> Self {
        Self {
            defaults,
            merge,
            open: Vec::new(),
            by_name: HashMap::default(),
            rules: Vec::new(),
            faults: Vec::new(),
            n_default_algorithm: 0,
        }
    }

    /// Reads all of a document but its descriptors.
    pub(super) fn read(&mut self, document: &'a Document) -> Option<Part<'a>> {
        let mut sink = Sink::new(&document.file);
        let fields = sink.fields(&document.raw, Level::Domain);
        let part = fields.map(|fields| {
            let domain = self.open(&mut sink, &fields);
            Part { document, fields, domain }
        });
        self.faults.append(&mut sink.faults);
        part
    }

    /// The place in `open` of the domain that a document belongs to. Where the domain is faulty
    /// the document gets one of its own, so that the faults of its descriptors are found as well.
    fn open(&mut self, sink: &mut Sink<'a>, fields: &Fields<'a>) -> usize {
        let settings = Settings::read(sink, fields);
        let (name, place) = name(sink, fields);
        if let Some(&first) = self.by_name.get(name)
            && let Some(domain) = self.open.get_mut(first)
        {
            if self.merge {
                domain.settings.join(sink, settings);
                return first;
            }
            sink.error(place, duplicate(name, &sink.words_for(domain.at)));
        } else if !name.is_empty() {
            self.by_name.insert(name, self.open.len());
        }
        let at = sink.at(place);
        let (nodes, seen, names) = (Vec::new(), Seen::default(), LimitNames::default());
        self.open.push(OpenDomain { name, at, settings, nodes, seen, names });
        self.open.len() - 1
    }

    /// Checks each domain as a whole.
    pub(super) fn check(&mut self) {
        for domain in &self.open {
            self.faults.extend(domain.settings.check().flat_map(|sink| sink.faults));
        }
    }

    /// Reads the descriptors of a document.
    pub(super) fn read_descriptors(&mut self, part: &Part<'a>) {
        let Some(domain) = self.open.get_mut(part.domain) else { return };
        let mut walk = Walk::new(
            &part.document.file,
            domain.name,
            domain.settings.defaults(self.defaults),
            domain.settings.algorithm.is_some(),
            &mut self.rules,
        );
        let nodes = walk.level(part.fields.get("descriptors"), &mut domain.seen);
        self.n_default_algorithm += walk.n_default_algorithm;
        self.faults.append(&mut walk.sink.faults);
        domain.names.take(&mut walk.sink);
        domain.nodes.extend(nodes);
    }

    pub(super) fn finish(self) -> Compiled {
        let Self { defaults, open, rules, mut faults, n_default_algorithm, .. } = self;
        // Where something is faulty, what it was to name may be missing only because of that.
        if faults.iter().all(|fault| fault.severity == Severity::Warning) {
            let unused = open.iter().flat_map(OpenDomain::check_unused);
            faults.extend(unused.flat_map(|sink| sink.faults));
        }
        let domains = open.into_iter().map(|domain| (domain.name.into(), domain.close(defaults)));
        let rules = RuleSet { domains: domains.collect(), rules };
        Compiled { rules, faults, n_default_algorithm }
    }
}

impl OpenDomain<'_> {
    fn close(self, defaults: &Defaults) -> Domain {
        Domain {
            name: self.name.into(),
            root: rules::Level::new(self.nodes),
            hash_tag: self.settings.hash_tag().iter().copied().map(Into::into).collect(),
            consume: self.settings.consume(),
            defaults: self.settings.defaults(defaults),
            denied: self.settings.denied(),
        }
    }
}

/// The name of a document's domain, empty if it is faulty, and where it stands.
fn name<'a>(sink: &mut Sink<'a>, fields: &Fields<'a>) -> (&'a str, Place) {
    let field = fields.get("domain");
    let place = field.map_or(fields.place, |field| field.key_place);
    let name = sink.text(field);
    if name.is_some_and(str::is_empty) || (field.is_none() && !fields.misspells("domain")) {
        sink.error(place, "config file cannot have empty domain, expected `domain: some-name`");
    }
    (name.unwrap_or_default(), place)
}

fn duplicate(name: &str, first: &str) -> String {
    format!(
        "duplicate domain '{}' in config file: it stands at {first} already; put its descriptors \
         there, or set MERGE_DOMAIN_CONFIG=true",
        shown(name)
    )
}
