//! Tells when files may have changed: by the system's events and, as a safety net, by
//! looking again every few seconds.

mod interests;

use interests::Interests;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long nothing may happen before a change counts as complete.
const QUIET: Duration = Duration::from_millis(150);

/// How long a change may go on before it is looked at all the same.
const AT_MOST: Duration = Duration::from_secs(1);

/// How often to look without an event.
const POLL: Duration = Duration::from_secs(5);

/// Watches files and folders until `stop`. A message says that something may have changed since
/// this returned, or since the message before; several changes may make one message.
pub async fn watch(
    paths: Vec<PathBuf>,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> mpsc::Receiver<()> {
    let (changed, changes) = mpsc::channel(1);
    let (wake, events) = mpsc::channel(1);
    let watch = Watch { paths, wake, watching: None, warned: false, seen: Interests::default() };
    let first = look(watch).await;
    tasks.spawn(async move {
        if let Some((watch, _)) = first {
            stop.run_until_cancelled(run(watch, events, changed)).await;
        }
        if !stop.is_cancelled() {
            tracing::error!("files are watched no longer: their changes go unnoticed");
        }
    });
    changes
}

/// What is watched, and what it looked like when it was last looked at.
struct Watch {
    paths: Vec<PathBuf>,
    wake: mpsc::Sender<()>,
    /// Dropped and made anew at each look: what was watched may have been replaced.
    watching: Option<RecommendedWatcher>,
    warned: bool,
    seen: Interests,
}

async fn run(mut watch: Watch, mut events: mpsc::Receiver<()>, changed: mpsc::Sender<()>) {
    let mut poll = interval(POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    poll.tick().await;
    loop {
        let by_event = tokio::select! {
            _ = events.recv() => true,
            _ = poll.tick() => false,
        };
        if by_event {
            until_quiet(&mut events).await;
        }
        let Some((looked, differs)) = look(watch).await else { return };
        watch = looked;
        if by_event || differs {
            // A message that is still unread says the same.
            let _ = changed.try_send(());
        }
    }
}

async fn until_quiet(events: &mut mpsc::Receiver<()>) {
    let end = Instant::now() + AT_MOST;
    while Instant::now() < end {
        let quiet = (Instant::now() + QUIET).min(end);
        if !matches!(timeout_at(quiet, events.recv()).await, Ok(Some(()))) {
            return;
        }
    }
}

/// Looks at the files off the request threads. `None` at the end of the runtime.
async fn look(mut watch: Watch) -> Option<(Watch, bool)> {
    tokio::task::spawn_blocking(move || {
        let differs = watch.look();
        (watch, differs)
    })
    .await
    .ok()
}

impl Watch {
    /// Watches what is there now, then takes its fingerprint: what changes later wakes us. Says
    /// whether it differs from the last time.
    fn look(&mut self) -> bool {
        self.watch(Interests::of(&self.paths));
        let interests = Interests::of(&self.paths);
        let differs = interests != self.seen;
        self.seen = interests;
        differs
    }

    fn watch(&mut self, interests: Interests) {
        match watcher(interests, self.wake.clone()) {
            Ok(watcher) => self.watching = Some(watcher),
            Err(error) if !self.warned => {
                self.warned = true;
                tracing::warn!(%error, every = ?POLL, "no events of files, looking again instead");
            }
            Err(_) => {}
        }
    }
}

fn watcher(interests: Interests, wake: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let folders = interests.folders_to_watch();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| is_relevant(&event, &interests)) {
            let _ = wake.try_send(());
        }
    })?;
    for folder in folders {
        // A folder that has just gone is noticed in the one above it.
        if let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive) {
            tracing::debug!(%error, folder = %folder.display(), "cannot be watched");
        }
    }
    Ok(watcher)
}

/// Reading the files makes events, too.
fn is_relevant(event: &notify::Event, interests: &Interests) -> bool {
    let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
    let only_read = event.kind.is_access() && event.kind != written;
    !only_read && (event.need_rescan() || event.paths.iter().any(|path| interests.concern(path)))
}

#[cfg(test)]
mod tests;
