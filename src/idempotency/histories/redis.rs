//! The scripts against the machine: the same histories at the same made-up times, in a real Redis.

use super::*;
use crate::idempotency::redis::{
    Arguments, Scripts, claim_arguments, claimed, complete_arguments, release_arguments,
    renew_arguments, written,
};
use crate::store::Script;
use crate::store::redis_support::Redis;
use ::redis::{Cmd, Connection, Value};
use std::cell::RefCell;

/// A server, and the scripts that are called on it at times that the test makes up.
struct Lua {
    _redis: Redis,
    connection: Connection,
    scripts: Scripts,
    n_cases: u64,
}

/// A key outlives its retention by no more than what the test takes.
const SLACK_MS: i64 = 20_000;

impl Lua {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let redis = runtime.block_on(Redis::start());
        let client = ::redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
        let connection = client.get_connection().unwrap();
        Self { _redis: redis, connection, scripts: Scripts::new(), n_cases: 0 }
    }

    fn key(&self, operation: OperationId) -> String {
        format!("{}:{operation}", self.n_cases)
    }

    fn ask_redis<T: ::redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        Cmd::new().arg(words).query(&mut self.connection).unwrap()
    }

    fn call(
        &mut self,
        script: fn(&Scripts) -> &Script,
        operation: OperationId,
        mut arguments: Arguments,
        now: Micros,
    ) -> Value {
        arguments[0] = now.0.to_string().into();
        let mut command = Cmd::new();
        command.arg("EVAL").arg(script(&self.scripts).source()).arg(1).arg(self.key(operation));
        command.arg(arguments).query(&mut self.connection).unwrap()
    }

    /// Plays a history; both answer alike, and the key's expiry is the retention that was asked
    /// for last.
    fn check(&mut self, history: &[Step]) -> Result<(), TestCaseError> {
        self.n_cases += 1;
        let mut play = Play::new();
        for step in history {
            let (asked, expected) = play.step(step);
            self.forget_expired(&play);
            prop_assert_eq!(self.ask(&asked, play.now), expected, "{:?}", asked);
            self.check_keys(&play, &asked)?;
        }
        Ok(())
    }

    /// What Redis does by itself when the real time comes.
    fn forget_expired(&mut self, play: &Play) {
        let forgotten = play.forgotten.iter().map(|operation| self.key(*operation));
        for key in forgotten.collect::<Vec<_>>() {
            let _: i64 = self.ask_redis(&["DEL", &key]);
        }
    }

    fn check_keys(&mut self, play: &Play, asked: &Asked) -> Result<(), TestCaseError> {
        let key = self.key(asked.operation());
        let ttl: i64 = self.ask_redis(&["PTTL", &key]);
        let Some(record) = play.machine.records.get(&asked.operation()) else {
            prop_assert_eq!(ttl, -2, "a key without a record");
            return Ok(());
        };
        let kept = play.retention(asked.operation());
        let kept = i64::try_from(kept.as_micros().div_ceil(1000)).unwrap();
        prop_assert!((kept - SLACK_MS..=kept).contains(&ttl), "{} of {}: {:?}", ttl, kept, record);
        Ok(())
    }
}

impl Keeper for Lua {
    fn ask(&mut self, asked: &Asked, now: Micros) -> Answer {
        let operation = asked.operation();
        let done = |answer: &Value| Answer::Written(written(answer).unwrap());
        match asked {
            Asked::Claim(claim) => {
                let answer = self.call(|all| &all.claim, operation, claim_arguments(claim), now);
                Answer::Claimed(claimed(answer).unwrap())
            }
            Asked::Renew(token, lease, retention) => {
                let arguments = renew_arguments(token, *lease, *retention);
                done(&self.call(|all| &all.renew, operation, arguments, now))
            }
            Asked::Complete(token, outcome, retention) => {
                let arguments = complete_arguments(token, outcome, *retention);
                done(&self.call(|all| &all.complete, operation, arguments, now))
            }
            Asked::Release(token) => {
                done(&self.call(|all| &all.release, operation, release_arguments(token), now))
            }
        }
    }
}

#[test]
fn redis_answers_as_the_machine_does() {
    let lua = RefCell::new(Lua::start());
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() };
    proptest!(config, |(history in history())| { lua.borrow_mut().check(&history)?; });
}

fn claim() -> Claim {
    Claim {
        operation: operation(0),
        owner: owner(1),
        fingerprint: Fingerprint::new(1, "same"),
        terms: Terms {
            lease: Duration::from_secs(1),
            retention: Duration::from_secs(60),
            on_lease_expired: OnLeaseExpired::Takeover,
        },
    }
}

#[test]
fn a_record_of_another_version_is_neither_read_nor_written() {
    let mut lua = Lua::start();
    let key = lua.key(operation(0));
    let claim = claim();
    let token = claim.token(Fence(1));
    for record in ["\u{2}of a version to come", "\u{1}cut short", "somebody else's"] {
        let _: () = lua.ask_redis(&["SET", &key, record]);
        let asked = Asked::Claim(claim.clone());
        assert_eq!(lua.ask(&asked, START), Answer::Claimed(Claimed::Unverifiable), "{record}");
        for asked in [
            Asked::Renew(token, Duration::from_secs(1), Duration::from_secs(60)),
            Asked::Complete(token, answer("done"), Duration::from_secs(60)),
            Asked::Release(token),
        ] {
            assert_eq!(lua.ask(&asked, START), Answer::Written(Written::Stale), "{record}");
        }
        assert_eq!(lua.ask_redis::<String>(&["GET", &key]), record);
    }
}

#[test]
fn an_outcome_of_another_version_is_not_replayed() {
    let mut lua = Lua::start();
    let Answer::Claimed(given) = lua.ask(&Asked::Claim(claim()), START) else { panic!() };
    let token = claim().token(given.fence().unwrap());
    let mut arguments = complete_arguments(&token, &answer("done"), Duration::from_secs(60));
    *arguments.last_mut().unwrap() = b"\xffof a version to come".to_vec();
    lua.call(|all| &all.complete, operation(0), arguments, START);
    let again = lua.ask(&Asked::Claim(claim()), START);
    assert_eq!(again, Answer::Claimed(Claimed::Unverifiable));
}

#[test]
fn without_a_time_the_servers_own_counts() {
    let mut lua = Lua::start();
    let mut arguments = claim_arguments(&claim());
    arguments[0] = Vec::new();
    let mut command = Cmd::new();
    command.arg("EVAL").arg(lua.scripts.claim.source()).arg(1).arg("key").arg(arguments);
    let answer: Value = command.query(&mut lua.connection).unwrap();
    let [seconds, _]: [u64; 2] = lua.ask_redis(&["TIME"]);
    let fence = claimed(answer).unwrap().fence().unwrap().0 / 1000;
    assert!((seconds - 60..=seconds).contains(&fence), "{fence} at {seconds}");
}
