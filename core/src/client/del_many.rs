//! Many DELs at a time.
use super::call::invalid_argument;
use super::many::{Begun, ONE_VERSION, together};
use super::{Client, DelOptions, DelOutcome, del};
use crate::AsBytes;
use crate::error::Error;
use statestore_protocol::{CommandRef, Hlc};
use std::convert::Infallible;

impl Client {
    /// Deletes several keys; what each DEL did, in their order.
    ///
    /// As with [`set_many`](Self::set_many), these are single requests and **not a transaction**: a failure of one says nothing of
    /// the others, and ends none of them.
    ///
    /// Dropping the future takes back what has not left; the others may still be carried out.
    ///
    /// # Errors
    /// Those of [`del`](Self::del), for each key one of its own.
    #[must_use = "each outcome may be an error"]
    pub async fn del_many<K: AsBytes>(
        &self,
        keys: impl AsRef<[K]>,
    ) -> Vec<Result<DelOutcome, Error>> {
        self.del_many_with(keys, &DelOptions::default()).await
    }

    /// Like [`del_many`](Self::del_many); the options are those of each DEL, its time-out counts from when it is sent. They have no
    /// version, which only one of the keys could have.
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
                    Err(invalid_argument(command, ONE_VERSION))
                }
                None => self.start_del(key, options, token.as_deref()),
            };
            Ok::<_, Infallible>(Begun::from(del))
        });
        let Ok(outcomes) = together(self.shared(), dels, |del, response| {
            Ok(response.and_then(|response| del::outcome(del, response)))
        })
        .await;
        outcomes
    }
}
