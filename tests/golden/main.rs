//! The golden set: thousands of random requests over thirty policy files, answered as
//! envoyproxy/ratelimit answers them, metrics included; and the list of what differs on purpose.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed test should panic"
)]

mod asked;
mod reference;

use asked::Asked;
use fastrand::Rng;
use reference::{Answer, Difference, File, Modes, Reference, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::clock::{Clock, ManualClock, Micros};
use tidegate::config;
use tidegate::envoy::proto::{
    Code, Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
    RateLimitService,
};
use tidegate::envoy::{self, LimitHeaders, RateLimit};
use tidegate::limiter::{self, Limiter};
use tidegate::settings::Policies;
use tidegate::store::{MemoryConfig, MemoryStore, Store};
use tidegate::telemetry::Metrics;

/// Requests for each file in each of the modes.
const N_REQUESTS: usize = 40;

/// The server under test, with a clock that the test holds.
struct Server {
    service: Arc<RateLimit>,
    metrics: Arc<Metrics>,
    clock: Arc<ManualClock>,
}

impl Server {
    fn new(file: &Path, modes: Modes) -> Self {
        let clock = Arc::new(ManualClock::default());
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
        let store = MemoryStore::new(MemoryConfig { max_buckets: 100_000 }, shared);
        let metrics = Metrics::new(10_000);
        let options = limiter::Options {
            shadow_mode: modes.shadow,
            quota_mode: modes.quota,
            near_limit_ratio: 0.8,
            stop_when_over_limit: false,
        };
        let limiter = Limiter::new(Store::Memory(store), Arc::clone(&metrics), options);
        let policies = Policies { paths: vec![file.to_owned()], ..Policies::default() };
        let loaded = config::load(&tidegate::server::config_options(&policies)).unwrap();
        limiter.install(loaded.rules);
        let options =
            envoy::Options { limit_headers: Some(LimitHeaders::default()), ..Default::default() };
        let service = RateLimit::new(Arc::new(limiter), Arc::clone(&metrics), options);
        Self { service: Arc::new(service), metrics, clock }
    }

    async fn answer(&self, asked: &Asked, now: Micros) -> Answer {
        self.clock.set(now);
        let asked = tonic::Request::new(message(asked));
        read(self.service.should_rate_limit(asked).await.unwrap().get_ref())
    }

    /// What rules have counted, by family and levels.
    fn stats(&self) -> BTreeMap<(String, Vec<String>), u64> {
        let text = self.metrics.render();
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("ratelimit_service_rate_limit_"));
        lines.map(sample).filter(|(_, value)| *value > 0).collect()
    }
}

fn message(asked: &Asked) -> RateLimitRequest {
    let descriptors = asked.descriptors.iter().map(|from| RateLimitDescriptor {
        entries: from
            .entries
            .iter()
            .map(|(key, value)| Entry { key: key.clone(), value: value.clone() })
            .collect(),
        hits_addend: from.hits,
        limit: from.limit.map(|(requests_per_unit, unit)| RateLimitOverride {
            requests_per_unit,
            unit,
            ..RateLimitOverride::default()
        }),
        ..RateLimitDescriptor::default()
    });
    RateLimitRequest {
        domain: asked.domain.clone(),
        hits_addend: asked.hits,
        descriptors: descriptors.collect(),
    }
}

fn read(from: &RateLimitResponse) -> Answer {
    let names = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "retry-after"];
    let name = |found: &str| *names.iter().find(|name| **name == found).unwrap();
    let headers = from.response_headers_to_add.iter();
    let statuses = from.statuses.iter().map(|status| Status {
        over_limit: status.code() == Code::OverLimit,
        current_limit: status
            .current_limit
            .as_ref()
            .map(|limit| (limit.requests_per_unit, limit.unit, limit.name.clone())),
        remaining: status.limit_remaining,
        reset: status.duration_until_reset.map(|reset| reset.seconds),
    });
    Answer {
        over_limit: from.overall_code() == Code::OverLimit,
        statuses: statuses.collect(),
        headers: headers.map(|header| (name(&header.key), header.value.clone())).collect(),
    }
}

/// `total_hits{domain="d",key1="a",key2="",key3=""} 5`: the levels are those that are not empty.
fn sample(line: &str) -> ((String, Vec<String>), u64) {
    let (family, rest) = line.split_once('{').unwrap();
    let (labels, value) = rest.rsplit_once("} ").unwrap();
    let label = |name: &str| {
        let from = labels.split(&format!("{name}=\"")).nth(1).unwrap();
        from.split('"').next().unwrap().to_owned()
    };
    let levels = ["domain", "key1", "key2", "key3"].map(label);
    let levels = levels.into_iter().filter(|level| !level.is_empty()).collect();
    ((family.to_owned(), levels), value.parse().unwrap())
}

/// As labels show the levels of a rule: all from the third on are one.
fn labelled(
    stats: &BTreeMap<(&'static str, Vec<String>), u64>,
) -> BTreeMap<(String, Vec<String>), u64> {
    let mut labelled = BTreeMap::new();
    for ((family, levels), value) in stats.iter().filter(|(_, value)| **value > 0) {
        let (first, deeper) = levels.split_at(levels.len().min(3));
        let mut levels = first.to_vec();
        if !deeper.is_empty() {
            levels.push(deeper.join("."));
        }
        *labelled.entry(((*family).to_owned(), levels)).or_default() += value;
    }
    labelled
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Most often within a second of the last, sometimes in another window.
fn later(rng: &mut Rng, now: Micros) -> Micros {
    let most = [300_000, 300_000, 1_000_000, 5_000_000, 90_000_000][rng.usize(..5)];
    let most = if rng.u8(..60) == 0 { 100_000_000_000 } else { most };
    Micros(now.0 + rng.u64(..most))
}

/// Asks both for the same; what the model marked on the way.
async fn compare(file: &Path, modes: Modes, seed: u64) -> BTreeSet<Difference> {
    let read = |file: &Path| -> File {
        serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    };
    let (server, mut model) = (Server::new(file, modes), Reference::new(read(file), modes));
    let (policy, mut rng) = (read(file), Rng::with_seed(seed));
    let mut now = Micros(1_700_000_000_000_000 + rng.u64(..1_000_000_000_000));
    for n in 0..N_REQUESTS {
        let asked = asked::request(&mut rng, &policy);
        now = later(&mut rng, now);
        let expected = model.answer(&asked, i64::try_from(now.0 / 1_000_000).unwrap());
        let found = server.answer(&asked, now).await;
        let place = format!("{}, {modes:?}, request {n} at {now:?}: {asked:#?}", file.display());
        assert_eq!(found, expected, "{place}");
    }
    assert_eq!(server.stats(), labelled(&model.stats), "{}, {modes:?}", file.display());
    assert_eq!(server.metrics.global_shadow_mode.get(), model.global_shadow_mode);
    model.marks
}

#[tokio::test]
async fn answers_are_those_of_envoyproxy_ratelimit_but_for_what_differs_on_purpose() {
    let files = files();
    assert_eq!(files.len(), 30);
    let mut marks = BTreeSet::new();
    for (file, seed) in files.iter().zip(0..) {
        let modes = [(false, false), (true, false), (false, true)];
        for ((shadow, quota), turn) in modes.into_iter().zip(0..) {
            marks.extend(compare(file, Modes { shadow, quota }, 3 * seed + turn).await);
        }
    }
    let all = BTreeSet::from(Difference::ALL);
    assert_eq!(
        marks, all,
        "every difference occurs, so that the list is not longer than the truth"
    );
}

#[test]
fn every_difference_stands_in_the_migration_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/migrating.md");
    let page = fs::read_to_string(page).unwrap();
    for difference in Difference::ALL {
        let row = difference.row();
        assert!(page.contains(row), "docs/migrating.md has no row that begins with `{row}`");
    }
}
