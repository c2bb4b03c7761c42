//! What holds of every history, whatever the machine's code says.

use super::*;

/// What somebody who looks on knows of one operation.
#[derive(Debug, Default)]
struct Seen {
    /// The highest fence that was given.
    fence: Fence,
    /// Who was given it.
    holder: Option<Owner>,
    /// What it was completed with, and until when that must be known.
    completed: Option<(Outcome, Micros)>,
    fingerprint: Option<Fingerprint>,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn fences_grow_and_only_the_last_holder_writes(history in history(), forward in any::<bool>()) {
        let mut play = if forward { Play::forward() } else { Play::new() };
        let mut seen: HashMap<OperationId, Seen> = HashMap::new();
        for step in &history {
            let before = play.machine.records.clone();
            let (asked, answer) = play.step(step);
            if !forward {
                // What is forgotten by a clock that goes back is lost.
                play.forgotten.iter().for_each(|operation| _ = seen.remove(operation));
            }
            let seen = seen.entry(asked.operation()).or_default();
            match (&asked, &answer) {
                (Asked::Claim(claim), Answer::Claimed(claimed)) => {
                    if let Some(fence) = claimed.fence() {
                        let again = seen.holder == Some(claim.owner) && fence == seen.fence;
                        prop_assert!(again || fence > seen.fence, "{fence} after {}", seen.fence);
                        (seen.fence, seen.holder) = (fence, Some(claim.owner));
                    }
                }
                (
                    Asked::Renew(token, ..) | Asked::Complete(token, ..) | Asked::Release(token),
                    Answer::Written(Written::Done),
                ) => {
                    prop_assert_eq!((token.fence, Some(token.owner)), (seen.fence, seen.holder));
                }
                (_, Answer::Written(_)) => {
                    let mut before = before;
                    before.retain(|_, record| play.now < record.expires);
                    prop_assert_eq!(&before, &play.machine.records, "only `Done` writes");
                }
                (_, Answer::Claimed(_)) => prop_assert!(false, "a claim was answered"),
            }
        }
    }

    #[test]
    fn a_completed_operation_is_answered_alike_until_its_retention_ends(history in history()) {
        let mut play = Play::new();
        let mut all: HashMap<OperationId, Seen> = HashMap::new();
        for step in &history {
            let (asked, answer) = play.step(step);
            for operation in &play.forgotten {
                let seen = all.remove(operation).unwrap_or_default();
                prop_assert!(seen.completed.is_none_or(|(_, until)| until <= play.now), "too soon");
            }
            let seen = all.entry(asked.operation()).or_default();
            match (&asked, &answer) {
                (Asked::Complete(_, outcome, retention), Answer::Written(Written::Done)) => {
                    let until = play.now.saturating_add((*retention).into());
                    prop_assert!(seen.completed.is_none(), "completed twice");
                    seen.completed = Some((outcome.clone(), until));
                }
                (Asked::Claim(claim), Answer::Claimed(claimed)) => {
                    if let Some((outcome, _)) = &seen.completed {
                        let same = seen.fingerprint.as_ref() == Some(&claim.fingerprint);
                        prop_assert!(tells(claimed, outcome, same), "{claimed:?} of {outcome:?}");
                    } else if claimed.fence().is_some() {
                        seen.fingerprint = Some(claim.fingerprint.clone());
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn under_hold_an_operation_runs_once_unless_it_was_released(history in history()) {
        let mut play = Play::new();
        // Who runs each operation, until when it is remembered at least.
        let mut running: HashMap<OperationId, (Owner, Micros)> = HashMap::new();
        for mut step in history {
            if let Act::Claim { rule, .. } = &mut step.act {
                *rule = OnLeaseExpired::Hold;
            }
            let (asked, answer) = play.step(&step);
            let operation = asked.operation();
            for forgotten in &play.forgotten {
                let until = running.remove(forgotten).map(|(_, until)| until);
                prop_assert!(until.is_none_or(|until| until <= play.now), "forgotten too soon");
            }
            match (&asked, &answer) {
                (Asked::Claim(claim), Answer::Claimed(claimed)) => {
                    let taken_over = matches!(claimed, Claimed::TakenOver { .. });
                    prop_assert!(!taken_over);
                    if claimed.fence().is_some() {
                        let other = running.get(&operation).filter(|(who, _)| *who != claim.owner);
                        prop_assert_eq!(other, None, "runs twice");
                        let until = play.now.saturating_add(claim.terms.retention.into());
                        running.insert(operation, (claim.owner, until));
                    }
                }
                (Asked::Release(_), Answer::Written(Written::Done)) => _ = running.remove(&operation),
                (Asked::Renew(_, _, keep) | Asked::Complete(_, _, keep), Answer::Written(Written::Done)) => {
                    if let Some((_, until)) = running.get_mut(&operation) {
                        *until = play.now.saturating_add((*keep).into());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a claim of a completed operation is told what it should be.
fn tells(claimed: &Claimed, outcome: &Outcome, same: bool) -> bool {
    match (claimed, outcome) {
        (Claimed::Mismatch | Claimed::Unverifiable, _) => !same,
        (Claimed::Completed { answer, .. }, Outcome::Stored(stored)) => same && answer == stored,
        (Claimed::NotStored(told), Outcome::NotStored(kept)) => same && told == kept,
        _ => false,
    }
}
