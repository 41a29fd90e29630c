//! The SET request.
use super::call::{Call, Response, check_value, invalid_argument};
use super::{Client, Shared};
use crate::error::Error;
use crate::request::OutgoingRequest;
use crate::{AsBytes, Retry};
use statestore_protocol::{CommandRef, Condition, Hlc, Reply};
use std::num::NonZeroU64;
use std::time::Duration;

/// Options of [`Client::set_with`] and [`Client::set_many_with`].
///
/// ```
/// use statestore::{Condition, SetOptions};
/// use std::time::Duration;
///
/// let lease = SetOptions::new()
///     .condition(Condition::IfAbsentOrEqual)
///     .expires_in(Duration::from_secs(10));
/// # assert!(!lease.persist);
/// ```
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
#[non_exhaustive]
pub struct SetOptions {
    /// Condition under which the value is stored.
    pub condition: Condition,
    /// Time after which the key expires, rounded up to a millisecond; must not be zero. Without it, or with [`Duration::MAX`],
    /// the key does not expire, even if it was to expire before.
    pub expires_in: Option<Duration>,
    /// Fencing token that protects the key. From then on, only requests with this token or a higher one can write or delete the
    /// key.
    pub fencing_token: Option<Hlc>,
    /// Whether the store is asked to keep the key on disk.
    pub persist: bool,
    /// Time limit of the request; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// Whether the request is sent again if the session is lost before its response arrives.
    pub retry: Retry,
    /// Whether only the newest value of the key is sent after an outage. While the connection is lost, a waiting SET with this
    /// option is replaced by a newer SET of the key with this option. The replaced one ends with
    /// [`ErrorKind::Superseded`], and the newer one waits at the end of the queue. Set the
    /// [`timeout`](Self::timeout) to the longest outage that you expect. A request that was sent once is never replaced.
    pub coalesce: bool,
    /// Whether the request fails with [`ErrorKind::QueueFull`] if it cannot be sent at once. The
    /// causes are a lost connection, earlier requests in the queue, and a full send window or buffer.
    pub at_once: bool,
    /// Whether the request waits for a lost connection in spite of [`Settings::fail_fast`](crate::Settings::fail_fast).
    pub(crate) ignores_fail_fast: bool,
}

impl SetOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`condition`](Self#structfield.condition).
    #[must_use]
    pub fn condition(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }

    /// Sets [`expires_in`](Self#structfield.expires_in).
    #[must_use]
    pub fn expires_in(mut self, expires_in: impl Into<Option<Duration>>) -> Self {
        self.expires_in = expires_in.into();
        self
    }

    /// Sets [`fencing_token`](Self#structfield.fencing_token).
    #[must_use]
    pub fn fencing_token(mut self, fencing_token: impl Into<Option<Hlc>>) -> Self {
        self.fencing_token = fencing_token.into();
        self
    }

    /// Sets [`persist`](Self#structfield.persist).
    #[must_use]
    pub fn persist(mut self, persist: bool) -> Self {
        self.persist = persist;
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

    /// Sets [`coalesce`](Self#structfield.coalesce).
    #[must_use]
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Sets [`at_once`](Self#structfield.at_once).
    #[must_use]
    pub fn at_once(mut self, at_once: bool) -> Self {
        self.at_once = at_once;
        self
    }
}

/// Result of a SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetOutcome {
    /// The value is stored.
    Applied {
        /// Version of the value, which can serve as a fencing token.
        version: Hlc,
    },
    /// The condition was not met, and nothing changed.
    NotApplied {
        /// Version of the value that stayed; `None` if the key is absent, as is possible with [`Condition::IfVersion`].
        version: Option<Hlc>,
    },
}

impl SetOutcome {
    /// Returns whether the value is stored.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied { .. })
    }

    /// Returns the version of the value that is stored now, whether new or old; `None` if the key is absent.
    pub fn version(&self) -> Option<&Hlc> {
        match self {
            Self::Applied { version } => Some(version),
            Self::NotApplied { version } => version.as_ref(),
        }
    }
}

impl Client {
    /// Stores a value unconditionally.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn set(&self, key: impl AsBytes, value: impl AsBytes) -> Result<SetOutcome, Error> {
        self.set_with(key, value, &SetOptions::default()).await
    }

    /// Stores a value, with options.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    pub async fn set_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        if let Condition::IfVersion(version) = options.condition {
            let set = self.set_if_version(key.as_ref(), value.as_ref(), version, options);
            return Box::pin(set).await;
        }
        self.shared()
            .send_set(key.as_ref(), value.as_ref(), options)
            .await
    }
}

impl Shared {
    pub(crate) async fn send_set(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let mut set = self.start_set(key, value, options, token.as_deref())?;
        let response = (&mut set).await?;
        outcome(&set, response)
    }

    /// Creates the request. `token` is the text of the fencing token in the options.
    pub(super) fn start_set<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        options: &SetOptions,
        token: Option<&'a str>,
    ) -> Result<Call<'a>, Error> {
        let command = |expires_in_ms| CommandRef::Set {
            key,
            value,
            options: statestore_protocol::SetOptions {
                condition: options.condition,
                expires_in_ms,
            },
        };
        if key.is_empty() {
            return Err(invalid_argument(command(None), "the key is empty"));
        }
        check_value(self, command(None), value)?;
        let expires_in_ms =
            expires_in_ms(options).map_err(|reason| invalid_argument(command(None), reason))?;
        let request = OutgoingRequest {
            fencing_token: token,
            persist: options.persist,
            retry: options.retry,
            may_wait: !options.at_once,
            coalesce: options.coalesce,
            ignores_fail_fast: options.ignores_fail_fast,
            ..OutgoingRequest::new(command(expires_in_ms))
        };
        Ok(Call::new(self, request, options.timeout))
    }
}

/// Returns the milliseconds after which a key expires, or the reason why the time is invalid.
pub(super) fn expires_in_ms(options: &SetOptions) -> Result<Option<NonZeroU64>, &'static str> {
    let Some(after) = options.expires_in.filter(|&after| after != Duration::MAX) else {
        return Ok(None);
    };
    let ms = u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let ms = NonZeroU64::new(ms)
        .ok_or("the time after which it expires is zero; it is at least one millisecond")?;
    Ok(Some(ms))
}

/// Interprets the response to a SET.
pub(super) fn outcome(set: &Call<'_>, response: Response) -> Result<SetOutcome, Error> {
    let may_be_absent = set.is_if_version();
    match (response.reply, response.version) {
        (Reply::Ok, Some(version)) => Ok(SetOutcome::Applied { version }),
        (Reply::NotApplied, version) if version.is_some() || may_be_absent => {
            Ok(SetOutcome::NotApplied { version })
        }
        (Reply::Ok | Reply::NotApplied, _) => Err(set.invalid("the response has no version")),
        _ => Err(set.invalid("the response is not one to SET")),
    }
}
