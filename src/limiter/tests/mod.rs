//! The limiter through its own door, over a memory store and a clock that the tests hold.

mod accounting;
mod admin;
mod denying;
mod failing;
mod groups;
mod lists;
mod matching;
mod modes;
mod overrides;
mod replacing;
mod statuses;

use super::*;
use crate::algorithm::{Algorithm, Anchor, Charge};
use crate::clock::{ManualClock, Micros};
use crate::rules::{
    Allows, Consume, Defaults, Entry, FailureMode, Labels, Level, LimitParts, Map, Node, Rule,
    RuleId, Source, Unit, Value,
};
use crate::store::{FailingStore, MemoryConfig, MemoryStore};
use crate::telemetry::RuleSeries;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A limiter with everything around it.
struct House {
    limiter: Limiter,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
}

/// A domain as the tests write it.
struct Policy {
    name: &'static str,
    hash_tag: &'static [&'static str],
    consume: Consume,
    algorithm: Algorithm,
    rules: Vec<RuleDraft>,
}

/// A rule as the tests write it.
struct RuleDraft {
    /// `key=value/key/…`
    path: &'static str,
    allows: Allows,
    shadow: bool,
    quota: bool,
    detailed: bool,
    metadata: Option<Map>,
}

#[derive(Clone)]
struct LimitDraft(LimitParts);

const OPTIONS: Options = Options {
    shadow_mode: false,
    quota_mode: false,
    near_limit_ratio: 0.8,
    stop_when_over_limit: false,
};

/// The start of a week, and so of every shorter window.
const START: Micros = Micros::from_secs(604_800 * 2_900);

impl House {
    fn new(policies: impl IntoIterator<Item = Policy>) -> Self {
        Self::with(OPTIONS, policies)
    }

    fn with(options: Options, policies: impl IntoIterator<Item = Policy>) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let config = MemoryConfig { max_buckets: 100_000 };
        let store = MemoryStore::new(config, Arc::<ManualClock>::clone(&clock));
        let metrics = Metrics::new(1000);
        let limiter = Limiter::new(Store::Memory(store), Arc::clone(&metrics), options);
        let house = Self { limiter, clock, metrics };
        house.install(policies);
        house
    }

    /// A house whose store can fail.
    fn failing(stand_in: StandInOptions, policies: impl IntoIterator<Item = Policy>) -> Self {
        let House { clock, metrics, .. } = Self::new([]);
        let config = MemoryConfig { max_buckets: 100_000 };
        let memory = MemoryStore::new(config, Arc::<ManualClock>::clone(&clock));
        let store = Store::Failing(FailingStore::new(memory));
        let stand_in = StandIn::new(stand_in, Arc::<ManualClock>::clone(&clock));
        let limiter = Limiter::new(store, Arc::clone(&metrics), OPTIONS).with_stand_in(stand_in);
        let house = Self { limiter, clock, metrics };
        house.install(policies);
        house
    }

    fn failing_store(&self) -> &FailingStore {
        match self.limiter.store() {
            Store::Failing(store) => store,
            Store::Memory(_) | Store::Redis(_) => panic!("this store never fails"),
        }
    }

    /// From now on keys that hold these texts fail.
    fn fail(&self, dead: &[&'static str]) -> &Self {
        let dead: Vec<_> = dead.iter().map(|text| (*text, StoreError::Timeout)).collect();
        self.failing_store().fail(&dead);
        self
    }

    fn install(&self, policies: impl IntoIterator<Item = Policy>) {
        let mut rules = RuleSet::default();
        for policy in policies {
            policy.compile(&mut rules);
        }
        self.limiter.install(rules);
    }

    fn at(&self, seconds: u64) -> &Self {
        self.clock.set(START.saturating_add(Micros::from_secs(seconds)));
        self
    }

    fn ask<'a>(&self, descriptors: impl IntoIterator<Item = Descriptor<'a>>) -> Response {
        self.ask_domain("d", descriptors).unwrap()
    }

    fn ask_domain<'a>(
        &self,
        domain: &'a str,
        descriptors: impl IntoIterator<Item = Descriptor<'a>>,
    ) -> Result<Response, Error> {
        let request = Request { domain, descriptors: descriptors.into_iter().collect() };
        at_once(self.limiter.decide(&request, None))
    }

    /// Whether each of `n` requests passes: `+` or `-`.
    fn passes(&self, descriptor: &Descriptor<'_>, n: usize) -> String {
        (0..n).map(|_| sign(self.ask([descriptor.clone()]).code)).collect()
    }

    /// Hits that a bucket holds now.
    fn used(&self, entries: &str) -> Vec<u64> {
        let entries = of(entries).entries;
        let views = at_once(self.limiter.inspect("d", &entries)).unwrap();
        views.iter().map(|view| view.used).collect()
    }

    fn series(&self, levels: &[&'static str]) -> Arc<RuleSeries> {
        self.metrics.rule_series(&Labels::new("d", levels.iter().copied()))
    }
}

/// The memory store never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing in memory waits"),
    }
}

fn sign(code: Code) -> char {
    match code {
        Code::Ok => '+',
        Code::OverLimit => '-',
    }
}

/// Codes of all statuses, as [`House::passes`] writes them.
fn signs(response: &Response) -> String {
    response.statuses.iter().map(|status| sign(status.code)).collect()
}

fn domain(rules: impl IntoIterator<Item = RuleDraft>) -> Policy {
    Policy {
        name: "d",
        hash_tag: &[],
        consume: Consume::Each,
        algorithm: Algorithm::FixedWindow(Anchor::Epoch),
        rules: rules.into_iter().collect(),
    }
}

fn rule(path: &'static str, limits: impl IntoIterator<Item = LimitDraft>) -> RuleDraft {
    let limits = limits.into_iter().map(|draft| draft.0.build().unwrap());
    RuleDraft {
        path,
        allows: Allows::Limits(limits.collect()),
        shadow: false,
        quota: false,
        detailed: false,
        metadata: None,
    }
}

fn unlimited(path: &'static str, name: &str, replaces: &[&str]) -> RuleDraft {
    let replaces = replaces.iter().map(|name| Box::from(*name)).collect();
    RuleDraft { allows: Allows::Unlimited { name: name.into(), replaces }, ..rule(path, []) }
}

fn defaults() -> Defaults {
    Defaults::default()
}

fn per(requests: u32, unit: Unit) -> LimitDraft {
    LimitDraft(LimitParts {
        requests,
        unit,
        unit_multiplier: 1,
        defaults: defaults(),
        name: "".into(),
        replaces: Box::default(),
    })
}

impl Policy {
    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn tagged(self, hash_tag: &'static [&'static str]) -> Self {
        Self { hash_tag, ..self }
    }

    fn all_or_nothing(self) -> Self {
        Self { consume: Consume::AllOrNothing, ..self }
    }

    fn compile(self, rules: &mut RuleSet) {
        let mut root = Vec::new();
        for draft in self.rules {
            let id = RuleId(u32::try_from(rules.rules.len()).unwrap());
            plant(&mut root, draft.path.split('/'), id);
            rules.rules.push(draft.compile(self.name, u32::try_from(rules.rules.len()).unwrap()));
        }
        let domain = Domain {
            name: self.name.into(),
            root: Level::new(root),
            hash_tag: self.hash_tag.iter().map(|key| Box::from(*key)).collect(),
            consume: self.consume,
            defaults: Defaults { algorithm: self.algorithm, ..defaults() },
            denied: None,
        };
        rules.domains.insert(self.name.into(), domain);
    }
}

fn plant<'a>(nodes: &mut Vec<Node>, mut path: impl Iterator<Item = &'a str> + Clone, rule: RuleId) {
    let Some(step) = path.next() else { return };
    let (key, value) = step.split_once('=').map_or((step, None), |(k, v)| (k, Some(v)));
    let place = nodes.iter().position(|node| *node.key == *key && node.value.as_deref() == value);
    let mut node = place.map_or_else(
        || Node { key: key.into(), value: value.map(Box::from), ..Node::default() },
        |place| nodes.remove(place),
    );
    if path.clone().next().is_none() {
        node.rule = Some(rule);
    } else {
        let mut children = copies(node.children.nodes());
        plant(&mut children, path, rule);
        node.children = Level::new(children);
    }
    nodes.push(node);
}

/// The nodes of a level, to be indexed anew with more of them.
fn copies(nodes: &[Node]) -> Vec<Node> {
    let copy = |node: &Node| Node {
        key: node.key.clone(),
        value: node.value.clone(),
        rule: node.rule,
        children: Level::new(copies(node.children.nodes())),
        ..Node::default()
    };
    nodes.iter().map(copy).collect()
}

impl RuleDraft {
    fn shadow(self) -> Self {
        Self { shadow: true, ..self }
    }

    fn quota(self) -> Self {
        Self { quota: true, ..self }
    }

    fn detailed(self) -> Self {
        Self { detailed: true, ..self }
    }

    fn metadata(self, key: &str, text: &str) -> Self {
        let map = Map::from([(key.to_owned(), Value::Text(text.to_owned()))]);
        Self { metadata: Some(map), ..self }
    }

    fn compile(self, domain: &str, line: u32) -> Rule {
        let levels: Vec<String> =
            self.path.split('/').map(|step| step.replacen('=', "_", 1)).collect();
        let labels = Labels::new(domain, levels.iter().map(String::as_str));
        Rule {
            source: Source { file: "test.yaml".into(), line },
            path: format!("{domain}.{}", levels.join(".")).into(),
            allows: self.allows,
            shadow_mode: self.shadow,
            quota_mode: self.quota,
            detailed_metric: self.detailed,
            metadata: self.metadata.map(Arc::new),
            labels,
            labels_vary: self.detailed,
        }
    }
}

impl LimitDraft {
    fn by(mut self, algorithm: Algorithm) -> Self {
        self.0.defaults.algorithm = algorithm;
        self
    }

    fn times(mut self, unit_multiplier: u32) -> Self {
        self.0.unit_multiplier = unit_multiplier;
        self
    }

    fn burst(mut self, burst: u32) -> Self {
        self.0.defaults.burst = Some(burst);
        self
    }

    fn count_denied(mut self, count_denied: bool) -> Self {
        self.0.defaults.count_denied = Some(count_denied);
        self
    }

    fn failing(mut self, mode: FailureMode) -> Self {
        self.0.defaults.failure_mode = mode;
        self
    }

    fn named(mut self, name: &str) -> Self {
        self.0.name = name.into();
        self
    }

    fn replaces(mut self, names: &[&str]) -> Self {
        self.0.replaces = names.iter().map(|name| Box::from(*name)).collect();
        self
    }
}

/// A descriptor of one hit: `key=value,key=value`.
fn of(entries: &str) -> Descriptor<'_> {
    let entries = entries.split(',').filter(|text| !text.is_empty());
    Descriptor {
        entries: entries.filter_map(split).collect(),
        charge: Charge::Take(1),
        limit_override: None,
    }
}

fn split(text: &str) -> Option<Entry<'_>> {
    text.split_once('=').map(|(key, value)| Entry { key, value })
}

impl Descriptor<'_> {
    fn hits(self, hits: u64) -> Self {
        Self { charge: Charge::Take(hits), ..self }
    }

    fn peek(self) -> Self {
        Self { charge: Charge::Peek, ..self }
    }

    fn refund(self, hits: u64) -> Self {
        Self { charge: Charge::Refund(hits), ..self }
    }

    fn limited(self, requests: u32, unit: Unit) -> Self {
        let limit_override = Some(Override { requests, unit, unit_multiplier: 0 });
        Self { limit_override, ..self }
    }
}
