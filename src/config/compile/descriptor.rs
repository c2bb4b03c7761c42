//! One descriptor: its node, its rule, and what stands below it.

use super::fields::{Field, Fields};
use super::level::{Seen, Walk};
use crate::config::raw::{Raw, shown};
use crate::config::shape::Level;
use crate::rules::{self, Node, Rule, RuleId, Source};
use std::sync::Arc;

impl<'a> Walk<'a, '_> {
    /// Compiles a descriptor and all below it; none if it cannot stand where it does.
    pub(super) fn descriptor(&mut self, raw: &'a Raw, seen: &mut Seen<'a>) -> Option<Node> {
        let fields = self.sink.fields(raw, Level::Descriptor)?;
        let key = self.key(&fields);
        let value = self.sink.text(fields.get("value")).unwrap_or_default();
        let mut node = self.node(key.map_or("", |(_, key)| key), value, &fields);
        self.path.push(&node);
        let stands = key.is_some_and(|(field, key)| {
            self.check_strip_query(&node, (field, key), fields.get("strip_query"), seen);
            !self.is_duplicate(field, (key, value), &fields, seen)
        });
        self.check_share_threshold(&node, &fields);
        node.rule = self.rule(&fields, key.map(|(field, _)| field));
        let children = self.level(fields.get("descriptors"), &mut Seen::default());
        // A level that has faults may hold what an index cannot, and will not be used.
        node.children = rules::Level::new(children);
        self.path.pop();
        stands.then_some(node)
    }

    fn key(&mut self, fields: &Fields<'a>) -> Option<(Field<'a>, &'a str)> {
        let field = fields.get("key");
        if let Some(field) = field
            && let key = self.sink.text(Some(field))?
            && !key.is_empty()
        {
            return Some((field, key));
        }
        let place = field.map_or(fields.place, |field| field.key_place);
        if field.is_some() || !fields.misspells("key") {
            self.sink.error(place, "descriptor has empty key, expected `key: some-key`");
        }
        None
    }

    fn node(&mut self, key: &str, value: &str, fields: &Fields<'a>) -> Node {
        let sink = &mut self.sink;
        let mut flag = |name| sink.flag(fields.get(name)).unwrap_or_default();
        Node {
            key: key.into(),
            value: (!value.is_empty()).then(|| value.into()),
            rule: None,
            share_threshold: flag("share_threshold"),
            value_to_metric: flag("value_to_metric"),
            strip_query: flag("strip_query"),
            children: rules::Level::default(),
        }
    }

    fn check_share_threshold(&mut self, node: &Node, fields: &Fields<'a>) {
        if let Some(field) = fields.get("share_threshold")
            && node.share_threshold
            && !node.is_wildcard()
        {
            let message = format!(
                "share_threshold can only be used with wildcard values (containing '*'), but found \
                 key '{}'",
                shown(&node.label())
            );
            self.sink.error(field.key_place, message);
        }
    }

    fn rule(&mut self, fields: &Fields<'a>, key: Option<Field<'a>>) -> Option<RuleId> {
        let sink = &mut self.sink;
        let mut flag = |name| sink.flag(fields.get(name)).unwrap_or_default();
        let shadow_mode = flag("shadow_mode");
        let quota_mode = flag("quota_mode");
        let detailed_metric = flag("detailed_metric");
        let metadata = self.sink.metadata(fields.get("metadata")).map(Arc::new);
        let Some(limit) = fields.get("rate_limit") else {
            self.warn_of_no_limit(
                fields,
                &[("shadow_mode", shadow_mode), ("quota_mode", quota_mode)],
            );
            return None;
        };
        let allows = self.allows(limit)?;
        let id = RuleId(u32::try_from(self.rules.len()).ok()?);
        let file = Arc::clone(&self.sink.file.name);
        self.rules.push(Rule {
            source: Source { file, line: key.map_or(fields.place, |key| key.key_place).line },
            path: self.path.text().into(),
            allows,
            shadow_mode,
            quota_mode,
            detailed_metric,
            metadata,
            labels: self.path.labels(),
            labels_vary: self.path.labels_vary(detailed_metric),
        });
        Some(id)
    }

    fn warn_of_no_limit(&mut self, fields: &Fields<'a>, flags: &[(&str, bool)]) {
        for (name, _) in flags.iter().filter(|(_, set)| *set) {
            if let Some(field) = fields.get(name) {
                let message = format!("`{name}` has no effect without a `rate_limit`");
                self.sink.warn(field.key_place, message);
            }
        }
    }
}
