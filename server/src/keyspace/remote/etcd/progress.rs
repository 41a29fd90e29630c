//! The progress of a watch, compared with the revision that etcd has certainly reached.
//!
//! A member that has lost the others may continue to serve a watch, and even report that nothing has changed. A read that the majority has
//! to confirm therefore returns etcd's revision regularly, and a watch has to reach it. The changes reported by the watch are then complete
//! up to the moment of the read.
use super::members::Members;
use super::store::Store;
use super::transactions;
use etcd_client::{Error, GetResponse, ResponseHeader};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause between two reads of etcd's revision.
const CERTAIN_EVERY: Duration = Duration::from_secs(1);

/// Maximum time in which a watch reaches neither the confirmed revision nor any new one.
const STANDS_STILL: Duration = Duration::from_secs(3);

/// Maximum time in which a watch does not reach the confirmed revision, even if it reports changes, or in which no revision is confirmed.
const BEHIND: Duration = Duration::from_secs(10);

/// A revision that etcd had reached, at or after this moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Certain {
    revision: i64,
    since: Instant,
}

/// Reads etcd's revision regularly until it is dropped.
pub(super) struct Certainty {
    latest: watch::Receiver<Option<Certain>>,
    _reading: JoinSet<()>,
}

impl Certainty {
    pub(super) fn begin(members: &Arc<Members>, store: &Arc<Store>) -> Self {
        let (tell, latest) = watch::channel(None);
        let mut reading = JoinSet::new();
        reading.spawn(read_on(Arc::clone(members), Arc::clone(store), tell));
        Self {
            latest,
            _reading: reading,
        }
    }

    /// Waits for the next confirmed revision.
    pub(super) async fn next(&mut self) -> Certain {
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

async fn read_on(members: Arc<Members>, store: Arc<Store>, tell: watch::Sender<Option<Certain>>) {
    loop {
        let since = Instant::now();
        let known = store.latest();
        if let Ok(found) = read_manifest(&members, &store).await
            && store.look_at(found.header(), known).is_ok()
        {
            let revision = found.header().map_or(0, ResponseHeader::revision);
            tell.send_replace(Some(Certain { revision, since }));
        }
        sleep(CERTAIN_EVERY).await;
    }
}

/// Reads the manifest from the majority.
pub(super) async fn read_manifest(members: &Members, store: &Store) -> Result<GetResponse, Error> {
    let name = store.names().manifest();
    let asking =
        members.ask(|client| async move { transactions::kv(&client).get(name, None).await });
    asking.await
}

/// The progress of one watch.
pub(super) struct Progress {
    reached: i64,
    /// The confirmed revision that was not reached yet, and the moment at which that was noticed.
    behind: Option<(Certain, Instant)>,
    /// Time since when no later revision was reached.
    still_since: Instant,
    /// The moment of the confirmed revision that was reached and not reported.
    certain: Option<Instant>,
    certain_at: Instant,
}

impl Progress {
    /// Begins with a watch behind this revision.
    pub(super) fn begin(reached: i64) -> Self {
        let now = Instant::now();
        Self {
            reached,
            behind: None,
            still_since: now,
            certain: None,
            certain_at: now,
        }
    }

    /// Records a confirmed revision of etcd.
    pub(super) fn is_certain(&mut self, certain: Certain) {
        if certain.revision <= self.reached {
            self.confirm(certain);
        } else if self.behind.is_none() {
            let now = Instant::now();
            self.still_since = now;
            self.behind = Some((certain, now));
        }
    }

    /// Records that the watch has reached this revision.
    pub(super) fn reached(&mut self, revision: i64) {
        if revision > self.reached {
            self.reached = revision;
            self.still_since = Instant::now();
        }
        if let Some((certain, _)) = self.behind.take_if(|(it, _)| it.revision <= revision) {
            self.confirm(certain);
        }
    }

    fn confirm(&mut self, certain: Certain) {
        self.certain = Some(certain.since);
        self.certain_at = Instant::now();
    }

    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Takes the moment up to which all changes were certainly reported, if it is new.
    pub(super) fn take_certain(&mut self) -> Option<Instant> {
        self.certain.take()
    }

    /// Completes when the watch is too far behind. Returns the reason.
    pub(super) async fn ends(&self) -> &'static str {
        if let Some((_, since)) = self.behind {
            let end = (self.still_since + STANDS_STILL).min(since + BEHIND);
            sleep_until(end).await;
            "its watch is behind what other members have"
        } else {
            sleep_until(self.certain_at + BEHIND).await;
            "how far etcd is was not known for a while"
        }
    }
}
