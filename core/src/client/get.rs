//! GET.
use super::call::{Call, invalid_argument};
use super::{Client, detached};
use crate::error::Error;
use crate::request::Outgoing;
use bytes::Bytes;
use statestore_protocol::{CommandRef, Hlc, Reply};
use std::time::Duration;

/// A stored value with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// The version that the SET which stored it returned.
    pub version: Hlc,
}

/// Options of [`Client::get_with`] and [`Client::get_many_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GetOptions {
    /// How long the request may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
    /// Whether it fails with [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it cannot be sent at once: because there
    /// is no connection, requests wait before it, or the send window or the buffer has no room.
    pub at_once: bool,
}

impl GetOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`at_once`](Self#structfield.at_once).
    #[must_use]
    pub fn at_once(mut self, at_once: bool) -> Self {
        self.at_once = at_once;
        self
    }
}

impl Client {
    /// Reads a key; `None` if it is absent.
    ///
    /// Dropping the future takes the request back; nothing is changed by it.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>, Error> {
        self.get_with(key, &GetOptions::default()).await
    }

    /// Reads a key; `None` if it is absent.
    ///
    /// Dropping the future takes the request back; nothing is changed by it.
    pub async fn get_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &GetOptions,
    ) -> Result<Option<Entry>, Error> {
        let mut get = self.start_get(key.as_ref(), options)?;
        let response = (&mut get).await?;
        entry(&get, response)
    }

    pub(super) fn start_get<'a>(
        &'a self,
        key: &'a [u8],
        options: &GetOptions,
    ) -> Result<Call<'a>, Error> {
        let command = CommandRef::Get {
            key,
            remaining: false,
        };
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let request = Outgoing {
            waits: !options.at_once,
            ..Outgoing::new(command)
        };
        Ok(Call::new(self.shared(), request, options.timeout))
    }
}

/// What a GET brought.
pub(super) fn entry(
    get: &Call<'_>,
    response: super::call::Response,
) -> Result<Option<Entry>, Error> {
    match (response.reply, response.version) {
        (Reply::Nil, _) => Ok(None),
        (Reply::Value(value), Some(version)) => Ok(Some(Entry {
            value: detached(value),
            version,
        })),
        (Reply::Value(_), None) => Err(get.invalid("the response has a value and no version")),
        _ => Err(get.invalid("the response is not one to GET")),
    }
}
