//! Random histories of operations, played to the state machine and to everything that keeps records.

mod examples;
mod memory;
mod properties;
mod redis;
mod retries;

use super::*;
use crate::clock::Micros;
use crate::rules::OnLeaseExpired;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Something that keeps records, at a time that the test says.
pub(super) trait Keeper {
    fn ask(&mut self, asked: &Asked, now: Micros) -> Answer;
}

/// What is asked of a keeper.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Claim(Claim),
    Renew(Token, Duration, Duration),
    Complete(Token, Outcome, Duration),
    Release(Token),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Claimed(Claimed),
    Written(Written),
}

/// The state machine with a table of records.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) records: HashMap<OperationId, Record>,
}

/// One of a few attempts, operations and requests.
#[derive(Clone, Debug)]
pub(super) struct Step {
    later: Later,
    operation: usize,
    attempt: usize,
    act: Act,
    lease: u64,
    retention: u64,
}

/// How time goes on before a step, in microseconds.
#[derive(Clone, Copy, Debug)]
enum Later {
    By(i64),
    /// To the end of the lease that was given last, or so many microseconds off.
    LeaseEnd(i64),
    /// To the end of the retention of the record, or so many microseconds off.
    RetentionEnd(i64),
}

#[derive(Clone, Debug)]
enum Act {
    Claim {
        print: u32,
        version: u32,
        rule: OnLeaseExpired,
    },
    Renew,
    Complete(Outcome),
    Release,
    /// With the owner of one and the fence of another, or none that was ever given.
    Forge(u64),
}

const SECOND: u64 = 1_000_000;
pub(super) const START: Micros = Micros(1_700_000_000 * SECOND);

pub(super) fn operation(n: usize) -> OperationId {
    OperationId::of("test", "", "somebody", "*", n.to_string().as_bytes())
}

pub(super) fn owner(n: usize) -> Owner {
    Owner::new([u8::try_from(n).unwrap(); 16])
}

pub(super) fn answer(text: &str) -> Outcome {
    Outcome::Stored(Arc::new(StoredAnswer {
        status: 201,
        headers: vec![("location".into(), b"/payments/1".to_vec())],
        body: text.as_bytes().to_vec(),
        date: START,
    }))
}

fn act() -> impl Strategy<Value = Act> {
    let rule = prop_oneof![Just(OnLeaseExpired::Hold), Just(OnLeaseExpired::Takeover)];
    let print = prop_oneof![6 => Just(1_u32), 1 => Just(2)];
    let version = prop_oneof![12 => Just(1_u32), 1 => Just(2)];
    let told = NotStored { status: 200, location: Some(b"/here".to_vec()) };
    let outcome = prop_oneof![
        "[a-z]{0,9}".prop_map(|text| answer(&text)),
        Just(Outcome::NotStored(told)),
        Just(Outcome::NotStored(NotStored { status: 204, location: None })),
    ];
    prop_oneof![
        5 => (print, version, rule).prop_map(|(print, version, rule)| Act::Claim { print, version, rule }),
        2 => Just(Act::Renew),
        2 => outcome.prop_map(Act::Complete),
        1 => Just(Act::Release),
        1 => (0..3_u64).prop_map(Act::Forge),
    ]
}

fn later() -> impl Strategy<Value = Later> {
    prop_oneof![
        4 => Just(Later::By(0)),
        4 => (0..2_000_000_i64).prop_map(Later::By),
        1 => (0..90_000_000_i64).prop_map(Later::By),
        1 => (-3_000_000..0_i64).prop_map(Later::By),
        3 => (-1..=1_i64).prop_map(Later::LeaseEnd),
        1 => (-1..=1_i64).prop_map(Later::RetentionEnd),
    ]
}

pub(super) fn history() -> impl Strategy<Value = Vec<Step>> {
    let lease = prop_oneof![Just(1_000_000_u64), Just(1_500_001), Just(10_000_000)];
    let retention = prop_oneof![Just(60_000_000_u64), Just(600_000_000)];
    let step = (later(), 0..2_usize, 0..3_usize, act(), lease, retention);
    let step = step.prop_map(|(later, operation, attempt, act, lease, retention)| Step {
        later,
        operation,
        attempt,
        act,
        lease,
        retention,
    });
    vec(step, 1..50)
}

/// Plays a history: what is asked at each step, and when, depends on what the machine answered.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) machine: Machine,
    pub(super) now: Micros,
    /// Whether the clock may go back, as that of another Redis after a failover.
    steps_back: bool,
    /// The fence that each attempt at each operation was given last.
    fences: HashMap<(usize, usize), Fence>,
    /// The last one of each operation.
    last: HashMap<usize, Fence>,
    /// The retention that was asked for last with success.
    retentions: HashMap<OperationId, Duration>,
    /// What the last step found expired.
    pub(super) forgotten: Vec<OperationId>,
}

impl Play {
    pub(super) fn new() -> Self {
        Self {
            steps_back: true,
            machine: Machine::default(),
            now: START,
            fences: HashMap::new(),
            last: HashMap::new(),
            retentions: HashMap::new(),
            forgotten: Vec::new(),
        }
    }

    /// By a clock that never goes back, as a process's own.
    pub(super) fn forward() -> Self {
        Self { steps_back: false, ..Self::new() }
    }

    /// What a step asks, and what the machine answers.
    pub(super) fn step(&mut self, step: &Step) -> (Asked, Answer) {
        self.move_on(step);
        let asked = self.asked(step);
        let expired = self.machine.records.iter().filter(|(_, one)| one.expires <= self.now);
        self.forgotten = expired.map(|(operation, _)| *operation).collect();
        let answer = self.machine.ask(&asked, self.now);
        self.note_retention(&asked, &answer);
        if let Answer::Claimed(Claimed::First { fence } | Claimed::TakenOver { fence }) = answer {
            self.fences.insert((step.operation, step.attempt), fence);
            self.last.insert(step.operation, fence);
        }
        (asked, answer)
    }

    /// For how long a record was to be kept when it was written last.
    pub(super) fn retention(&self, operation: OperationId) -> Duration {
        self.retentions[&operation]
    }

    fn note_retention(&mut self, asked: &Asked, answer: &Answer) {
        let retention = match (asked, answer) {
            (Asked::Claim(claim), Answer::Claimed(claimed)) if claimed.fence().is_some() => {
                claim.terms.retention
            }
            (
                Asked::Renew(_, _, retention) | Asked::Complete(_, _, retention),
                Answer::Written(Written::Done),
            ) => *retention,
            _ => return,
        };
        self.retentions.insert(asked.operation(), retention);
    }

    fn move_on(&mut self, step: &Step) {
        let record = self.machine.records.get(&operation(step.operation));
        let to = |at: fn(&Record) -> Micros, by| record.map_or((self.now, 0), |one| (at(one), by));
        let (from, by) = match step.later {
            Later::By(by) => (self.now, by),
            Later::LeaseEnd(by) => to(|record| record.lease_ends, by),
            Later::RetentionEnd(by) => to(|record| record.expires, by),
        };
        let least = if self.steps_back { Micros(START.0 / 2) } else { self.now };
        self.now = Micros(from.0.saturating_add_signed(by)).max(least);
    }

    fn asked(&self, step: &Step) -> Asked {
        let (lease, retention) =
            (Duration::from_micros(step.lease), Duration::from_micros(step.retention));
        let token = Token {
            operation: operation(step.operation),
            owner: owner(step.attempt),
            fence: self.fences.get(&(step.operation, step.attempt)).copied().unwrap_or_default(),
        };
        match &step.act {
            Act::Claim { print, version, rule } => Asked::Claim(Claim {
                operation: token.operation,
                owner: token.owner,
                fingerprint: Fingerprint::new(*version, print),
                terms: Terms { lease, retention, on_lease_expired: *rule },
            }),
            Act::Renew => Asked::Renew(token, lease, retention),
            Act::Complete(outcome) => Asked::Complete(token, outcome.clone(), retention),
            Act::Release => Asked::Release(token),
            Act::Forge(by) => {
                let last = self.last.get(&step.operation).copied().unwrap_or_default();
                Asked::Release(Token { fence: Fence(last.0 + by), ..token })
            }
        }
    }
}

impl Asked {
    pub(super) fn operation(&self) -> OperationId {
        match self {
            Self::Claim(claim) => claim.operation,
            Self::Renew(token, ..) | Self::Complete(token, ..) | Self::Release(token) => {
                token.operation
            }
        }
    }
}

impl Keeper for Machine {
    fn ask(&mut self, asked: &Asked, now: Micros) -> Answer {
        let operation = asked.operation();
        self.records.retain(|_, record| now < record.expires);
        let found = self.records.get(&operation);
        let (answer, change) = match asked {
            Asked::Claim(claim) => {
                let (claimed, change) = record::claim(found, claim, now);
                (Answer::Claimed(claimed), change)
            }
            Asked::Renew(token, lease, retention) => {
                written(record::renew(found, token, *lease, *retention, now))
            }
            Asked::Complete(token, outcome, retention) => {
                written(record::complete(found, token, outcome, *retention, now))
            }
            Asked::Release(token) => written(record::release(found, token, now)),
        };
        if let Some(record) = change {
            self.records.insert(operation, record);
        }
        answer
    }
}

fn written((written, change): (Written, Option<Record>)) -> (Answer, Option<Record>) {
    (Answer::Written(written), change)
}
