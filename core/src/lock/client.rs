//! What a client offers of leases, locks, elections and updates.
use super::election::Election;
use super::guard::Guard;
use super::lease::Lease;
use super::lock;
use super::options::{LeaseOptions, LockOptions};
use super::update::{self, UpdateOptions, UpdateOutcome};
use crate::AsBytes;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Outcome};
use crate::{Client, Entry};
use bytes::Bytes;

impl Client {
    /// The lease of this name, which is a key of the store. Nothing is sent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the name is empty.
    pub fn lease(&self, name: impl AsBytes) -> Result<Lease, Error> {
        self.lease_with(name, &LeaseOptions::default())
    }

    /// The lease of this name. Nothing is sent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the name is empty, or the options cannot work.
    pub fn lease_with(&self, name: impl AsBytes, options: &LeaseOptions) -> Result<Lease, Error> {
        Lease::new(self.clone(), name.as_ref(), options)
    }

    /// Takes the lock of this name, which is a key of the store, and waits for it without a limit.
    ///
    /// Dropping the future gives up: nothing stays held, nothing goes on renewing.
    pub async fn lock(&self, name: impl AsBytes) -> Result<Guard, Error> {
        self.lock_with(name, &LockOptions::default()).await
    }

    /// Takes the lock of this name.
    ///
    /// Dropping the future is as with [`lock`](Self::lock).
    ///
    /// # Errors
    /// [`ErrorKind::LockHeld`] if somebody else still has it when the time to wait is over, [`ErrorKind::NotALock`] if the
    /// key holds something else than a lease, [`ErrorKind::InvalidArgument`] before anything is sent. A lost connection is
    /// no error while there is time to wait; afterwards the error is that of the connection, or
    /// [`ErrorKind::TimedOut`] if the store did not answer.
    pub async fn lock_with(
        &self,
        name: impl AsBytes,
        options: &LockOptions,
    ) -> Result<Guard, Error> {
        let name = Bytes::copy_from_slice(name.as_ref());
        options.lease.check("locking", &name)?;
        lock::lock(self, &name, options).await
    }

    /// Takes the lock, runs `work` and gives the lock back, which happens only after `work` has ended.
    ///
    /// `work` ends at its next `await` when the lock is lost, since its future is dropped.
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
    /// As [`lock_with`](Self::lock_with), if the lock could not be taken. The error of `work`, if it failed; nothing replaces
    /// it. [`ErrorKind::LockLost`] with an unknown outcome if `work` succeeded, or was still running, and the lock was lost
    /// before it was given back. That the lock could not be given back is no error: its lease ends by itself.
    pub async fn with_lock<T, E: From<Error>>(
        &self,
        name: impl AsBytes,
        options: &LockOptions,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.lock_with(name, options).await?;
        let done = tokio::select! {
            biased;
            // First, so that the end of the work counts if both are there at once.
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

    /// The election of this name, which is a key of the store. Nothing is sent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the name is empty.
    pub fn election(&self, name: impl AsBytes) -> Result<Election, Error> {
        self.election_with(name, &LockOptions::default())
    }

    /// The election of this name. Nothing is sent.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the name is empty, or the options cannot work.
    pub fn election_with(
        &self,
        name: impl AsBytes,
        options: &LockOptions,
    ) -> Result<Election, Error> {
        Election::new(self.clone(), name.as_ref(), options)
    }

    /// Changes a key by what it holds, without a lock: reads it, and writes it if it still has the version that was read.
    ///
    /// `change` gets the entry, `None` if the key is absent, and returns the new value, or `None` for no change. It is
    /// called again if another client changed the key in between, so it should do nothing but compute. The key keeps the time
    /// that it has left, unless [`UpdateOptions::expires_in`] says otherwise.
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
    /// A store without conditions on versions ([`Capabilities::conditions`](crate::Capabilities)) gets a fenced compare-and-set
    /// instead. From the first update on, the key is fenced there: a SET or DEL without a token is refused, and all clients that
    /// write the key should use `update`. See `docs/locks.md` for the limits.
    ///
    /// A key that a lock protects is updated with [`Guard::update`].
    ///
    /// Dropping the future ends it between two steps; a write that has left may still be carried out.
    ///
    /// # Errors
    /// As [`set`](Self::set) and [`get`](Self::get), also when the time is over and a request had failed for a reason that may
    /// pass; [`ErrorKind::TimedOut`] if others changed the key each time; [`ErrorKind::FencingTokenRequired`] if the key is
    /// fenced. On a store without conditions on versions, [`ErrorKind::FencingTokenLower`] if the key is protected with a token
    /// that is ahead of the clock, which passes within a minute. If the outcome is unknown, the change may have been stored.
    pub async fn update<V: AsBytes>(
        &self,
        key: impl AsBytes,
        change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        self.update_with(key, &UpdateOptions::default(), change)
            .await
    }

    /// Changes a key by what it holds.
    ///
    /// Dropping the future ends it between two steps; a write that has left may still be carried out.
    pub async fn update_with<V: AsBytes>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        mut change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        let change = |old: Option<Entry>| std::future::ready(change(old.as_ref()));
        update::update(self, None, key.as_ref(), options, change).await
    }

    /// Changes a key by what it holds, where the new value takes its time, as when another thread computes it.
    ///
    /// The time that `change` takes counts as time of the update, and the longer it is, the likelier somebody else is
    /// faster.
    ///
    /// Dropping the future ends it between two steps; a write that has left may still be carried out.
    pub async fn update_async<V: AsBytes, F: Future<Output = Option<V>>>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        change: impl FnMut(Option<Entry>) -> F,
    ) -> Result<UpdateOutcome, Error> {
        update::update(self, None, key.as_ref(), options, change).await
    }
}
