//! Limiting switched off for a while: requests are decided and counted, and may pass. The switch
//! holds the moment at which it ends, so that nothing else has to end it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Lets every request pass until a moment.
#[derive(Debug)]
pub struct ShadowSwitch {
    made: Instant,
    /// In milliseconds since then; 0: off.
    until: AtomicU64,
    /// How often it has been turned.
    turns: AtomicU64,
}

impl Default for ShadowSwitch {
    fn default() -> Self {
        Self { made: Instant::now(), until: AtomicU64::new(0), turns: AtomicU64::new(0) }
    }
}

impl ShadowSwitch {
    /// Lets every request pass for so long from now on, whatever was said before.
    pub fn turn_on(&self, lasts: Duration) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.until.store(millis(self.made.elapsed() + lasts).max(1), Ordering::Relaxed);
    }

    /// Ends it. Says whether it was on.
    pub fn turn_off(&self) -> bool {
        let was_on = self.left().is_some();
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.until.store(0, Ordering::Relaxed);
        was_on
    }

    /// Tells one turn of it from another.
    pub fn number(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// How long it goes on, if it is on.
    pub fn left(&self) -> Option<Duration> {
        let until = Duration::from_millis(self.until.load(Ordering::Relaxed));
        until.checked_sub(self.made.elapsed()).filter(|left| !left.is_zero())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn it_ends_by_itself() {
        let switch = ShadowSwitch::default();
        assert_eq!(switch.left(), None);
        switch.turn_on(Duration::from_secs(60));
        advance(Duration::from_secs(59)).await;
        assert_eq!(switch.left(), Some(Duration::from_secs(1)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(switch.left(), None);
        assert!(!switch.turn_off());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_word_holds() {
        let switch = ShadowSwitch::default();
        switch.turn_on(Duration::from_secs(600));
        switch.turn_on(Duration::from_secs(5));
        assert_eq!(switch.left(), Some(Duration::from_secs(5)));
        assert!(switch.turn_off());
        assert_eq!(switch.left(), None);
    }
}
