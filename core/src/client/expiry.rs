//! Remaining times of keys.
use super::action::key_action;
use crate::error::{Error, ErrorKind, Outcome};
use std::time::Duration;

/// Minimum duration of a lease, and minimum expiry of a key that is written in several steps.
pub(crate) const MIN_EXPIRY: Duration = Duration::from_millis(100);
/// Fixed part of the safety margin: the store counts whole milliseconds, and a write takes time to leave the process.
const FIXED_MARGIN: Duration = Duration::from_millis(10);
/// Divisor of the lease for the maximum drift between the clocks of client and store.
const DRIFT_DIVISOR: u32 = 100;

/// The remaining time of a key, as far as it is known.
///
/// A key whose time is unknown may expire at any moment. To write a value back with its remaining time, request that time.
/// Otherwise a key that expires becomes permanent:
///
/// ```no_run
/// # async fn example(client: statestore::Client) -> Result<(), statestore::Error> {
/// use statestore::{Expiry, GetOptions, SetOptions};
///
/// let options = GetOptions::new().remaining(true);
/// if let Some(entry) = client.get_with("session/7", &options).await? {
///     let options = match entry.expires_in {
///         Expiry::After(time) => SetOptions::new().expires_in(time),
///         Expiry::Never => SetOptions::new(),
///         // The entry is read again, or left alone.
///         _ => return Ok(()),
///     };
///     client.set_with("session/7", entry.value, &options).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Expiry {
    /// The request did not ask for the time, or the store did not report it.
    #[default]
    Unknown,
    /// The key does not expire.
    Never,
    /// The key expires after this time, to the millisecond, counted from the response of the store.
    After(Duration),
}

impl Expiry {
    /// Returns whether the store reported the time.
    pub fn is_known(self) -> bool {
        self != Self::Unknown
    }
}

/// Returns the time for which a key that expires `after` this duration certainly exists, counted from when its request was
/// sent.
pub(crate) fn certain_lifetime(after: Duration) -> Duration {
    after
        .saturating_sub(after / DRIFT_DIVISOR)
        .saturating_sub(FIXED_MARGIN)
}

/// Rejects an expiry that is too short for a read and a write, before any request is sent.
pub(crate) fn check_expiry(
    verb: &str,
    key: &[u8],
    expires_in: Option<Duration>,
) -> Result<(), Error> {
    match expires_in {
        Some(after) if after < MIN_EXPIRY => {
            let reason = format!(
                "an expiry of {after:?} is too short, because the key may expire before it is written; use at least {MIN_EXPIRY:?}"
            );
            Err(Error::new(
                ErrorKind::InvalidArgument,
                Outcome::NotDone,
                key_action(verb, key),
                reason,
            ))
        }
        _ => Ok(()),
    }
}
