//! The memory store against the machine, and its bounds.

use super::*;
use crate::clock::ManualClock;
use crate::idempotency::memory::RECORD_BYTES;

const ROOM: MemoryBounds = MemoryBounds { max_records: 1000, max_bytes: 1 << 20 };

struct Memory {
    clock: Arc<ManualClock>,
    records: MemoryRecords,
}

impl Memory {
    fn new(bounds: MemoryBounds) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        Self { records: MemoryRecords::new(bounds, Arc::clone(&clock) as _), clock }
    }

    fn claim(&self, n: usize) -> Result<Claimed, RecordsError> {
        self.records.claim(&claim(n, Duration::from_secs(60)))
    }

    fn fence(&self, n: usize) -> Fence {
        self.claim(n).unwrap().fence().unwrap()
    }

    fn complete(&self, n: usize, fence: Fence, outcome: &Outcome) -> Written {
        let token = claim(n, Duration::ZERO).token(fence);
        self.records.complete(&token, outcome, Duration::from_secs(60))
    }
}

fn claim(n: usize, retention: Duration) -> Claim {
    Claim {
        operation: operation(n),
        owner: owner(1),
        fingerprint: Fingerprint::new(1, "same"),
        terms: Terms {
            lease: Duration::from_secs(10),
            retention,
            on_lease_expired: OnLeaseExpired::Hold,
        },
    }
}

impl Keeper for Memory {
    fn ask(&mut self, asked: &Asked, now: Micros) -> Answer {
        self.clock.set(now);
        match asked {
            Asked::Claim(claim) => Answer::Claimed(self.records.claim(claim).unwrap()),
            Asked::Renew(token, lease, retention) => {
                Answer::Written(self.records.renew(token, *lease, *retention))
            }
            Asked::Complete(token, outcome, retention) => {
                Answer::Written(self.records.complete(token, outcome, *retention))
            }
            Asked::Release(token) => Answer::Written(self.records.release(token)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn memory_answers_as_the_machine_does(history in history()) {
        let (mut play, mut memory) = (Play::forward(), Memory::new(ROOM));
        for step in &history {
            let (asked, expected) = play.step(step);
            prop_assert_eq!(memory.ask(&asked, play.now), expected, "{:?}", asked);
        }
    }
}

#[test]
fn a_full_memory_refuses_new_operations_and_forgets_none() {
    let memory = Memory::new(MemoryBounds { max_records: 2, ..ROOM });
    let fences = [memory.fence(0), memory.fence(1)];
    assert_eq!(memory.claim(2), Err(RecordsError::Full));
    assert_eq!(memory.claim(2), Err(RecordsError::Full), "a refusal takes no room");
    assert_eq!(memory.complete(0, fences[0], &answer("done")), Written::Done);
    assert_eq!(memory.claim(2), Err(RecordsError::Full), "a completed one is not forgotten");
    assert!(matches!(memory.claim(0), Ok(Claimed::Completed { .. })));
    assert_eq!(memory.fence(1), fences[1]);
}

#[test]
fn a_full_memory_takes_new_operations_when_old_ones_have_expired() {
    let memory = Memory::new(MemoryBounds { max_records: 100, ..ROOM });
    (0..100).for_each(|n| _ = memory.fence(n));
    assert_eq!(memory.claim(100), Err(RecordsError::Full));
    memory.clock.advance(Micros::from_secs(60));
    (100..200).for_each(|n| _ = memory.fence(n));
    assert_eq!(memory.records.n_records(), 100);
}

#[test]
fn what_was_admitted_can_be_completed_whatever_its_size_if_need_be_without_its_answer() {
    let room = 2 * (RECORD_BYTES + 20) + 200;
    let memory = Memory::new(MemoryBounds { max_bytes: room, ..ROOM });
    let fences = [memory.fence(0), memory.fence(1)];
    assert_eq!(memory.claim(2), Err(RecordsError::Full));
    assert_eq!(memory.complete(0, fences[0], &answer("small")), Written::Done);
    assert!(matches!(memory.claim(0), Ok(Claimed::Completed { .. })));
    assert_eq!(memory.complete(1, fences[1], &answer(&"x".repeat(100))), Written::Done);
    let location = Some(b"/payments/1".to_vec());
    assert_eq!(memory.claim(1), Ok(Claimed::NotStored(NotStored { status: 201, location })));
    assert!(memory.records.n_bytes() <= room);
}

#[test]
fn a_location_that_does_not_fit_is_not_kept_either() {
    let memory = Memory::new(MemoryBounds { max_bytes: RECORD_BYTES + 20, ..ROOM });
    let fence = memory.fence(0);
    let outcome = NotStored { status: 201, location: Some(vec![b'x'; 50]) };
    assert_eq!(memory.complete(0, fence, &Outcome::NotStored(outcome)), Written::Done);
    let kept = NotStored { status: 201, location: None };
    assert_eq!(memory.claim(0), Ok(Claimed::NotStored(kept)));
}

#[test]
fn nothing_is_left_of_what_has_expired() {
    let memory = Memory::new(MemoryBounds { max_records: 5000, max_bytes: 1 << 30 });
    for n in 0..500 {
        let fence = memory.fence(n);
        if n % 2 == 0 {
            memory.clock.advance(Micros(1));
            memory.complete(n, fence, &answer("some bytes"));
        }
    }
    memory.clock.advance(Micros::from_secs(61));
    for n in 500..2000 {
        memory.fence(n);
    }
    assert!(memory.records.n_records() < 1501 + 100, "{}", memory.records.n_records());
    memory.clock.advance(Micros::from_secs(61));
    memory.records.collect();
    assert_eq!((memory.records.n_records(), memory.records.n_bytes()), (0, 0));
}

#[test]
fn of_many_threads_that_claim_at_once_one_is_first() {
    let memory = Memory::new(ROOM);
    let given = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..32)
            .map(|n| {
                let records = &memory.records;
                scope.spawn(move || {
                    let claim = Claim { owner: owner(n), ..claim(0, Duration::from_secs(60)) };
                    records.claim(&claim).unwrap().fence().is_some()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(given.iter().filter(|given| **given).count(), 1);
}
