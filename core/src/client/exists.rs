//! Presence and remaining time of a key, by a GET.
use super::{Client, Expiry, GetOptions};
use crate::AsBytes;
#[cfg(doc)]
use crate::ErrorKind;
use crate::error::Error;

impl Client {
    /// Returns whether a key exists. The store sends the value too, as for [`get`](Self::get).
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn exists(&self, key: impl AsBytes) -> Result<bool, Error> {
        self.exists_with(key, &GetOptions::default()).await
    }

    /// Returns whether a key exists, with options.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn exists_with(
        &self,
        key: impl AsBytes,
        options: &GetOptions,
    ) -> Result<bool, Error> {
        let entry = self.get_with(key, options).await?;
        Ok(entry.is_some())
    }

    /// Returns the remaining time of a key: [`Expiry::After`] or [`Expiry::Never`], and `None` if the key is absent. The store
    /// sends the value too, as for [`get`](Self::get).
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get), and [`ErrorKind::Unsupported`] from a store without
    /// [`Capabilities::remaining_time`](crate::Capabilities).
    pub async fn ttl(&self, key: impl AsBytes) -> Result<Option<Expiry>, Error> {
        self.ttl_with(key, &GetOptions::default()).await
    }

    /// Returns the remaining time of a key, with options. [`GetOptions::remaining`] is always set.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    pub async fn ttl_with(
        &self,
        key: impl AsBytes,
        options: &GetOptions,
    ) -> Result<Option<Expiry>, Error> {
        let options = options.clone().remaining(true);
        let entry = self.get_with(key, &options).await?;
        Ok(entry.map(|entry| entry.expires_in))
    }
}
