//! The rules, one by one.

use super::*;

/// One operation, and the attempts at it.
struct Operation {
    machine: Machine,
    now: Micros,
    rule: OnLeaseExpired,
}

const LEASE: Duration = Duration::from_secs(10);
const RETENTION: Duration = Duration::from_secs(60);

impl Operation {
    fn new(rule: OnLeaseExpired) -> Self {
        Self { machine: Machine::default(), now: START, rule }
    }

    fn later(&mut self, micros: u64) {
        self.now = Micros(self.now.0 + micros);
    }

    fn claim_as(&mut self, who: usize, fingerprint: Fingerprint) -> Claimed {
        let terms = Terms { lease: LEASE, retention: RETENTION, on_lease_expired: self.rule };
        let claim = Claim { operation: operation(0), owner: owner(who), fingerprint, terms };
        match self.machine.ask(&Asked::Claim(claim), self.now) {
            Answer::Claimed(claimed) => claimed,
            Answer::Written(_) => panic!("a claim was asked"),
        }
    }

    fn claim(&mut self, who: usize) -> Claimed {
        self.claim_as(who, Fingerprint::new(1, "same"))
    }

    /// Claims it and must be given it.
    fn start(&mut self, who: usize) -> Token {
        let claimed = self.claim(who);
        let fence = claimed.fence().unwrap_or_else(|| panic!("{claimed:?}"));
        Token { operation: operation(0), owner: owner(who), fence }
    }

    fn write(&mut self, asked: &Asked) -> Written {
        match self.machine.ask(asked, self.now) {
            Answer::Written(written) => written,
            Answer::Claimed(_) => panic!("no claim was asked"),
        }
    }

    fn renew(&mut self, token: Token) -> Written {
        self.write(&Asked::Renew(token, LEASE, RETENTION))
    }

    fn complete(&mut self, token: Token) -> Written {
        self.write(&Asked::Complete(token, answer("done"), RETENTION))
    }

    fn release(&mut self, token: Token) -> Written {
        self.write(&Asked::Release(token))
    }
}

const SECONDS: u64 = SECOND;

fn held() -> Operation {
    Operation::new(OnLeaseExpired::Hold)
}

fn taken_over() -> Operation {
    Operation::new(OnLeaseExpired::Takeover)
}

#[test]
fn the_first_claim_is_given_a_fence_of_the_time_and_others_wait_for_its_lease() {
    let mut operation = held();
    let fence = Fence(START.0 / 1000);
    assert_eq!(operation.claim(1), Claimed::First { fence });
    operation.later(SECONDS);
    let lease_left = Duration::from_secs(9);
    assert_eq!(operation.claim(2), Claimed::InProgress { lease_left });
}

#[test]
fn the_same_attempt_may_claim_again_and_is_told_the_same() {
    let mut operation = taken_over();
    let first = operation.claim(1);
    operation.later(11 * SECONDS);
    assert_eq!(operation.claim(1), first, "nobody took over");
    operation.later(9 * SECONDS);
    assert!(matches!(operation.claim(2), Claimed::InProgress { .. }), "the lease began anew");
    operation.later(SECONDS);
    let second = operation.claim(2);
    assert!(matches!(second, Claimed::TakenOver { .. }));
    assert_eq!(operation.claim(2), second);
}

#[test]
fn the_fingerprint_is_compared_in_every_state() {
    let mut operation = taken_over();
    let other = || Fingerprint::new(1, "other");
    let token = operation.start(1);
    assert_eq!(operation.claim_as(2, other()), Claimed::Mismatch, "in progress");
    assert_eq!(operation.claim_as(1, other()), Claimed::Mismatch, "by the same attempt");
    operation.later(10 * SECONDS);
    assert_eq!(operation.claim_as(2, other()), Claimed::Mismatch, "after its lease");
    assert_eq!(operation.release(token), Written::Done);
    assert_eq!(operation.claim_as(2, other()), Claimed::Mismatch, "released");
    let token = operation.start(2);
    assert_eq!(operation.complete(token), Written::Done);
    assert_eq!(operation.claim_as(3, other()), Claimed::Mismatch, "completed");
    assert_eq!(operation.claim_as(3, Fingerprint::new(2, "same")), Claimed::Unverifiable);
}

#[test]
fn a_lease_that_ended_leaves_the_outcome_unknown_under_hold_until_retention_ends() {
    let mut operation = held();
    operation.start(1);
    operation.later(10 * SECONDS - 1);
    assert!(matches!(operation.claim(2), Claimed::InProgress { .. }));
    operation.later(1);
    assert_eq!(operation.claim(2), Claimed::Unknown { since: START });
    operation.later(50 * SECONDS - 1);
    assert_eq!(operation.claim(2), Claimed::Unknown { since: START });
    operation.later(1);
    assert!(matches!(operation.claim(2), Claimed::First { .. }));
}

#[test]
fn whoever_took_over_has_a_larger_fence_and_the_one_before_writes_nothing() {
    let mut operation = taken_over();
    let old = operation.start(1);
    operation.later(10 * SECONDS);
    let new = operation.start(2);
    assert!(new.fence > old.fence);
    assert_eq!(operation.renew(old), Written::Stale);
    assert_eq!(operation.release(old), Written::Stale);
    assert_eq!(operation.complete(old), Written::Stale);
    assert_eq!(operation.complete(new), Written::Done);
    assert_eq!(operation.complete(old), Written::Stale);
}

#[test]
fn an_owner_without_its_fence_is_nobody_and_neither_is_a_fence_without_its_owner() {
    let mut operation = held();
    let token = operation.start(1);
    let later = Token { fence: Fence(token.fence.0 + 1), ..token };
    assert_eq!(operation.complete(later), Written::Stale);
    assert_eq!(operation.complete(Token { owner: owner(2), ..token }), Written::Stale);
    assert_eq!(operation.complete(token), Written::Done);
}

#[test]
fn a_fence_grows_though_the_clock_went_back() {
    let mut operation = taken_over();
    let first = operation.start(1);
    assert_eq!(operation.release(first), Written::Done);
    operation.now = Micros(START.0 - 120 * SECONDS);
    let second = operation.start(2);
    assert_eq!(second.fence, Fence(first.fence.0 + 1));
}

#[test]
fn renewing_prolongs_lease_and_retention_even_after_the_lease() {
    let mut operation = held();
    let token = operation.start(1);
    for _ in 0..10 {
        operation.later(11 * SECONDS);
        assert!(matches!(operation.claim(2), Claimed::Unknown { .. }));
        assert_eq!(operation.renew(token), Written::Done);
        assert!(matches!(operation.claim(2), Claimed::InProgress { .. }));
    }
    assert_eq!(operation.complete(token), Written::Done);
}

#[test]
fn a_completion_is_replayed_and_its_retention_begins_with_it() {
    let mut operation = held();
    let token = operation.start(1);
    operation.later(5 * SECONDS);
    assert_eq!(operation.complete(token), Written::Done);
    operation.later(60 * SECONDS - 1);
    let Claimed::Completed { answer, age } = operation.claim(2) else { panic!("not replayed") };
    assert_eq!((&*answer.body, age.as_secs()), (b"done".as_slice(), 59));
    operation.later(1);
    assert!(matches!(operation.claim(2), Claimed::First { .. }));
}

#[test]
fn whoever_ends_an_operation_twice_is_told_that_it_has_ended() {
    let mut operation = held();
    let token = operation.start(1);
    assert_eq!(operation.complete(token), Written::Done);
    assert_eq!(operation.complete(token), Written::Already);
    assert_eq!(operation.release(token), Written::Already);
    assert_eq!(operation.renew(token), Written::Already);
}

#[test]
fn a_completion_after_retention_is_missing_and_brings_nothing_back() {
    let mut operation = held();
    let token = operation.start(1);
    operation.later(60 * SECONDS);
    assert_eq!(operation.complete(token), Written::Missing);
    assert_eq!(operation.renew(token), Written::Missing);
    assert_eq!(operation.release(token), Written::Missing);
    assert!(operation.machine.records.is_empty());
}

#[test]
fn a_released_operation_is_the_next_ones_to_run_with_a_larger_fence() {
    let mut operation = held();
    let token = operation.start(1);
    assert_eq!(operation.release(token), Written::Done);
    let claimed = operation.claim(2);
    assert_eq!(claimed, Claimed::First { fence: Fence(token.fence.0 + 1) });
    assert_eq!(operation.complete(token), Written::Stale);
}

#[test]
fn an_attempt_after_one_that_took_over_still_says_that_an_earlier_one_may_have_run() {
    let mut operation = taken_over();
    operation.start(1);
    operation.later(10 * SECONDS);
    let second = operation.start(2);
    assert_eq!(operation.release(second), Written::Done);
    assert!(matches!(operation.claim(3), Claimed::TakenOver { .. }));
}

#[test]
fn an_answer_that_was_not_kept_is_told_of() {
    let mut operation = held();
    let token = operation.start(1);
    let told = NotStored { status: 201, location: Some(b"/payments/1".to_vec()) };
    let asked = Asked::Complete(token, Outcome::NotStored(told.clone()), RETENTION);
    assert_eq!(operation.write(&asked), Written::Done);
    assert_eq!(operation.claim(2), Claimed::NotStored(told));
}
