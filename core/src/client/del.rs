//! DEL.
use super::call::{Call, Response, invalid_argument};
use super::{Client, Retry};
use crate::error::Error;
use crate::request::Outgoing;
use statestore_protocol::{CommandRef, Hlc, Reply};
use std::time::Duration;

/// Options of [`Client::del_with`], [`Client::del_many_with`] and [`Client::vdel_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DelOptions {
    /// Needed for a key that is protected by a fencing token: that token or a higher one.
    pub fencing_token: Option<Hlc>,
    /// How long the request may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
    /// Whether it is sent again if the session is lost before its response comes.
    pub retry: Retry,
    /// Whether it fails with [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it cannot be sent at once: because there
    /// is no connection, requests wait before it, or the send window or the buffer has no room.
    pub at_once: bool,
}

impl DelOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`fencing_token`](Self#structfield.fencing_token).
    #[must_use]
    pub fn fencing_token(mut self, fencing_token: impl Into<Option<Hlc>>) -> Self {
        self.fencing_token = fencing_token.into();
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

/// What a DEL did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelOutcome {
    /// The key was there and is deleted.
    Deleted {
        /// The version of the deletion, if the store gave one.
        version: Option<Hlc>,
    },
    /// The key was not there.
    Absent,
}

impl Client {
    /// Deletes a key.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn del(&self, key: impl AsRef<[u8]>) -> Result<DelOutcome, Error> {
        self.del_with(key, &DelOptions::default()).await
    }

    /// Deletes a key.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn del_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &DelOptions,
    ) -> Result<DelOutcome, Error> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let mut del = self.start_del(key.as_ref(), options, token.as_deref())?;
        let response = (&mut del).await?;
        outcome(&del, response)
    }

    /// `token` is the text of the fencing token in the options.
    pub(super) fn start_del<'a>(
        &'a self,
        key: &'a [u8],
        options: &DelOptions,
        token: Option<&'a str>,
    ) -> Result<Call<'a>, Error> {
        let command = CommandRef::Del {
            key,
            if_version: None,
        };
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let request = Outgoing {
            fencing_token: token,
            retry: options.retry,
            waits: !options.at_once,
            ..Outgoing::new(command)
        };
        Ok(Call::new(self.shared(), request, options.timeout))
    }
}

/// What a DEL did.
pub(super) fn outcome(del: &Call<'_>, response: Response) -> Result<DelOutcome, Error> {
    match response.reply {
        Reply::Count(0) => Ok(DelOutcome::Absent),
        Reply::Count(1) => Ok(DelOutcome::Deleted {
            version: response.version,
        }),
        _ => Err(del.invalid("the response is not one to DEL")),
    }
}
