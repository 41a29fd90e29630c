//! A new expiry of a key.
use super::invalid;
use super::update::{UpdateOptions, UpdateOutcome};
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Error;
use crate::{AsBytes, Client};
use std::time::Duration;

impl Client {
    /// Sets the time after which a key expires, at least 100 ms; [`Duration::MAX`] for never. Returns `false` if the key is
    /// absent.
    ///
    /// The client [updates](Self::update) the key with its value, so the key gets a new version, and observers get a change.
    /// The limits and errors of [`update`](Self::update) apply, including those on a store without conditions on versions.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    pub async fn touch(&self, key: impl AsBytes, expires_in: Duration) -> Result<bool, Error> {
        self.touch_with(key, expires_in, &UpdateOptions::default())
            .await
    }

    /// Sets the time after which a key expires, with options.
    ///
    /// Dropping the future ends the update between two steps; a write that was sent may still be executed.
    ///
    /// # Errors
    /// The errors of [`update`](Self::update), and [`ErrorKind::InvalidArgument`] if [`UpdateOptions::expires_in`] is set.
    pub async fn touch_with(
        &self,
        key: impl AsBytes,
        expires_in: Duration,
        options: &UpdateOptions,
    ) -> Result<bool, Error> {
        if options.expires_in.is_some() {
            let reason = "the options have an `expires_in` of their own";
            return Err(invalid("touching", key.as_ref(), reason));
        }
        let options = options.clone().expires_in(expires_in);
        let outcome = self
            .update_with(key, &options, |old| old.map(|old| old.value.clone()))
            .await?;
        Ok(outcome != UpdateOutcome::Unchanged)
    }
}
