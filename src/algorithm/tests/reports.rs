//! Faults that people reported against rate limiters, each as its smallest input.

use super::*;

// Windows and their edges.

#[test]
fn a_fixed_window_lets_a_burst_through_on_each_side_of_its_edge() {
    let mut bucket = Bucket::new(FIXED, 5, 60);
    assert_eq!(bucket.admitted(59_000, 5), 5);
    assert_eq!(bucket.admitted(60_000, 5), 5);
    assert_eq!(bucket.admitted(61_000, 1), 0);
}

#[test]
fn a_log_counts_over_the_edge_of_the_minute() {
    let mut bucket = Bucket::new(LOG, 5, 60);
    assert_eq!(bucket.admitted(59_000, 5), 5);
    assert_eq!(bucket.admitted(60_000, 5), 0);
    assert_eq!(bucket.take(61_000, 1).wait, Some(secs(58)));
    assert_eq!(bucket.admitted(118_999, 1), 0);
    assert_eq!(bucket.admitted(119_000, 9), 5);
}

#[test]
fn a_token_bucket_has_only_what_dripped_in_since() {
    let mut bucket = Bucket::new(TOKEN, 5, 60);
    assert_eq!(bucket.admitted(59_000, 6), 5);
    assert_eq!(bucket.take(60_000, 1).wait, Some(secs(11)));
    assert_eq!(bucket.admitted(71_000, 2), 1);
}

#[test]
fn a_counter_frees_the_previous_window_bit_by_bit() {
    let mut bucket = Bucket::new(COUNTER, 5, 60);
    assert_eq!(bucket.admitted(59_000, 6), 5);
    assert_eq!(bucket.take(60_000, 1).wait, Some(secs(12)));
    assert_eq!(bucket.admitted(72_000, 2), 1);
}

#[test]
fn a_counter_of_limit_one_admits_its_first_hit() {
    let decision = Bucket::new(COUNTER, 1, 10).take(3_000, 1);
    assert!(decision.allowed);
    assert_eq!(decision.remaining, 0);
}

#[test]
fn the_remaining_of_a_counter_includes_the_weighted_part() {
    let mut bucket = Bucket::new(COUNTER, 100, 60);
    assert_eq!(bucket.admitted(30_000, 50), 50);
    assert_eq!(bucket.take(66_000, 10).remaining, 45);
    assert_eq!(bucket.admitted(66_000, 50), 45);
}

#[test]
fn whoever_keeps_trying_gets_half_of_twice_the_rate_from_a_log() {
    let mut bucket = Bucket::new(LOG, 10, 600);
    for hit in 0..240 {
        assert_eq!(bucket.allows(hit * 30_000, 1), hit % 20 < 10, "hit {hit}");
        assert!(bucket.n_entries() <= 10);
    }
}

#[test]
fn hits_of_one_instant_do_not_collapse_in_a_log() {
    let mut bucket = Bucket::new(LOG, 100, 60);
    assert_eq!(bucket.admitted(5, 10_000), 100);
    let mut bucket = Bucket::new(LOG, 100, 60);
    assert!(bucket.allows(5, 50));
    assert_eq!(bucket.admitted(5, 10_000), 50);
}

#[test]
fn a_hit_in_mid_window_keeps_its_weight_for_a_whole_window() {
    let minute = 60_000;
    let passes = |algorithm| {
        let mut bucket = Bucket::new(algorithm, 10, 3_600);
        assert_eq!(bucket.admitted(0, 1), 1);
        assert_eq!(bucket.admitted(59 * minute, 8), 8);
        bucket.admitted(61 * minute, 9)
    };
    assert_eq!(passes(LOG), 2);
    assert_eq!(passes(COUNTER), 1);
}

#[test]
fn the_wait_of_a_log_is_that_of_its_oldest_hit() {
    let mut bucket = Bucket::new(LOG, 2, 60);
    assert_eq!(bucket.admitted(0, 1) + bucket.admitted(50_000, 1), 2);
    let decision = bucket.take(55_000, 1);
    assert_eq!((decision.allowed, decision.wait), (false, Some(secs(5))));
    assert_eq!(decision.reset, secs(5));
}

#[test]
fn a_fixed_window_resets_at_its_end_and_tokens_one_by_one() {
    let mut window = Bucket::new(FIXED, 5, 60);
    assert_eq!(window.take(11_400, 1).reset, millis(48_600));
    assert_eq!(window.take(11_400, 6).wait, None);
    assert_eq!(window.take(11_400, 1).wait, Some(millis(48_600)));
    assert_eq!(window.take(60_000, 1).reset, secs(60));
    let mut tokens = Bucket::new(TOKEN, 5, 60);
    assert_eq!(tokens.admitted(11_400, 6), 5);
    assert_eq!(tokens.take(11_400, 1).wait, Some(secs(12)));
    assert_eq!(tokens.take(13_000, 1).wait, Some(millis(10_400)));
}

#[test]
fn weeks_months_and_years_are_whole_days_since_the_epoch() {
    let day = 86_400;
    let reset =
        |days: u64, seconds: u64| Bucket::new(FIXED, 5, days * day).take(seconds * 1000, 1).reset;
    let (jan_31, feb_1) = (1_769_903_999, 1_769_904_000);
    assert_eq!(reset(30, jan_31), secs(432_001));
    assert_eq!(reset(30, feb_1), secs(432_000));
    let nov_5 = 1_793_836_800;
    assert_eq!(reset(7, nov_5), secs(604_800));
    let dec_31 = 1_798_761_599;
    assert_eq!(reset(365, dec_31), secs(30_326_401));
    assert_eq!(reset(365, jan_31), secs((365 - 45) * day + 1));
}

#[test]
fn a_first_hit_window_runs_from_its_first_hit() {
    let mut bucket = Bucket::new(FIRST_HIT, 2, 60);
    assert_eq!(bucket.peek(59_000).reset, secs(0));
    assert_eq!(bucket.take(59_000, 1).reset, secs(60));
    assert_eq!(bucket.admitted(61_000, 2), 1);
    assert_eq!(bucket.take(118_999, 1).wait, Some(millis(1)));
    assert_eq!(bucket.take(119_000, 1).reset, secs(60));
}

#[test]
fn the_edge_of_a_fixed_window_starts_a_new_count_at_once() {
    let mut bucket = Bucket::new(FIXED, 100, 1);
    for window in 1..=5 {
        let passed: usize = (0..1000).map(|ms| bucket.admitted(window * 1000 + ms, 1)).sum();
        assert_eq!(passed, 100);
    }
}

// Charges of several hits, none, or less than none.

#[test]
fn a_peek_passes_at_the_limit_and_not_beyond() {
    let mut window = Bucket::new(FIXED, 2, 60);
    assert_eq!([window.take(0, 1).remaining, window.take(0, 1).remaining], [1, 0]);
    let peek = window.peek(0);
    assert_eq!((peek.allowed, peek.remaining, peek.written), (true, 0, false));
    let crossing = window.take(0, 1);
    assert_eq!((crossing.allowed, crossing.before, crossing.after), (false, 2, 3));
    assert!(!window.peek(0).allowed);
    for algorithm in [LOG, COUNTER, TOKEN] {
        let mut bucket = Bucket::new(algorithm, 2, 60);
        assert_eq!(bucket.admitted(0, 3), 2);
        assert!(bucket.peek(0).allowed, "{}", algorithm.name());
    }
}

#[test]
fn a_charge_passes_whole_or_not_at_all() {
    let mut window = Bucket::new(FIXED, 10, 60);
    assert!(window.allows(0, 8));
    let crossing = window.take(0, 5);
    assert_eq!((crossing.allowed, crossing.after), (false, 13));
    assert!(!window.allows(0, 1) && !window.allows(0, 2));
    assert_eq!(window.peek(0).after, 13);
    for algorithm in [LOG, COUNTER, TOKEN] {
        let mut bucket = Bucket::new(algorithm, 10, 60);
        assert!(bucket.allows(0, 8));
        let refused = bucket.take(0, 5);
        assert_eq!((refused.allowed, refused.remaining, refused.written), (false, 2, false));
        assert_eq!((refused.before, refused.after), (8, 8));
        assert_eq!(bucket.take(0, 1).remaining, 1);
        assert!(!bucket.allows(0, 2));
    }
}

#[test]
fn two_huge_charges_do_not_open_the_limit_again() {
    let most = u64::from(u32::MAX);
    let mut bucket = Bucket::new(FIXED, u32::MAX, 86_400);
    let first = bucket.take(0, most);
    assert_eq!((first.allowed, first.remaining), (true, 0));
    assert!(!bucket.allows(0, 1) && !bucket.allows(0, most));
    assert_eq!(bucket.peek(0).after, most + 1);
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, u32::MAX, 86_400).with_count_denied(true);
        for _ in 0..3 {
            assert!(!bucket.allows(0, MAX_HITS), "{}", algorithm.name());
            assert_eq!(bucket.peek(0).remaining, 0);
        }
    }
}

#[test]
fn what_is_recorded_beyond_all_measure_is_cut_off() {
    let state = |algorithm| {
        let mut bucket = Bucket::new(algorithm, 10, 60).with_count_denied(true);
        assert!(bucket.allows(60_000, 3));
        assert!((0..3).all(|_| !bucket.allows(60_000, MAX_HITS)));
        bucket.state
    };
    let (start, at) = (secs(60), secs(60));
    assert_eq!(state(FIXED), Some(State::FixedWindow { start, used: MAX_HITS }));
    let most = MAX_STORED_HITS;
    let counter = State::SlidingWindowCounter { window: 1, previous: 0, current: most };
    assert_eq!(state(COUNTER), Some(counter));
    assert_eq!(state(TOKEN), Some(State::TokenBucket { whole: -(1 << 34), fraction: 0, at }));
    assert_eq!(state(LEAKY), Some(State::LeakyBucket { whole: most, fraction: 0, at }));
    let mut log = Bucket::new(LOG, 10, 60).with_count_denied(true);
    log.state = state(LOG);
    log.refund(60_000, MAX_HITS - 4);
    assert_eq!(log.peek(60_000).remaining, 6);
}

#[test]
fn a_limit_of_zero_blocks_hits_but_not_the_first_peek() {
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        for burst in [0, 1, 7] {
            let mut bucket = Bucket::new(algorithm, 0, 1).with_burst(burst);
            let peek = bucket.peek(0);
            assert_eq!((peek.allowed, peek.remaining, peek.written), (true, 0, false));
            for ms in [0, 1, 2, 1_000, 1_001, 1_002] {
                let hit = bucket.take(ms, 1);
                assert_eq!((hit.allowed, hit.remaining, hit.wait), (false, 0, None));
            }
            let mut bucket = bucket.with_count_denied(true);
            assert!(!bucket.allows(2_000, 1));
            assert!(!bucket.peek(2_000).allowed, "{} {burst}", algorithm.name());
        }
    }
}

#[test]
fn a_debt_is_paid_off_before_peeks_pass_again() {
    for algorithm in [LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 10, 60).with_burst(10).with_count_denied(true);
        assert!(bucket.allows(0, 8));
        assert!(!bucket.allows(0, 14));
        let peek = bucket.peek(0);
        assert!(!peek.allowed, "{}", algorithm.name());
        let wait = peek.wait.unwrap().0;
        let peek = |now| decide(bucket.state.clone(), &bucket.limit, Charge::Peek, Micros(now)).1;
        assert!(!peek(wait - 1).allowed && peek(wait).allowed, "{}", algorithm.name());
    }
}

#[test]
fn once_over_its_limit_a_fixed_window_records_no_more() {
    let mut bucket = Bucket::new(FIXED, 10, 60);
    assert!(bucket.allows(0, 10));
    assert!(bucket.take(0, 3).written);
    assert!((0..50).all(|_| !bucket.take(0, 3).written));
    let refund = bucket.refund(0, 3);
    assert_eq!((refund.before, refund.after), (13, 10));
    bucket.refund(0, 1);
    assert!(bucket.allows(0, 1));
}

#[test]
fn a_log_that_counts_refusals_keeps_one_entry_more_than_its_limit() {
    let mut bucket = Bucket::new(LOG, 10, 60).with_count_denied(true);
    for ms in 0..200_000 {
        bucket.take(ms * 7, 1);
        assert!(bucket.n_entries() <= 11);
    }
    assert!(!bucket.peek(200_000 * 7).allowed);
}

#[test]
fn peeks_refusals_and_refunds_create_no_state() {
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 10, 60).with_count_denied(false);
        for charge in [Charge::Peek, Charge::Refund(3), Charge::Take(11), Charge::Refund(MAX_HITS)]
        {
            assert!(!bucket.decide(5_000, charge).written);
            assert_eq!(bucket.state, None, "{}", algorithm.name());
        }
    }
}

#[test]
fn a_refund_gives_back_at_most_what_was_used() {
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 10, 60).with_burst(10);
        assert!(bucket.allows(0, 4) && bucket.allows(1, 5));
        let refund = bucket.refund(1, 3);
        assert_eq!((refund.allowed, refund.wait, refund.remaining), (true, None, 4));
        assert_eq!((refund.before, refund.after), (9, 6));
        assert_eq!(bucket.refund(1, MAX_HITS).remaining, 10, "{}", algorithm.name());
        assert!(!bucket.refund(1, 1).written);
        assert_eq!(bucket.admitted(1, 11), 10);
    }
}

#[test]
fn a_refund_takes_the_newest_hits_from_a_log() {
    let mut bucket = Bucket::new(LOG, 10, 60);
    assert!(bucket.allows(0, 4) && bucket.allows(20_000, 3) && bucket.allows(30_000, 3));
    bucket.refund(30_000, 5);
    assert_eq!(bucket.n_entries(), 2);
    assert_eq!(bucket.peek(59_999).remaining, 5);
    assert_eq!(bucket.peek(60_000).remaining, 9);
    assert_eq!(bucket.peek(80_000).remaining, 10);
}

#[test]
fn a_refund_takes_from_the_current_window_of_a_counter_first() {
    let mut bucket = Bucket::new(COUNTER, 10, 60);
    assert!(bucket.allows(0, 6) && bucket.allows(60_000, 4));
    bucket.refund(60_000, 5);
    let state = State::SlidingWindowCounter { window: 1, previous: 5, current: 0 };
    assert_eq!(bucket.state, Some(state));
}

// Rates and remainders.

#[test]
fn large_limits_count_exactly() {
    for (requests, seconds) in [(u32::MAX, 31_536_000), (1_000_000_000, 1)] {
        let mut bucket = Bucket::new(TOKEN, requests, seconds);
        for used in 1..=3 {
            assert_eq!(bucket.take(1, 1).remaining, u64::from(requests) - used);
        }
    }
    let mut bucket = Bucket::new(TOKEN, 6_000, 1);
    let passed: usize = (0..10).map(|ms| bucket.admitted(ms, 700)).sum();
    assert_eq!(passed, 6_054);
    assert_eq!(bucket.admitted(10, 700), 6);
}

#[test]
fn a_token_bucket_keeps_the_part_of_a_token_it_has() {
    let mut bucket = Bucket::new(TOKEN, 1, 10).with_burst(3);
    assert_eq!(bucket.admitted(0, 4), 3);
    assert!(bucket.allows(25_000, 1) && bucket.allows(29_000, 1) && bucket.allows(30_000, 1));
    assert!(!bucket.allows(30_000, 1));
}

#[test]
fn steady_tries_at_any_pace_get_the_whole_rate() {
    for pace in [1, 7, 333, 999, 1_001, 2_500] {
        let mut tokens = Bucket::new(TOKEN, 1, 10).with_burst(3);
        let passed: usize = (0..=600_000 / pace).map(|n| tokens.admitted(n * pace, 1)).sum();
        assert!((62..=63).contains(&passed), "{passed} at one try in {pace} ms");
    }
}

#[test]
fn whoever_waits_as_told_is_let_in() {
    let mut bucket = Bucket::new(TOKEN, 6, 60);
    assert_eq!(bucket.admitted(0, 7), 6);
    assert_eq!(bucket.take(0, 1).wait, Some(secs(10)));
    assert!(!bucket.allows(9_999, 1));
    assert!(bucket.allows(10_000, 1));
    let mut bucket = Bucket::new(TOKEN, 1, 10);
    assert!(bucket.allows(250, 1));
    assert_eq!(bucket.take(1_250, 1).wait, Some(secs(9)));
    let mut thirds = Bucket::new(TOKEN, 3, 1);
    assert_eq!(thirds.admitted(0, 4), 3);
    assert_eq!(thirds.take(0, 1).wait, Some(Micros(333_334)));
}

#[test]
fn an_idle_leaky_bucket_has_its_capacity_and_no_more() {
    let mut bucket = Bucket::new(LEAKY, 10, 30).with_burst(10);
    assert!(bucket.allows(0, 1));
    assert_eq!(bucket.peek(3_600_000).remaining, 10);
    for algorithm in [TOKEN, LEAKY] {
        for burst in [0, 1] {
            let mut bucket = Bucket::new(algorithm, 1, 3_600).with_burst(burst);
            assert!(bucket.allows(0, 1));
            assert_eq!(bucket.take(0, 1).wait, Some(secs(3_600)));
            assert!(bucket.allows(3_600_000, 1));
        }
    }
}

#[test]
fn a_leaky_bucket_paces_what_passes() {
    let mut bucket = Bucket::new(LEAKY, 10, 10);
    let passed: Vec<u64> = (0..50).filter(|tenth| bucket.allows(tenth * 100, 1)).collect();
    assert_eq!(passed, [0, 10, 20, 30, 40]);
    let heavy = bucket.take(5_000, 7);
    assert_eq!((heavy.allowed, heavy.remaining, heavy.reset), (true, 0, secs(7)));
    assert_eq!(bucket.take(5_000, 1).wait, Some(secs(7)));
    assert_eq!(bucket.take(5_000, 10).wait, Some(secs(7)));
    assert_eq!(bucket.take(5_000, 11).wait, None);
    let mut bucket = Bucket::new(LEAKY, 10, 10).with_burst(3);
    assert_eq!(bucket.admitted(0, 5), 3);
    assert_eq!(bucket.take(0, 1).wait, Some(secs(1)));
}

#[test]
fn a_long_run_loses_nothing_to_rounding() {
    for algorithm in [TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 7, 60).with_burst(7);
        let (mut now, mut passed, mut random) = (1_790_000_000_000_000, 0, 1_u64);
        let start = now;
        for _ in 0..1_000_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now += (random >> 33) % 20_001;
            let (state, decision) =
                decide(bucket.state.take(), &bucket.limit, Charge::Take(1), Micros(now));
            bucket.state = state;
            passed += u64::from(decision.allowed);
        }
        let due = (now - start) * 7 / 60_000_000 + 7;
        assert!(passed.abs_diff(due) <= 1, "{}: {passed} of {due}", algorithm.name());
    }
}

// Clocks and changed limits.

#[test]
fn a_clock_that_steps_back_neither_locks_out_nor_gives_more() {
    for algorithm in [LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 5, 10).with_burst(5);
        assert_eq!(bucket.admitted(100_000, 1), 1);
        assert_eq!(bucket.admitted(91_000, 3), 3, "{}", algorithm.name());
        assert_eq!(bucket.admitted(99_000, 3), 1, "{}", algorithm.name());
        let after = bucket.admitted(101_000, 5);
        assert!(after <= 1, "{}: {after}", algorithm.name());
        assert!(bucket.admitted(120_000, 9) >= 5);
    }
}

#[test]
fn a_clock_far_behind_is_taken_over_with_the_level() {
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        let mut full = Bucket::new(algorithm, 5, 10).with_burst(5);
        assert_eq!(full.admitted(1_000_000, 5), 5);
        let hit = full.clone().take(900_000, 1);
        assert!(!hit.allowed && hit.wait.unwrap() <= secs(20), "{}", algorithm.name());
        let peek = full.peek(900_000);
        assert!(peek.written && peek.reset <= secs(20), "{}", algorithm.name());
        assert!(!full.peek(900_000).written);
        assert_eq!(full.n_entries(), 1);
        assert!(full.admitted(920_000, 9) >= 5);
    }
}

#[test]
fn a_clock_that_jumps_ahead_refills_and_no_more() {
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 10, 3_600).with_burst(10);
        assert_eq!(bucket.admitted(0, 11), 10);
        assert_eq!(bucket.admitted(7_200_000, 11), 10);
        assert_eq!(bucket.admitted(u64::MAX / 2_000, 11), 10);
    }
}

#[test]
fn a_changed_limit_takes_effect_at_once_and_keeps_what_was_used() {
    for algorithm in [FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY] {
        let mut bucket = Bucket::new(algorithm, 10, 20).with_burst(10);
        assert_eq!(bucket.admitted(0, 3), 3);
        bucket.limit.requests = 1_000;
        assert!(bucket.allows(0, 1));
        bucket.limit = Limit { requests: 2, burst: 2, ..bucket.limit };
        let peek = bucket.peek(0);
        assert!(peek.remaining <= 2 && peek.before <= 4, "{}", algorithm.name());
    }
}

#[test]
fn a_higher_limit_is_not_held_back_by_the_verdict_of_a_lower_one() {
    let mut bucket = Bucket::new(FIXED, 1, 60);
    assert_eq!(bucket.admitted(0, 2), 1);
    bucket.limit.requests = 100;
    assert_eq!(bucket.take(0, 1).remaining, 97);
}

#[test]
fn the_state_of_another_algorithm_is_as_none() {
    let all = [FIXED, LOG, COUNTER, TOKEN, LEAKY];
    for stored in all {
        let mut old = Bucket::new(stored, 5, 60).with_burst(5);
        assert_eq!(old.admitted(0, 5), 5);
        for algorithm in all.into_iter().filter(|algorithm| *algorithm != stored) {
            let mut bucket = Bucket { state: old.state.clone(), ..Bucket::new(algorithm, 5, 60) };
            bucket.peek(0);
            assert_eq!(bucket.state, old.state, "a peek writes nothing");
            assert!(bucket.allows(0, 1));
        }
    }
}
