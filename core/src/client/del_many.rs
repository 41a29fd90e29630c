//! Many DELs at a time.
use super::many::{Begun, together};
use super::{Client, DelOptions, DelOutcome, del};
use crate::error::Error;
use statestore_protocol::Hlc;
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
    pub async fn del_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<DelOutcome, Error>> {
        self.del_many_with(keys, &DelOptions::default()).await
    }

    /// Like [`del_many`](Self::del_many); the options are those of each DEL, its time-out counts from when it is sent.
    #[must_use = "each outcome may be an error"]
    pub async fn del_many_with<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &DelOptions,
    ) -> Vec<Result<DelOutcome, Error>> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let dels = keys.iter().map(|key| {
            let del = self.start_del(key.as_ref(), options, token.as_deref());
            Ok::<_, Infallible>(Begun::from(del))
        });
        let Ok(outcomes) = together(self.shared(), dels, |del, response| {
            Ok(response.and_then(|response| del::outcome(del, response)))
        })
        .await;
        outcomes
    }
}
