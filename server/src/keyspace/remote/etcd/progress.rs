//! How far a watch has come, held against how far etcd certainly is.
//!
//! A member that has lost the others may go on talking to a watch, and even answer that nothing has changed. So a read that the majority has to
//! confirm says again and again how far etcd is, and a watch has to reach that. What it has told is known to be complete up to the moment of
//! the read then.
use super::members::Members;
use super::store::Store;
use super::transactions;
use etcd_client::{Error, GetResponse, ResponseHeader};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Pause between two reads that say how far etcd is.
const CERTAIN_EVERY: Duration = Duration::from_secs(1);

/// Longest time in which a watch neither reaches what is certain nor anything later than before.
const STANDS_STILL: Duration = Duration::from_secs(3);

/// Longest time in which a watch does not reach what is certain, however much it tells, and in which nothing is certain.
const BEHIND: Duration = Duration::from_secs(10);

/// A revision that etcd had reached, at or after this moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Certain {
    revision: i64,
    since: Instant,
}

/// Reads how far etcd is as long as it is there.
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

    /// What is certain next.
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

/// The manifest, as the majority has it.
pub(super) async fn read_manifest(members: &Members, store: &Store) -> Result<GetResponse, Error> {
    let name = store.names().manifest();
    let asking =
        members.ask(|client| async move { transactions::kv(&client).get(name, None).await });
    asking.await
}

/// How far one watch has come.
pub(super) struct Progress {
    reached: i64,
    /// What is certain and was not reached yet, with the moment at which that was noticed.
    behind: Option<(Certain, Instant)>,
    /// Since when nothing later was reached.
    still_since: Instant,
    /// What was reached and not told.
    certain: Option<Instant>,
    certain_at: Instant,
}

impl Progress {
    /// Of a watch that begins behind this revision.
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

    /// Etcd is so far.
    pub(super) fn is_certain(&mut self, certain: Certain) {
        if certain.revision <= self.reached {
            self.confirm(certain);
        } else if self.behind.is_none() {
            let now = Instant::now();
            self.still_since = now;
            self.behind = Some((certain, now));
        }
    }

    /// The watch is so far.
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

    /// The moment up to which all changes are certainly told, if that is news.
    pub(super) fn take_certain(&mut self) -> Option<Instant> {
        self.certain.take()
    }

    /// Ends when the watch is of no use any more: says why.
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
