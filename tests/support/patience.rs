//! How long tests wait for what must happen.

use std::time::Duration;

/// How long anything may take, also on a busy machine, before its test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer; the test fails when its patience ends.
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            tick.tick().await;
            if let Some(answer) = probe().await {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}
