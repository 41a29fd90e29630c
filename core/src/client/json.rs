//! Values as JSON.
use super::action::key_action;
use super::{Client, Entry, SetOutcome};
use crate::AsBytes;
use crate::error::{Error, ErrorKind, Outcome};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

impl Client {
    /// Reads a key whose value is JSON. Returns `None` if it is absent.
    ///
    /// Dropping the future withdraws the request, which changes nothing.
    ///
    /// ```no_run
    /// # async fn example(client: statestore::Client) -> Result<(), statestore::Error> {
    /// client.set_json("line/limits", &[20.5, 23.0]).await?;
    /// let limits: Option<Vec<f64>> = client.get_json("line/limits").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get), and [`ErrorKind::InvalidArgument`] if the value is not JSON of this type.
    pub async fn get_json<T: DeserializeOwned>(
        &self,
        key: impl AsBytes,
    ) -> Result<Option<T>, Error> {
        let key = key.as_ref();
        match self.get(key).await? {
            Some(entry) => decode(&entry, || key_action("decoding", key)).map(Some),
            None => Ok(None),
        }
    }

    /// Stores a value as JSON.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    ///
    /// # Errors
    /// The errors of [`set`](Self::set), and [`ErrorKind::InvalidArgument`] if the value has no form in JSON.
    pub async fn set_json<T: Serialize + ?Sized>(
        &self,
        key: impl AsBytes,
        value: &T,
    ) -> Result<SetOutcome, Error> {
        let key = key.as_ref();
        let json = serde_json::to_vec(value).map_err(|error| {
            let reason = format!("the value has no form in JSON: {error}");
            invalid(key_action("encoding", key), reason).with_source(error)
        })?;
        self.set(key, json).await
    }
}

impl Entry {
    /// Decodes the value, which is JSON.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidArgument`] if the value is not JSON of this type.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        decode(self, || "decoding a value".to_owned())
    }
}

/// Decodes a value. The reason of an error contains no part of the value; its source may.
fn decode<'a, T: Deserialize<'a>>(
    entry: &'a Entry,
    action: impl FnOnce() -> String,
) -> Result<T, Error> {
    serde_json::from_slice(&entry.value).map_err(|error| {
        let reason = format!(
            "the value is not JSON of the requested type, as of line {}, column {}",
            error.line(),
            error.column()
        );
        invalid(action(), reason).with_source(error)
    })
}

fn invalid(action: String, reason: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, Outcome::NotDone, action, reason)
}
