//! Charges that stand or fall together, against a model that copies everything all the time.

use super::history::requests;
use super::*;
use proptest::prelude::*;
use proptest::sample::select;

fn decide_all(
    members: &[Member],
    items: &[Item],
    buckets: &mut [Option<State>],
    ms: u64,
) -> Vec<Decision> {
    let mut decisions = Vec::new();
    decide_group(members, items, buckets, millis(ms), &mut decisions);
    decisions
}

/// One charge to each of these limits, each in its own bucket, as members of one item.
fn each_alone(limits: &[Limit], charge: Charge) -> (Vec<Member>, Vec<Item>) {
    let items = list(limits);
    let member = |index| Member { charge, votes: true, items: index..index + 1 };
    ((0..items.len()).map(member).collect(), items)
}

fn list(limits: &[Limit]) -> Vec<Item> {
    let item = |(bucket, limit): (usize, &Limit)| Item { bucket, limit: *limit, post_paid: false };
    limits.iter().enumerate().map(item).collect()
}

fn verdicts(decisions: &[Decision]) -> Vec<bool> {
    decisions.iter().map(|decision| decision.allowed).collect()
}

#[test]
fn a_bucket_named_twice_is_charged_twice_or_not_at_all() {
    for algorithm in [LOG, TOKEN] {
        let mut bucket = Bucket::new(algorithm, 5, 60);
        assert!(bucket.allows(0, 4));
        let item = Item { bucket: 0, limit: bucket.limit, post_paid: false };
        let member = |items| Member { charge: Charge::Take(1), votes: true, items };
        let mut buckets = [bucket.state.clone()];
        let decisions = decide_all(&[member(0..1), member(1..2)], &[item; 2], &mut buckets, 0);
        assert_eq!(verdicts(&decisions), [true, false]);
        assert_eq!(buckets, [bucket.state]);
        let decisions = decide_all(&[member(0..1)], &[item], &mut buckets, 0);
        assert_eq!(decisions.first().map(|decision| decision.remaining), Some(0));
    }
}

#[test]
fn a_refused_list_consumes_none_of_its_limits() {
    let items = list(&[limit(TOKEN, 10, 1), limit(LOG, 3, 60)]);
    let members = [Member { charge: Charge::Take(2), votes: true, items: 0..2 }];
    let mut buckets = [None, None];
    assert_eq!(verdicts(&decide_all(&members, &items, &mut buckets, 0)), [true, true]);
    let before = buckets.clone();
    let decisions = decide_all(&members, &items, &mut buckets, 1);
    assert_eq!(verdicts(&decisions), [true, false]);
    assert_eq!(buckets, before);
    assert_eq!(decisions[0].remaining, 8);
    assert_eq!(decisions[1].wait, Some(millis(59_999)));
}

#[test]
fn a_refused_list_counts_only_in_the_window_that_refused() {
    let items = list(&[limit(FIXED, 1, 1), limit(FIXED, 100, 60)]);
    let members = [Member { charge: Charge::Take(1), votes: true, items: 0..2 }];
    let mut buckets = [None, None];
    decide_all(&members, &items, &mut buckets, 0);
    let decisions = decide_all(&members, &items, &mut buckets, 0);
    assert_eq!(verdicts(&decisions), [false, true]);
    assert_eq!((decisions[0].before, decisions[0].after, decisions[0].written), (1, 2, true));
    assert_eq!((decisions[1].remaining, decisions[1].written), (99, false));
    assert_eq!(buckets[1], Some(State::FixedWindow { start: secs(0), used: 1 }));
}

#[test]
fn a_post_paid_limit_is_charged_whoever_refuses() {
    let budget = Limit { count_denied: true, ..limit(TOKEN, 100, 60) };
    let mut items = list(&[budget, limit(LEAKY, 1, 60)]);
    items[0].post_paid = true;
    for members in [
        vec![Member { charge: Charge::Take(1), votes: true, items: 0..2 }],
        each_alone(&[budget; 2], Charge::Take(1)).0,
    ] {
        let mut buckets = [None, None];
        assert_eq!(verdicts(&decide_all(&members, &items, &mut buckets, 0)), [true, true]);
        let decisions = decide_all(&members, &items, &mut buckets, 0);
        assert_eq!(verdicts(&decisions), [true, false]);
        assert_eq!(decisions[0].remaining, 98);
    }
}

#[test]
fn a_member_without_a_vote_refuses_only_itself() {
    let (mut members, items) =
        each_alone(&[limit(TOKEN, 5, 60), limit(LOG, 0, 60)], Charge::Take(1));
    members[1].votes = false;
    let mut buckets = [None, None];
    let decisions = decide_all(&members, &items, &mut buckets, 0);
    assert_eq!(verdicts(&decisions), [true, false]);
    assert_eq!(decisions[0].remaining, 4);
    members[1].votes = true;
    members[1].charge = Charge::Peek;
    assert_eq!(decide_all(&members, &items, &mut buckets, 0)[0].remaining, 3);
}

#[test]
fn a_refused_group_still_gives_refunds_back() {
    let limits = [limit(TOKEN, 5, 60), limit(LOG, 0, 60)];
    let (mut members, items) = each_alone(&limits, Charge::Take(1));
    let mut bucket = Bucket::new(TOKEN, 5, 60);
    assert!(bucket.allows(0, 5));
    let mut buckets = [bucket.state, None];
    members[0].charge = Charge::Refund(2);
    let decisions = decide_all(&members, &items, &mut buckets, 0);
    assert_eq!(verdicts(&decisions), [true, false]);
    assert_eq!((decisions[0].remaining, decisions[0].written), (2, true));
}

#[test]
fn decisions_are_appended() {
    let items = list(&[limit(TOKEN, 5, 60)]);
    let members = [Member { charge: Charge::Take(1), votes: true, items: 0..1 }];
    let (mut buckets, mut decisions) = ([None], Vec::new());
    for _ in 0..3 {
        decide_group(&members, &items, &mut buckets, millis(0), &mut decisions);
    }
    let remaining: Vec<u64> = decisions.iter().map(|decision| decision.remaining).collect();
    assert_eq!(remaining, [4, 3, 2]);
}

/// A group in front of buckets that already have a past.
#[derive(Clone, Debug)]
struct Scene {
    members: Vec<Member>,
    items: Vec<Item>,
    buckets: Vec<Option<State>>,
    /// Whether no two items share a bucket.
    apart: bool,
    ms: u64,
}

fn any_item() -> impl Strategy<Value = Item> {
    let algorithms = vec![FIXED, FIRST_HIT, LOG, COUNTER, TOKEN, LEAKY];
    let limits = (select(algorithms), requests(), requests(), any::<bool>(), any::<bool>());
    (limits, 0..4_usize).prop_map(|((algorithm, requests, burst, count_denied, paid), bucket)| {
        let limit = Limit { burst, count_denied, ..limit(algorithm, requests, 10) };
        Item { bucket, limit, post_paid: count_denied && paid }
    })
}

fn any_charge() -> impl Strategy<Value = Charge> {
    prop_oneof![
        6 => (1..6_u64).prop_map(Charge::Take),
        1 => Just(Charge::Peek),
        1 => (1..6_u64).prop_map(Charge::Refund),
    ]
}

fn scene() -> impl Strategy<Value = Scene> {
    let member = (any_charge(), prop::bool::weighted(0.7), 1..4_usize);
    let past = prop::collection::vec((any_item(), any_charge(), 0..40_000_u64), 0..20);
    let items = prop::collection::vec(any_item(), 12);
    (prop::collection::vec(member, 1..5), items, past, any::<bool>(), 0..40_000_u64).prop_map(
        |(members, mut items, past, apart, ms)| {
            let mut first = 0;
            let members = members.into_iter().map(|(charge, votes, n)| {
                let items = first..first + n;
                first += n;
                Member { charge, votes, items }
            });
            let members = members.collect();
            if apart {
                (0..).zip(&mut items).for_each(|(bucket, item)| item.bucket = bucket);
            }
            // What happened before, by the items' own limits or by others.
            let mut buckets = vec![None; items.len()];
            for (index, (other, charge, ms)) in past.into_iter().enumerate() {
                let item = if index % 3 == 0 { other } else { items[index % items.len()] };
                let state = &mut buckets[item.bucket];
                *state = decide(state.take(), &item.limit, charge, millis(ms)).0;
            }
            Scene { members, items, buckets, apart, ms }
        },
    )
}

impl Scene {
    fn of(&self, member: &Member) -> &[Item] {
        &self.items[member.items.clone()]
    }

    fn one(&self, buckets: &mut [Option<State>], item: &Item, charge: Charge) -> Decision {
        let (state, decision) =
            decide(buckets[item.bucket].clone(), &item.limit, charge, millis(self.ms));
        buckets[item.bucket] = state;
        decision
    }

    /// What a member that was refused, alone or with its group, leaves behind.
    fn fail(
        &self,
        buckets: &mut [Option<State>],
        member: &Member,
        tried: &[Decision],
    ) -> Vec<Decision> {
        let mut told = Vec::new();
        for (item, tried) in self.of(member).iter().zip(tried) {
            let decision = match member.charge {
                Charge::Refund(_) => self.one(buckets, item, member.charge),
                Charge::Peek => Decision {
                    allowed: tried.allowed,
                    wait: tried.wait,
                    ..self.one(buckets, item, Charge::Peek)
                },
                Charge::Take(_) if tried.allowed && item.post_paid => {
                    Decision { allowed: true, wait: None, ..self.one(buckets, item, member.charge) }
                }
                Charge::Take(_) if tried.allowed => {
                    Decision { allowed: true, wait: None, ..self.one(buckets, item, Charge::Peek) }
                }
                Charge::Take(_) if item.limit.count_denied => {
                    let again = self.one(buckets, item, member.charge);
                    let wait = if again.allowed { tried.wait } else { again.wait };
                    Decision { allowed: false, wait, ..again }
                }
                Charge::Take(_) => Decision {
                    allowed: false,
                    wait: tried.wait,
                    ..self.one(buckets, item, Charge::Peek)
                },
            };
            told.push(decision);
        }
        told
    }

    fn alone(&self, buckets: &mut Vec<Option<State>>, member: &Member) -> Vec<Decision> {
        let mut trial = buckets.clone();
        let items = self.of(member).iter();
        let tried: Vec<_> = items.map(|item| self.one(&mut trial, item, member.charge)).collect();
        let refused = tried.iter().any(|decision| !decision.allowed);
        if refused && tried.len() > 1 && matches!(member.charge, Charge::Take(_)) {
            return self.fail(buckets, member, &tried);
        }
        *buckets = trial;
        tried
    }

    fn expect(&self) -> (Vec<Option<State>>, Vec<Decision>) {
        let mut buckets = self.buckets.clone();
        let tried: Vec<_> =
            self.members.iter().map(|member| self.alone(&mut buckets, member)).collect();
        let no = |(member, tried): (&Member, &Vec<Decision>)| {
            member.votes
                && matches!(member.charge, Charge::Take(_))
                && tried.iter().any(|decision| !decision.allowed)
        };
        if self.members.len() == 1 || !self.members.iter().zip(&tried).any(no) {
            return (buckets, tried.concat());
        }
        buckets = self.buckets.clone();
        let told = self.members.iter().zip(&tried);
        let told = told.map(|(member, tried)| self.fail(&mut buckets, member, tried));
        let told: Vec<_> = told.collect();
        (buckets, told.concat())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 8))]

    #[test]
    fn groups_agree_with_a_model_that_copies_everything(scene in scene()) {
        let (buckets, mut expected) = scene.expect();
        let mut got = scene.buckets.clone();
        let mut decisions = decide_all(&scene.members, &scene.items, &mut got, scene.ms);
        prop_assert_eq!(&got, &buckets);
        let used = scene.members.last().unwrap().items.end;
        prop_assert_eq!(decisions.len(), used);
        for (index, (old, new)) in scene.buckets.iter().zip(&got).enumerate() {
            let mut of_bucket = scene.items[..used].iter().zip(&decisions);
            let written = of_bucket.any(|(item, told)| item.bucket == index && told.written);
            prop_assert!(old == new || written, "bucket {} must be stored", index);
        }
        // In a shared bucket a peek may have set the clock back before others came.
        decisions.iter_mut().chain(&mut expected).for_each(|told| told.written &= scene.apart);
        prop_assert_eq!(decisions, expected);
    }

    #[test]
    fn a_refused_group_that_counts_nothing_leaves_every_bucket_untouched(scene in scene()) {
        let mut scene = scene;
        scene.members.retain(|member| matches!(member.charge, Charge::Take(_)));
        scene.items.iter_mut().for_each(|item| {
            item.limit.count_denied = false;
            item.post_paid = false;
        });
        scene.members.iter_mut().for_each(|member| member.votes = true);
        // After all that was before, so that no clock has to be taken over.
        scene.ms = 40_000;
        let mut buckets = scene.buckets.clone();
        let decisions = decide_all(&scene.members, &scene.items, &mut buckets, scene.ms);
        if decisions.iter().any(|decision| !decision.allowed) {
            prop_assert_eq!(buckets, scene.buckets);
            prop_assert!(decisions.iter().all(|decision| !decision.written));
        }
    }

    #[test]
    fn a_single_limit_is_decided_as_it_is(item in any_item(), charge in any_charge(), votes: bool) {
        let mut bucket = Bucket { limit: item.limit, state: None };
        bucket.take(5_000, 3);
        let mut buckets = [bucket.state.clone()];
        let (items, members) = ([Item { bucket: 0, ..item }], [Member { charge, votes, items: 0..1 }]);
        let decisions = decide_all(&members, &items, &mut buckets, 7_000);
        prop_assert_eq!(decisions, [bucket.decide(7_000, charge)]);
        prop_assert_eq!(buckets, [bucket.state]);
    }
}
