//! A master whose clock is minutes away from that of the master before it. What the former master
//! wrote by its own clock is made by moving the times of what is stored.

use crate::house::{House, key, patient, single};
use crate::support::redis::Redis;
use ::redis::{Cmd, cmd};
use tidegate::algorithm::{Algorithm, Anchor, Charge, Decision, Limit};
use tidegate::clock::Micros;
use tokio::time::Instant;

const WINDOW: Micros = Micros::from_secs(60);

fn limit(algorithm: Algorithm) -> Limit {
    Limit { algorithm, requests: 10, window: WINDOW, burst: 10, count_denied: false }
}

fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::ALL.into_iter().chain([Algorithm::FixedWindow(Anchor::FirstHit)])
}

/// Whether hits come back one by one rather than with the end of a window.
fn drips(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket)
}

/// Moves the times that stand in a bucket, by seconds.
async fn shift(redis: &Redis, key: &str, algorithm: Algorithm, seconds: i64) {
    let micros = seconds * 1_000_000;
    if algorithm == Algorithm::SlidingWindowLog {
        let entries: Vec<(Vec<u8>, i64)> = redis
            .try_ask(cmd("ZRANGE").arg(key).arg("0").arg("-1").arg("WITHSCORES"))
            .await
            .unwrap();
        for (member, at) in entries {
            let _: i64 =
                redis.try_ask(cmd("ZADD").arg(key).arg(at + micros).arg(member)).await.unwrap();
        }
        return;
    }
    // Where the time stands in the packed text, and in which unit.
    let (place, by) = match algorithm {
        Algorithm::FixedWindow(_) => (0..7, micros),
        Algorithm::SlidingWindowCounter => (0..5, seconds / 60),
        Algorithm::SlidingWindowLog | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            (11..18, micros)
        }
    };
    let mut stored: Vec<u8> = redis.try_ask(cmd("GET").arg(key)).await.unwrap();
    let time = stored[place.clone()].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
    let moved = (time + by).to_be_bytes();
    stored[place.clone()].copy_from_slice(&moved[8 - place.len()..]);
    let mut set: Cmd = cmd("SET");
    let _: String = redis.try_ask(set.arg(key).arg(stored).arg("KEEPTTL")).await.unwrap();
}

/// Uses a bucket up, moves its times, and asks again until it is refused: how many were admitted,
/// and the refusal.
async fn after_a_step(redis: &Redis, algorithm: Algorithm, seconds: i64) -> (u64, Decision) {
    let house = House::open(patient(single(redis))).await;
    let limit = limit(algorithm);
    let tag = format!("{}{seconds}", algorithm.name());
    house.ask(&tag, limit, Charge::Take(10)).await.unwrap();
    shift(redis, &key(&tag, limit), algorithm, seconds).await;
    for n_admitted in 0..=20 {
        let decision = house.take(&tag, limit).await.unwrap();
        if !decision.allowed {
            return (n_admitted, decision);
        }
    }
    panic!("{tag} admits and admits");
}

#[tokio::test]
async fn a_clock_that_steps_back_gives_nothing_away_and_asks_for_no_endless_wait() {
    let redis = Redis::start().await;
    for algorithm in algorithms() {
        for seconds in [30_u32, 60, 61, 180, 3600] {
            let began = Instant::now();
            let (n_admitted, refused) = after_a_step(&redis, algorithm, seconds.into()).await;
            let name = format!("{algorithm:?}, {seconds} s: {refused:?}");
            // A hit drips in every 6 s; an epoch window may just have ended.
            let dripped = began.elapsed().as_secs() / 6 + 1;
            let may = if drips(algorithm) { dripped } else { 0 };
            assert!(n_admitted <= may, "{n_admitted} were given away, {name}");
            // A step of a window at most is waited for as well. A window's own time is that of its
            // start, and the sliding counter looks a window further.
            let step = if seconds <= 60 { u64::from(seconds) } else { 0 };
            let longest = match algorithm {
                Algorithm::FixedWindow(_) => Micros::from_secs(120),
                Algorithm::SlidingWindowCounter => Micros::from_secs(180),
                Algorithm::SlidingWindowLog | Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                    Micros::from_secs(60 + step)
                }
            };
            assert!((Micros(1)..=longest).contains(&refused.wait.unwrap()), "{name}");
            assert!(refused.reset <= Micros(longest.0 + WINDOW.0), "{name}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_steps_forward_gives_away_what_drips_in_meanwhile_and_no_more() {
    let redis = Redis::start().await;
    for algorithm in algorithms() {
        for seconds in [6_u32, 30, 180] {
            let began = Instant::now();
            let (n_admitted, refused) = after_a_step(&redis, algorithm, -i64::from(seconds)).await;
            let name = format!("{n_admitted} by {algorithm:?}, {seconds} s: {refused:?}");
            let elapsed = u64::from(seconds) + began.elapsed().as_secs() + 1;
            // A window may be over meanwhile.
            let may = if drips(algorithm) { (elapsed / 6 + 1).min(11) } else { 10 };
            assert!(n_admitted <= may, "{name}");
            assert!(refused.wait.unwrap() <= Micros(2 * WINDOW.0), "{name}");
        }
    }
}
