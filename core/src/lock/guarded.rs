//! Writes in the name of a lease.
//!
//! Each of them carries the guard's fencing token, is refused without being sent when the lease is not certainly held
//! any more, and does not wait for its answer longer than the lease was certain to be held when it began. A message that
//! is on its way nevertheless when the lease ends meets the fence: the store refuses it as soon as a newer holder has
//! written the same key.
use super::Guard;
use super::update::{self, UpdateOptions, UpdateOutcome};
use crate::AsBytes;
use crate::error::{Error, ErrorKind, Outcome};
use crate::{DelOptions, DelOutcome, Entry, Hlc, SetOptions, SetOutcome, VdelOutcome};
use std::time::Duration;

pub(super) const WRITING: &str = "writing under the lease";

impl Guard {
    /// Stores a value, whatever was there before, and protects the key: from now on it is written and deleted only with
    /// this guard's token or a higher one.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    ///
    /// # Errors
    /// As [`Client::set`](crate::Client::set); [`ErrorKind::LockLost`] if the lease is not certainly held any more.
    pub async fn set(&self, key: impl AsBytes, value: impl AsBytes) -> Result<SetOutcome, Error> {
        self.set_with(key, value, &SetOptions::default()).await
    }

    /// Stores a value under conditions; the options must not have a fencing token.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn set_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        let (token, timeout) = self.permit(options.fencing_token.as_ref(), options.timeout)?;
        let options = SetOptions {
            fencing_token: Some(token),
            timeout: Some(timeout),
            ..options.clone()
        };
        let result = self.client().set_with(key, value, &options).await;
        result.map_err(|error| self.explain(error))
    }

    /// Deletes a key, and with it its protection.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn del(&self, key: impl AsBytes) -> Result<DelOutcome, Error> {
        self.del_with(key, &DelOptions::default()).await
    }

    /// Deletes a key; the options must not have a fencing token.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn del_with(
        &self,
        key: impl AsBytes,
        options: &DelOptions,
    ) -> Result<DelOutcome, Error> {
        let options = self.permit_deletion(options)?;
        let result = self.client().del_with(key, &options).await;
        result.map_err(|error| self.explain(error))
    }

    /// Deletes a key if it holds this value, and with it its protection.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn vdel(&self, key: impl AsBytes, value: impl AsBytes) -> Result<VdelOutcome, Error> {
        self.vdel_with(key, value, &DelOptions::default()).await
    }

    /// Deletes a key if it holds this value; the options must not have a fencing token.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn vdel_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &DelOptions,
    ) -> Result<VdelOutcome, Error> {
        let options = self.permit_deletion(options)?;
        let result = self.client().vdel_with(key, value, &options).await;
        result.map_err(|error| self.explain(error))
    }

    /// Changes a key by what it holds, as [`Client::update`](crate::Client::update) does, and protects it with this guard's token.
    ///
    /// Dropping the future ends it between two requests; a write that has left may still be carried out.
    ///
    /// # Errors
    /// As there; [`ErrorKind::LockLost`] if the lease is not certainly held any more;
    /// [`ErrorKind::FencingTokenLower`] if a newer holder has written the key.
    pub async fn update<V: AsBytes>(
        &self,
        key: impl AsBytes,
        change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        self.update_with(key, &UpdateOptions::default(), change)
            .await
    }

    /// Changes a key by what it holds, and protects it with this guard's token.
    ///
    /// Dropping the future ends it between two requests; a write that has left may still be carried out.
    pub async fn update_with<V: AsBytes>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        mut change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        let change = |old: Option<Entry>| std::future::ready(change(old.as_ref()));
        self.update_async(key, options, change).await
    }

    /// Changes a key by what it holds, as [`Client::update_async`](crate::Client::update_async) does, and protects it with this
    /// guard's token.
    ///
    /// Dropping the future ends it between two requests; a write that has left may still be carried out.
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

    fn permit_deletion(&self, options: &DelOptions) -> Result<DelOptions, Error> {
        let (token, timeout) = self.permit(options.fencing_token.as_ref(), options.timeout)?;
        Ok(DelOptions {
            fencing_token: Some(token),
            timeout: Some(timeout),
            ..options.clone()
        })
    }

    /// The token and the time that a write gets now.
    fn permit(
        &self,
        given: Option<&Hlc>,
        timeout: Option<Duration>,
    ) -> Result<(Hlc, Duration), Error> {
        if given.is_some() {
            let reason = "a guarded write has the token of its guard and takes no other";
            return Err(super::invalid(WRITING, self.name(), reason));
        }
        let left = self.left(WRITING)?;
        let timeout = timeout.unwrap_or(self.client().shared().request_timeout());
        Ok((self.token().clone(), timeout.min(left)))
    }

    /// A write that ended with the lease says so.
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
