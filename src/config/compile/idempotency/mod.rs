//! Idempotency policies: one document to one policy, in one walk that reports every fault.

mod check;
mod parts;
mod value;

use super::Document;
use super::fields::{Field, Fields, Sink};
use crate::config::raw::shown;
use crate::config::report::{Fault, Severity};
use crate::config::shape::Level;
use crate::rules::idempotency::{IdempotencyPolicy, IdempotentRoute, Matches};
use parts::Parts;
use std::collections::HashSet;
use std::sync::Arc;

/// What documents came to. The policy is whole only if no fault is an error.
#[derive(Debug)]
pub(in crate::config) struct Compiled {
    pub(in crate::config) policy: IdempotencyPolicy,
    pub(in crate::config) faults: Vec<Fault>,
}

/// Methods of a route that names none: those whose requests a client cannot simply repeat.
const METHODS: [&str; 2] = ["POST", "PATCH"];

/// The namespace of a policy that names none.
const NAMESPACE: &str = "default";

/// Whether a document is an idempotency policy.
pub(in crate::config) fn is_one(document: &Document) -> bool {
    document.raw.get("idempotency").is_some()
}

/// The fault of one that stands among rate-limit policies.
pub(in crate::config) fn refuse(document: &Document) -> Fault {
    let message = "this is an idempotency policy, which IDEMPOTENCY_CONFIG names: move it out of the \
                   folder of rate-limit policies";
    document.file.fault(Severity::Error, document.raw.place, message.to_owned())
}

/// Compiles the documents, of which there should be one.
pub(in crate::config) fn compile(documents: &[Document]) -> Compiled {
    let mut compiled = Compiled { policy: IdempotencyPolicy::default(), faults: Vec::new() };
    for (n, document) in documents.iter().enumerate() {
        let mut sink = Sink::new(&document.file);
        if n > 0 {
            let message = "a second idempotency policy: put all routes into one file";
            sink.error(document.raw.place, message);
        }
        if let Some(policy) = read(&mut sink, document) {
            compiled.policy = policy;
        }
        compiled.faults.append(&mut sink.faults);
    }
    compiled
}

fn read<'a>(sink: &mut Sink<'a>, document: &'a Document) -> Option<IdempotencyPolicy> {
    let top = sink.fields(&document.raw, Level::Top)?;
    let Some(field) = top.get("idempotency") else {
        if !top.misspells("idempotency") {
            sink.error(top.place, "this is no idempotency policy, expected `idempotency:`");
        }
        return None;
    };
    let fields = sink.fields(field.value, Level::Idempotency)?;
    let defaults = fields.get("defaults");
    let defaults = defaults
        .and_then(|field| sink.fields(field.value, Level::IdempotencyDefaults))
        .map(|fields| Parts::read(sink, &fields))
        .unwrap_or_default();
    let namespace = namespace(sink, fields.get("namespace"));
    let routes = routes(sink, &fields, &defaults);
    Some(IdempotencyPolicy { namespace: namespace.into(), routes: routes.into() })
}

fn namespace<'a>(sink: &mut Sink<'a>, field: Option<Field<'a>>) -> &'a str {
    let text = sink.text(field);
    if let (Some(field), Some("")) = (field, text) {
        sink.unexpected(field, "");
    }
    text.unwrap_or(NAMESPACE)
}

fn routes<'a>(
    sink: &mut Sink<'a>,
    fields: &Fields<'a>,
    defaults: &Parts,
) -> Vec<Arc<IdempotentRoute>> {
    let list = fields.get("routes");
    let items = sink.list(list);
    if items.is_empty() && !fields.misspells("routes") {
        let place = list.map_or(fields.place, |list| list.key_place);
        sink.error(place, "no route is protected, expected `routes:` with `- name: some-name`");
    }
    let mut names = HashSet::new();
    let mut route = |raw| {
        let fields = sink.fields(raw, Level::Route)?;
        let name = name(sink, &fields, &mut names);
        let matches = matches(sink, &fields);
        let parts = Parts::read(sink, &fields).over(defaults);
        parts.check(sink, fields.place);
        Some(Arc::new(parts.route(name?, matches)))
    };
    items.iter().filter_map(&mut route).collect()
}

/// A route's name, which is a label of its metrics.
fn name<'a>(
    sink: &mut Sink<'a>,
    fields: &Fields<'a>,
    names: &mut HashSet<&'a str>,
) -> Option<&'a str> {
    let Some(field) = fields.get("name") else {
        if !fields.misspells("name") {
            sink.error(fields.place, "route without a name, expected `name: some-name`");
        }
        return None;
    };
    let name = sink.text(Some(field))?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_part) {
        sink.unexpected(field, "");
    } else if !names.insert(name) {
        sink.error(field.key_place, format!("a second route of the name `{}`", shown(name)));
    }
    Some(name)
}

fn matches<'a>(sink: &mut Sink<'a>, fields: &Fields<'a>) -> Matches {
    let path = fields.get("path");
    let text = sink.text(path);
    if let (Some(field), Some(text)) = (path, text) {
        if !text.starts_with(['/', '*']) {
            sink.unexpected(field, ": it begins with `/`");
        } else if text.contains('?') {
            sink.unexpected(field, ": queries do not count in it");
        }
    }
    Matches {
        methods: sink
            .methods(fields.get("methods"))
            .unwrap_or_else(|| METHODS.map(Into::into).into()),
        path: text.map(Into::into),
        route_name: sink.text(fields.get("route_name")).map(Into::into),
    }
}
