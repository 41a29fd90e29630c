//! The progress of a watch, compared with the revision that etcd has certainly reached.
//!
//! A member that has lost the others may continue to serve a watch, and even report that nothing has changed. A read that the majority has
//! to confirm therefore returns etcd's revision regularly, and a watch has to reach it. The changes reported by the watch are then complete
//! up to the moment of the read.
use super::connection::kv;
use super::members::Members;
use super::store::Store;
use etcd_client::{Error, GetResponse, ResponseHeader};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause between two reads of etcd's revision.
const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time in which a watch reaches neither the confirmed revision nor any new one.
const STALL_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time in which a watch does not reach the confirmed revision, even if it reports changes, or in which no revision is confirmed.
const LAG_TIMEOUT: Duration = Duration::from_secs(10);

/// A revision that etcd had reached, at or after this moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfirmedRevision {
    revision: i64,
    since: Instant,
}

/// Reads etcd's revision regularly until it is dropped.
pub(super) struct RevisionPoller {
    latest: watch::Receiver<Option<ConfirmedRevision>>,
    _task: JoinSet<()>,
}

impl RevisionPoller {
    pub(super) fn start(members: &Arc<Members>, store: &Arc<Store>) -> Self {
        let (confirmed, latest) = watch::channel(None);
        let mut task = JoinSet::new();
        task.spawn(poll_revision(
            Arc::clone(members),
            Arc::clone(store),
            confirmed,
        ));
        Self {
            latest,
            _task: task,
        }
    }

    /// Waits for the next confirmed revision.
    pub(super) async fn next(&mut self) -> ConfirmedRevision {
        loop {
            if self.latest.changed().await.is_err() {
                // The thread ends.
                std::future::pending::<()>().await;
            }
            if let Some(certain) = *self.latest.borrow_and_update() {
                return certain;
            }
        }
    }
}

async fn poll_revision(
    members: Arc<Members>,
    store: Arc<Store>,
    confirmed: watch::Sender<Option<ConfirmedRevision>>,
) {
    loop {
        let since = Instant::now();
        let latest = store.latest();
        if let Ok(found) = read_manifest(&members, &store).await
            && store.check_header(found.header(), latest).is_ok()
        {
            let revision = found.header().map_or(0, ResponseHeader::revision);
            confirmed.send_replace(Some(ConfirmedRevision { revision, since }));
        }
        sleep(CONFIRM_INTERVAL).await;
    }
}

/// Reads the manifest from the majority.
pub(super) async fn read_manifest(members: &Members, store: &Store) -> Result<GetResponse, Error> {
    let name = store.names().manifest();
    let request = members.request(|client| async move { kv(&client).get(name, None).await });
    request.await
}

/// The progress of one watch.
pub(super) struct Progress {
    reached_revision: i64,
    /// The confirmed revision that was not reached yet, and the moment at which that was noticed.
    lagging: Option<(ConfirmedRevision, Instant)>,
    /// Time since when no later revision was reached.
    stalled_since: Instant,
    /// The moment of the confirmed revision that was reached and not reported.
    confirmed: Option<Instant>,
    confirmed_at: Instant,
}

impl Progress {
    /// Begins with a watch behind this revision.
    pub(super) fn new(reached: i64) -> Self {
        let now = Instant::now();
        Self {
            reached_revision: reached,
            lagging: None,
            stalled_since: now,
            confirmed: None,
            confirmed_at: now,
        }
    }

    /// Records a confirmed revision of etcd.
    pub(super) fn revision_confirmed(&mut self, confirmed: ConfirmedRevision) {
        if confirmed.revision <= self.reached_revision {
            self.confirm(confirmed);
        } else if self.lagging.is_none() {
            let now = Instant::now();
            self.stalled_since = now;
            self.lagging = Some((confirmed, now));
        }
    }

    /// Records that the watch has reached this revision.
    pub(super) fn revision_reached(&mut self, revision: i64) {
        if revision > self.reached_revision {
            self.reached_revision = revision;
            self.stalled_since = Instant::now();
        }
        if let Some((confirmed, _)) = self.lagging.take_if(|(it, _)| it.revision <= revision) {
            self.confirm(confirmed);
        }
    }

    fn confirm(&mut self, confirmed: ConfirmedRevision) {
        self.confirmed = Some(confirmed.since);
        self.confirmed_at = Instant::now();
    }

    pub(super) fn is_lagging(&self) -> bool {
        self.lagging.is_some()
    }

    /// Takes the moment up to which all changes were certainly reported, if it is new.
    pub(super) fn take_confirmed(&mut self) -> Option<Instant> {
        self.confirmed.take()
    }

    /// Completes when the watch is too far behind. Returns the reason.
    pub(super) async fn stalled(&self) -> &'static str {
        if let Some((_, since)) = self.lagging {
            let end = (self.stalled_since + STALL_TIMEOUT).min(since + LAG_TIMEOUT);
            sleep_until(end).await;
            "its watch is behind what other members have"
        } else {
            sleep_until(self.confirmed_at + LAG_TIMEOUT).await;
            "how far etcd is was not known for a while"
        }
    }
}
