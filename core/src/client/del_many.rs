//! Several DELs in one call.
use super::batch::{MaybeDone, SINGLE_KEY_VERSION, join_all};
use super::call::invalid_argument;
use super::{Client, DelOptions, DelOutcome, del};
use crate::AsBytes;
use crate::error::Error;
use statestore_protocol::{CommandRef, Hlc};
use std::convert::Infallible;

impl Client {
    /// Deletes several keys. Returns the result of each DEL, in the order of the keys.
    ///
    /// As with [`set_many`](Self::set_many), these are separate requests and **not a transaction**. A failed request neither
    /// ends the others nor says anything about them.
    ///
    /// Dropping the future withdraws the requests that were not sent; the others may still be executed.
    ///
    /// # Errors
    /// Each key has its own error, as of [`del`](Self::del).
    #[must_use = "each outcome may be an error"]
    pub async fn del_many<K: AsBytes>(
        &self,
        keys: impl AsRef<[K]>,
    ) -> Vec<Result<DelOutcome, Error>> {
        self.del_many_with(keys, &DelOptions::default()).await
    }

    /// Like [`del_many`](Self::del_many), with options for each DEL. The time-out of each DEL starts when it is sent. A version
    /// is rejected, because only one of the keys could have it.
    #[must_use = "each outcome may be an error"]
    pub async fn del_many_with<K: AsBytes>(
        &self,
        keys: impl AsRef<[K]>,
        options: &DelOptions,
    ) -> Vec<Result<DelOutcome, Error>> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let dels = keys.as_ref().iter().map(|key| {
            let key = key.as_ref();
            let del = match options.if_version {
                Some(_) => {
                    let if_version = None;
                    let command = CommandRef::Del { key, if_version };
                    Err(invalid_argument(command, SINGLE_KEY_VERSION))
                }
                None => self.start_del(key, options, token.as_deref()),
            };
            Ok::<_, Infallible>(MaybeDone::from(del))
        });
        let Ok(outcomes) = join_all(self.shared(), dels, |del, response| {
            Ok(response.and_then(|response| del::outcome(del, response)))
        })
        .await;
        outcomes
    }
}
