//! What envoyproxy/ratelimit answers: a model of it that is written to be read beside its
//! documentation. It knows nothing of this server. Where this server differs on purpose, the model
//! decides as this server does and marks the difference.

use crate::asked::{Asked, Descriptor};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Where this server decides otherwise on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// A refused charge after the one that crosses the limit is not counted.
    RefusedAreNotCounted,
    /// Keys and values are compared one by one and not joined with `_`.
    PairsAreNotJoined,
    /// Two windows of different lengths never share a counter.
    WindowsHaveTheirOwnCounters,
    /// With `QUOTA_MODE`, a descriptor without a limit is no quota.
    UnlimitedIsNoQuota,
    /// Headers tell of the refusal to wait for longest, and not of the last.
    HeadersOfTheLongestWait,
    /// Refusals carry `retry-after`.
    RetryAfter,
    /// Metrics of an override name its keys and not its values.
    OverridesWithoutValues,
    /// All levels have labels, and a dot in a name shifts none.
    EveryLevelHasALabel,
}

impl Difference {
    pub(crate) const ALL: [Self; 8] = [
        Self::RefusedAreNotCounted,
        Self::PairsAreNotJoined,
        Self::WindowsHaveTheirOwnCounters,
        Self::UnlimitedIsNoQuota,
        Self::HeadersOfTheLongestWait,
        Self::RetryAfter,
        Self::OverridesWithoutValues,
        Self::EveryLevelHasALabel,
    ];

    /// How the row begins that tells of it in the migration table.
    pub(crate) fn row(self) -> &'static str {
        match self {
            Self::RefusedAreNotCounted => "| a refused charge (`fixed_window`) |",
            Self::PairsAreNotJoined => "| (`a`, `b_c`) and (`a_b`, `c`) |",
            Self::WindowsHaveTheirOwnCounters => {
                "| overrides of one descriptor in different units |"
            }
            Self::UnlimitedIsNoQuota => "| `QUOTA_MODE` and a descriptor without a rule |",
            Self::HeadersOfTheLongestWait => "| limit headers, when several refuse |",
            Self::RetryAfter => "| `retry-after` |",
            Self::OverridesWithoutValues => "| metric labels of an override |",
            Self::EveryLevelHasALabel => "| Prometheus |",
        }
    }
}

/// A policy file.
#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) domain: String,
    #[serde(default)]
    pub(crate) descriptors: Vec<Node>,
}

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as the policy language has it")]
pub(crate) struct Node {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: String,
    pub(crate) rate_limit: Option<RateLimit>,
    #[serde(default)]
    pub(crate) descriptors: Vec<Node>,
    #[serde(default)]
    pub(crate) shadow_mode: bool,
    #[serde(default)]
    pub(crate) quota_mode: bool,
    #[serde(default)]
    pub(crate) detailed_metric: bool,
    #[serde(default)]
    pub(crate) value_to_metric: bool,
    #[serde(default)]
    pub(crate) share_threshold: bool,
}

#[derive(Deserialize)]
pub(crate) struct RateLimit {
    #[serde(default)]
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) requests_per_unit: u32,
    #[serde(default)]
    pub(crate) unlimited: bool,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) replaces: Vec<Name>,
}

#[derive(Deserialize)]
pub(crate) struct Name {
    pub(crate) name: String,
}

/// Settings of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes {
    pub(crate) shadow: bool,
    pub(crate) quota: bool,
}

/// The answer to a request.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) over_limit: bool,
    pub(crate) statuses: Vec<Status>,
    /// Limit, remaining, reset and seconds to wait, so far as they are there.
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// The answer to a descriptor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Status {
    pub(crate) over_limit: bool,
    /// Requests, number of the unit, name.
    pub(crate) current_limit: Option<(u32, i32, String)>,
    pub(crate) remaining: u32,
    pub(crate) reset: Option<i64>,
}

/// A limit that applies to a descriptor.
#[derive(Clone)]
struct Limit {
    requests: u32,
    unit: i32,
    name: String,
    replaces: Vec<String>,
    unlimited: bool,
    shadow: bool,
    quota: bool,
    /// Levels of its name in metrics.
    stats: Vec<String>,
    /// What is shared among values, by the place of the entry.
    shared: Vec<Option<String>>,
}

/// The server.
pub(crate) struct Reference {
    file: File,
    modes: Modes,
    counters: BTreeMap<String, u64>,
    /// By family and levels: domain, then those of the path.
    pub(crate) stats: BTreeMap<(&'static str, Vec<String>), u64>,
    pub(crate) global_shadow_mode: u64,
    pub(crate) marks: BTreeSet<Difference>,
}

/// Seconds of each unit, by its number on the wire.
const UNITS: [(&str, i64); 8] = [
    ("", 0),
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
    ("month", 2_592_000),
    ("year", 31_536_000),
    ("week", 604_800),
];

fn seconds(unit: i32) -> i64 {
    UNITS[usize::try_from(unit).unwrap()].1
}

fn unit_number(word: &str) -> i32 {
    let place = UNITS.iter().position(|(unit, _)| *unit == word.to_lowercase()).unwrap();
    i32::try_from(place).unwrap()
}

impl Reference {
    pub(crate) fn new(file: File, modes: Modes) -> Self {
        Self {
            file,
            modes,
            counters: BTreeMap::new(),
            stats: BTreeMap::new(),
            global_shadow_mode: 0,
            marks: BTreeSet::new(),
        }
    }

    /// Answers at that Unix time.
    pub(crate) fn answer(&mut self, asked: &Asked, now: i64) -> Answer {
        let mut limits: Vec<Option<Limit>> = Vec::new();
        for descriptor in &asked.descriptors {
            limits.push(self.limit(&asked.domain, descriptor));
        }
        let replaced: Vec<String> =
            limits.iter().flatten().flat_map(|limit| limit.replaces.clone()).collect();
        for limit in &mut limits {
            if limit.as_ref().is_some_and(|one| !one.unlimited && replaced.contains(&one.name)) {
                *limit = None;
            }
        }
        let statuses: Vec<Status> = asked
            .descriptors
            .iter()
            .zip(&limits)
            .map(|(descriptor, limit)| match limit {
                None => Status::default(),
                Some(limit) if limit.unlimited => {
                    Status { remaining: u32::MAX, ..Status::default() }
                }
                Some(limit) => self.charge(asked, descriptor, limit, now),
            })
            .collect();
        let over_limit = self.overall(&statuses, &limits);
        let headers = self.headers(&statuses, &limits, over_limit);
        Answer { over_limit, statuses, headers }
    }

    fn limit(&mut self, domain: &str, descriptor: &Descriptor) -> Option<Limit> {
        if domain != self.file.domain {
            return None;
        }
        if let Some((requests, unit)) = descriptor.limit {
            self.marks.insert(Difference::OverridesWithoutValues);
            let keys = descriptor.entries.iter().map(|(key, _)| clean(key));
            return Some(Limit {
                requests,
                unit,
                name: String::new(),
                replaces: Vec::new(),
                unlimited: false,
                shadow: false,
                quota: false,
                stats: keys.collect(),
                shared: vec![None; descriptor.entries.len()],
            });
        }
        let (found, marks) = find(&self.file.descriptors, &descriptor.entries);
        self.marks.extend(marks);
        let path = found?;
        let node = path.last()?.0;
        let limit = node.rate_limit.as_ref()?;
        Some(Limit {
            requests: limit.requests_per_unit,
            unit: if limit.unlimited { 0 } else { unit_number(&limit.unit) },
            name: limit.name.clone(),
            replaces: limit.replaces.iter().map(|one| one.name.clone()).collect(),
            unlimited: limit.unlimited,
            shadow: node.shadow_mode,
            quota: node.quota_mode,
            stats: stats_levels(&path, &descriptor.entries),
            shared: path
                .iter()
                .map(|(node, by_pattern)| {
                    (*by_pattern && node.share_threshold).then(|| node.value.clone())
                })
                .collect(),
        })
    }

    fn charge(
        &mut self,
        asked: &Asked,
        descriptor: &Descriptor,
        limit: &Limit,
        now: i64,
    ) -> Status {
        let hits = descriptor.hits.unwrap_or_else(|| u64::from(asked.hits.max(1)));
        let length = seconds(limit.unit);
        let start = now / length * length;
        // Its own key is joined with `_` and holds no length: other windows may begin then, too.
        let mut key = format!("{}|", asked.domain);
        for ((name, value), shared) in descriptor.entries.iter().zip(&limit.shared) {
            key = format!("{key}{name}|{}|", shared.as_ref().unwrap_or(value));
        }
        let others = UNITS.iter().filter(|(_, other)| *other != length);
        for (unit, _) in others {
            if self.counters.contains_key(&format!("{key}{unit}|{start}")) {
                self.marks.insert(Difference::WindowsHaveTheirOwnCounters);
            }
        }
        key = format!("{key}{}|{start}", UNITS[usize::try_from(limit.unit).unwrap()].0);
        let before = self.counters.get(&key).copied().unwrap_or_default();
        let after = before + hits;
        let allowed = u64::from(limit.requests);
        if before > allowed && hits > 0 {
            self.marks.insert(Difference::RefusedAreNotCounted);
        } else {
            self.counters.insert(key, after);
        }
        self.count(&asked.domain, limit, hits, before, after);
        Status {
            over_limit: after > allowed && !limit.shadow,
            current_limit: Some((limit.requests, limit.unit, limit.name.clone())),
            remaining: u32::try_from(allowed.saturating_sub(after)).unwrap(),
            reset: Some(length - now % length),
        }
    }

    fn count(&mut self, domain: &str, limit: &Limit, hits: u64, before: u64, after: u64) {
        let allowed = u64::from(limit.requests);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as it does"
        )]
        let near = (limit.requests as f32 * 0.8).floor() as u64;
        self.add("total_hits", domain, limit, hits);
        if after <= allowed {
            if after > near {
                self.add(
                    "near_limit",
                    domain,
                    limit,
                    if before >= near { hits } else { after - near },
                );
            }
            self.add("within_limit", domain, limit, hits);
            return;
        }
        let over = if before >= allowed { hits } else { after - allowed };
        self.add("over_limit", domain, limit, over);
        if before < allowed {
            self.add("near_limit", domain, limit, allowed - near.max(before));
        }
        if limit.shadow {
            self.add("shadow_mode", domain, limit, over);
        }
    }

    fn add(&mut self, family: &'static str, domain: &str, limit: &Limit, hits: u64) {
        self.marks.insert(Difference::EveryLevelHasALabel);
        let levels = std::iter::once(clean(domain)).chain(limit.stats.iter().cloned());
        *self.stats.entry((family, levels.collect())).or_default() += hits;
    }

    fn overall(&mut self, statuses: &[Status], limits: &[Option<Limit>]) -> bool {
        let (mut enforced_over, mut n_quota, mut n_quota_over) = (false, 0, 0);
        for (status, limit) in statuses.iter().zip(limits) {
            if limit.as_ref().is_some_and(|limit| limit.unlimited) {
                continue;
            }
            if self.modes.quota && limit.is_none() {
                self.marks.insert(Difference::UnlimitedIsNoQuota);
                continue;
            }
            if is_quota(limit.as_ref(), self.modes) {
                n_quota += 1;
                n_quota_over += i32::from(status.over_limit);
            } else {
                enforced_over |= status.over_limit;
            }
        }
        let over = enforced_over || (n_quota > 0 && n_quota_over == n_quota);
        if over && self.modes.shadow {
            self.global_shadow_mode += 1;
            return false;
        }
        over
    }

    fn headers(
        &mut self,
        statuses: &[Status],
        limits: &[Option<Limit>],
        over_limit: bool,
    ) -> Vec<(&'static str, String)> {
        let mut chosen: Option<&Status> = None;
        for status in statuses.iter().filter(|status| status.current_limit.is_some()) {
            if chosen.is_none_or(|chosen| status.remaining < chosen.remaining) {
                chosen = Some(status);
            }
        }
        let refusing: Vec<&Status> = refusing(statuses, limits, self.modes);
        if refusing.len() > 1 {
            self.marks.insert(Difference::HeadersOfTheLongestWait);
        }
        let longest = refusing.iter().rev().max_by_key(|status| status.reset).copied();
        let chosen = longest.or(chosen);
        let Some(Status { current_limit: Some((requests, ..)), remaining, reset, .. }) = chosen
        else {
            return Vec::new();
        };
        let mut headers = vec![
            ("RateLimit-Limit", requests.to_string()),
            ("RateLimit-Remaining", remaining.to_string()),
            ("RateLimit-Reset", reset.unwrap().to_string()),
        ];
        if let Some(longest) = longest.filter(|_| over_limit) {
            self.marks.insert(Difference::RetryAfter);
            headers.push(("retry-after", longest.reset.unwrap().to_string()));
        }
        headers
    }
}

fn is_quota(limit: Option<&Limit>, modes: Modes) -> bool {
    modes.quota || limit.is_some_and(|limit| limit.quota)
}

/// The statuses that a refusal rests on: those that are enforced, and of the quotas, if all refuse,
/// the one to give way first.
fn refusing<'a>(statuses: &'a [Status], limits: &[Option<Limit>], modes: Modes) -> Vec<&'a Status> {
    let limited = || {
        statuses
            .iter()
            .zip(limits)
            .filter(|(_, limit)| limit.as_ref().is_some_and(|one| !one.unlimited))
    };
    let (quota, enforced): (Vec<_>, Vec<_>) =
        limited().partition(|(_, limit)| is_quota(limit.as_ref(), modes));
    let all_over = quota.iter().all(|(status, _)| status.over_limit);
    let first = quota.iter().map(|(status, _)| *status).min_by_key(|status| status.reset);
    let mut found: Vec<&Status> = first.into_iter().filter(|_| all_over).collect();
    found.extend(enforced.into_iter().map(|(status, _)| status).filter(|status| status.over_limit));
    found
}

/// The nodes of a path, and whether each was reached by its pattern.
type Path<'a> = Vec<(&'a Node, bool)>;

/// The nodes that a list of entries leads to: at each level the exact value, else the first pattern,
/// else the key alone. Where joining keys and values with `_` would lead elsewhere is marked.
fn find<'a>(
    nodes: &'a [Node],
    entries: &[(String, String)],
) -> (Option<Path<'a>>, Vec<Difference>) {
    let (mut level, mut path, mut marks) = (nodes, Path::new(), Vec::new());
    for (key, value) in entries {
        let joined = format!("{key}_{value}");
        let pairs = |node: &Node| &node.key == key && !node.value.is_empty();
        let exact = level.iter().find(|node| pairs(node) && node.value == *value);
        let by_pattern = level
            .iter()
            .find(|node| pairs(node) && node.value.contains('*') && matches(&node.value, value));
        let default = level.iter().find(|node| node.value.is_empty() && &node.key == key);
        let theirs = level.iter().find(|node| node.key_and_value() == joined);
        if theirs.is_some_and(|theirs| exact.is_none_or(|ours| !std::ptr::eq(ours, theirs))) {
            marks.push(Difference::PairsAreNotJoined);
        }
        let found = exact.or(by_pattern);
        let Some(node) = found.or(default) else { return (None, marks) };
        path.push((node, exact.is_none() && by_pattern.is_some()));
        level = &node.descriptors;
    }
    ((!path.is_empty()).then_some(path), marks)
}

impl Node {
    fn key_and_value(&self) -> String {
        if self.value.is_empty() {
            self.key.clone()
        } else {
            format!("{}_{}", self.key, self.value)
        }
    }
}

/// Tries every length of what each star stands for.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| matches(after, &rest[at..]))
        }),
    }
}

/// The levels of a rule's name in metrics: a shared pattern before all values, those of
/// `detailed_metric`, before `value_to_metric`.
fn stats_levels(path: &[(&Node, bool)], entries: &[(String, String)]) -> Vec<String> {
    let detailed = path.last().is_some_and(|(leaf, _)| leaf.detailed_metric);
    let any_shared = path.iter().any(|(node, by_pattern)| *by_pattern && node.share_threshold);
    let level = |((node, by_pattern), (key, value)): (&(&Node, bool), &(String, String))| {
        if *by_pattern && node.share_threshold {
            return format!("{key}_{}", node.value);
        }
        if detailed {
            let empty = value.is_empty() && any_shared;
            return if empty { key.clone() } else { format!("{key}_{value}") };
        }
        match (node.value_to_metric, *by_pattern, node.value.is_empty()) {
            (true, true, _) => format!("{key}_{value}"),
            (true, _, true) if !value.is_empty() => format!("{key}_{value}"),
            (_, _, true) => key.clone(),
            (_, _, false) => format!("{key}_{}", node.value),
        }
    };
    path.iter().zip(entries).map(level).map(|level| clean(&level)).collect()
}

/// Colons and bars become `_`, and so do dots of what looks like an IPv4 address.
fn clean(text: &str) -> String {
    let mut chars: Vec<char> = text.replace([':', '|'], "_").chars().collect();
    let mut from = 0;
    while from < chars.len() {
        let Some(dots) = address(&chars[from..]) else {
            from += 1;
            continue;
        };
        for dot in dots.0 {
            chars[from + dot] = '_';
        }
        from += dots.1;
    }
    chars.into_iter().collect()
}

/// The places of the dots in the address that a text begins with, and its length.
fn address(text: &[char]) -> Option<(Vec<usize>, usize)> {
    let (mut at, mut dots) = (0, Vec::new());
    for group in 0..4 {
        if group > 0 {
            (text.get(at) == Some(&'.')).then_some(())?;
            dots.push(at);
            at += 1;
        }
        let digits = text[at..].iter().take(3).take_while(|c| c.is_ascii_digit()).count();
        (digits > 0).then_some(())?;
        at += digits;
    }
    Some((dots, at))
}
