//! The Lua scripts: composed of the files that a call needs, known to Redis by their hash.

use crate::algorithm::Algorithm;
use sha1::{Digest, Sha1};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// A script, ready to be called.
#[derive(Debug)]
pub struct Script {
    /// Its text.
    pub(super) source: String,
    /// What Redis calls it: the SHA-1 of its text in hex.
    pub(super) sha: String,
}

/// Which files a call needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// One bit per algorithm.
    pub(super) algorithms: u8,
    /// Whether groups are decided, not only single charges.
    pub(super) groups: bool,
}

/// Every script that was called so far, by what it consists of.
#[derive(Debug)]
pub(super) struct Scripts([OnceLock<Script>; N_SCRIPTS]);

const N_ALGORITHMS: usize = Algorithm::ALL.len();
const N_SCRIPTS: usize = 1 << (N_ALGORITHMS + 1);

impl Script {
    /// Its text.
    #[cfg(test)]
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The script that consists of these files.
    pub fn of(files: &[&str]) -> Self {
        let source = files.concat();
        let sha = Sha1::digest(&source).iter().fold(String::new(), |mut sha, byte| {
            let _ = write!(sha, "{byte:02x}");
            sha
        });
        Self { source, sha }
    }
}

impl Needs {
    /// Adds an algorithm.
    pub(super) fn add(&mut self, algorithm: Algorithm) {
        self.algorithms |= 1 << number(algorithm).saturating_sub(1);
    }

    fn index(self) -> usize {
        usize::from(self.algorithms) | usize::from(self.groups) << N_ALGORITHMS
    }

    fn script(self) -> Script {
        let mut files = vec![include_str!("../../../lua/prelude.lua")];
        files.extend(
            Algorithm::ALL
                .into_iter()
                .filter(|algorithm| self.algorithms >> (number(*algorithm) - 1) & 1 == 1)
                .map(file),
        );
        files.push(include_str!("../../../lua/buckets.lua"));
        files.push(if self.groups {
            include_str!("../../../lua/group.lua")
        } else {
            include_str!("../../../lua/single.lua")
        });
        Script::of(&files)
    }
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }

    /// The script that consists of these files.
    pub(super) fn get(&self, needs: Needs) -> &Script {
        #[expect(
            clippy::indexing_slicing,
            reason = "an index has as many bits as there are scripts"
        )]
        self.0[needs.index()].get_or_init(|| needs.script())
    }
}

/// An algorithm's place in the table of the scripts, from 1.
pub(super) const fn number(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::FixedWindow(_) => 1,
        Algorithm::SlidingWindowLog => 2,
        Algorithm::SlidingWindowCounter => 3,
        Algorithm::TokenBucket => 4,
        Algorithm::LeakyBucket => 5,
    }
}

const fn file(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::FixedWindow(_) => include_str!("../../../lua/fixed_window.lua"),
        Algorithm::SlidingWindowLog => include_str!("../../../lua/sliding_window_log.lua"),
        Algorithm::SlidingWindowCounter => include_str!("../../../lua/sliding_window_counter.lua"),
        Algorithm::TokenBucket => include_str!("../../../lua/token_bucket.lua"),
        Algorithm::LeakyBucket => include_str!("../../../lua/leaky_bucket.lua"),
    }
}
