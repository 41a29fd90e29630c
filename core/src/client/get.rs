//! The GET request.
use super::call::{Call, invalid_argument};
use super::capabilities::unsupported;
use super::{Client, Deadline, Expiry, Shared, detach};
use crate::error::Error;
use crate::request::OutgoingRequest;
use crate::{AsBytes, TransactionRecord};
use bytes::Bytes;
use statestore_protocol::{Capabilities, CommandRef, Hlc, Reply};
use std::time::Duration;

/// A stored value with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Entry {
    /// The value. Human-readable serde formats, such as JSON, store UTF-8 text as a string, and other bytes as an object with
    /// the member `base64`.
    #[cfg_attr(feature = "serde", serde(with = "super::value_format"))]
    pub value: Bytes,
    /// Version that the SET of this value returned.
    pub version: Hlc,
    /// Remaining time; [`Expiry::Unknown`] unless [`GetOptions::remaining`] is set.
    #[cfg_attr(feature = "serde", serde(default))]
    pub expires_in: Expiry,
}

impl Entry {
    /// Creates an entry whose remaining time is unknown.
    pub fn new(value: impl Into<Bytes>, version: Hlc) -> Self {
        Self {
            value: value.into(),
            version,
            expires_in: Expiry::Unknown,
        }
    }
}

/// Options of [`Client::get_with`] and [`Client::get_many_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GetOptions {
    /// Time limit of the request; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// Whether the request fails with [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it cannot be sent at once. The
    /// causes are a lost connection, earlier requests in the queue, and a full send window or buffer.
    pub at_once: bool,
    /// Whether the store reports the [remaining time](Entry::expires_in) of the key. Stores without
    /// [`Capabilities::remaining_time`] return [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    pub remaining: bool,
    /// Whether the response may be a slightly older state of the key. Where several servers share the entries, this saves the
    /// server a round trip to them. The server answers from its own state, which is never older than what it reported for the
    /// key before. The client omits the option for stores without [`Capabilities::eventual`], whose response is always the
    /// current state.
    pub eventual: bool,
}

impl GetOptions {
    /// Returns the default options.
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

    /// Sets [`remaining`](Self#structfield.remaining).
    #[must_use]
    pub fn remaining(mut self, remaining: bool) -> Self {
        self.remaining = remaining;
        self
    }

    /// Sets [`eventual`](Self#structfield.eventual).
    #[must_use]
    pub fn eventual(mut self, eventual: bool) -> Self {
        self.eventual = eventual;
        self
    }

    /// Returns whether the capabilities of the store must be known first.
    pub(super) fn needs_extensions(&self) -> bool {
        self.remaining || self.eventual
    }

    /// Returns the options that this store supports, or an error if it cannot report the remaining time.
    pub(super) fn supported(&self, key: &[u8], store: &Capabilities) -> Result<Self, Error> {
        if self.remaining && !store.remaining_time {
            let reason = "the store does not tell when keys expire";
            return Err(unsupported(self.command(key), reason));
        }
        Ok(self.clone().eventual(self.eventual && store.eventual))
    }

    pub(super) fn command<'a>(&self, key: &'a [u8]) -> CommandRef<'a> {
        CommandRef::Get {
            key,
            remaining: self.remaining,
            eventual: self.eventual,
        }
    }
}

impl Client {
    /// Reads a key. Returns `None` if it is absent.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn get(&self, key: impl AsBytes) -> Result<Option<Entry>, Error> {
        self.get_with(key, &GetOptions::default()).await
    }

    /// Reads a key, with options. Returns `None` if it is absent.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn get_with(
        &self,
        key: impl AsBytes,
        options: &GetOptions,
    ) -> Result<Option<Entry>, Error> {
        if options.needs_extensions() {
            return Box::pin(self.get_extended(key.as_ref(), options)).await;
        }
        self.shared().send_get(key.as_ref(), options).await
    }

    async fn get_extended(&self, key: &[u8], options: &GetOptions) -> Result<Option<Entry>, Error> {
        // Invalid arguments are rejected before any request is sent.
        drop(self.shared().start_get(key, options)?);
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let get = |timeout, permitted: GetOptions| {
            let options = permitted.timeout(timeout);
            async move { self.shared().send_get(key, &options).await }
        };
        let permits = |store: &Capabilities| options.supported(key, store);
        self.call_if_supported(
            &deadline,
            !options.at_once,
            options.command(key),
            permits,
            get,
        )
        .await
    }
}

impl Shared {
    pub(super) fn start_get<'a>(
        &'a self,
        key: &'a [u8],
        options: &GetOptions,
    ) -> Result<Call<'a>, Error> {
        let command = options.command(key);
        if key.is_empty() {
            return Err(invalid_argument(command, "the key is empty"));
        }
        let request = OutgoingRequest {
            may_wait: !options.at_once,
            ..OutgoingRequest::new(command)
        };
        Ok(Call::new(self, request, options.timeout))
    }

    pub(crate) async fn send_get(
        &self,
        key: &[u8],
        options: &GetOptions,
    ) -> Result<Option<Entry>, Error> {
        let mut get = self.start_get(key, options)?;
        let response = (&mut get).await?;
        entry(&get, response)
    }
}

/// Interprets the response to a GET.
pub(super) fn entry(
    get: &Call<'_>,
    response: super::call::Response,
) -> Result<Option<Entry>, Error> {
    let (value, expires_in) = match response.reply {
        Reply::Nil => return Ok(None),
        Reply::Value(value) => (value, Expiry::Unknown),
        Reply::ValueAndTime {
            value,
            expires_in_ms,
        } if get.requests_remaining_time() => {
            let after = |ms| Expiry::After(Duration::from_millis(ms));
            (value, expires_in_ms.map_or(Expiry::Never, after))
        }
        _ => return Err(get.invalid("the response is not one to GET")),
    };
    let Some(version) = response.version else {
        return Err(get.invalid("the response has a value and no version"));
    };
    TransactionRecord::reject(&value, &version, || get.action())?;
    Ok(Some(Entry {
        value: detach(value),
        version,
        expires_in,
    }))
}
