//! A lease that is held.
use super::action;
use super::holder::Holder;
use super::keeper::Command;
use super::turns::Turn;
use super::validity::Validity;
use crate::error::{Error, ErrorKind, Outcome};
use crate::{Client, ConnectionState, Hlc, LostReason};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

const WORKING: &str = "working under the lock";

/// What giving a lease back found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The lease was held, and is free now.
    Released,
    /// It was not held any more: it had ended, or somebody else has it.
    NotHeld,
}

/// Holds a lease, and knows when it does not hold it any more.
///
/// It renews the lease as [`LeaseOptions::renewal`](super::LeaseOptions::renewal) says. Dropping it stops that and gives
/// the lease back in the background; the log is told if that was not possible. [`release`](Self::release) does the same
/// and waits for it.
///
/// What is done between [`is_valid`](Self::is_valid) and its effect on the world can still come too late: the process
/// may be stopped for minutes in between. Writes to the store that are made with the guard are safe nevertheless, since
/// the store itself refuses them once a newer holder has written.
#[derive(Debug)]
pub struct Guard {
    client: Client,
    name: Bytes,
    holder: Holder,
    token: Hlc,
    validity: Arc<Validity>,
    keeper: mpsc::Sender<Command>,
    /// Somebody else wanted the lock as well.
    turn: Option<Turn>,
    /// Held by the update that runs, on a store without conditions on versions.
    updates: Mutex<()>,
}

impl Guard {
    pub(super) fn new(
        client: Client,
        name: Bytes,
        holder: Holder,
        token: Hlc,
        validity: Arc<Validity>,
        keeper: mpsc::Sender<Command>,
    ) -> Self {
        Self {
            client,
            name,
            holder,
            token,
            validity,
            keeper,
            turn: None,
            updates: Mutex::default(),
        }
    }

    pub(super) fn with_turn(mut self, turn: Option<Turn>) -> Self {
        self.turn = turn;
        self
    }

    /// The key of the lease.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name under which it is held.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The fencing token: the version that the lease got when it was taken. Each later holder gets a higher one.
    ///
    /// It stays the same through all renewals, although each of them gives the key of the lease a new version. So it can
    /// be handed to others who write on behalf of the holder, in any order.
    pub fn token(&self) -> &Hlc {
        &self.token
    }

    /// Whether the lease is certainly still held. Once this was `false` it stays so.
    pub fn is_valid(&self) -> bool {
        self.validity.is_valid()
    }

    /// Until when the lease is certainly held, if it is not renewed before.
    pub fn valid_until(&self) -> Instant {
        self.validity.until()
    }

    /// Refuses with [`ErrorKind::LockLost`] if the lease may not be held any more.
    pub fn check(&self) -> Result<(), Error> {
        self.left("holding the lease").map(drop)
    }

    /// Ready as soon as the lease is not certainly held any more, with the reason. The future keeps nothing alive and can
    /// be awaited in any task; it is also ready once the guard was released or dropped.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        self.validity.over()
    }

    /// Why the lease is not certainly held any more; `None` while the guard is valid.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.validity.lost_reason()
    }

    /// Why the last renewal failed or the lease was lost, in detail, if that is so and there is more to say than that its
    /// time was over.
    pub fn reason(&self) -> Option<Error> {
        self.validity.reason()
    }

    /// Renews the lease now, besides what the guard does by itself, and gives the version of its key.
    ///
    /// Dropping the future does not take the renewal back.
    ///
    /// # Errors
    /// The request failed, which does not mean that the lease is lost; or it is lost ([`ErrorKind::LockLost`]).
    pub async fn renew(&self) -> Result<Hlc, Error> {
        let (reply, renewed) = oneshot::channel();
        if self.keeper.send(Command::Renew(reply)).await.is_ok()
            && let Ok(result) = renewed.await
        {
            return result;
        }
        Err(self.lost_error("renewing the lease", Outcome::NotDone))
    }

    /// Stops renewing and gives the lease back.
    ///
    /// Returns at the latest when the lease is not certain any more. Giving it back goes on if the future is dropped, and is retried until
    /// the lease must have ended by itself.
    ///
    /// # Errors
    /// As [`release_within`](Self::release_within).
    pub async fn release(self) -> Result<Release, Error> {
        self.release_within(Duration::MAX).await
    }

    /// Stops renewing and gives the lease back, and waits for that at most so long.
    ///
    /// # Errors
    /// The store refused; [`ErrorKind::TimedOut`] with an unknown outcome if the time is over. Giving the lease back goes on in the
    /// background then, and the lease ends when its time is over.
    pub async fn release_within(self, timeout: Duration) -> Result<Release, Error> {
        // A lease that was lost is given back in the background.
        let Some(left) = self.validity.left() else {
            return Ok(Release::NotHeld);
        };
        let most = timeout.min(left);
        let (reply, released) = oneshot::channel();
        let release = async {
            if self.keeper.send(Command::Release(reply)).await.is_ok()
                && let Ok(result) = released.await
            {
                return result;
            }
            Ok(Release::NotHeld)
        };
        match self.client.shared().timers.timeout(most, release).await {
            Ok(result) => result,
            Err(_) => Err(self.not_given_back(most)),
        }
    }

    fn not_given_back(&self, within: Duration) -> Error {
        let action = action("giving back the lease", &self.name);
        let going_on = "it is retried in the background, and the lease ends by itself";
        let error = |reason| Error::new(ErrorKind::TimedOut, Outcome::Unknown, action, reason);
        match &*self.client.state().borrow() {
            ConnectionState::Reconnecting(cause) | ConnectionState::Closed { error: cause, .. } => {
                error(format!("not within {within:?}: {cause}; {going_on}"))
                    .with_source(cause.clone())
            }
            _ => error(format!("no response within {within:?}; {going_on}")),
        }
    }

    /// What work under the lease ends with although it succeeded: [`ErrorKind::LockLost`] with an unknown outcome, if the
    /// lease is not certainly held any more.
    pub fn loss(&self) -> Option<Error> {
        (!self.is_valid()).then(|| self.lost_error(WORKING, Outcome::Unknown))
    }

    /// Gives the lease back at the end of work that succeeded. An answer that the lease could not be given back is no
    /// error: the log is told, and it ends by itself.
    ///
    /// Returns at the latest when the lease is not certain any more. Giving it back goes on if the future is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::LockLost`] with an unknown outcome if the lease was lost before, so that the work, or a part of it, was
    /// done without its protection.
    pub async fn finish(self) -> Result<(), Error> {
        self.finish_within(Duration::MAX).await
    }

    /// As [`finish`](Self::finish), and waits at most so long. Giving the lease back goes on in the background then.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub async fn finish_within(self, timeout: Duration) -> Result<(), Error> {
        if let Some(loss) = self.loss() {
            return Err(loss);
        }
        let (name, until) = (self.name.clone(), self.valid_until());
        match self.release_within(timeout).await {
            // What is found gone before it can have ended by itself was taken away.
            Ok(Release::NotHeld) if Instant::now() < until => {
                let reason = "the lease is lost: it was found gone when it was to be given back";
                let action = action(WORKING, &name);
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

    /// Stops renewing and leaves the lease to its time, or to somebody who knows the holder's name and renews it.
    ///
    /// Dropping the future before it has ended gives the lease back, as dropping the guard does.
    pub async fn leave(self) {
        // If nobody takes the command, there is nothing to stop.
        let _ = self.keeper.send(Command::Leave).await;
    }

    /// The client with which it was taken.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn updates(&self) -> &Mutex<()> {
        &self.updates
    }

    /// What is left of the time for which the lease is certainly held.
    pub(super) fn left(&self, verb: &str) -> Result<Duration, Error> {
        self.validity
            .left()
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
