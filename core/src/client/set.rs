//! SET.
use super::call::{Call, Response, check_value, invalid_argument};
use super::{Client, Retry};
use crate::error::Error;
use crate::request::Outgoing;
use statestore_protocol::{CommandRef, Condition, Hlc, Reply};
use std::num::NonZeroU64;
use std::time::Duration;

/// Options of [`Client::set_with`] and [`Client::set_many_with`].
///
/// ```
/// use statestore::{Condition, SetOptions};
/// use std::time::Duration;
///
/// let lease = SetOptions {
///     condition: Condition::IfAbsentOrEqual,
///     expires_in: Some(Duration::from_secs(10)),
///     ..SetOptions::default()
/// };
/// # assert!(!lease.persist);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SetOptions {
    /// When the SET applies.
    pub condition: Condition,
    /// After what time the key expires, to the millisecond, rounded up; not zero. Without it the key does not expire,
    /// even if it was to expire before.
    pub expires_in: Option<Duration>,
    /// Protects the key: from now on it is written and deleted only with this token or a higher one.
    pub fencing_token: Option<Hlc>,
    /// Asks the store to keep the key on disk.
    pub persist: bool,
    /// How long the request may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given.
    pub timeout: Option<Duration>,
    /// Whether it is sent again if the session is lost before its response comes.
    pub retry: Retry,
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
        /// The version of the value that stayed.
        version: Hlc,
    },
}

impl SetOutcome {
    /// Whether the value is stored.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied { .. })
    }
    /// The version of the value that is stored now, be it the new or the old one.
    pub fn version(&self) -> &Hlc {
        match self {
            Self::Applied { version } | Self::NotApplied { version } => version,
        }
    }
}

impl Client {
    /// Stores a value, whatever was there before.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<SetOutcome, Error> {
        self.set_with(key, value, &SetOptions::default()).await
    }

    /// Stores a value under conditions.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    pub async fn set_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        self.run_set(key.as_ref(), value.as_ref(), options, true)
            .await
    }

    /// Stores a value if it can be sent at once; waits for the response, but not for a turn.
    ///
    /// Dropping the future takes the request back if it has not left; otherwise it may still be carried out.
    ///
    /// # Errors
    /// [`ErrorKind::QueueFull`](crate::ErrorKind::QueueFull) if it had to wait: for a connection, for requests before it,
    /// or for room in the send window or the buffer.
    pub async fn try_set(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        self.run_set(key.as_ref(), value.as_ref(), options, false)
            .await
    }

    async fn run_set(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
        waits: bool,
    ) -> Result<SetOutcome, Error> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let mut set = self.start_set(key, value, options, token.as_deref(), waits)?;
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
        waits: bool,
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
        check_value(self.shared(), command(None), value)?;
        let expires_in_ms = match options.expires_in {
            None => None,
            Some(after) => {
                let ms = u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
                let ms = NonZeroU64::new(ms).ok_or_else(|| {
                    invalid_argument(command(None), "a key cannot expire after no time")
                })?;
                Some(ms)
            }
        };
        let request = Outgoing {
            fencing_token: token,
            persist: options.persist,
            retry: options.retry,
            waits,
            ..Outgoing::new(command(expires_in_ms))
        };
        Ok(Call::new(self.shared(), request, options.timeout))
    }
}

/// What a SET did.
pub(super) fn outcome(set: &Call<'_>, response: Response) -> Result<SetOutcome, Error> {
    match (response.reply, response.version) {
        (Reply::Ok, Some(version)) => Ok(SetOutcome::Applied { version }),
        (Reply::NotApplied, Some(version)) => Ok(SetOutcome::NotApplied { version }),
        (Reply::Ok | Reply::NotApplied, None) => Err(set.invalid("the response has no version")),
        _ => Err(set.invalid("the response is not one to SET")),
    }
}
