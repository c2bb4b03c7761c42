//! Which charges go to the Redis for limits per second: descriptors all of whose limits are.

use crate::clock::Micros;
use crate::store::{Batch, BatchMember, Part};

/// Where the charges of a request go.
#[derive(Debug)]
pub(super) enum Homes {
    Main,
    PerSecond,
    /// To each a part.
    Both {
        main: Part,
        per_second: Part,
    },
}

impl Homes {
    pub(super) fn of(batch: &Batch) -> Self {
        let mut members = batch.members.iter().map(|member| is_per_second(batch, member));
        let first = members.next().unwrap_or(false);
        match members.all(|other| other == first) {
            true if first => Self::PerSecond,
            true => Self::Main,
            false => Self::Both {
                main: Part::of(batch, |member| !is_per_second(batch, member)),
                per_second: Part::of(batch, |member| is_per_second(batch, member)),
            },
        }
    }
}

/// Whether every limit's unit is a second, its multiplier 1.
fn is_per_second(batch: &Batch, member: &BatchMember) -> bool {
    let items = batch.items.get(member.items.clone()).unwrap_or_default();
    !items.is_empty() && items.iter().all(|item| item.limit.window == Micros::SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, Charge, Limit};
    use crate::rules::KeyRange;
    use crate::store::BatchItem;

    /// A group whose members have limits of these windows, in seconds.
    fn batch(members: &[&[u64]]) -> Batch {
        let mut batch = Batch::default();
        for windows in members {
            let start = batch.items.len();
            batch.items.extend(windows.iter().map(|seconds| BatchItem {
                key: KeyRange { key: 0..0, tag: 0..0 },
                limit: Limit {
                    algorithm: Algorithm::TokenBucket,
                    requests: 1,
                    window: Micros::from_secs(*seconds),
                    burst: 1,
                    count_denied: false,
                },
                post_paid: false,
            }));
            let items = start..batch.items.len();
            batch.members.push(BatchMember { charge: Charge::Peek, votes: true, items });
        }
        batch.groups.push(0..members.len());
        batch
    }

    #[test]
    fn a_descriptor_goes_there_only_if_all_its_limits_are_per_second() {
        assert!(matches!(Homes::of(&batch(&[&[1, 1]])), Homes::PerSecond));
        assert!(matches!(Homes::of(&batch(&[&[1, 60]])), Homes::Main));
        assert!(matches!(Homes::of(&batch(&[&[2]])), Homes::Main));
        assert!(matches!(Homes::of(&Batch::default()), Homes::Main));
    }

    #[test]
    fn a_group_is_cut_in_two_and_each_item_knows_its_place() {
        let whole = batch(&[&[1], &[60, 1], &[1]]);
        let Homes::Both { main, per_second } = Homes::of(&whole) else { panic!("one home") };
        assert_eq!((&*main.items, &*per_second.items), ([1, 2].as_slice(), [0, 3].as_slice()));
        assert_eq!(main.batch.groups.first(), Some(&(0..1)));
        assert_eq!(per_second.batch.groups.first(), Some(&(0..2)));
        assert_eq!(per_second.batch.members.last().map(|last| last.items.clone()), Some(1..2));
    }
}
