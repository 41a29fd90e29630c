//! Remaining times of keys.
use std::time::Duration;

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
