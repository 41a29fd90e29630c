//! A client whose keys may be part of transactions through intents.
use super::client_store::{ClientStore, TransactionIds, stored};
use super::{read, transact};
use bytes::Bytes;
use statestore::{
    AsBytes, Client, Entry, Error, ErrorKind, GetOptions, Outcome, SetOptions, SetOutcome,
    TransactOptions, Transaction, TransactionOutcome, UpdateOptions, UpdateOutcome,
};
use std::time::Duration;

/// A client that makes transactions of single requests on a store without transactions, and reads the keys of such
/// transactions.
///
/// Each call first makes the same call of the [`Client`]. On a store with transactions, nothing follows.
#[derive(Debug)]
pub struct IntentsClient {
    client: Client,
    ids: TransactionIds,
}

impl IntentsClient {
    /// Creates a client over this one. Sends no request.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidSettings`] if the platform has no random numbers.
    pub fn new(client: Client) -> Result<Self, Error> {
        let session = client.platform().random().map_err(|error| {
            let action = "creating a client for intents";
            let reason = format!("no random numbers: {error}");
            Error::new(ErrorKind::InvalidSettings, Outcome::NotDone, action, reason)
        })?;
        Ok(Self {
            client,
            ids: TransactionIds::new(session),
        })
    }

    /// Returns the client below, for calls on keys without transactions.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads a key, like [`Client::get_with`].
    pub async fn get_with(
        &self,
        key: impl AsBytes,
        options: &GetOptions,
    ) -> Result<Option<Entry>, Error> {
        let key = key.as_ref();
        let mut store = self.store(options.timeout);
        store.at_once = options.at_once;
        let record = match self.client.get_with(key, options).await {
            Err(error) => stored(error)?,
            found => return found,
        };
        Box::pin(read(&store, key, record, store.remaining())).await
    }

    /// Stores a value, like [`Client::set_with`]. With a condition on the version, it waits for transactions.
    pub async fn set_with(
        &self,
        key: impl AsBytes,
        value: impl AsBytes,
        options: &SetOptions,
    ) -> Result<SetOutcome, Error> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let mut store = self.store(options.timeout);
        store.at_once = options.at_once;
        loop {
            let options = options.clone().timeout(store.remaining());
            let error = match self.client.set_with(key, value, &options).await {
                Err(error) => error,
                set => return set,
            };
            if store.settle(key, error).await?.tombstone().is_some() {
                return Ok(SetOutcome::NotApplied { version: None });
            }
        }
    }

    /// Updates a key without a lock, like [`Client::update_with`]. It waits for transactions.
    pub async fn update_with<V: AsBytes>(
        &self,
        key: impl AsBytes,
        options: &UpdateOptions,
        mut change: impl FnMut(Option<&Entry>) -> Option<V>,
    ) -> Result<UpdateOutcome, Error> {
        let key = key.as_ref();
        let mut store = self.store(options.timeout);
        store.persist = options.persist;
        loop {
            let limited = options.clone().timeout(store.remaining());
            let error = match self.client.update_with(key, &limited, &mut change).await {
                Err(error) => error,
                update => return update,
            };
            let Some(tombstone) = store.settle(key, error).await?.tombstone() else {
                continue;
            };
            let Some(value) = change(None) else {
                return Ok(UpdateOutcome::Unchanged);
            };
            let value = Bytes::copy_from_slice(value.as_ref());
            let replaced = store.replace(key, tombstone, value, options.expires_in);
            if let Some(version) = replaced.await? {
                return Ok(UpdateOutcome::Applied { version });
            }
        }
    }

    /// Executes all operations, or none, like [`Client::transact_with`]; on a store without transactions, through intents.
    ///
    /// Dropping the future is then like the end of the program: other clients abort or finish the transaction.
    ///
    /// # Errors
    /// The errors of [`Client::transact_with`] and [`transact`](fn@transact).
    pub async fn transact_with(
        &self,
        transaction: &Transaction,
        options: &TransactOptions,
    ) -> Result<TransactionOutcome, Error> {
        let mut store = self.store(options.timeout);
        store.persist = options.persist;
        match self.client.transact_with(transaction, options).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Box::pin(transact(&store, transaction, store.remaining())).await
            }
            result => result,
        }
    }

    fn store(&self, timeout: Option<Duration>) -> ClientStore<'_> {
        ClientStore::new(&self.client, &self.ids, timeout)
    }
}
