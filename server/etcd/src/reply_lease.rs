//! Leases of answers. When a lease ends, etcd removes all its keys together. It may do that late, for instance after a change of the
//! leader, but not early.
use super::connection::timed_out;
use super::members::Members;
use etcd_client::Error;
use statestored_shared::REPLY_LIFETIME;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Time for which new answers are put under the same lease. etcd removes them at one moment, which must not take long.
const REUSED_FOR: Duration = Duration::from_secs(5);

/// Extra lifetime of a lease, for commits that are in progress when the next lease begins.
const SLACK: Duration = Duration::from_secs(60);

/// The current lease of this server. Each server has its own.
#[derive(Clone)]
pub(super) struct ReplyLease {
    members: Arc<Members>,
    current: Arc<Mutex<Option<(i64, Instant)>>>,
}

impl ReplyLease {
    pub(super) fn new(members: Arc<Members>) -> Self {
        Self {
            members,
            current: Arc::new(Mutex::new(None)),
        }
    }

    /// Returns a lease that lasts long enough for an answer that is put now.
    ///
    /// # Errors
    /// etcd grants no lease.
    pub(super) async fn current(&self) -> Result<i64, Error> {
        let current = timeout(super::REQUEST_TIMEOUT, self.reuse_or_grant());
        current.await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Drops the lease, which etcd no longer knows.
    pub(super) async fn forget(&self, lease: i64) {
        let mut current = self.current.lock().await;
        if current.is_some_and(|(used, _)| used == lease) {
            *current = None;
        }
    }

    async fn reuse_or_grant(&self) -> Result<i64, Error> {
        // Other commits wait meanwhile for the same lease.
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some((lease, since)) = *current
            && now.duration_since(since) < REUSED_FOR
        {
            return Ok(lease);
        }
        let lasts = REPLY_LIFETIME + REUSED_FOR + SLACK;
        let seconds = i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX);
        let granting = self.members.request(|client| async move {
            let mut leases = client.lease_client();
            leases.grant(seconds, None).await
        });
        let granted = granting.await?;
        *current = Some((granted.id(), now));
        Ok(granted.id())
    }
}
