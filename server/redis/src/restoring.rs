//! Restore of a backup into Redis.
use super::connection::{self, ConnectPurpose, FORMAT, MasterConnection, Session};
use super::key_names::encode_version;
use super::master_discovery;
use super::transactions::is_confirmed;
use super::{RedisConfig, unfinished_store, worker};
use ::redis::RedisError;
use ::redis::aio::MultiplexedConnection;
use bytes::BytesMut;
use statestored_link::restoring::{Entry, NewStore, UNFINISHED, too_large};
use statestored_shared::{BUCKETS, bucket_of};
use statestored_store::keyspace::rules::Version;

const FILL: &str = include_str!("fill.lua");
const FINISH: &str = include_str!("finish.lua");

/// Revision of all restored records and floors, which is that of a new store.
const REVISION: &str = "1:";

/// A store in a Redis that is filled from a backup.
pub struct UnfinishedStore(MasterConnection);

impl std::fmt::Debug for UnfinishedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("UnfinishedStore")
            .field(&self.0.session)
            .finish()
    }
}

impl NewStore for UnfinishedStore {
    type Config = RedisConfig;

    const MOST_RECORDS: usize = 500;
    const MOST_BYTES: usize = 4 * 1024 * 1024;

    fn place(config: &RedisConfig) -> String {
        format!("redis at {}", connection::location(config))
    }

    async fn begin(config: &RedisConfig) -> Result<Self, String> {
        let reached = master_discovery::begin(config, ConnectPurpose::Restore).await;
        reached.map(Self).map_err(|error| error.to_string())
    }

    async fn write(&mut self, entries: &[Entry]) -> Result<(), String> {
        let session = &self.0.session;
        let names = &session.names;
        let mut fill = ::redis::cmd("EVAL");
        fill.arg(FILL).arg(1 + 2 * entries.len());
        fill.arg(names.manifest());
        for (key, _) in entries {
            let bucket = bucket_of(key);
            fill.arg(names.entries_of_bucket(bucket))
                .arg(names.keys(bucket));
        }
        fill.arg(UNFINISHED).arg(&session.store);
        for (key, record) in entries {
            let mut value = BytesMut::from(REVISION);
            record.encode_to(&mut value);
            if value.len() + key.len() > worker::MAX_RECORD_BYTES {
                return Err(too_large(key, worker::MAX_RECORD_BYTES));
            }
            fill.arg(&key[..]).arg(&value[..]);
        }
        let filled = fill.query_async::<()>(&mut self.0.connection).await;
        filled.map_err(|error| error.to_string())
    }

    async fn finish(&mut self, floor: Version) -> Result<(), String> {
        let MasterConnection {
            connection,
            session,
        } = &mut self.0;
        confirm(connection, session).await?;
        let mut finish = ::redis::cmd("EVAL");
        finish.arg(FINISH).arg(2);
        finish.arg(session.names.manifest());
        finish.arg(session.names.floors());
        finish.arg(UNFINISHED).arg(&session.store).arg(FORMAT);
        let floor = format!("{REVISION}{}", encode_version(floor));
        finish.arg(floor).arg(BUCKETS);
        let finished = finish.query_async::<()>(connection).await;
        finished.map_err(|error| error.to_string())?;
        confirm(connection, session).await
    }

    async fn remove(&mut self) -> Result<(), String> {
        let removed = remove(&mut self.0.connection, &self.0.session).await;
        removed.map_err(|error| error.to_string())
    }
}

/// Waits until enough replicas have the data.
async fn confirm(connection: &mut MultiplexedConnection, session: &Session) -> Result<(), String> {
    match is_confirmed(connection, session).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "fewer than {} replicas have the records: look at --redis-replicas",
            session.replicas
        )),
        Err(error) => Err(error.to_string()),
    }
}

async fn remove(
    connection: &mut MultiplexedConnection,
    session: &Session,
) -> Result<(), RedisError> {
    unfinished_store::remove(connection, &session.names.all(), &session.store).await
}
