//! SET.
use super::call::{Call, Response, check_value, invalid_argument};
use super::capabilities::permits_conditions;
use super::{Client, Deadline, Retry, Shared};
use crate::AsBytes;
use crate::error::{Error, ErrorKind};
use crate::lock;
use crate::request::Outgoing;
use statestore_protocol::{CommandRef, Condition, Hlc, Reply, Version};
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
    /// When the SET applies.
    pub condition: Condition,
    /// Time after which the key expires, to the millisecond, rounded up; not zero. Without it, or with [`Duration::MAX`], the key does
    /// not expire, even if it was to expire before.
    pub expires_in: Option<Duration>,
    /// Protects the key: from now on it is written and deleted only with this token or a higher one.
    pub fencing_token: Option<Hlc>,
    /// Asks the store to keep the key on disk.
    pub persist: bool,
    /// How long the request may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
    /// Whether it is sent again if the session is lost before its response comes.
    pub retry: Retry,
    /// Whether only the newest value of the key is to be sent after the network was away. While there is no connection, a SET with
    /// this option ends with [`ErrorKind::Superseded`](crate::ErrorKind::Superseded) when a newer one of the same key, with this
    /// option too, begins to wait; that one waits behind all others. Give them a [`timeout`](Self::timeout) as long as the network
    /// may be away. Nothing that was ever sent is replaced.
    pub coalesce: bool,
    /// Whether it fails with [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it cannot be sent at once: because there
    /// is no connection, requests wait before it, or the send window or the buffer has no room.
    pub at_once: bool,
    /// Whether it waits for a lost connection in spite of [`Settings::fail_fast`](crate::Settings::fail_fast).
    pub(crate) waits_out_outages: bool,
}

impl SetOptions {
    /// The defaults.
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

/// What a SET did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetOutcome {
    /// The value is stored.
    Applied {
        /// Its version, which can serve as a fencing token.
        version: Hlc,
    },
    /// The condition was not met, and nothing changed.
    NotApplied {
        /// The version of the value that stayed; `None` if the key is absent, as it can be under [`Condition::IfVersion`].
        version: Option<Hlc>,
    },
}

impl SetOutcome {
    /// Whether the value is stored.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied { .. })
    }

    /// The version of the value that is stored now, be it the new or the old one; `None` if the key is absent.
    pub fn version(&self) -> Option<&Hlc> {
        match self {
            Self::Applied { version } => Some(version),
            Self::NotApplied { version } => version.as_ref(),
        }
    }
}

impl Client {
    /// Stores a value, whatever was there before.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn set(&self, key: impl AsBytes, value: impl AsBytes) -> Result<SetOutcome, Error> {
        self.set_with(key, value, &SetOptions::default()).await
    }

    /// Stores a value under conditions.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
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

    /// On a store without such a condition, by what [`update`](Self::update) does.
    async fn set_if_version(
        &self,
        key: &[u8],
        value: &[u8],
        version: Version,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        // What cannot be sent is refused before anything is.
        drop(self.shared().start_set(key, value, options, None)?);
        let command = CommandRef::Set {
            key,
            value,
            options: statestore_protocol::SetOptions::default(),
        };
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let set = |timeout, ()| {
            let options = options.clone().timeout(timeout);
            async move { self.shared().send_set(key, value, &options).await }
        };
        let permits = permits_conditions(command);
        let result = self
            .if_capable(&deadline, !options.at_once, command, permits, set)
            .await;
        match result {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                lock::set_if_version(self, key, value, version, options, &deadline).await
            }
            result => result,
        }
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

    /// `token` is the text of the fencing token in the options.
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
        let request = Outgoing {
            fencing_token: token,
            persist: options.persist,
            retry: options.retry,
            waits: !options.at_once,
            coalesce: options.coalesce,
            waits_out_outages: options.waits_out_outages,
            ..Outgoing::new(command(expires_in_ms))
        };
        Ok(Call::new(self, request, options.timeout))
    }
}

/// After how many milliseconds a key expires, or why it cannot.
pub(super) fn expires_in_ms(options: &SetOptions) -> Result<Option<NonZeroU64>, &'static str> {
    let Some(after) = options.expires_in.filter(|&after| after != Duration::MAX) else {
        return Ok(None);
    };
    let ms = u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let ms = NonZeroU64::new(ms)
        .ok_or("the time after which it expires is zero; it is at least one millisecond")?;
    Ok(Some(ms))
}

/// What a SET did.
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
