//! DEL.
use super::Client;
use super::call::{Call, invalid_argument};
use crate::error::Error;
use crate::protocol::{CommandRef, Hlc, Reply};
use crate::request::Outgoing;
use std::time::Duration;

/// Options of [`Client::del_with`] and [`Client::vdel_with`].
#[derive(Debug, Clone, Default)]
pub struct DelOptions {
    /// Needed for a key that is protected by a fencing token: that token or a higher one.
    pub fencing_token: Option<Hlc>,
    /// How long the request may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
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
    pub async fn del(&self, key: impl AsRef<[u8]>) -> Result<DelOutcome, Error> {
        self.del_with(key, &DelOptions::default()).await
    }

    /// Deletes a key.
    pub async fn del_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &DelOptions,
    ) -> Result<DelOutcome, Error> {
        let command = CommandRef::Del { key: key.as_ref() };
        if key.as_ref().is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let request = Outgoing {
            command,
            fencing_token: token.as_deref(),
            persist: false,
        };
        let mut del = Call::new(self.shared(), request, options.timeout);
        let response = (&mut del).await?;
        match response.reply {
            Reply::Count(0) => Ok(DelOutcome::Absent),
            Reply::Count(1) => Ok(DelOutcome::Deleted {
                version: response.version,
            }),
            _ => Err(del.invalid("the response is not one to DEL")),
        }
    }
}
