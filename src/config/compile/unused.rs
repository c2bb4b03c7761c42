//! Names that a domain uses and nothing has, and a domain in which nothing is limited: most often a
//! mistake in writing.

use super::domain::OpenDomain;
use super::fields::{At, Sink};
use crate::config::nearest::{hint, nearest};
use crate::config::raw::shown;
use crate::rules::Node;
use std::collections::BTreeSet;

/// The names of a domain's limits, as they are given and as they are used.
#[derive(Debug, Default)]
pub(super) struct LimitNames<'a> {
    given: BTreeSet<&'a str>,
    /// What `replaces` names, and where.
    replaced: Vec<(At<'a>, &'a str)>,
}

impl<'a> LimitNames<'a> {
    /// Takes over what was found in a document.
    pub(super) fn take(&mut self, sink: &mut Sink<'a>) {
        let file = sink.file;
        self.given.extend(sink.named.drain(..));
        let replaced = sink.replaced.drain(..);
        self.replaced.extend(replaced.map(|(place, name)| (At { file, place }, name)));
    }
}

impl<'a> OpenDomain<'a> {
    /// Warns of what is named and is not there. To be asked for once all documents are read.
    pub(super) fn check_unused(&self) -> Vec<Sink<'a>> {
        let lost = self.names.replaced.iter().filter(|(_, name)| !self.names.given.contains(name));
        let lost = lost.map(|(at, name)| {
            let near = hint(nearest(name, self.names.given.iter().copied()));
            let name = shown(name);
            warning(
                *at,
                format!("`replaces` names `{name}`, which no limit of this domain is called{near}"),
            )
        });
        lost.chain(self.check_hash_tag()).chain(self.check_descriptors()).collect()
    }

    fn check_hash_tag(&self) -> impl Iterator<Item = Sink<'a>> {
        let mut keys = BTreeSet::new();
        collect_keys(&self.nodes, &mut keys);
        let has_any = keys.iter().any(|key| key.contains('*'));
        let lost = move |key: &&str| !has_any && !keys.contains(*key);
        self.settings.hash_tag_at().filter(move |(_, key)| lost(key)).map(|(at, key)| {
            let key = shown(key);
            let text = format!(
                "`hash_tag` names `{key}`, a key that no descriptor of this domain has: it ties \
                 only descriptors that bring a limit of their own"
            );
            warning(at, text)
        })
    }

    fn check_descriptors(&self) -> Option<Sink<'a>> {
        let text = "this domain has no descriptors: nothing in it is limited";
        self.nodes.is_empty().then(|| warning(self.at, text.to_owned()))
    }
}

fn warning(at: At<'_>, text: String) -> Sink<'_> {
    let mut sink = Sink::new(at.file);
    sink.warn(at.place, text);
    sink
}

fn collect_keys<'n>(nodes: &'n [Node], keys: &mut BTreeSet<&'n str>) {
    for node in nodes {
        keys.insert(&node.key);
        collect_keys(node.children.nodes(), keys);
    }
}
