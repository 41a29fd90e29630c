//! Leases, locks, elections and updates of a client.
use super::election::Election;
use super::guard::Guard;
use super::lease::Lease;
use super::lock_waiter;
use super::options::{LeaseOptions, LockOptions};
use super::update::{self, UpdateOptions, UpdateOutcome};
use crate::AsBytes;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Outcome};
use crate::{Client, Entry};
use bytes::Bytes;

impl Client {
    /// Returns the lease of this name, which is a key of the store. Sends no request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidArgument`] if the name is empty.
    pub fn lease(&self, name: impl AsBytes) -> Result<Lease, Error> {
        self.lease_with(name, &LeaseOptions::default())
    }

    /// Returns the lease of this name, with options. Sends no request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidArgument`] if the name is empty or the options are invalid.
    pub fn lease_with(&self, name: impl AsBytes, options: &LeaseOptions) -> Result<Lease, Error> {
        Lease::new(self.clone(), name.as_ref(), options)
    }

    /// Takes the lock of this name, which is a key of the store. Waits for the lock without a time limit.
    ///
    /// Dropping the future cancels the attempt: no lease stays held or renewed.
    pub async fn lock(&self, name: impl AsBytes) -> Result<Guard, Error> {
        self.lock_with(name, &LockOptions::default()).await
    }

    /// Takes the lock of this name, with options.
    ///
    /// Dropping the future cancels the attempt, as with [`lock`](Self::lock).
    ///
    /// # Errors
    /// - [`ErrorKind::LockHeld`]: another client still holds the lock when the wait ends.
    /// - [`ErrorKind::NotALock`]: the key holds something other than a lease.
    /// - [`ErrorKind::InvalidArgument`]: the name or the options are invalid; no request is sent.
    /// - [`ErrorKind::TimedOut`]: the store did not respond.
    ///
    /// A lost connection is no error while there is time to wait. Afterwards, the error is that of the connection.
    pub async fn lock_with(
        &self,
        name: impl AsBytes,
        options: &LockOptions,
    ) -> Result<Guard, Error> {
        let name = Bytes::copy_from_slice(name.as_ref());
        options.lease.check("locking", &name)?;
        lock_waiter::lock(self, &name, options).await
    }

    /// Takes the lock, runs `work` and releases the lock after `work` has ended.
    ///
    /// If the lock is lost, `work` is dropped at its next `await`.
    ///
    /// ```no_run
    /// # async fn example(client: statestore::Client) -> Result<(), statestore::Error> {
    /// use statestore::LockOptions;
    ///
    /// let options = LockOptions::default();
    /// let set = client
    ///     .with_lock("pump/owner", &options, async |guard| {
    ///         guard.set("pump/state", "running").await
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The errors of [`lock_with`](Self::lock_with), if the lock could not be taken.
    /// - The error of `work`, if it failed. No other error replaces it.
    /// - [`ErrorKind::LockLost`] with an unknown outcome, if `work` succeeded or was still running, and the lock was lost
    ///   before it was released.
    ///
    /// A failed release is no error: the lease expires.
    pub async fn with_lock<T, E: From<Error>>(
        &self,
        name: impl AsBytes,
        options: &LockOptions,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.lock_with(name, options).await?;
        let done = tokio::select! {
            biased;
            // First, so that the result of the work counts if the lock is lost at the same time.
            done = work(&guard) => done,
            _ = guard.lost() => {
                return Err(guard.lost_error("working under the lock", Outcome::Unknown).into());
            }
        };
        match done {
            Ok(done) => guard.finish().await.map(|()| done).map_err(E::from),
            Err(failed) => {
                if let Err(error) = guard.finish().await {
                    tracing::warn!(kind = ?error.kind(), "the work under a lock failed, and its lock was lost");
                }
                Err(failed)
            }
        }
    }

    /// Returns the election of this name, which is a key of the store. Sends no request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidArgument`] if the name is empty.
    pub fn election(&self, name: impl AsBytes) -> Result<Election, Error> {
        self.election_with(name, &LockOptions::default())
    }

    /// Returns the election of this name, with options. Sends no request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidArgument`] if the name is empty or the options are invalid.
    pub fn election_with(
        &self,
        name: impl AsBytes,
        options: &LockOptions,
    ) -> Result<Election, Error> {
        Election::new(self.clone(), name.as_ref(), options)
    }

    /// Updates a key without a lock: reads it, and writes the new value if the key still has the version that was read.
    ///
    /// `change` gets the entry, or `None` if the key is absent. It returns the new value, or `None` for no change. It is called
    /// again if another client changed the key in between, so it should have no side effects. The key keeps its remaining time,
    /// unless [`UpdateOptions::expires_in`] is set.
    ///
    /// ```no_run
    /// # async fn example(client: statestore::Client) -> Result<(), statestore::Error> {
    /// client
    ///     .update("parts/count", |old| {
    ///         let count = old.and_then(|old| std::str::from_utf8(&old.value).ok()?.parse().ok());
    ///         Some((count.unwrap_or(0_u64) + 1).to_string())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// On a store without conditions on versions ([`Capabilities::conditions`](crate::Capabilities)), the client uses a fenced
    /// compare-and-set instead. The first update fences the key there: the store then rejects a SET or DEL without a token. So
    /// all clients that write the key should use `update`. See `docs/locks.md` for the limits.
    ///
    /// Use [`Guard::update`] for a key that a lock protects.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    ///
    /// # Errors
    /// - The errors of [`set`](Self::set) and [`get`](Self::get). At the time-out, the error is that of the last request that
    ///   failed for a transient reason.
    /// - [`ErrorKind::TimedOut`]: other clients changed the key each time.
    /// - [`ErrorKind::FencingTokenRequired`]: the key is fenced.
    /// - [`ErrorKind::FencingTokenLower`]: on a store without conditions on versions, a token ahead of the clock protects the
    ///   key. That ends within a minute.
    ///
    /// If the outcome is unknown, the change may have been stored.
    pub async fn update<V: AsBytes>(
        &self,
        key: impl AsBytes,
        change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        self.update_with(key, &UpdateOptions::default(), change)
            .await
    }

    /// Updates a key without a lock, with options.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    pub async fn update_with<V: AsBytes>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        mut change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        let change = |old: Option<Entry>| std::future::ready(change(old.as_ref()));
        update::update(self, None, key.as_ref(), options, change).await
    }

    /// Updates a key without a lock, with a future that computes the new value, for example on another thread.
    ///
    /// The time that `change` takes counts towards the time-out. The longer it takes, the more likely another client changes
    /// the key first.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    pub async fn update_async<V: AsBytes, F: Future<Output = Option<V>>>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        change: impl FnMut(Option<Entry>) -> F,
    ) -> Result<UpdateOutcome, Error> {
        update::update(self, None, key.as_ref(), options, change).await
    }
}
