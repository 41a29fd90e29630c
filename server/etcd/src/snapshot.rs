//! All records at one revision: for a watch that begins, and for a backup.
use super::EtcdConfig;
use super::connection::{self, kv};
use super::key_names::decode_floor;
use super::members::Members;
use super::opened_store::{self, OpenedStore, Purpose};
use super::ranges::{MAX_RECORDS, Range, decode_records};
use super::store::Store;
use etcd_client::{Error, GetOptions, GetResponse, ResponseHeader};
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_link::snapshots;
use statestored_shared::{BUCKETS, EngineError, KeyedRecord};
use statestored_storage::{SnapshotReceiver, SnapshotSource, StorageError};
use statestored_store::keyspace::rules::Version;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Maximum time for a part of a snapshot.
const PART_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before a request is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Time for which a backup repeats a request that fails for a temporary reason, such as a change of the leader.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of records in the first answer to a backup: the size of records is not known yet.
const FIRST_BATCH: usize = 64;

/// A reader of all records at one revision.
pub(super) struct SnapshotReader<'a> {
    pub(super) members: &'a Arc<Members>,
    pub(super) store: &'a Store,
    pub(super) batch_size: &'a AdaptiveBatchSize,
    /// Time for which a request is repeated that fails for a temporary reason.
    pub(super) retry_timeout: Duration,
}

impl SnapshotReader<'_> {
    /// Hands over all records, and returns their revision, and the floors at it.
    pub(super) async fn read<E>(
        &self,
        mut to: impl FnMut(Vec<KeyedRecord>) -> Result<(), E>,
    ) -> Result<(i64, Vec<Version>), E>
    where
        E: From<EngineError> + From<Error>,
    {
        let store = self.store;
        store.check()?;
        let names = store.names();
        let latest = store.latest();
        let mut from = names.entries();
        let mut at = 0;
        loop {
            let range = Range {
                from: from.clone(),
                revision: at,
                limit: MAX_RECORDS,
            };
            let response = self
                .with_retries(|| range.read(self.members, store, self.batch_size, PART_TIMEOUT))
                .await?;
            store.check_header(response.header(), latest)?;
            if at == 0 {
                at = response.header().map_or(0, ResponseHeader::revision);
            }
            let records = decode_records(&response, names)?;
            if let Some(last) = response.kvs().last() {
                from = [last.key(), b"\0"].concat();
            }
            to(records)?;
            if !response.more() {
                break;
            }
        }
        let options = GetOptions::new().with_revision(at);
        let manifest = self.get(names.manifest(), options).await?;
        store.check_manifest(&manifest)?;
        let options = GetOptions::new().with_prefix().with_revision(at);
        let response = self.get(names.floors(), options).await?;
        let floors: Option<Vec<_>> = response
            .kvs()
            .iter()
            .map(|found| decode_floor(found.value()))
            .collect();
        let floors = floors.filter(|floors| floors.len() == usize::from(BUCKETS));
        let missing = || EngineError::Foreign("floors are missing: data was lost".into());
        Ok((at, floors.ok_or_else(missing)?))
    }

    async fn get(&self, name: Vec<u8>, options: GetOptions) -> Result<GetResponse, Error> {
        self.with_retries(|| {
            let (name, options) = (name.clone(), options.clone());
            self.members
                .request_slow(PART_TIMEOUT, |client| async move {
                    kv(&client).get(name, Some(options)).await
                })
        })
        .await
    }

    /// Sends a request, and repeats it after a temporary error.
    async fn with_retries<Sending>(&self, send: impl Fn() -> Sending) -> Result<GetResponse, Error>
    where
        Sending: Future<Output = Result<GetResponse, Error>>,
    {
        let until = Instant::now() + self.retry_timeout;
        loop {
            match send().await {
                Err(error) if connection::is_transient(&error) && Instant::now() < until => {
                    sleep(RETRY_PAUSE).await;
                }
                result => return result,
            }
        }
    }
}

/// The store in an etcd, for backups.
#[derive(Debug)]
pub struct EtcdSnapshots {
    config: EtcdConfig,
    secret: Vec<u8>,
}

impl EtcdSnapshots {
    /// Creates a reader of the store that has this [secret](statestored_shared::Link::store_secret). Any other store is rejected.
    pub fn new(config: EtcdConfig, secret: &[u8]) -> Self {
        Self {
            config,
            secret: secret.to_vec(),
        }
    }

    async fn read(&self, to: &mut dyn SnapshotReceiver) -> Result<(), StorageError> {
        let place = self.config.endpoints.join(",");
        let connected = opened_store::begin(&self.config, Purpose::Snapshot).await;
        let OpenedStore { members, store } =
            connected.map_err(|error| StorageError::Engine(error.to_string()))?;
        if store.secret() != self.secret {
            let why = format!("etcd at {place} holds another store by now");
            return Err(StorageError::Engine(why));
        }
        let mut reconnects = JoinSet::new();
        reconnects.spawn(Arc::clone(&members).reconnect_suspended());
        to.restart()?;
        to.check_wanted()?;
        let batch_size = AdaptiveBatchSize::starting_at(FIRST_BATCH, MAX_RECORDS);
        let snapshot = SnapshotReader {
            members: &members,
            store: &store,
            batch_size: &batch_size,
            retry_timeout: RETRY_TIMEOUT,
        };
        let read = snapshot.read(|records| -> Result<(), Failure> {
            for KeyedRecord { key, record, .. } in &records {
                snapshots::receive_record(to, key, record)?;
            }
            to.check_wanted()?;
            Ok(())
        });
        let (_, floors) = read.await.map_err(|failure| match failure {
            Failure::Storage(error) => error,
            Failure::Etcd(why) => StorageError::Engine(format!("etcd at {place}: {why}")),
        })?;
        for floor in floors {
            to.deletion(floor);
        }
        Ok(())
    }
}

impl SnapshotSource for EtcdSnapshots {
    fn take(&self, to: &mut dyn SnapshotReceiver) -> Result<(), StorageError> {
        snapshots::block_on_snapshot(self.read(to))
    }
}

/// The reason why there is no snapshot.
enum Failure {
    Storage(StorageError),
    Etcd(String),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Etcd(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Etcd(connection::describe(&error))
    }
}
