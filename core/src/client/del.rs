//! The DEL request.
use super::call::{Call, Response, invalid_argument};
use super::capabilities::permits_conditions;
use super::{Client, Deadline};
use crate::error::Error;
use crate::request::OutgoingRequest;
use crate::{AsBytes, Retry};
use statestore_protocol::{CommandRef, Hlc, Reply, Version};
use std::time::Duration;

/// Options of [`Client::del_with`], [`Client::del_many_with`] and [`Client::vdel_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DelOptions {
    /// Fencing token. A key that is protected by a token can be deleted only with that token or a higher one.
    pub fencing_token: Option<Hlc>,
    /// Version that the key must have to be deleted. Some stores do not support this
    /// ([`Capabilities::conditions`](crate::Capabilities::conditions)) and return
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported). The client cannot emulate the condition there, because a
    /// deletion removes the fence that would have to guard it.
    pub if_version: Option<Version>,
    /// Time limit of the request; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// Whether the request is sent again if the session is lost before its response arrives.
    pub retry: Retry,
    /// Whether the request fails with [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it cannot be sent at once. The
    /// causes are a lost connection, earlier requests in the queue, and a full send window or buffer.
    pub at_once: bool,
    /// Whether the request waits for a lost connection in spite of [`Settings::fail_fast`](crate::Settings::fail_fast).
    pub(crate) ignores_fail_fast: bool,
}

impl DelOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`fencing_token`](Self#structfield.fencing_token).
    #[must_use]
    pub fn fencing_token(mut self, fencing_token: impl Into<Option<Hlc>>) -> Self {
        self.fencing_token = fencing_token.into();
        self
    }

    /// Sets [`if_version`](Self#structfield.if_version).
    #[must_use]
    pub fn if_version(mut self, if_version: impl Into<Option<Version>>) -> Self {
        self.if_version = if_version.into();
        self
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`retry`](Self#structfield.retry).
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Sets [`at_once`](Self#structfield.at_once).
    #[must_use]
    pub fn at_once(mut self, at_once: bool) -> Self {
        self.at_once = at_once;
        self
    }
}

/// Result of a DEL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelOutcome {
    /// The key existed and is deleted.
    Deleted {
        /// Version of the deletion, if the store reported one.
        version: Option<Hlc>,
    },
    /// The key did not exist, so it did not have the version of [`DelOptions::if_version`] either.
    Absent,
    /// The key exists without the version of [`DelOptions::if_version`], and nothing changed.
    Mismatch {
        /// Current version of the key.
        version: Hlc,
    },
}

impl Client {
    /// Deletes a key.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn del(&self, key: impl AsBytes) -> Result<DelOutcome, Error> {
        self.del_with(key, &DelOptions::default()).await
    }

    /// Deletes a key, with options.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn del_with(
        &self,
        key: impl AsBytes,
        options: &DelOptions,
    ) -> Result<DelOutcome, Error> {
        if options.if_version.is_some() {
            return Box::pin(self.del_if_version(key.as_ref(), options)).await;
        }
        self.send_del(key.as_ref(), options).await
    }

    async fn send_del(&self, key: &[u8], options: &DelOptions) -> Result<DelOutcome, Error> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let mut del = self.start_del(key, options, token.as_deref())?;
        let response = (&mut del).await?;
        outcome(&del, response)
    }

    async fn del_if_version(&self, key: &[u8], options: &DelOptions) -> Result<DelOutcome, Error> {
        // Invalid arguments are rejected before any request is sent.
        drop(self.start_del(key, options, None)?);
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let del = |timeout, ()| {
            let options = options.clone().timeout(timeout);
            async move { self.send_del(key, &options).await }
        };
        let if_version = options.if_version;
        let permits = permits_conditions(CommandRef::Del { key, if_version });
        self.call_if_supported(
            &deadline,
            !options.at_once,
            CommandRef::Del { key, if_version },
            permits,
            del,
        )
        .await
    }

    /// Creates the request. `token` is the text of the fencing token in the options.
    pub(super) fn start_del<'a>(
        &'a self,
        key: &'a [u8],
        options: &DelOptions,
        token: Option<&'a str>,
    ) -> Result<Call<'a>, Error> {
        let if_version = options.if_version;
        let command = CommandRef::Del { key, if_version };
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let request = OutgoingRequest {
            fencing_token: token,
            retry: options.retry,
            may_wait: !options.at_once,
            ignores_fail_fast: options.ignores_fail_fast,
            ..OutgoingRequest::new(command)
        };
        Ok(Call::new(self.shared(), request, options.timeout))
    }
}

/// Interprets the response to a DEL.
pub(super) fn outcome(del: &Call<'_>, response: Response) -> Result<DelOutcome, Error> {
    match response.reply {
        Reply::Count(0) => Ok(DelOutcome::Absent),
        Reply::Count(1) => Ok(DelOutcome::Deleted {
            version: response.version,
        }),
        // Only an absent key has no version.
        Reply::NotApplied if del.is_if_version() => Ok(match response.version {
            Some(version) => DelOutcome::Mismatch { version },
            None => DelOutcome::Absent,
        }),
        _ => Err(del.invalid("the response is not one to DEL")),
    }
}
