//! The task of a lease: it takes, renews and releases the lease, with one request at a time.
//!
//! Because one task does all three, no renewal is under way when the lease is released. The caller may give up waiting, drop
//! the guard or panic: the task notices and cleans up.
use super::guard::{Guard, GuardCommand, Release};
use super::holder::Holder;
use super::lease_validity::LeaseValidity;
use super::options::LeaseOptions;
use super::{action, not_a_lock};
use crate::LostReason;
use crate::client::LeaseRegistration;
use crate::client::backoff::Backoff;
use crate::error::{Error, ErrorKind, Outcome};
use crate::{
    Client, Condition, ConnectionState, DelOptions, Hlc, SetOptions, SetOutcome, VdelOutcome,
};
use bytes::Bytes;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Bounds of the delay between attempts to release a lease.
const RELEASE_RETRY_DELAY: (Duration, Duration) =
    (Duration::from_millis(50), Duration::from_secs(1));
/// Bounds of the delay after a failed renewal, as divisors of the renewal interval.
const RETRY_DIVISORS: (u32, u32) = (32, 4);

/// Makes one attempt to take a lease. Returns `None` if another client holds it.
///
/// Dropping the future releases a lease that was taken.
pub(super) async fn acquire(
    client: &Client,
    name: &Bytes,
    options: &LeaseOptions,
) -> Result<Option<Guard>, Error> {
    let holder = match &options.holder {
        Some(name) if options.resume => Holder::new(name.clone()),
        given => {
            let (session, number) = client.shared().unique_name();
            let name = given.as_ref().map_or_else(
                || client.client_id(),
                |given| String::from_utf8_lossy(given).into_owned(),
            );
            Holder::unique(&name, &session, number, options.duration)
        }
    };
    let closed = |outcome, reason| {
        let action = action("taking the lease", name);
        Err(Error::new(ErrorKind::Closed, outcome, action, reason))
    };
    let Some(entry) = client.shared().leases.register() else {
        return closed(Outcome::NotDone, "the client was closed");
    };
    let task = RenewalTask {
        client: client.clone(),
        name: name.clone(),
        holder,
        options: options.clone(),
        registration: entry,
        has_unsettled_set: false,
    };
    let (result, taken) = oneshot::channel();
    let shared = client.shared();
    shared
        .runtime
        .spawn(shared.platform(), Box::pin(task.run(result)));
    match taken.await {
        // No client takes a lease with a token.
        Ok(Err(error)) if error.kind() == ErrorKind::FencingTokenRequired => {
            let reason =
                "its key is protected by a fencing token, as only data is; it is left alone";
            Err(not_a_lock(name, reason).with_source(error))
        }
        Ok(result) => result,
        Err(_) => closed(Outcome::Unknown, "the client was closed"),
    }
}

#[derive(Debug)]
struct RenewalTask {
    client: Client,
    name: Bytes,
    holder: Holder,
    options: LeaseOptions,
    /// Registration that the close of the client waits for.
    registration: LeaseRegistration,
    /// Whether a SET with an unknown outcome was sent, which the session may deliver when the connection is restored.
    has_unsettled_set: bool,
}

/// Result of a renewal.
enum RenewalOutcome {
    /// The lease was renewed and has this version now.
    Renewed(Hlc),
    /// The renewal failed or its outcome is unknown. It can be retried.
    Failed(Error),
    /// Another client holds the lease, or the store will never renew it.
    Lost(LostReason, Error),
}

impl RenewalTask {
    async fn run(mut self, mut result: oneshot::Sender<Result<Option<Guard>, Error>>) {
        let sent = Instant::now();
        let closing = self.registration.closing();
        let outcome = tokio::select! {
            biased;
            outcome = self.set(self.options.validity()) => outcome,
            // Dropping the request does not withdraw it, but the release follows it on the same connection.
            () = result.closed() => return self.release_in_background().await,
            () = closing => return self.release_in_background().await,
        };
        match outcome {
            Ok(SetOutcome::Applied { version }) => {
                let until = sent + self.options.validity();
                if Instant::now() >= until {
                    let late = self.error(
                        ErrorKind::TimedOut,
                        "the lease was over before the answer came",
                    );
                    // The receiver is gone if the caller gave up.
                    let _ = result.send(Err(late));
                    return self.release_in_background().await;
                }
                let validity = Arc::new(LeaseValidity::new(
                    until,
                    self.client.shared().runtime.clone(),
                ));
                let (sender, commands) = mpsc::channel(1);
                let guard = Guard::new(
                    self.client.clone(),
                    self.name.clone(),
                    self.holder.clone(),
                    version,
                    validity.clone(),
                    sender,
                );
                // A guard that cannot be delivered is dropped, which `renew_until_lost` notices.
                let _ = result.send(Ok(Some(guard)));
                self.renew_until_lost(&validity, commands, sent).await;
            }
            Ok(SetOutcome::NotApplied { .. }) => {
                let _ = result.send(Ok(None));
            }
            Err(error) => {
                let may_be_taken = error.outcome() == Outcome::Unknown;
                let _ = result.send(Err(error));
                if may_be_taken {
                    self.release_in_background().await;
                }
            }
        }
    }

    /// Renews the lease until the guard is dropped or the lease is lost.
    async fn renew_until_lost(
        mut self,
        validity: &LeaseValidity,
        mut commands: mpsc::Receiver<GuardCommand>,
        taken: Instant,
    ) {
        let interval = self.options.renewal_interval();
        let retry = interval.unwrap_or(self.options.duration);
        let mut backoff = Backoff::new(retry / RETRY_DIVISORS.0, retry / RETRY_DIVISORS.1);
        let mut due = interval.map(|interval| taken + interval);
        let mut closing = pin!(self.registration.closing());
        let mut over = pin!(client_closed(self.client.state()));
        loop {
            let mut answer = None;
            tokio::select! {
                biased;
                () = sleep_until(validity.until()) => {
                    validity.invalidate(LostReason::Expired, None);
                    tracing::warn!("a lease is lost: it could not be renewed in time");
                    return self.release_in_background().await;
                }
                command = commands.recv() => match command {
                    Some(GuardCommand::Renew(reply)) => answer = Some(reply),
                    Some(GuardCommand::Release(reply)) => {
                        let released = self.error(ErrorKind::LockLost, "it was released");
                        validity.invalidate(LostReason::Released, Some(released));
                        let released = self.release().await;
                        // The receiver is gone if the caller gave up.
                        let _ = reply.send(released);
                        return self.release_after_reconnect().await;
                    }
                    Some(GuardCommand::Leave) => return validity.invalidate(LostReason::Released, None),
                    None => {
                        validity.invalidate(LostReason::Released, None);
                        return self.release_in_background().await;
                    }
                },
                () = &mut closing => {
                    let closed = self.error(ErrorKind::Closed, "the client was closed");
                    validity.invalidate(LostReason::Closed, Some(closed));
                    return self.release_in_background().await;
                }
                (lost_reason, error) = &mut over => {
                    validity.invalidate(lost_reason, Some(error));
                    return self.release_in_background().await;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
            let sent = Instant::now();
            let renewed = self.renew(validity, interval).await;
            let result = match renewed {
                RenewalOutcome::Renewed(version) => {
                    backoff.reset();
                    due = interval.map(|interval| sent + interval);
                    Ok(version)
                }
                RenewalOutcome::Failed(error) => {
                    tracing::debug!(kind = ?error.kind(), "a lease could not be renewed yet");
                    validity.set_reason(error.clone());
                    due = interval.map(|_| Instant::now() + backoff.next(self.random()));
                    Err(error)
                }
                RenewalOutcome::Lost(lost_reason, error) => {
                    tracing::warn!(%lost_reason, "a lease is lost");
                    validity.invalidate(lost_reason, Some(error.clone()));
                    if let Some(reply) = answer {
                        let _ = reply.send(Err(error));
                    }
                    return self.release_in_background().await;
                }
            };
            if let Some(reply) = answer {
                let _ = reply.send(result);
            }
        }
    }

    async fn renew(
        &mut self,
        validity: &LeaseValidity,
        interval: Option<Duration>,
    ) -> RenewalOutcome {
        let sent = Instant::now();
        let Some(left) = validity.remaining() else {
            return RenewalOutcome::Failed(self.error(ErrorKind::LockLost, "its time is over"));
        };
        // Leaves time for a second attempt before the lease ends.
        let timeout = left.min(interval.unwrap_or(left));
        match self.set(timeout).await {
            Ok(SetOutcome::Applied { version }) => {
                if validity.extend(sent + self.options.validity()) {
                    RenewalOutcome::Renewed(version)
                } else {
                    let reason = "it was over before the answer to its renewal came";
                    RenewalOutcome::Lost(
                        LostReason::Expired,
                        self.error(ErrorKind::LockLost, reason),
                    )
                }
            }
            Ok(SetOutcome::NotApplied { .. }) => RenewalOutcome::Lost(
                LostReason::Taken,
                self.error(ErrorKind::LockLost, "another client holds it"),
            ),
            // Even a rejection may be transient: a wrong clock, or a permission that was revoked by mistake.
            Err(error) if error.kind() != ErrorKind::Closed => RenewalOutcome::Failed(error),
            Err(error) => {
                let lost_reason = self.client.shared().lost_reason();
                RenewalOutcome::Lost(lost_reason.unwrap_or(LostReason::Closed), error)
            }
        }
    }

    /// Sends the SET that takes or renews the lease.
    async fn set(&mut self, limit: Duration) -> Result<SetOutcome, Error> {
        let timeout = self
            .options
            .timeout
            .unwrap_or(self.client.shared().request_timeout());
        let options = SetOptions {
            condition: Condition::IfAbsentOrEqual,
            expires_in: Some(self.options.duration),
            timeout: Some(timeout.min(limit)),
            ignores_fail_fast: true,
            ..SetOptions::default()
        };
        // Stays set if this future is dropped.
        let was_unsettled = std::mem::replace(&mut self.has_unsettled_set, true);
        let result = self
            .client
            .set_with(&self.name, self.holder.name(), &options)
            .await;
        self.has_unsettled_set = match &result {
            // Earlier requests were delivered before this one, or never will be.
            Ok(_) => false,
            Err(error) => was_unsettled || error.outcome() == Outcome::Unknown,
        };
        result
    }

    /// Releases the lease when no caller waits for the outcome. A failure is logged.
    async fn release_in_background(mut self) {
        let given = self.release().await;
        if self.has_unsettled_set {
            return self.release_after_reconnect().await;
        }
        if let Err(error) = given {
            self.log(&error);
        }
    }

    /// Releases the lease after a reconnect. A pending request would take the lease when the connection is restored; a request
    /// that is sent afterwards follows it.
    async fn release_after_reconnect(mut self) {
        while self.has_unsettled_set {
            let mut state = self.client.state();
            // Without a connection, the task keeps no reference to a client that its users dropped.
            let RenewalTask {
                client,
                name,
                holder,
                options,
                registration: entry,
                ..
            } = self;
            let weak = client.downgrade();
            drop(client);
            let connected = state
                .wait_for(|state| state.is_connected() || state.is_closed())
                .await
                .is_ok_and(|state| state.is_connected());
            let (true, Some(client)) = (connected, weak.upgrade()) else {
                return;
            };
            self = Self {
                client,
                name,
                holder,
                options,
                registration: entry,
                has_unsettled_set: true,
            };
            if let Err(error) = self.release().await
                && self.client.state().borrow().is_connected()
            {
                return self.log(&error);
            }
        }
    }

    fn log(&self, error: &Error) {
        tracing::warn!(
            kind = ?error.kind(),
            lease = ?self.options.duration,
            "a lease could not be given back; it ends by itself when its time is over"
        );
    }

    /// Deletes the key if it still holds our name. Retries until the lease must have expired.
    async fn release(&mut self) -> Result<Release, Error> {
        let deadline = Instant::now() + self.options.duration;
        let mut may_be_given_back = false;
        let mut backoff = Backoff::new(RELEASE_RETRY_DELAY.0, RELEASE_RETRY_DELAY.1);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let options = DelOptions {
                timeout: Some(left.min(self.client.shared().request_timeout())),
                ignores_fail_fast: true,
                ..DelOptions::default()
            };
            let deleted = self
                .client
                .vdel_with(&self.name, self.holder.name(), &options)
                .await;
            let error = match deleted {
                Ok(deleted) => {
                    self.has_unsettled_set = false;
                    return Ok(match deleted {
                        VdelOutcome::Deleted { .. } => Release::Released,
                        // The key was there at an earlier attempt whose response was lost, as far as is known.
                        _ if may_be_given_back => Release::Released,
                        VdelOutcome::Absent | VdelOutcome::Mismatch { .. } => Release::NotHeld,
                    });
                }
                Err(error) => error,
            };
            may_be_given_back |= error.outcome() == Outcome::Unknown;
            let delay = backoff.next(self.random());
            if !error.is_transient() || Instant::now() + delay >= deadline {
                return Err(error);
            }
            sleep(delay).await;
        }
    }

    fn random(&self) -> u64 {
        // Without random numbers, the delay is the maximum.
        self.client.shared().platform().random().unwrap_or(u64::MAX)
    }

    fn error(&self, kind: ErrorKind, reason: &str) -> Error {
        Error::new(
            kind,
            Outcome::NotDone,
            action("holding the lease", &self.name),
            reason,
        )
    }
}

/// Waits until the client is closed, and returns the reason.
async fn client_closed(mut state: watch::Receiver<ConnectionState>) -> (LostReason, Error) {
    loop {
        if let ConnectionState::Closed { lost_reason, error } = &*state.borrow_and_update() {
            return (*lost_reason, error.clone());
        }
        if state.changed().await.is_err() {
            // The owner of the sender reports the end of the connection before it drops the sender.
            return std::future::pending().await;
        }
    }
}
