//! Snapshot of all records at one revision, for a backup.
//!
//! Redis has no reads at a former revision. Every record is read in its current state, together with every change in the stream since the
//! beginning. An unchanged record is valid at the revision of the last change that was read, and all others are in the changes. Changes are
//! read along with the records, because the stream does not keep them for long.
use super::batch_sizes::BatchSizes;
use super::connection::{self, ConnectPurpose, MasterConnection};
use super::master_discovery;
use super::reader::{ReadError, Reader, decode_record, next_revision, transient};
use super::{RedisConfig, RedisError};
use ::redis::Value;
use statestored_link::snapshots;
use statestored_shared::{BUCKETS, EngineError, Revision};
use statestored_storage::{SnapshotReceiver, SnapshotSource, StorageError};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum number of attempts at a snapshot, after temporary failures.
const ATTEMPTS: usize = 3;

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Size in bytes above which an answer is larger than necessary.
const TARGET_BYTES: usize = 8 * 1024 * 1024;

/// Approximate number of keys of buckets that are listed at once.
const MAX_LISTED_KEYS: u64 = 10_000;

/// The store in a Redis, for backups.
#[derive(Debug)]
pub struct RedisSnapshots {
    config: RedisConfig,
    store: Vec<u8>,
}

/// The reason why there is no snapshot.
enum Failure {
    Storage(StorageError),
    Read(ReadError),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ReadError> for Failure {
    fn from(lost: ReadError) -> Self {
        Self::Read(lost)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Read(error.into())
    }
}

impl From<RedisError> for StorageError {
    fn from(error: RedisError) -> Self {
        Self::Engine(error.to_string())
    }
}

impl RedisSnapshots {
    /// Creates a reader of the store that has this [secret](statestored_shared::Link::store_secret). Any other store is rejected.
    pub fn new(config: RedisConfig, secret: &[u8]) -> Self {
        Self {
            config,
            store: secret.to_vec(),
        }
    }

    async fn read(&self, to: &mut dyn SnapshotReceiver) -> Result<(), StorageError> {
        let place = connection::location(&self.config);
        let failed = |why: &str| StorageError::Engine(format!("redis at {place}: {why}"));
        let batch_sizes = BatchSizes::for_backup();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let MasterConnection {
                connection,
                session,
            } = master_discovery::begin(&self.config, ConnectPurpose::Reconnect).await?;
            if session.store.as_bytes() != self.store {
                return Err(failed("it holds another store by now"));
            }
            to.restart()?;
            to.check_wanted()?;
            let reader = Reader {
                connection,
                session: &session,
                batch_sizes: &batch_sizes,
            };
            let why = match read_once(reader, to).await {
                Ok(()) => return Ok(()),
                Err(Failure::Storage(error)) => return Err(error),
                Err(Failure::Read(ReadError::Permanent(error))) => {
                    return Err(failed(&error.to_string()));
                }
                Err(Failure::Read(ReadError::Transient(why))) => why,
                Err(Failure::Read(ReadError::ConnectionLost)) => {
                    "another server is the master now, or it restarted".into()
                }
            };
            if attempts == ATTEMPTS {
                return Err(failed(&why));
            }
            tracing::warn!(
                why,
                "a snapshot of redis for a backup failed and starts again"
            );
            sleep(RETRY_PAUSE).await;
        }
    }
}

impl SnapshotSource for RedisSnapshots {
    fn take(&self, to: &mut dyn SnapshotReceiver) -> Result<(), StorageError> {
        snapshots::block_on_snapshot(self.read(to))
    }
}

async fn read_once(reader: Reader<'_>, to: &mut dyn SnapshotReceiver) -> Result<(), Failure> {
    let mut reading = SnapshotReader(reader);
    let (mut known, _) = reading.0.position().await?;
    let mut buckets = reading.filled_buckets().await?;
    while !buckets.is_empty() {
        let mut keys = reading.keys(&mut buckets).await?;
        while !keys.is_empty() {
            reading.entries(&mut keys, to).await?;
            known = reading.changes(known, to).await?;
            to.check_wanted()?;
        }
    }
    let (at, floors) = reading.0.position().await?;
    known = reading.changes(known, to).await?;
    if known < at {
        return Err(transient("some changes were not there any more").into());
    }
    for floor in floors {
        to.deletion(floor);
    }
    Ok(())
}

/// A snapshot in progress.
struct SnapshotReader<'a>(Reader<'a>);

impl SnapshotReader<'_> {
    /// Returns the buckets that have records, with their numbers of records.
    async fn filled_buckets(&mut self) -> Result<VecDeque<(u16, u64)>, Failure> {
        let mut commands = ::redis::pipe();
        for bucket in 0..BUCKETS {
            commands.cmd("SCARD").arg(self.0.session.names.keys(bucket));
        }
        let mut buckets = VecDeque::new();
        for (bucket, count) in (0..BUCKETS).zip(self.0.query(commands).await?) {
            match count {
                Value::Int(0) => {}
                Value::Int(count) => buckets.push_back((bucket, count.unsigned_abs())),
                other => return Err(unexpected_reply(&other)),
            }
        }
        Ok(buckets)
    }

    /// Takes some buckets, and lists their keys.
    async fn keys(
        &mut self,
        buckets: &mut VecDeque<(u16, u64)>,
    ) -> Result<VecDeque<(u16, Vec<u8>)>, Failure> {
        let mut commands = ::redis::pipe();
        let (mut listed, mut count) = (Vec::new(), 0);
        while count < MAX_LISTED_KEYS
            && let Some((bucket, keys)) = buckets.pop_front()
        {
            commands
                .cmd("SMEMBERS")
                .arg(self.0.session.names.keys(bucket));
            listed.push(bucket);
            count += keys;
        }
        let mut keys = VecDeque::new();
        for (bucket, answer) in listed.into_iter().zip(self.0.query(commands).await?) {
            let members = match answer {
                Value::Array(members) | Value::Set(members) => members,
                other => return Err(unexpected_reply(&other)),
            };
            for member in members {
                let Value::BulkString(key) = member else {
                    return Err(unexpected_reply(&member));
                };
                keys.push_back((bucket, key));
            }
        }
        Ok(keys)
    }

    /// Takes some keys, and hands over their records.
    async fn entries(
        &mut self,
        keys: &mut VecDeque<(u16, Vec<u8>)>,
        to: &mut dyn SnapshotReceiver,
    ) -> Result<(), Failure> {
        let (session, batch_sizes) = (self.0.session, self.0.batch_sizes);
        let batch_size = &batch_sizes.pages;
        let most = batch_size.current().min(keys.len());
        let batch: Vec<_> = keys.drain(..most).collect();
        let mut commands = ::redis::pipe();
        for group in batch.chunk_by(|(one, _), (other, _)| one == other) {
            let names = &session.names;
            let bucket = group.first().map_or(0, |(bucket, _)| *bucket);
            commands.cmd("HMGET").arg(names.entries_of_bucket(bucket));
            for (_, key) in group {
                commands.arg(&key[..]);
            }
        }
        let begun = Instant::now();
        let answers = self.0.query(commands).await;
        batch_size.finished(most, begun.elapsed());
        let mut values = Vec::with_capacity(most);
        for answer in answers? {
            match answer {
                Value::Array(found) => values.extend(found),
                other => return Err(unexpected_reply(&other)),
            }
        }
        if values.len() != most {
            return Err(transient("redis answers something else").into());
        }
        let mut bytes = 0;
        for ((_, key), value) in batch.into_iter().zip(values) {
            // A record that no longer exists is among the changes.
            let Value::BulkString(record) = &value else {
                continue;
            };
            bytes += record.len();
            let found = decode_record(&Value::BulkString(key), &value)?;
            snapshots::receive_record(to, &found.key, &found.record)?;
        }
        if bytes > TARGET_BYTES {
            batch_size.too_large(most);
        }
        Ok(())
    }

    /// Passes on the changes after a revision. Returns the revision of the last one.
    async fn changes(
        &mut self,
        mut known: Revision,
        to: &mut dyn SnapshotReceiver,
    ) -> Result<Revision, Failure> {
        loop {
            let most = self.0.batch_sizes.items.current();
            let items = self.0.items_after(known, None).await?;
            let is_all = items.len() < most;
            for item in items {
                known = next_revision(known, &item)?;
                for (key, record) in &item.changes {
                    snapshots::receive_change(to, key, record.as_ref())?;
                }
            }
            if is_all {
                return Ok(known);
            }
            to.check_wanted()?;
        }
    }
}

fn unexpected_reply(answer: &Value) -> Failure {
    Failure::Read(ReadError::Transient(format!("redis answers {answer:?}")))
}
