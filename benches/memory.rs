//! What the memory store takes of the machine: bytes per live bucket, and that a flood of made-up
//! values neither grows it nor frees who is limited. Asserts both; needs `/proc`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench reports to a person and stops where it fails"
)]

use std::fmt::Write;
use std::sync::Arc;
use tidegate::algorithm::{Algorithm, Charge, Limit};
use tidegate::clock::{Clock, Micros, SystemClock};
use tidegate::rules::KeyRange;
use tidegate::store::{Batch, BatchItem, BatchMember, MemoryConfig, MemoryStore};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BUCKETS: usize = 1_000_000;
const MAX_BYTES_PER_BUCKET: usize = 200;
const FLOOD: usize = 10_000_000;
const FLOOD_BOUND: usize = 100_000;
const MAX_GROWTH_BYTES: usize = 4 << 20;

const LIMIT: Limit = Limit {
    algorithm: Algorithm::TokenBucket,
    requests: 10,
    window: Micros::from_secs(86_400),
    burst: 10,
    count_denied: false,
};

fn main() {
    bytes_per_bucket();
    flood();
}

fn bytes_per_bucket() {
    let before = resident_bytes();
    let store = store(BUCKETS + BUCKETS / 4);
    let mut asked = Asked::new();
    let clock = SystemClock::new();
    let start = clock.now();
    for n in 0..BUCKETS {
        asked.hit(&store, n);
    }
    let took = clock.now().saturating_sub(start).0 * 1000 / u64::try_from(BUCKETS).unwrap();
    assert_eq!(store.live_buckets(), BUCKETS);
    let bytes = (resident_bytes() - before) / BUCKETS;
    let key = asked.key(0).len();
    println!("{bytes} bytes per live token bucket (keys of {key} bytes), {took} ns each to add");
    assert!(bytes <= MAX_BYTES_PER_BUCKET, "more than {MAX_BYTES_PER_BUCKET}");
    let start = clock.now();
    for n in 0..BUCKETS {
        asked.hit(&store, (n * 7919) % BUCKETS);
    }
    let took = clock.now().saturating_sub(start).0 * 1000 / u64::try_from(BUCKETS).unwrap();
    println!("{took} ns per hit on one of {BUCKETS} buckets, its key's text included");
}

fn flood() {
    let store = store(FLOOD_BOUND);
    let mut asked = Asked::new();
    for _ in 0..20 {
        asked.hit(&store, usize::MAX);
    }
    for n in 0..2 * FLOOD_BOUND {
        asked.hit(&store, n);
    }
    let before = resident_bytes();
    for n in 2 * FLOOD_BOUND..FLOOD {
        asked.hit(&store, n);
    }
    let growth = resident_bytes().saturating_sub(before);
    println!(
        "{growth} bytes more after {FLOOD} values at a bound of {FLOOD_BOUND}, {} evicted",
        store.evictions()
    );
    assert!(store.live_buckets() <= FLOOD_BOUND, "{} buckets", store.live_buckets());
    assert!(growth <= MAX_GROWTH_BYTES, "memory is not flat");
    assert!(!asked.hit(&store, usize::MAX), "the victim was let go");
    println!("the victim is still limited");
}

fn store(max_buckets: usize) -> MemoryStore {
    MemoryStore::new(MemoryConfig { max_buckets }, Arc::new(SystemClock::new()))
}

/// A request for one descriptor, used again.
struct Asked(Batch);

impl Asked {
    fn new() -> Self {
        let mut batch = Batch::default();
        let key = KeyRange { key: 0..0, tag: 0..0 };
        batch.items.push(BatchItem { key, limit: LIMIT, post_paid: false });
        batch.members.push(BatchMember { charge: Charge::Take(1), votes: true, items: 0..1 });
        batch.groups.push(0..1);
        Self(batch)
    }

    fn hit(&mut self, store: &MemoryStore, n: usize) -> bool {
        self.key(n);
        store.decide(&self.0)[0].allowed
    }

    /// A key as it is written for `remote_address` in a domain `edge`.
    fn key(&mut self, n: usize) -> &str {
        let Batch { keys, items, .. } = &mut self.0;
        keys.clear();
        write!(keys, "{{edge|remote_address=2001%3Adb8%3A%3A{n:x}").unwrap();
        let tag = 1..keys.len();
        keys.push_str("}:token_bucket/86400");
        items[0].key = KeyRange { key: 0..keys.len(), tag };
        keys
    }
}

#[expect(clippy::disallowed_methods, reason = "how much this process holds is not a setting")]
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}
