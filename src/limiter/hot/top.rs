//! The most frequent of many things, in bounded room: the space-saving algorithm (Metwally,
//! Agrawal, El Abbadi 2005), with counts that can be halved.

use std::borrow::Borrow;

/// How many are kept. What has more than one in so many of all is among them.
const KEPT: usize = 64;

/// The most frequent of many things.
#[derive(Debug)]
pub(super) struct Top<T> {
    kept: Vec<Kept<T>>,
    total: u64,
}

#[derive(Debug)]
struct Kept<T> {
    what: T,
    count: u64,
    /// How much of the count may be of those whose place it took.
    borrowed: u64,
}

impl<T> Default for Top<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), total: 0 }
    }
}

impl<T> Top<T> {
    /// Counts a thing. If it is new and there is no room, the least frequent gives way.
    pub(super) fn add<Q>(&mut self, what: &Q, weight: u64)
    where
        T: Borrow<Q>,
        Q: Eq + ToOwned + ?Sized,
        Q::Owned: Into<T>,
    {
        self.total += weight;
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.what.borrow() == what) {
            kept.count += weight;
            return;
        }
        let new =
            |borrowed| Kept { what: what.to_owned().into(), count: borrowed + weight, borrowed };
        if self.kept.len() < KEPT {
            self.kept.push(new(0));
        } else if let Some(least) = self.kept.iter_mut().min_by_key(|kept| kept.count) {
            *least = new(least.count);
        }
    }

    /// Halves every count; what falls to nothing is forgotten.
    pub(super) fn halve(&mut self) {
        self.total /= 2;
        for kept in &mut self.kept {
            kept.count /= 2;
            kept.borrowed /= 2;
        }
        self.kept.retain(|kept| kept.count > 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The most frequent first, each with the share of all that it has at least.
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub(super) fn shares(&self, at_most: usize) -> impl Iterator<Item = (&T, f64)> {
        let mut sorted: Vec<&Kept<T>> = self.kept.iter().collect();
        sorted.sort_by_key(|kept| std::cmp::Reverse(kept.count - kept.borrowed));
        let total = self.total.max(1) as f64;
        let share = move |kept: &Kept<T>| (kept.count - kept.borrowed) as f64 / total;
        sorted.into_iter().take(at_most).map(move |kept| (&kept.what, share(kept)))
    }
}
