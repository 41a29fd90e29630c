//! DEL.
use super::call::{Call, Response, invalid_argument};
use super::{Client, Retry};
use crate::error::Error;
use crate::request::Outgoing;
use statestore_protocol::{CommandRef, Hlc, Reply};
use std::time::Duration;

/// Options of [`Client::del_with`], [`Client::del_many_with`] and [`Client::vdel_with`].
#[derive(Debug, Clone, Default)]
pub struct DelOptions {
    /// Needed for a key that is protected by a fencing token: that token or a higher one.
    pub fencing_token: Option<Hlc>,
    /// How long the request may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
    /// Whether it is sent again if the session is lost before its response comes.
    pub retry: Retry,
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
        self.run_del(key.as_ref(), options, true).await
    }

    /// Deletes a key if that can be sent at once; waits for the response, but not for a turn.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it had to wait.
    pub async fn try_del(
        &self,
        key: impl AsRef<[u8]>,
        options: &DelOptions,
    ) -> Result<DelOutcome, Error> {
        self.run_del(key.as_ref(), options, false).await
    }

    async fn run_del(
        &self,
        key: &[u8],
        options: &DelOptions,
        waits: bool,
    ) -> Result<DelOutcome, Error> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let mut del = self.start_del(key, options, token.as_deref(), waits)?;
        let response = (&mut del).await?;
        outcome(&del, response)
    }

    /// `token` is the text of the fencing token in the options.
    pub(super) fn start_del<'a>(
        &'a self,
        key: &'a [u8],
        options: &DelOptions,
        token: Option<&'a str>,
        waits: bool,
    ) -> Result<Call<'a>, Error> {
        let command = CommandRef::Del { key };
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let request = Outgoing {
            fencing_token: token,
            retry: options.retry,
            waits,
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
