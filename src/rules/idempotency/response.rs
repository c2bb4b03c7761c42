//! Which answers of the upstream are kept for retries, and what of them.

/// Which answers are kept, and what of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseRule {
    /// Statuses below 500 that are an outcome.
    pub stored: StatusSet,
    /// What a status from 500 on means.
    pub server_error: ServerError,
    /// Largest body that is kept, in bytes; of a larger answer only its status is.
    pub max_body: usize,
    /// Headers, in lower case, that are kept.
    pub headers: Box<[Box<str>]>,
}

/// What a status from 500 on means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerError {
    /// Nothing happened: the next one runs it.
    #[default]
    Release,
    /// It is the outcome.
    Store,
    /// The outcome is unknown.
    Hold,
}

/// What an answer does to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// It is the outcome.
    Store,
    /// It is none: the next one runs it.
    Release,
    /// The outcome is unknown.
    Hold,
}

/// Statuses from 200 to 499.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSet([u64; N_WORDS]);

const FIRST: u16 = 200;
const END: u16 = 500;
const N_WORDS: usize = 5;

/// Statuses that say what became of a request, and would say it again.
const FINAL: [u16; 19] =
    [400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 424, 428, 431];

impl ResponseRule {
    /// What an answer of that status means.
    pub fn meaning(&self, status: u16) -> Storing {
        if status < END {
            return if self.stored.contains(status) { Storing::Store } else { Storing::Release };
        }
        match self.server_error {
            ServerError::Release => Storing::Release,
            ServerError::Store => Storing::Store,
            ServerError::Hold => Storing::Hold,
        }
    }
}

impl StatusSet {
    /// No status.
    pub const fn none() -> Self {
        Self([0; N_WORDS])
    }

    /// Adds a status; one outside of 200 to 499 is none of them.
    pub fn insert(&mut self, status: u16) {
        if let Some((word, bit)) = place(status) {
            self.0.get_mut(word).into_iter().for_each(|word| *word |= bit);
        }
    }

    /// Whether it is one of them.
    pub fn contains(&self, status: u16) -> bool {
        place(status).is_some_and(|(word, bit)| self.0.get(word).is_some_and(|w| w & bit != 0))
    }
}

impl Default for StatusSet {
    /// 2xx, 3xx, and those of 4xx that another try would not change.
    fn default() -> Self {
        let mut set = Self::none();
        (200..400).chain(FINAL).chain([451]).for_each(|status| set.insert(status));
        set
    }
}

fn place(status: u16) -> Option<(usize, u64)> {
    let index = status.checked_sub(FIRST).filter(|_| status < END)?;
    Some((usize::from(index / 64), 1 << (index % 64)))
}
