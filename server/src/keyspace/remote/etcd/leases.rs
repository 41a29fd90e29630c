//! Under which lease answers are put: etcd removes all of a lease together when it ends. It may do that late, for instance after another
//! member leads; not before its time.
use super::members::Members;
use super::ranges::late;
use crate::keyspace::remote::ANSWER_LIFETIME;
use etcd_client::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// For so long new answers are put under one lease: etcd removes them at one moment, which must not take long.
const USED_FOR: Duration = Duration::from_secs(5);

/// What is added to the time of a lease, for what is under way when another one is begun.
const SLACK: Duration = Duration::from_secs(60);

/// The lease of this server. Each has one of its own.
#[derive(Clone)]
pub(super) struct Leases {
    members: Arc<Members>,
    current: Arc<Mutex<Option<(i64, Instant)>>>,
}

impl Leases {
    pub(super) fn new(members: Arc<Members>) -> Self {
        Self {
            members,
            current: Arc::new(Mutex::new(None)),
        }
    }

    /// A lease that lasts long enough for an answer that is put now.
    ///
    /// # Errors
    /// etcd gives none.
    pub(super) async fn current(&self) -> Result<i64, Error> {
        let current = timeout(super::REQUEST_TIMEOUT, self.used_or_granted());
        current.await.unwrap_or_else(|_| Err(late()))
    }

    /// etcd does not know this one any more.
    pub(super) async fn forget(&self, lease: i64) {
        let mut current = self.current.lock().await;
        if current.is_some_and(|(used, _)| used == lease) {
            *current = None;
        }
    }

    async fn used_or_granted(&self) -> Result<i64, Error> {
        // Others wait meanwhile for the same one.
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some((lease, since)) = *current
            && now.duration_since(since) < USED_FOR
        {
            return Ok(lease);
        }
        let lasts = ANSWER_LIFETIME + USED_FOR + SLACK;
        let seconds = i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX);
        let granting = self.members.ask(|client| async move {
            let mut leases = client.lease_client();
            leases.grant(seconds, None).await
        });
        let granted = granting.await?;
        *current = Some((granted.id(), now));
        Ok(granted.id())
    }
}
