//! Several GETs in one call.
use super::batch::{MaybeDone, join_all};
use super::{Client, Deadline, Entry, GetOptions, get};
use crate::AsBytes;
use crate::error::Error;
use statestore_protocol::Capabilities;

impl Client {
    /// Reads several keys. Returns their entries in the order of the keys, with `None` for each absent key.
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// let pumps = client.get_many(["pump/1", "pump/2"]).await?;
    /// assert_eq!(pumps.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The protocol has no command for several keys. The client sends single GETs without waiting for each other. The result is
    /// **not a snapshot**: a write may happen between any two of them.
    ///
    /// # Errors
    /// Returns the first error of any GET and cancels the others.
    pub async fn get_many<K: AsBytes>(
        &self,
        keys: impl AsRef<[K]>,
    ) -> Result<Vec<Option<Entry>>, Error> {
        self.get_many_with(keys, &GetOptions::default()).await
    }

    /// Like [`get_many`](Self::get_many), with options. The time-out of each GET starts when it is sent.
    pub async fn get_many_with<K: AsBytes>(
        &self,
        keys: impl AsRef<[K]>,
        options: &GetOptions,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let keys = keys.as_ref();
        if options.needs_extensions() {
            return Box::pin(self.get_many_extended(keys, options)).await;
        }
        self.send_gets(keys, options).await
    }

    async fn get_many_extended<K: AsBytes>(
        &self,
        keys: &[K],
        options: &GetOptions,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let Some(first) = keys.first() else {
            return Ok(Vec::new());
        };
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let gets = |_, permitted: GetOptions| async move { self.send_gets(keys, &permitted).await };
        let permits = |store: &Capabilities| options.supported(first.as_ref(), store);
        self.call_if_supported(
            &deadline,
            !options.at_once,
            options.command(first.as_ref()),
            permits,
            gets,
        )
        .await
    }

    async fn send_gets<K: AsBytes>(
        &self,
        keys: &[K],
        options: &GetOptions,
    ) -> Result<Vec<Option<Entry>>, Error> {
        let gets = keys.iter().map(|key| {
            let get = self.shared().start_get(key.as_ref(), options)?;
            Ok(MaybeDone::Running(get))
        });
        join_all(self.shared(), gets, |get, response| {
            get::entry(get, response?)
        })
        .await
    }
}
