//! Writes on behalf of a lease.
//!
//! Each write carries the guard's fencing token. It is rejected without being sent if the lease is no longer certainly held. It
//! waits for its response only as long as the lease was certain to be held when it began. A message may still be on its way
//! when the lease ends. The store rejects it by the fence once a newer holder has written the same key.
use super::update::{self, UpdateOptions, UpdateOutcome};
use super::{Guard, WRITE_ACTION};
use crate::AsBytes;
use crate::error::{Error, ErrorKind, Outcome};
use crate::{DelOptions, DelOutcome, Entry, Hlc, SetOptions, SetOutcome, VdelOutcome};
use std::time::Duration;

impl Guard {
    /// Stores a value unconditionally, and protects the key. From then on, the key can be written and deleted only with this
    /// guard's token or a higher one.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    ///
    /// # Errors
    /// Returns the errors of [`Client::set`](crate::Client::set), or [`ErrorKind::LockLost`] if the lease is no longer
    /// certainly held.
    pub async fn set(&self, key: impl AsBytes, value: impl AsBytes) -> Result<SetOutcome, Error> {
        self.set_with(key, value, &SetOptions::default()).await
    }

    /// Stores a value, with options, which must not contain a fencing token.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn set_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        let (token, timeout) =
            self.prepare_write(options.fencing_token.as_ref(), options.timeout)?;
        let options = SetOptions {
            fencing_token: Some(token),
            timeout: Some(timeout),
            ..options.clone()
        };
        let result = self.client().set_with(key, value, &options).await;
        result.map_err(|error| self.explain(error))
    }

    /// Deletes a key together with its protection.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn del(&self, key: impl AsBytes) -> Result<DelOutcome, Error> {
        self.del_with(key, &DelOptions::default()).await
    }

    /// Deletes a key, with options, which must not contain a fencing token.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn del_with(
        &self,
        key: impl AsBytes,
        options: &DelOptions,
    ) -> Result<DelOutcome, Error> {
        let options = self.prepare_deletion(options)?;
        let result = self.client().del_with(key, &options).await;
        result.map_err(|error| self.explain(error))
    }

    /// Deletes a key together with its protection, if it holds this value.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn vdel(&self, key: impl AsBytes, value: impl AsBytes) -> Result<VdelOutcome, Error> {
        self.vdel_with(key, value, &DelOptions::default()).await
    }

    /// Deletes a key if it holds this value, with options, which must not contain a fencing token.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn vdel_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let options = self.prepare_deletion(options)?;
        let result = self.client().vdel_with(key, value, &options).await;
        result.map_err(|error| self.explain(error))
    }

    /// Updates a key as [`Client::update`](crate::Client::update) does, and protects it with this guard's token.
    ///
    /// Dropping the future ends the update between two requests; a write that was sent may still be executed.
    ///
    /// # Errors
    /// - The errors of [`Client::update`](crate::Client::update).
    /// - [`ErrorKind::LockLost`]: the lease is no longer certainly held.
    /// - [`ErrorKind::FencingTokenLower`]: a newer holder has written the key.
    pub async fn update<V: AsBytes>(
        &self,
        key: impl AsBytes,
        change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        self.update_with(key, &UpdateOptions::default(), change)
            .await
    }

    /// Updates a key, with options, and protects it with this guard's token.
    ///
    /// Dropping the future ends the update between two requests; a write that was sent may still be executed.
    pub async fn update_with<V: AsBytes>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        mut change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        let change = |old: Option<Entry>| std::future::ready(change(old.as_ref()));
        self.update_async(key, options, change).await
    }

    /// Updates a key as [`Client::update_async`](crate::Client::update_async) does, and protects it with this guard's token.
    ///
    /// Dropping the future ends the update between two requests; a write that was sent may still be executed.
    pub async fn update_async<V: AsBytes, F: Future<Output = Option<V>>>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        change: impl FnMut(Option<Entry>) -> F,
    ) -> Result<UpdateOutcome, Error> {
        let client = self.client();
        let result = update::update(client, Some(self), key.as_ref(), options, change).await;
        result.map_err(|error| self.explain(error))
    }

    fn prepare_deletion(&self, options: &DelOptions) -> Result<DelOptions, Error> {
        let (token, timeout) =
            self.prepare_write(options.fencing_token.as_ref(), options.timeout)?;
        Ok(DelOptions {
            fencing_token: Some(token),
            timeout: Some(timeout),
            ..options.clone()
        })
    }

    /// Returns the token and the time limit of a write that starts now.
    fn prepare_write(
        &self,
        given: Option<&Hlc>,
        timeout: Option<Duration>,
    ) -> Result<(Hlc, Duration), Error> {
        if given.is_some() {
            let reason = "a guarded write has the token of its guard and takes no other";
            return Err(super::invalid(WRITE_ACTION, self.name(), reason));
        }
        let left = self.remaining(WRITE_ACTION)?;
        let timeout = timeout.unwrap_or(self.client().shared().request_timeout());
        Ok((self.token().clone(), timeout.min(left)))
    }

    /// Adds to the error of a write that timed out that the lease ended.
    fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::TimedOut || self.is_valid() {
            return error;
        }
        let verb = match error.outcome() {
            Outcome::NotDone => "writing under the lease, before it could be sent",
            Outcome::Unknown => "writing under the lease, before the answer came",
        };
        self.lost_error(verb, error.outcome()).with_source(error)
    }
}
