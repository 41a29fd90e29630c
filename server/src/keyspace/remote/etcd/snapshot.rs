//! All records at one revision: for a watch that begins, and for a backup.
use super::connecting;
use super::members::Members;
use super::names::decode_floor;
use super::ranges::{AT_ONCE, Range, found};
use super::store::Store;
use super::{EtcdConfig, transactions};
use crate::keyspace::remote::portion::Portion;
use crate::keyspace::remote::{BUCKETS, EngineError, Found, snapshots};
use crate::keyspace::rules::Version;
use crate::storage::{ReceiveSnapshot, SnapshotSource, StorageError};
use etcd_client::{Error, GetOptions, GetResponse, ResponseHeader};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Maximum time for a part of a snapshot.
const SILENCE: Duration = Duration::from_secs(5);

/// Pause before a request is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// Time for which a backup repeats a request that fails for a temporary reason, such as a change of the leader.
const RETRIED_FOR: Duration = Duration::from_secs(10);

/// Number of records in the first answer to a backup: the size of records is not known yet.
const FIRST_PORTION: usize = 64;

/// A reader of all records at one revision.
pub(super) struct Snapshot<'a> {
    pub(super) members: &'a Arc<Members>,
    pub(super) store: &'a Store,
    pub(super) portion: &'a Portion,
    /// Time for which a request is repeated that fails for a temporary reason.
    pub(super) retried_for: Duration,
}

impl Snapshot<'_> {
    /// Hands over all records, and returns their revision, and the floors at it.
    pub(super) async fn read<E>(
        &self,
        mut to: impl FnMut(Vec<Found>) -> Result<(), E>,
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
                at,
                most: AT_ONCE,
            };
            let response = self
                .repeated(|| range.ask(self.members, store, self.portion, SILENCE))
                .await?;
            store.look_at(response.header(), latest)?;
            if at == 0 {
                at = response.header().map_or(0, ResponseHeader::revision);
            }
            let records = found(&response, names)?;
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
        store.look_at_manifest(&manifest)?;
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
        self.repeated(|| {
            let (name, options) = (name.clone(), options.clone());
            self.members.ask_at_length(SILENCE, |client| async move {
                transactions::kv(&client).get(name, Some(options)).await
            })
        })
        .await
    }

    /// Sends a request, and repeats it after a temporary error.
    async fn repeated<Asking>(&self, ask: impl Fn() -> Asking) -> Result<GetResponse, Error>
    where
        Asking: Future<Output = Result<GetResponse, Error>>,
    {
        let until = Instant::now() + self.retried_for;
        loop {
            match ask().await {
                Err(error) if connecting::passes(&error) && Instant::now() < until => {
                    sleep(AGAIN).await;
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
    /// Creates a reader of the store that has this [secret](crate::keyspace::remote::Link::store_secret). Any other store is rejected.
    pub fn new(config: EtcdConfig, secret: &[u8]) -> Self {
        Self {
            config,
            secret: secret.to_vec(),
        }
    }

    async fn read(&self, to: &mut dyn ReceiveSnapshot) -> Result<(), StorageError> {
        let place = self.config.endpoints.join(",");
        let connected = connecting::begin(&self.config, connecting::Purpose::Snapshot).await;
        let (members, store) =
            connected.map_err(|error| StorageError::Engine(error.to_string()))?;
        if store.secret() != self.secret {
            let why = format!("etcd at {place} holds another store by now");
            return Err(StorageError::Engine(why));
        }
        let mut keeping = JoinSet::new();
        keeping.spawn(Arc::clone(&members).keep());
        to.restart()?;
        to.proceed()?;
        let portion = Portion::beginning_with(FIRST_PORTION, AT_ONCE);
        let snapshot = Snapshot {
            members: &members,
            store: &store,
            portion: &portion,
            retried_for: RETRIED_FOR,
        };
        let read = snapshot.read(|records| -> Result<(), Failure> {
            for Found { key, record, .. } in &records {
                snapshots::found(to, key, record)?;
            }
            to.proceed()?;
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
    fn take(&self, to: &mut dyn ReceiveSnapshot) -> Result<(), StorageError> {
        snapshots::run(self.read(to))
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
        Self::Etcd(connecting::describe(&error))
    }
}
