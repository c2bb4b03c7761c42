//! What each algorithm lets pass is what the page about choosing one says.

use crate::read;
use tidegate::algorithm::{Algorithm, Anchor, Charge, Limit, decide};
use tidegate::clock::Micros;

/// When a client begins that tries as often as it can, in milliseconds: just before a window ends.
const BEGIN: u64 = 59_900;

/// Between two of its attempts, and when it ends.
const STEP: usize = 100;
const END: u64 = BEGIN + 600_000;

/// When its hits pass: it always tries until it is refused.
fn passed(limit: &Limit) -> Vec<u64> {
    let mut passed = Vec::new();
    let mut state = None;
    for now in (BEGIN..END).step_by(STEP) {
        loop {
            let (next, decision) = decide(state, limit, Charge::Take(1), Micros(now * 1000));
            state = next;
            if !decision.allowed {
                break;
            }
            passed.push(now);
        }
    }
    passed
}

/// A row of the table, of a limit of 60 a minute: at once, in the first second, in the busiest
/// minute, in all.
fn row(name: &str, algorithm: Algorithm, burst: u32) -> String {
    let count_denied = matches!(algorithm, Algorithm::FixedWindow(_));
    let window = Micros::from_secs(60);
    let passed = passed(&Limit { algorithm, requests: 60, window, burst, count_denied });
    let within =
        |from: u64, ms: u64| passed.iter().filter(|&&at| at >= from && at < from + ms).count();
    let (at_once, second) = (within(BEGIN, 1), within(BEGIN, 1000));
    let busiest = passed.iter().map(|&at| within(at, 60_000)).max().unwrap();
    format!("| {name} | {at_once} | {second} | {busiest} | {} |\n", passed.len())
}

#[test]
fn the_page_about_choosing_says_what_passes() {
    let table = [
        row("`fixed_window`", Algorithm::FixedWindow(Anchor::Epoch), 1),
        row("`sliding_window_log`", Algorithm::SlidingWindowLog, 1),
        row("`sliding_window_counter`", Algorithm::SlidingWindowCounter, 1),
        row("`token_bucket`", Algorithm::TokenBucket, 60),
        row("`token_bucket`, `burst: 10`", Algorithm::TokenBucket, 10),
        row("`leaky_bucket`", Algorithm::LeakyBucket, 1),
        row("`leaky_bucket`, `burst: 10`", Algorithm::LeakyBucket, 10),
    ]
    .concat();
    let page = read("docs/choosing.md");
    assert!(page.contains(&table), "docs/choosing.md should hold:\n{table}");
}
