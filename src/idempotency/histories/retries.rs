//! What is asked again when an answer is lost, and what is not.

use super::*;
use crate::clock::ManualClock;
use crate::store::StoreError;

const LOST: Option<Fault> = Some(Fault::Lost(RecordsError::Store(StoreError::Timeout)));
const REFUSED: Option<Fault> = Some(Fault::Refused(RecordsError::Store(StoreError::Timeout)));
const OPEN: Option<Fault> = Some(Fault::Refused(RecordsError::Store(StoreError::BreakerOpen)));
const TIMEOUT: RecordsError = RecordsError::Store(StoreError::Timeout);

fn records(faults: impl IntoIterator<Item = Option<Fault>>) -> Records {
    let bounds = MemoryBounds { max_records: 10, max_bytes: 1 << 20 };
    let memory = MemoryRecords::new(bounds, Arc::new(ManualClock::at(START)));
    let failing = FailingRecords::new(memory);
    failing.meet(faults);
    Records::failing(failing)
}

fn claim() -> Claim {
    Claim {
        operation: operation(0),
        owner: owner(1),
        fingerprint: Fingerprint::new(1, "same"),
        terms: Terms {
            lease: Duration::from_secs(10),
            retention: Duration::from_secs(60),
            on_lease_expired: OnLeaseExpired::Hold,
        },
    }
}

const FENCE: Fence = Fence(START.0 / 1000);
const KEEP: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_given_to_whoever_asks_again() {
    let records = records([LOST]);
    assert_eq!(records.claim(&claim()).await, Ok(Claimed::First { fence: FENCE }));
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_asked_twice_at_most() {
    let records = records([REFUSED, REFUSED, None]);
    assert_eq!(records.claim(&claim()).await, Err(TIMEOUT));
    assert_eq!(records.claim(&claim()).await, Ok(Claimed::First { fence: FENCE }));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_known_to_fail_is_not_asked_again() {
    let records = records([OPEN, None]);
    let open = RecordsError::Store(StoreError::BreakerOpen);
    assert_eq!(records.claim(&claim()).await, Err(open));
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answers_were_lost_is_done() {
    let records = records([None, LOST, REFUSED]);
    records.claim(&claim()).await.unwrap();
    let token = claim().token(FENCE);
    assert_eq!(records.complete(&token, &answer("done"), KEEP).await, Ok(Written::Done));
    assert_eq!(records.complete(&token, &answer("done"), KEEP).await, Ok(Written::Already));
}

#[tokio::test(start_paused = true)]
async fn a_completion_is_tried_three_times() {
    let records = records([None, REFUSED, REFUSED, REFUSED]);
    records.claim(&claim()).await.unwrap();
    let token = claim().token(FENCE);
    assert_eq!(records.complete(&token, &answer("done"), KEEP).await, Err(TIMEOUT));
    assert_eq!(records.complete(&token, &answer("done"), KEEP).await, Ok(Written::Done));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_tried_once_and_the_lease_is_as_it_was() {
    let records = records([None, REFUSED]);
    records.claim(&claim()).await.unwrap();
    let token = claim().token(FENCE);
    assert_eq!(records.renew(&token, KEEP, KEEP).await, Err(TIMEOUT));
    assert_eq!(records.renew(&token, KEEP, KEEP).await, Ok(Written::Done));
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_is_done() {
    let records = records([None, LOST]);
    records.claim(&claim()).await.unwrap();
    let token = claim().token(FENCE);
    assert_eq!(records.release(&token).await, Ok(Written::Done));
    assert_eq!(records.release(&token).await, Ok(Written::Already));
}
