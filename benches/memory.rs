//! What the memory stores take of the machine: bytes per live bucket, and that a flood of made-up
//! values neither grows it nor frees who is limited; bytes per operation, and that no more are counted
//! against the bound than it takes. Asserts all of it; needs `/proc`.

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
use std::time::Duration;
use tidegate::algorithm::{Algorithm, Charge, Limit};
use tidegate::clock::{Clock, Micros, SystemClock};
use tidegate::idempotency::{
    Claim, Fingerprint, MemoryBounds, OperationId, Outcome, Owner, Records, StoredAnswer, Terms,
    Written,
};
use tidegate::rules::{KeyRange, OnLeaseExpired};
use tidegate::store::{Batch, BatchItem, BatchMember, MemoryConfig, MemoryStore};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// So many that their tables have just grown.
const OPERATIONS: usize = 60_000;
const RETENTION: Duration = Duration::from_secs(3600);
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
    for answer in [None, Some(0), Some(20), Some(1000)] {
        bytes_per_operation(answer);
    }
    bytes_per_bucket();
    flood();
}

/// With an answer of so many bytes, or still running.
fn bytes_per_operation(answer: Option<usize>) {
    let before = resident_bytes();
    let bounds = MemoryBounds { max_records: OPERATIONS, max_bytes: usize::MAX };
    let records = Records::in_memory(bounds, Arc::new(SystemClock::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for n in 0..OPERATIONS {
            let claim = claim(n);
            let fence = records.claim(&claim).await.unwrap().fence().unwrap();
            if let Some(n_bytes) = answer {
                let token = claim.token(fence);
                let written = records.complete(&token, &stored(n_bytes), RETENTION).await;
                assert_eq!(written, Ok(Written::Done));
            }
        }
    });
    let took = (resident_bytes() - before) / OPERATIONS;
    let counted = records.in_memory_now().map_or(0, |(_, n_bytes)| n_bytes) / OPERATIONS;
    let state = answer.map_or("that runs".to_owned(), |n| format!("with a body of {n} bytes"));
    println!("{took} bytes per operation {state}, {counted} counted");
    assert!(took <= counted, "more is taken than is counted against the bound");
    std::mem::forget(records); // What it frees would be taken again unseen.
}

/// As the filter makes them.
fn claim(n: usize) -> Claim {
    Claim {
        operation: OperationId::of("bench", "", "somebody", "*", &n.to_be_bytes()),
        owner: Owner::random().unwrap(),
        fingerprint: Fingerprint::new(1, format_args!("{n:064x}")),
        terms: Terms {
            lease: RETENTION / 2,
            retention: RETENTION,
            on_lease_expired: OnLeaseExpired::Hold,
        },
    }
}

fn stored(n_bytes: usize) -> Outcome {
    let header = |name: &str, value: &str| (name.into(), value.as_bytes().to_vec());
    Outcome::Stored(Arc::new(StoredAnswer {
        status: 201,
        headers: vec![
            header("content-type", "application/json"),
            header("location", "/payments/4711"),
        ],
        body: vec![b'x'; n_bytes],
        date: Micros::from_secs(1),
    }))
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

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1024
}
