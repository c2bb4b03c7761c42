//! Every algorithm in both of its forms, through the same made-up times: Rust and Lua.

use super::support::redis::Redis;
use crate::algorithm::{
    Algorithm, Anchor, Charge, Decision, Item, Limit, MAX_HITS, MAX_WINDOW, Member, State, decide,
    decide_group,
};
use crate::clock::Micros;
use crate::rules::KeyRange;
use crate::store::redis::call::{Call, Unit};
use crate::store::redis::script::Scripts;
use crate::store::{Batch, BatchItem, BatchMember};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redis::{Cmd, Connection};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use tokio::time::Instant;

/// Keys outlive the test, however busy the machine.
const EXTRA_MS: u64 = 3_600_000;

const START: u64 = 1_700_000_000_000_000;

/// What is asked of one bucket.
#[derive(Clone, Copy, Debug)]
struct Ask {
    bucket: usize,
    limit: usize,
    post_paid: bool,
}

/// One descriptor.
#[derive(Clone, Debug)]
struct Asked {
    charge: Charge,
    votes: bool,
    asks: Vec<Ask>,
}

/// One call: how much later it is, and groups of descriptors.
#[derive(Clone, Debug)]
struct Step {
    later: i64,
    groups: Vec<Vec<Asked>>,
}

/// A few buckets of one algorithm each, and the limits that each is measured against in turn.
#[derive(Clone, Debug)]
struct House {
    buckets: Vec<Vec<Limit>>,
    steps: Vec<Step>,
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    let first_hit = [Algorithm::FixedWindow(Anchor::FirstHit)];
    prop::sample::select(Algorithm::ALL.into_iter().chain(first_hit).collect::<Vec<_>>())
}

/// Limits of one algorithm and window, whose number changes as policies do.
fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let window = prop_oneof![
        4 => (1_u64..100).prop_map(Micros::from_secs),
        1 => (1..=MAX_WINDOW.0 / Micros::SECOND.0).prop_map(Micros::from_secs),
    ];
    let number = prop_oneof![8 => 0_u32..20, 2 => 20_u32..100_000, 1 => any::<u32>()];
    (algorithm(), window).prop_flat_map(move |(algorithm, window)| {
        let limit = (number.clone(), number.clone(), any::<bool>());
        vec(limit, 1..3).prop_map(move |limits| {
            let limit = |(requests, burst, count_denied): &(u32, u32, bool)| Limit {
                algorithm,
                requests: *requests,
                window,
                burst: burst_within(*burst, *requests, window),
                count_denied: *count_denied,
            };
            limits.iter().map(limit).collect()
        })
    })
}

/// A burst takes at most 100 years to fill.
fn burst_within(burst: u32, requests: u32, window: Micros) -> u32 {
    let most = u128::from(MAX_WINDOW.0) * 100 * u128::from(requests) / u128::from(window.0);
    burst.min(u32::try_from(most).unwrap_or(u32::MAX)).max(1)
}

fn charge() -> impl Strategy<Value = Charge> {
    let hits = prop_oneof![
        8 => 1_u64..8,
        2 => 8_u64..200_000,
        1 => prop::sample::select(vec![MAX_HITS, MAX_HITS - 1, 1 << 34, (1 << 34) + 1]),
    ];
    prop_oneof![
        6 => hits.clone().prop_map(Charge::Take),
        2 => Just(Charge::Peek),
        1 => hits.prop_map(Charge::Refund),
        1 => Just(Charge::Refund(0)),
    ]
}

/// From not at all to years, sometimes back.
fn later() -> impl Strategy<Value = i64> {
    const SECOND: i64 = 1_000_000;
    prop_oneof![
        3 => Just(0),
        3 => 1..SECOND / 10,
        4 => 0..20 * SECOND,
        2 => (0_i64..100).prop_map(|seconds| seconds * SECOND),
        1 => 0..400 * 86_400 * SECOND,
        1 => -30 * SECOND..0,
        1 => -2 * 86_400 * SECOND..0,
    ]
}

fn asked(n_buckets: usize, n_asks: Range<usize>) -> impl Strategy<Value = Asked> {
    let ask = (0..n_buckets, 0_usize..3, any::<bool>());
    let ask = ask.prop_map(|(bucket, limit, post_paid)| Ask { bucket, limit, post_paid });
    (charge(), any::<bool>(), vec(ask, n_asks)).prop_map(|(charge, votes, mut asks)| {
        // The limits of a list have a bucket each.
        let mut seen = BTreeSet::new();
        asks.retain(|ask| seen.insert(ask.bucket));
        Asked { charge, votes, asks }
    })
}

fn house(
    n_members: Range<usize>,
    n_asks: Range<usize>,
    n_groups: Range<usize>,
) -> impl Strategy<Value = House> {
    house_by(later().boxed(), n_members, n_asks, n_groups)
}

/// A house whose calls are so much later each.
fn house_by(
    later: BoxedStrategy<i64>,
    n_members: Range<usize>,
    n_asks: Range<usize>,
    n_groups: Range<usize>,
) -> impl Strategy<Value = House> {
    vec(limits(), 1..4).prop_flat_map(move |buckets| {
        let asked = asked(buckets.len(), n_asks.clone());
        let groups = vec(vec(asked, n_members.clone()), n_groups.clone());
        let step = (later.clone(), groups).prop_map(|(later, groups)| Step { later, groups });
        let house = vec(step, 1..40).prop_map(move |steps| (buckets.clone(), steps));
        house.prop_map(|(buckets, steps)| House { buckets, steps }.without_overflow())
    })
}

impl House {
    /// A log adds up all hits ever recorded, in Lua modulo 2^53. Which of two hits of one microsecond
    /// comes first is lost where the sum begins anew: not in the lifetime of a log, save by charges
    /// of such a size.
    fn without_overflow(mut self) -> Self {
        let is_log =
            |ask: &Ask| self.buckets[ask.bucket][0].algorithm == Algorithm::SlidingWindowLog;
        for asked in self.steps.iter_mut().flat_map(|step| step.groups.iter_mut().flatten()) {
            if let Charge::Take(hits) = &mut asked.charge
                && asked.asks.iter().any(is_log)
            {
                *hits = (*hits).min(1 << 40);
            }
        }
        self
    }

    /// The same with windows of a few seconds.
    fn hurried(mut self) -> Self {
        for limit in self.buckets.iter_mut().flatten() {
            limit.window = Micros::from_secs(1 + limit.window.ceil_secs() % 6);
        }
        self
    }

    /// A group of descriptors as a batch of its own.
    fn unit(&self, group: &[Asked], case: u64) -> Unit {
        let mut batch = Batch::default();
        for asked in group {
            let start = batch.items.len();
            for ask in &asked.asks {
                let from = batch.keys.len();
                write!(batch.keys, "{{{case}}}{}", ask.bucket).unwrap();
                let key = KeyRange { key: from..batch.keys.len(), tag: from..from };
                let limit = self.limit(ask);
                batch.items.push(BatchItem { key, limit, post_paid: ask.post_paid });
            }
            batch.members.push(BatchMember {
                charge: asked.charge,
                votes: asked.votes,
                items: start..batch.items.len(),
            });
        }
        batch.groups.push(0..group.len());
        Unit { batch: Arc::new(batch), groups: SmallVec::from_slice(&[0]) }
    }

    fn limit(&self, ask: &Ask) -> Limit {
        let limits = &self.buckets[ask.bucket];
        limits[ask.limit % limits.len()]
    }

    /// What Rust decides.
    fn decide(&self, states: &mut [Option<State>], group: &[Asked], now: Micros) -> Vec<Decision> {
        if let [Asked { charge, asks, .. }] = group
            && let [ask] = &**asks
        {
            let (state, decision) =
                decide(states[ask.bucket].take(), &self.limit(ask), *charge, now);
            states[ask.bucket] = state;
            return vec![decision];
        }
        let mut items = Vec::new();
        let mut members = Vec::new();
        for asked in group {
            let start = items.len();
            items.extend(asked.asks.iter().map(|ask| Item {
                bucket: ask.bucket,
                limit: self.limit(ask),
                post_paid: ask.post_paid,
            }));
            let items = start..items.len();
            members.push(Member { charge: asked.charge, votes: asked.votes, items });
        }
        let mut decisions = Vec::new();
        decide_group(&members, &items, states, now, &mut decisions);
        decisions
    }
}

/// Whether nothing is left to be stored: a log of which all was given back.
fn is_empty(state: &State) -> bool {
    matches!(state, State::SlidingWindowLog(log) if log.is_empty())
}

/// A server, and what was called on it.
struct Lua {
    _redis: Redis,
    connection: Connection,
    scripts: Scripts,
    n_cases: u64,
}

impl Lua {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redis = runtime.block_on(Redis::start());
        let client = redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
        let connection = client.get_connection().unwrap();
        Self { _redis: redis, connection, scripts: Scripts::new(), n_cases: 0 }
    }

    /// What Lua decides.
    fn decide(&mut self, units: &[Unit], now: Micros) -> Vec<Vec<Decision>> {
        let call = Call::new(units);
        let mut command = Cmd::new();
        command.arg("EVAL").arg(&self.scripts.get(call.needs).source).arg(call.keys.len());
        command.arg(&call.keys).arg(now.0).arg(EXTRA_MS).arg(&call.packed);
        let answer: Vec<Vec<u8>> = command.query(&mut self.connection).unwrap();
        let outcomes = call.outcomes(units, &answer);
        outcomes.into_iter().map(|one| one.into_iter().collect::<Result<_, _>>().unwrap()).collect()
    }

    /// Runs both through a house; they decide the same at every step, and no key lives for ever.
    fn check(&mut self, house: &House) -> Result<(), TestCaseError> {
        self.n_cases += 1;
        let mut states: Vec<Option<State>> = vec![None; house.buckets.len()];
        let mut now = START;
        for (n, step) in house.steps.iter().enumerate() {
            now = now.saturating_add_signed(step.later).max(START / 2);
            let units: Vec<_> =
                step.groups.iter().map(|group| house.unit(group, self.n_cases)).collect();
            let called = Instant::now();
            let lua = self.decide(&units, Micros(now));
            let mut resets = BTreeMap::new();
            for (group, lua) in step.groups.iter().zip(lua) {
                let rust = house.decide(&mut states, group, Micros(now));
                prop_assert_eq!(&lua, &rust, "lua, rust; step {} at {}: {:?}", n, now, group);
                let asks = group.iter().flat_map(|asked| &asked.asks);
                let written = asks.zip(lua).filter(|(_, decision)| decision.written);
                resets.extend(written.map(|(ask, decision)| (ask.bucket, (*ask, decision.reset))));
            }
            for (ask, reset) in resets.into_values() {
                self.check_expiry(house, &ask, reset, called)?;
            }
        }
        for (bucket, state) in states.iter().enumerate() {
            let ttl = self.ttl(bucket);
            prop_assert!(ttl != -1, "bucket {} lives for ever", bucket);
            prop_assert_eq!(ttl == -2, state.as_ref().is_none_or(is_empty), "bucket {}", bucket);
        }
        Ok(())
    }
}

impl Lua {
    fn ttl(&mut self, bucket: usize) -> i64 {
        let key = format!("{{{}}}{bucket}", self.n_cases);
        Cmd::new().arg("PTTL").arg(key).query(&mut self.connection).unwrap()
    }

    /// What was just written is kept until it is as if unused, and a second; a log until its newest
    /// entry is a window old.
    fn check_expiry(
        &mut self,
        house: &House,
        ask: &Ask,
        reset: Micros,
        called: Instant,
    ) -> Result<(), TestCaseError> {
        let limit = house.limit(ask);
        let is_log = limit.algorithm == Algorithm::SlidingWindowLog;
        let most = if is_log { reset.max(Micros(limit.window.0 * 2)) } else { reset };
        let kept = |time: Micros| i64::try_from(time.0 / 1000 + 1001 + EXTRA_MS).unwrap();
        let ttl = self.ttl(ask.bucket);
        let passed = i64::try_from(called.elapsed().as_millis()).unwrap() + 1;
        let is_right = (kept(reset) - passed..=kept(most)).contains(&ttl);
        prop_assert!(
            is_right || (is_log && ttl == -2),
            "{} ms, reset {:?}, {:?}",
            ttl,
            reset,
            limit
        );
        Ok(())
    }
}

fn run(n_cases: u32, houses: impl Strategy<Value = House>) {
    let mut lua = Lua::start();
    let lua = std::cell::RefCell::new(&mut lua);
    let config = ProptestConfig { cases: n_cases, failure_persistence: None, ..Default::default() };
    proptest!(config, |(house in houses)| { lua.borrow_mut().check(&house)?; });
}

#[test]
fn single_charges_are_decided_alike() {
    run(400, house(1..2, 1..2, 1..6));
}

/// Where what drips in adds up to whole hits, and windows end at the very microsecond.
#[test]
fn whole_seconds_are_decided_alike() {
    let later = (0_i64..6).prop_map(|seconds| seconds * 1_000_000);
    run(300, house_by(later.boxed(), 1..2, 1..2, 1..3).prop_map(House::hurried));
}

#[test]
fn lists_of_limits_are_decided_alike() {
    run(150, house(1..2, 1..4, 1..3));
}

#[test]
fn groups_of_descriptors_are_decided_alike() {
    run(250, house(1..4, 1..4, 1..3));
}

#[test]
fn both_twins_are_there_under_the_same_name() {
    let root = env!("CARGO_MANIFEST_DIR");
    let names = |folder: &str, ending: &str| -> BTreeSet<String> {
        let files = fs::read_dir(format!("{root}/{folder}")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(ending).map(Into::into)).collect()
    };
    let (lua, rust) = (names("lua", ".lua"), names("src/algorithm", ".rs"));
    for algorithm in Algorithm::ALL {
        let name = algorithm.name();
        assert!(lua.contains(name), "lua/{name}.lua is missing");
        assert!(rust.contains(name), "src/algorithm/{name}.rs is missing");
    }
    for (lua_name, rust_name) in [("prelude", "arithmetic"), ("group", "group")] {
        assert!(lua.contains(lua_name) && rust.contains(rust_name), "{lua_name}, {rust_name}");
    }
}
