//! A held lease.
use super::action;
use super::holder::Holder;
use super::lease_validity::LeaseValidity;
use crate::client::{ContendedLock, within};
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Client, ConnectionState, Hlc, LostReason};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

const WORK_ACTION: &str = "working under the lock";
pub(super) const WRITE_ACTION: &str = "writing under the lease";

/// Result of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The lease was held, and is free now.
    Released,
    /// The lease was no longer held: it had expired, or another client holds it.
    NotHeld,
}

/// A command of the guard to the task of its lease. A closed channel means: release the lease.
#[derive(Debug)]
pub(super) enum GuardCommand {
    /// Renew now.
    Renew(oneshot::Sender<Result<Hlc, Error>>),
    /// Stop renewing, release the lease.
    Release(oneshot::Sender<Result<Release, Error>>),
    /// Stop renewing, keep the lease as it is.
    Leave,
}

/// A held lease, which detects when it is lost.
///
/// The guard renews the lease according to [`LeaseOptions::renewal`](super::LeaseOptions::renewal). Dropping it stops the
/// renewal and releases the lease in the background; a failure is logged. [`release`](Self::release) does the same and waits
/// for the result.
///
/// An action after a check of [`is_valid`](Self::is_valid) can still come too late: the process may be stopped for minutes in
/// between. Writes to the store through the guard are safe: the store rejects them once a newer holder has written the same
/// key.
#[derive(Debug)]
pub struct Guard {
    client: Client,
    name: Bytes,
    holder: Holder,
    token: Hlc,
    validity: Arc<LeaseValidity>,
    commands: mpsc::Sender<GuardCommand>,
    /// Present if other clients wanted the lock.
    contended_lock: Option<ContendedLock>,
    /// Held by the running update, on a store without conditions on versions.
    updates: Mutex<()>,
}

impl Guard {
    pub(super) fn new(
        client: Client,
        name: Bytes,
        holder: Holder,
        token: Hlc,
        validity: Arc<LeaseValidity>,
        commands: mpsc::Sender<GuardCommand>,
    ) -> Self {
        Self {
            client,
            name,
            holder,
            token,
            validity,
            commands,
            contended_lock: None,
            updates: Mutex::default(),
        }
    }

    pub(super) fn with_contended_lock(mut self, contended_lock: Option<ContendedLock>) -> Self {
        self.contended_lock = contended_lock;
        self
    }

    /// Returns the key of the lease.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the name under which the lease is held.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the fencing token: the version of the lease when it was taken. Each later holder gets a higher one.
    ///
    /// The token stays the same through all renewals, although each of them gives the key of the lease a new version. You can
    /// pass it to other writers that act on behalf of the holder, in any order.
    pub fn token(&self) -> &Hlc {
        &self.token
    }

    /// Returns whether the lease is certainly still held. Once it returns `false`, it always does.
    pub fn is_valid(&self) -> bool {
        self.validity.is_valid()
    }

    /// Returns the time until which the lease is certainly held, unless it is renewed before.
    pub fn valid_until(&self) -> Instant {
        self.validity.until()
    }

    /// Returns [`ErrorKind::LockLost`] if the lease may no longer be held.
    pub fn check(&self) -> Result<(), Error> {
        self.remaining("holding the lease").map(drop)
    }

    /// Waits until the lease is no longer certainly held, and returns the reason. The future keeps nothing alive and can be
    /// awaited in any task. It also completes when the guard is released or dropped.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        self.validity.ended()
    }

    /// Returns the reason why the lease is no longer certainly held; `None` while the guard is valid.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.validity.lost_reason()
    }

    /// Returns the error behind the loss of the lease, or that of the last renewal if it failed; `None` if the lease only expired.
    pub fn reason(&self) -> Option<Error> {
        self.validity.reason()
    }

    /// Renews the lease now, in addition to the automatic renewals, and returns the version of its key.
    ///
    /// Dropping the future does not cancel the renewal.
    ///
    /// # Errors
    /// Returns the error of the request, which does not mean that the lease is lost, or [`ErrorKind::LockLost`] if it is.
    pub async fn renew(&self) -> Result<Hlc, Error> {
        let (reply, renewed) = oneshot::channel();
        if self.commands.send(GuardCommand::Renew(reply)).await.is_ok()
            && let Ok(result) = renewed.await
        {
            return result;
        }
        Err(self.lost_error("renewing the lease", Outcome::NotDone))
    }

    /// Stops the renewal and releases the lease.
    ///
    /// Returns at the latest when the lease is no longer certain. The release continues if the future is dropped. It is retried
    /// until the lease must have expired.
    ///
    /// # Errors
    /// Returns the errors of [`release_within`](Self::release_within).
    pub async fn release(self) -> Result<Release, Error> {
        self.release_within(Duration::MAX).await
    }

    /// Stops the renewal and releases the lease, and waits for `timeout` at most.
    ///
    /// # Errors
    /// Returns the error of the store, or [`ErrorKind::TimedOut`] with an unknown outcome at the time-out. The release then
    /// continues in the background, and the lease expires at the latest.
    pub async fn release_within(self, timeout: Duration) -> Result<Release, Error> {
        // A lost lease is released in the background.
        let Some(left) = self.validity.remaining() else {
            return Ok(Release::NotHeld);
        };
        let limit = timeout.min(left);
        let (reply, released) = oneshot::channel();
        let release = async {
            if self
                .commands
                .send(GuardCommand::Release(reply))
                .await
                .is_ok()
                && let Ok(result) = released.await
            {
                return result;
            }
            Ok(Release::NotHeld)
        };
        match self.client.shared().runtime.timeout(limit, release).await {
            Ok(result) => result,
            Err(_) => Err(self.release_timeout_error(limit)),
        }
    }

    fn release_timeout_error(&self, limit: Duration) -> Error {
        let within = within(limit);
        let action = action("giving back the lease", &self.name);
        let outlook = "it is retried in the background, and the lease ends by itself";
        let error = |reason| Error::new(ErrorKind::TimedOut, Outcome::Unknown, action, reason);
        match &*self.client.state().borrow() {
            ConnectionState::Reconnecting(cause) | ConnectionState::Closed { error: cause, .. } => {
                error(format!("not {within}: {cause}; {outlook}")).with_source(cause.clone())
            }
            _ => error(format!("no response {within}; {outlook}")),
        }
    }

    /// Returns the error of work that succeeded after the lease was lost; `None` while the lease is certainly held. The error
    /// is [`ErrorKind::LockLost`] with an unknown outcome.
    pub fn loss(&self) -> Option<Error> {
        (!self.is_valid()).then(|| self.lost_error(WORK_ACTION, Outcome::Unknown))
    }

    /// Releases the lease at the end of work that succeeded. A failed release is no error: it is logged, and the lease expires.
    ///
    /// Returns at the latest when the lease is no longer certain. The release continues if the future is dropped.
    ///
    /// # Errors
    /// Returns [`ErrorKind::LockLost`] with an unknown outcome if the lease was lost before, so that at least a part of the
    /// work was not protected.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_within(Duration::MAX).await
    }

    /// Releases the lease as [`finish`](Self::finish) does, and waits for `timeout` at most. The release then continues in the
    /// background.
    ///
    /// # Errors
    /// Returns the errors of [`finish`](Self::finish).
    pub async fn finish_within(self, timeout: Duration) -> Result<(), Error> {
        if let Some(loss) = self.loss() {
            return Err(loss);
        }
        let (name, until) = (self.name.clone(), self.valid_until());
        match self.release_within(timeout).await {
            // A lease that is gone before it can have expired was taken by another client.
            Ok(Release::NotHeld) if Instant::now() < until => {
                let reason = "the lease is lost: it was found gone when it was to be given back";
                let action = action(WORK_ACTION, &name);
                let error = Error::new(ErrorKind::LockLost, Outcome::Unknown, action, reason);
                return Err(error);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(kind = ?error.kind(), "a lock could not be given back; it ends when its time is over");
            }
        }
        Ok(())
    }

    /// Stops the renewal and keeps the lease until it expires, or until a program with the holder's name renews it.
    ///
    /// Dropping the future before it completes releases the lease, as dropping the guard does.
    pub async fn leave(self) {
        // If no task receives the command, there is nothing to stop.
        let _ = self.commands.send(GuardCommand::Leave).await;
    }

    /// Returns the client that took the lease.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn updates(&self) -> &Mutex<()> {
        &self.updates
    }

    /// Returns the time for which the lease is certainly held.
    pub(super) fn remaining(&self, verb: &str) -> Result<Duration, Error> {
        self.validity
            .remaining()
            .ok_or_else(|| self.lost_error(verb, Outcome::NotDone))
    }

    pub(super) fn lost_error(&self, verb: &str, outcome: Outcome) -> Error {
        let reason = match self.reason() {
            Some(reason) => format!("the lease is lost: {reason}"),
            None => "the lease is lost: it was not renewed in time".to_owned(),
        };
        Error::new(
            ErrorKind::LockLost,
            outcome,
            action(verb, &self.name),
            reason,
        )
    }
}
