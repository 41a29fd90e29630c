//! Restore of a backup into etcd.
use super::connection::{self, kv};
use super::key_names::encode_floor;
use super::limits::{MAX_OPERATIONS, MAX_RECORD_BYTES};
use super::members::Members;
use super::opened_store::{self, OpenedStore, Purpose};
use super::store::Store;
use super::{EtcdConfig, REQUEST_TIMEOUT};
use etcd_client::{DeleteOptions, Error, Txn, TxnOp, TxnResponse};
use statestored_link::restoring::{Entry, NewStore, too_large};
use statestored_shared::{BUCKETS, EngineError, bucket_of};
use statestored_store::keyspace::rules::Version;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Time for which a write is repeated that fails for a temporary reason, such as a change of the leader.
const RETRIED_FOR: Duration = Duration::from_secs(10);

/// Pause before a write is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// Time limit of the removal of all keys.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A store in an etcd that is filled from a backup.
#[derive(Debug)]
pub struct UnfinishedStore {
    members: Arc<Members>,
    store: Arc<Store>,
    /// Task that returns members to service.
    _reconnects: JoinSet<()>,
}

impl NewStore for UnfinishedStore {
    type Config = EtcdConfig;

    const MOST_RECORDS: usize = MAX_OPERATIONS;
    const MOST_BYTES: usize = 1_000_000;

    fn place(config: &EtcdConfig) -> String {
        format!("etcd at {}", config.endpoints.join(","))
    }

    async fn begin(config: &EtcdConfig) -> Result<Self, String> {
        let begun = opened_store::begin(config, Purpose::Restore).await;
        let OpenedStore { members, store } = begun.map_err(|error| error.to_string())?;
        let mut reconnects = JoinSet::new();
        reconnects.spawn(Arc::clone(&members).reconnect_suspended());
        Ok(Self {
            members,
            store,
            _reconnects: reconnects,
        })
    }

    async fn write(&mut self, entries: &[Entry]) -> Result<(), String> {
        let names = self.store.names();
        let mut puts = Vec::with_capacity(entries.len());
        for (key, record) in entries {
            if key.len() + record.encoded_len() > MAX_RECORD_BYTES {
                return Err(too_large(key, MAX_RECORD_BYTES));
            }
            let name = names.entry(bucket_of(key), key);
            puts.push(TxnOp::put(name, record.encode(), None));
        }
        self.make(puts).await
    }

    async fn finish(&mut self, floor: Version) -> Result<(), String> {
        let buckets: Vec<_> = (0..BUCKETS).collect();
        for some in buckets.chunks(Self::MOST_RECORDS) {
            let names = self.store.names();
            let put = |bucket: &u16| TxnOp::put(names.floor(*bucket), encode_floor(floor), None);
            self.make(some.iter().map(put).collect()).await?;
        }
        let response = self.send(&self.store.completion(), REQUEST_TIMEOUT).await;
        let response = response.map_err(|error| connection::describe(&error))?;
        if self.store.is_complete(&response) {
            return Ok(());
        }
        Err(self.refused(&response))
    }

    async fn remove(&mut self) -> Result<(), String> {
        let all = DeleteOptions::new().with_prefix();
        let all = TxnOp::delete(self.store.names().all(), Some(all));
        let removal = self.store.guarded_read(vec![all]);
        let removed = self.send(&removal, REMOVAL_TIMEOUT).await;
        removed
            .map(drop)
            .map_err(|error| connection::describe(&error))
    }
}

impl UnfinishedStore {
    /// Makes these changes if the store is still the one that was begun.
    async fn make(&self, operations: Vec<TxnOp>) -> Result<(), String> {
        let txn = self.store.guarded_read(operations);
        let response = self.send(&txn, REQUEST_TIMEOUT).await;
        let response = response.map_err(|error| connection::describe(&error))?;
        if response.succeeded() {
            return Ok(());
        }
        Err(self.refused(&response))
    }

    fn refused(&self, response: &TxnResponse) -> String {
        match self.store.check_responses(response, 0) {
            Err(EngineError::Replaced(_)) => {
                "the unfinished store was removed or replaced meanwhile".into()
            }
            Err(error) => error.to_string(),
            Ok(_) => "it does not make the changes".into(),
        }
    }

    /// Sends a transaction whose repetition changes nothing, and repeats it after a temporary error.
    async fn send(&self, txn: &Txn, limit: Duration) -> Result<TxnResponse, Error> {
        let until = Instant::now() + RETRIED_FOR;
        loop {
            let txn = txn.clone();
            let request = self
                .members
                .request_slow(limit, |client| async move { kv(&client).txn(txn).await });
            match request.await {
                Err(error) if connection::is_transient(&error) && Instant::now() < until => {
                    sleep(AGAIN).await;
                }
                result => return result,
            }
        }
    }
}
