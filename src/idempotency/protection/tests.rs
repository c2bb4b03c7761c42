use super::super::error::RecordsError;
use super::super::execution::{Execution, Rest};
use super::super::failing::{FailingRecords, Fault};
use super::super::head::ResponseHead;
use super::super::keyed::Next;
use super::super::memory::{MemoryBounds, MemoryRecords};
use super::super::verdict::Unknown;
use super::*;
use crate::clock::{ManualClock, Micros};
use crate::rules::OnLeaseExpired;
use crate::rules::idempotency::{
    Anonymous, BodyRule, FingerprintRule, IdentitySource, KeyRule, Matches, ResponseRule, Scope,
    ServerError, StatusSet, StoreFailure,
};
use crate::store::StoreError;
use std::time::Duration;
use tokio::time::{Instant, advance, timeout};

const LEASE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(3600);

const BOUNDS: MemoryBounds = MemoryBounds { max_records: 1000, max_bytes: 1 << 20 };

/// A use case whose store's clock a test holds.
struct House {
    protection: Arc<Protection>,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

fn route() -> IdempotentRoute {
    IdempotentRoute {
        name: "pay".into(),
        matches: Matches { methods: ["POST".into()].into(), path: None, route_name: None },
        key: KeyRule {
            headers: ["idempotency-key".into()].into(),
            required: true,
            min_length: None,
        },
        scope: Scope {
            principal: [IdentitySource::TrustedHeader("x-user".into())].into(),
            tenant: [].into(),
            anonymous: Anonymous::Reject,
            key_space: KeySpace::Principal,
        },
        fingerprint: FingerprintRule {
            body: BodyRule::Raw,
            headers: ["content-type".into()].into(),
            max_request_body: 100,
        },
        lease: LEASE,
        max_execution: LEASE * 10,
        retention: RETENTION,
        on_lease_expired: OnLeaseExpired::Hold,
        store_failure: StoreFailure::Closed,
        response: ResponseRule {
            stored: StatusSet::default(),
            server_error: ServerError::Release,
            max_body: 10,
            headers: ["content-type".into(), "link".into()].into(),
        },
        shadow: false,
    }
}

fn house_with(route: IdempotentRoute, max_in_flight: usize) -> House {
    house_of(route, max_in_flight, |clock| Records::in_memory(BOUNDS, clock))
}

/// One whose store meets these faults, call by call.
fn failing_house<const N: usize>(route: IdempotentRoute, faults: [Option<Fault>; N]) -> House {
    house_of(route, 100, |clock| failing(clock, faults))
}

fn failing<const N: usize>(clock: Arc<dyn Clock>, faults: [Option<Fault>; N]) -> Records {
    let records = FailingRecords::new(MemoryRecords::new(BOUNDS, clock));
    records.meet(faults);
    Records::failing(records)
}

const LOST: Option<Fault> = Some(Fault::Lost(RecordsError::Store(StoreError::Timeout)));
const OPEN: Option<Fault> = Some(Fault::Refused(RecordsError::Store(StoreError::BreakerOpen)));
const REFUSED: Option<Fault> = Some(Fault::Refused(RecordsError::Store(StoreError::Unreachable)));

fn house_of(
    route: IdempotentRoute,
    max_in_flight: usize,
    records: impl FnOnce(Arc<dyn Clock>) -> Records,
) -> House {
    let clock = Arc::new(ManualClock::at(Micros::from_secs(1_700_000_000)));
    let metrics = Metrics::new(10);
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let store_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let records = records(Arc::clone(&store_clock));
    let protection = Arc::new(Protection::new(
        Arc::new(records),
        Arc::clone(&metrics),
        store_clock,
        tasks.clone(),
        stop.clone(),
        ProtectionOptions { max_in_flight },
    ));
    protection
        .install(IdempotencyPolicy { namespace: "n".into(), routes: [Arc::new(route)].into() });
    House { protection, clock, metrics, tasks, stop }
}

fn house() -> House {
    house_with(route(), 100)
}

fn head(headers: &[(&str, &str)]) -> RequestHead {
    let all = [(":method", "POST"), (":path", "/pay?a=1"), ("x-user", "ann")];
    let lines = all
        .iter()
        .chain(headers)
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    RequestHead { headers: lines.collect(), ..RequestHead::default() }
}

fn keyed(house: &House, key: &str) -> Keyed {
    let begun = house.protection.begin(&head(&[("idempotency-key", key)]));
    let Begin::Key(keyed) = begun else { panic!("{begun:?}") };
    *keyed
}

async fn claim(house: &House, key: &str, body: &[u8]) -> Next {
    keyed(house, key).claim(body.to_vec()).await
}

async fn run(house: &House, key: &str, body: &[u8]) -> Box<Execution> {
    let next = claim(house, key, body).await;
    let Next::Forward(mut execution) = next else { panic!("{next:?}") };
    execution.forwarded();
    execution
}

async fn refused(house: &House, key: &str, body: &[u8]) -> Answer {
    let next = claim(house, key, body).await;
    let Next::Answer(answer) = next else { panic!("{next:?}") };
    answer
}

fn answer(status: &str, headers: &[(&str, &str)]) -> ResponseHead {
    let all = [(":status", status)];
    let lines = all
        .iter()
        .chain(headers)
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    ResponseHead {
        headers: lines.collect(),
        details: Some("via_upstream".to_owned()),
        n_attempts: Some(1),
        ..ResponseHead::default()
    }
}

impl House {
    /// Until nothing goes on in the background.
    async fn rest(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn count(&self, line: &str) -> u64 {
        let text = self.metrics.render();
        let line = format!("tidegate_idempotency_{line} ");
        let value = text.lines().find_map(|found| found.strip_prefix(&line));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

fn status_of(begin: Begin) -> u16 {
    let Begin::Answer(answer) = begin else { panic!("{begin:?}") };
    answer.status
}

#[tokio::test]
async fn a_whole_answer_is_stored_and_replayed() {
    let house = house();
    let mut execution = run(&house, "k", b"body").await;
    let head =
        answer("201", &[("content-type", "a/b"), ("link", "<1>"), ("link", "<2>"), ("date", "x")]);
    assert_eq!(execution.answered(&head).await, Rest::Wanted);
    execution.piece(b"hello", false).await;
    assert_eq!(refused(&house, "k", b"body").await.status, 409);
    execution.piece(b"you", true).await;
    let replay = refused(&house, "k", b"body").await;
    assert_eq!((replay.status, replay.body.as_slice()), (201, b"helloyou".as_slice()));
    let names: Vec<&str> = replay.headers.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["content-type", "link", "link", "idempotent-replayed"]);
    assert_eq!(house.count("requests_total{outcome=\"replayed\",route=\"pay\"}"), 1);
    assert_eq!(house.count("complete_total{result=\"ok\"}"), 1);
}

#[tokio::test]
async fn an_answer_without_a_body_is_stored_by_its_head() {
    let house = house();
    let mut execution = run(&house, "k", b"").await;
    let head = ResponseHead { ends: true, ..answer("204", &[]) };
    assert_eq!(execution.answered(&head).await, Rest::Unwanted);
    assert_eq!(refused(&house, "k", b"").await.status, 204);
}

#[tokio::test]
async fn an_answer_whose_trailers_come_is_stored_by_them() {
    let house = house();
    let mut execution = run(&house, "k", b"").await;
    execution.answered(&answer("200", &[])).await;
    execution.piece(b"x", false).await;
    execution.finish(&vec![("x-checksum".to_owned(), b"1".to_vec())]).await;
    assert_eq!(refused(&house, "k", b"").await.body, b"x");
}

#[tokio::test]
async fn another_request_with_the_key_is_told_so_even_while_the_first_runs() {
    let house = house();
    let mut execution = run(&house, "k", b"one").await;
    assert_eq!(refused(&house, "k", b"two").await.status, 422);
    execution.answered(&ResponseHead { ends: true, ..answer("200", &[]) }).await;
    assert_eq!(refused(&house, "k", b"two").await.status, 422);
}

#[tokio::test]
async fn whoever_is_to_come_again_waits_for_a_lease_at_most() {
    let house = house();
    let _running = run(&house, "k", b"").await;
    let now = house.clock.now();
    for (clock, most) in [
        (now, 60),
        (Micros(now.0 - Micros::from_secs(120).0), 60),
        (Micros(now.0 + Micros::from_secs(59).0), 1),
    ] {
        house.clock.set(clock);
        for _ in 0..50 {
            let answer = refused(&house, "k", b"").await;
            let after = answer.headers.iter().find(|(name, _)| &**name == "retry-after");
            let after = String::from_utf8_lossy(&after.unwrap().1).into_owned();
            assert!((1..=most).contains(&after.parse().unwrap()), "{after} of {most}");
        }
    }
}

#[tokio::test]
async fn callers_do_not_share_keys() {
    let house = house();
    let _ann = run(&house, "k", b"").await;
    let bob = RequestHead {
        headers: vec![
            (":method".to_owned(), b"POST".to_vec()),
            (":path".to_owned(), b"/pay?a=1".to_vec()),
            ("x-user".to_owned(), b"bob".to_vec()),
            ("idempotency-key".to_owned(), b"k".to_vec()),
        ],
        ..RequestHead::default()
    };
    let Begin::Key(keyed) = house.protection.begin(&bob) else { panic!("no key") };
    assert!(matches!(keyed.claim(Vec::new()).await, Next::Forward(_)));
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_delivered_and_noted() {
    let house = house();
    let mut execution = run(&house, "k", b"").await;
    let location = [("location", "/pay/7")];
    assert_eq!(execution.answered(&answer("201", &location)).await, Rest::Wanted);
    execution.piece(b"0123456789", false).await;
    assert_eq!(house.count("not_stored_total{reason=\"size\"}"), 0);
    execution.piece(b"x", false).await;
    execution.piece(b"more", true).await;
    let retry = refused(&house, "k", b"").await;
    assert_eq!(retry.status, 409);
    assert!(String::from_utf8_lossy(&retry.body).contains("\"original-status\":201"));
    assert!(retry.headers.contains(&("location".into(), b"/pay/7".to_vec())));
    assert_eq!(house.count("not_stored_total{reason=\"size\"}"), 1);
    assert_eq!(house.count("complete_total{result=\"ok\"}"), 1);
}

#[tokio::test]
async fn what_is_no_outcome_runs_again_with_a_larger_fence() {
    let house = house();
    let mut first = run(&house, "k", b"").await;
    assert_eq!(first.answered(&answer("503", &[])).await, Rest::Unwanted);
    let second = run(&house, "k", b"").await;
    let fence = |execution: &Execution| execution.headers()[0].1.parse::<u64>().unwrap();
    assert!(fence(&second) > fence(&first));
    assert_eq!(second.headers()[1].1, "first", "nothing ran before it");
    assert_eq!(house.count("release_total{reason=\"status\"}"), 1);
}

#[tokio::test]
async fn a_claim_that_nobody_waits_for_is_given_back() {
    let house = house();
    drop(claim(&house, "k", b"").await);
    let abandoned = keyed(&house, "k2").claim(Vec::new());
    drop(timeout(Duration::ZERO, abandoned).await);
    house.tasks.close();
    house.tasks.wait().await;
    for key in ["k", "k2"] {
        let next = claim(&house, key, b"").await;
        assert!(matches!(next, Next::Forward(_)), "{key}: {next:?}");
    }
    assert_eq!(house.count("inflight"), 0);
}

#[tokio::test]
async fn what_was_forwarded_and_broke_off_is_unknown() {
    let house = house();
    drop(run(&house, "k", b"").await);
    assert_eq!(refused(&house, "k", b"").await.status, 409);
    house.clock.advance(LEASE.into());
    let retry = refused(&house, "k", b"").await;
    assert!(String::from_utf8_lossy(&retry.body).contains("outcome-unknown"), "{retry:?}");
    assert_eq!(house.count("indeterminate_total{cause=\"client_reset\"}"), 1);

    let mut execution = run(&house, "k2", b"").await;
    execution.answered(&answer("200", &[])).await;
    execution.piece(b"half", false).await;
    drop(execution);
    assert_eq!(house.count("indeterminate_total{cause=\"upstream_reset\"}"), 1);

    let mut execution = run(&house, "k3", b"").await;
    execution.abandon(Unknown::Shutdown);
    drop(execution);
    assert_eq!(house.count("indeterminate_total{cause=\"shutdown\"}"), 1);
}

#[tokio::test]
async fn where_the_policy_says_so_the_next_one_takes_over() {
    let takeover = IdempotentRoute { on_lease_expired: OnLeaseExpired::Takeover, ..route() };
    let house = house_with(takeover, 100);
    let mut first = run(&house, "k", b"").await;
    house.clock.advance(LEASE.into());
    let mut second = run(&house, "k", b"").await;
    assert_eq!(second.headers()[1].1, "takeover");
    first.answered(&ResponseHead { ends: true, ..answer("201", &[]) }).await;
    assert_eq!(house.count("complete_total{result=\"stale\"}"), 1);
    second.answered(&ResponseHead { ends: true, ..answer("202", &[]) }).await;
    assert_eq!(refused(&house, "k", b"").await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_renewed_while_it_runs_and_not_for_ever() {
    let house = house();
    let mut execution = run(&house, "k", b"").await;
    for _ in 0..29 {
        assert!(timeout(LEASE / 3, execution.keep()).await.is_err());
        house.clock.advance((LEASE / 3).into());
    }
    assert_eq!(house.count("renew_total{result=\"ok\"}"), 29);
    assert_eq!(refused(&house, "k", b"").await.details, "idem_in_progress");
    assert!(timeout(LEASE * 100, execution.keep()).await.is_err());
    assert_eq!(house.count("renew_total{result=\"ok\"}"), 29, "it has run for ten leases");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_over_is_renewed_no_longer() {
    let house = house();
    let mut execution = run(&house, "k", b"").await;
    execution.answered(&ResponseHead { ends: true, ..answer("200", &[]) }).await;
    assert!(timeout(LEASE * 2, execution.keep()).await.is_err());
    assert_eq!(house.count("renew_total{result=\"ok\"}"), 0);
    advance(LEASE).await;
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_refused() {
    let house = house();
    let key = |value| head(&[("idempotency-key", value)]);
    let long = "k".repeat(256);
    for bad in ["", "a b", "\"open", "\u{7f}", long.as_str(), "clé"] {
        assert_eq!(status_of(house.protection.begin(&key(bad))), 400, "{bad}");
    }
    assert_eq!(status_of(house.protection.begin(&head(&[]))), 400);
    let two = head(&[("idempotency-key", "a"), ("idempotency-key", "a")]);
    assert_eq!(status_of(house.protection.begin(&two)), 400);
    let mut nobody = key("k");
    nobody.headers.retain(|(name, _)| name != "x-user");
    assert_eq!(status_of(house.protection.begin(&nobody)), 400);
    assert_eq!(house.count("requests_total{outcome=\"invalid_key\",route=\"pay\"}"), 9);
}

#[tokio::test]
async fn a_quoted_key_is_the_same_as_one_without_quotes() {
    let house = house();
    let _execution = run(&house, "abc", b"").await;
    assert_eq!(refused(&house, "\"abc\"", b"").await.details, "idem_in_progress");
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_policy_says() {
    let house = house();
    let _fits = run(&house, "k", &[b'x'; 100]).await;
    assert_eq!(refused(&house, "k2", &[b'x'; 101]).await.status, 413);
    let announced = head(&[("idempotency-key", "k3"), ("content-length", "101")]);
    assert_eq!(status_of(house.protection.begin(&announced)), 413);
}

#[tokio::test]
async fn what_no_route_is_for_passes() {
    let optional = IdempotentRoute { key: KeyRule { required: false, ..route().key }, ..route() };
    let house = house_with(optional, 100);
    assert!(matches!(house.protection.begin(&head(&[])), Begin::Pass));
    let mut get = head(&[("idempotency-key", "k")]);
    get.headers[0].1 = b"GET".to_vec();
    assert!(matches!(house.protection.begin(&get), Begin::Pass));
    let upgrade = head(&[("idempotency-key", "k"), ("upgrade", "websocket")]);
    assert!(matches!(house.protection.begin(&upgrade), Begin::Pass));
}

#[tokio::test]
async fn nothing_passes_before_there_is_a_policy() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let house = house();
    let bare = Arc::new(Protection::new(
        Arc::clone(&house.protection.records),
        Metrics::new(1),
        clock,
        TaskTracker::new(),
        CancellationToken::new(),
        ProtectionOptions { max_in_flight: 1 },
    ));
    assert!(!bare.has_policy());
    assert!(matches!(bare.begin(&head(&[])), Begin::NoPolicy));
}

#[tokio::test]
async fn more_than_may_be_under_way_get_503() {
    let house = house_with(route(), 2);
    let _two = [run(&house, "a", b"").await, run(&house, "b", b"").await];
    let third = house.protection.begin(&head(&[("idempotency-key", "c")]));
    assert_eq!(status_of(third), 503);
    assert_eq!(house.count("inflight"), 2);
}

#[tokio::test]
async fn a_shadow_counts_and_answers_nothing() {
    let house = house_with(IdempotentRoute { shadow: true, ..route() }, 100);
    assert!(matches!(house.protection.begin(&head(&[])), Begin::Pass));
    let mut execution = run(&house, "k", b"").await;
    assert!(execution.headers().is_empty());
    assert!(matches!(claim(&house, "k", b"").await, Next::Pass));
    execution.answered(&ResponseHead { ends: true, ..answer("200", &[]) }).await;
    assert!(matches!(claim(&house, "k", b"").await, Next::Pass));
    assert_eq!(house.count("requests_total{outcome=\"in_progress\",route=\"pay\"}"), 1);
    assert_eq!(house.count("requests_total{outcome=\"replayed\",route=\"pay\"}"), 1);
}

#[tokio::test]
async fn an_operation_is_forgotten_a_retention_after_its_completion() {
    let house = house();
    let mut execution = run(&house, "k", b"one").await;
    house.clock.advance((LEASE / 2).into());
    let head = ResponseHead { ends: true, ..answer("200", &[("idempotency-retention", "120")]) };
    execution.answered(&head).await;
    house.clock.advance(Duration::from_secs(119).into());
    assert_eq!(refused(&house, "k", b"two").await.status, 422);
    house.clock.advance(Duration::from_secs(1).into());
    let _new = run(&house, "k", b"two").await;
}

#[tokio::test]
async fn messages_of_grpc_are_noted_and_its_errors_are_replayed() {
    let house = house();
    let grpc = [("content-type", "application/grpc")];
    let mut execution = run(&house, "ok", b"").await;
    assert_eq!(execution.answered(&answer("200", &grpc)).await, Rest::Trailers);
    execution.finish(&vec![("grpc-status".to_owned(), b"0".to_vec())]).await;
    let retry = refused(&house, "ok", b"").await;
    assert_eq!((retry.status, retry.grpc_code), (409, 9));

    let mut execution = run(&house, "error", b"").await;
    let error = [grpc[0], ("grpc-status", "5"), ("grpc-message", "no%20such %C3%A9")];
    execution.answered(&ResponseHead { ends: true, ..answer("200", &error) }).await;
    let retry = refused(&house, "error", b"").await;
    assert_eq!((retry.grpc_code, retry.message.as_str()), (5, "no such é"));
}

#[tokio::test(start_paused = true)]
async fn what_the_store_cannot_say_is_answered_by_the_policy() {
    let house = failing_house(route(), [REFUSED, REFUSED]);
    let answer = refused(&house, "k", b"").await;
    assert_eq!((answer.status, answer.grpc_code), (503, 14));
    assert_eq!(house.count("inflight"), 0);
    let open = IdempotentRoute { store_failure: StoreFailure::Open, ..route() };
    let house = failing_house(open, [REFUSED, REFUSED]);
    assert!(matches!(claim(&house, "k", b"").await, Next::Pass));
    assert_eq!(house.count("requests_total{outcome=\"bypass\",route=\"pay\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_claimed_for_a_request_that_was_refused_is_taken_back() {
    let house = failing_house(route(), [LOST, OPEN, None, REFUSED, REFUSED]);
    assert_eq!(refused(&house, "k", b"").await.details, "idem_store_unavailable");
    assert_eq!(refused(&house, "k", b"").await.details, "idem_in_progress");
    house.clock.advance((LEASE * 2).into());
    house.rest().await;
    assert_eq!(house.count("release_total{reason=\"not_sent\"}"), 1);
    let _next = run(&house, "k", b"").await;
}

#[tokio::test(start_paused = true)]
async fn what_another_attempt_holds_by_then_is_left_to_it() {
    let takeover = IdempotentRoute { on_lease_expired: OnLeaseExpired::Takeover, ..route() };
    let house = failing_house(takeover, [REFUSED, REFUSED]);
    assert_eq!(refused(&house, "k", b"").await.details, "idem_store_unavailable");
    let mut execution = run(&house, "k", b"").await;
    house.clock.advance((LEASE * 2).into());
    house.rest().await;
    execution.answered(&ResponseHead { ends: true, ..answer("200", &[]) }).await;
    assert_eq!(house.count("complete_total{result=\"ok\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_may_run_unprotected_is_not_taken_back() {
    let open = IdempotentRoute { store_failure: StoreFailure::Open, ..route() };
    let house = failing_house(open, [LOST, LOST]);
    assert!(matches!(claim(&house, "k", b"").await, Next::Pass));
    house.rest().await;
    assert_eq!(refused(&house, "k", b"").await.details, "idem_in_progress");
}

#[tokio::test(start_paused = true)]
async fn no_more_is_tried_again_than_may_be_under_way() {
    let house = house_of(route(), 1, |clock| failing(clock, [LOST, OPEN, LOST, OPEN]));
    for key in ["tried", "not-tried"] {
        assert_eq!(refused(&house, key, b"").await.details, "idem_store_unavailable");
    }
    house.rest().await;
    assert_eq!(refused(&house, "not-tried", b"").await.details, "idem_in_progress");
    let _next = run(&house, "tried", b"").await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_nothing_that_is_taken_back() {
    let house = failing_house(route(), [LOST, LOST]);
    assert_eq!(refused(&house, "k", b"").await.details, "idem_store_unavailable");
    house.stop.cancel();
    let stopped = Instant::now();
    house.rest().await;
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_soon() {
    let house = failing_house(route(), [None, REFUSED]);
    let mut execution = run(&house, "k", b"").await;
    assert!(timeout(LEASE / 3 + LEASE / 9, execution.keep()).await.is_err());
    assert_eq!(house.count("renew_total{result=\"failed\"}"), 1);
    assert_eq!(house.count("renew_total{result=\"ok\"}"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_stored_is_delivered_counted_and_stored_later() {
    let house = failing_house(route(), [None, REFUSED, REFUSED, REFUSED, None, OPEN]);
    let mut execution = run(&house, "k", b"").await;
    let head = ResponseHead { ends: true, ..answer("200", &[]) };
    assert_eq!(execution.answered(&head).await, Rest::Unwanted);
    assert_eq!(house.count("complete_total{result=\"failed\"}"), 1);
    assert_eq!(refused(&house, "k", b"").await.details, "idem_in_progress");
    house.clock.advance((LEASE * 2).into());
    house.rest().await;
    assert_eq!(house.count("complete_total{result=\"ok\"}"), 1);
    assert_eq!(refused(&house, "k", b"").await.details, "idem_replay");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_given_back_is_so_later() {
    let house = failing_house(route(), [None, OPEN, OPEN]);
    let mut execution = run(&house, "k", b"").await;
    let head = ResponseHead { ends: true, ..answer("500", &[]) };
    assert_eq!(execution.answered(&head).await, Rest::Unwanted);
    assert_eq!(house.count("release_total{reason=\"failed\"}"), 1);
    house.rest().await;
    assert_eq!(house.count("release_total{reason=\"status\"}"), 1);
    let _next = run(&house, "k", b"").await;
}
