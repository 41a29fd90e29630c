//! Several SETs in one call.
use super::batch::{MaybeDone, SINGLE_KEY_VERSION, join_all};
use super::call::invalid_argument;
use super::{Client, SetOptions, SetOutcome, set};
use crate::AsBytes;
use crate::error::Error;
use statestore_protocol::{CommandRef, Condition, Hlc};
use std::convert::Infallible;

impl Client {
    /// Stores several values. Returns the result of each SET, in the order of the values.
    ///
    /// The protocol has no command for several keys. The client sends single SETs in their order, without waiting for each
    /// other. They are **not a transaction**: each is applied, or fails, by itself. A failed request neither ends the others
    /// nor says anything about them, and readers may see any subset. If this future is dropped, requests that were sent may
    /// still be executed.
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// for outcome in client.set_many([("pump/1", "on"), ("pump/2", "off")]).await {
    ///     outcome?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Each value has its own error, as of [`set`](Self::set).
    #[must_use = "each outcome may be an error"]
    pub async fn set_many<K: AsBytes, V: AsBytes>(
        &self,
        values: impl AsRef<[(K, V)]>,
    ) -> Vec<Result<SetOutcome, Error>> {
        self.set_many_with(values, &SetOptions::default()).await
    }

    /// Like [`set_many`](Self::set_many), with options for each SET. The time-out of each SET starts when it is sent. A
    /// condition on a version is rejected, because only one of the keys could meet it.
    #[must_use = "each outcome may be an error"]
    pub async fn set_many_with<K: AsBytes, V: AsBytes>(
        &self,
        values: impl AsRef<[(K, V)]>,
        options: &SetOptions,
    ) -> Vec<Result<SetOutcome, Error>> {
        let token = options.fencing_token.as_ref().map(Hlc::to_string);
        let sets = values.as_ref().iter().map(|(key, value)| {
            let (key, value) = (key.as_ref(), value.as_ref());
            let set = match options.condition {
                Condition::IfVersion(_) => {
                    let options = statestore_protocol::SetOptions::default();
                    let command = CommandRef::Set {
                        key,
                        value,
                        options,
                    };
                    Err(invalid_argument(command, SINGLE_KEY_VERSION))
                }
                _ => self
                    .shared()
                    .start_set(key, value, options, token.as_deref()),
            };
            Ok::<_, Infallible>(MaybeDone::from(set))
        });
        let Ok(outcomes) = join_all(self.shared(), sets, |set, response| {
            Ok(response.and_then(|response| set::outcome(set, response)))
        })
        .await;
        outcomes
    }
}
