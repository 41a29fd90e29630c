//! Snapshot of all records at one revision, for a backup.
//!
//! Redis has no reads at a former revision. Every record is read in its current state, together with every change in the stream since the
//! beginning. An unchanged record is valid at the revision of the last change that was read, and all others are in the changes. Changes are
//! read along with the records, because the stream does not keep them for long.
use super::connecting::{self, Reached};
use super::portions::Portions;
use super::reaching::Purpose;
use super::reading::{Lost, Reader, found, next, passing};
use super::{RedisConfig, RedisError};
use crate::keyspace::remote::{BUCKETS, EngineError, Revision, snapshots};
use crate::storage::{ReceiveSnapshot, SnapshotSource, StorageError};
use ::redis::Value;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum number of attempts at a snapshot, after temporary failures.
const ATTEMPTS: usize = 3;

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(250);

/// Size in bytes above which an answer is larger than necessary.
const ENOUGH_BYTES: usize = 8 * 1024 * 1024;

/// Approximate number of keys of buckets that are listed at once.
const KEYS_AT_ONCE: u64 = 10_000;

/// The store in a Redis, for backups.
#[derive(Debug)]
pub struct RedisSnapshots {
    config: RedisConfig,
    store: Vec<u8>,
}

/// The reason why there is no snapshot.
enum Failure {
    Storage(StorageError),
    Lost(Lost),
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Lost(error.into())
    }
}

impl From<RedisError> for StorageError {
    fn from(error: RedisError) -> Self {
        Self::Engine(error.to_string())
    }
}

impl RedisSnapshots {
    /// Creates a reader of the store that has this [secret](crate::keyspace::remote::Link::store_secret). Any other store is rejected.
    pub fn new(config: RedisConfig, secret: &[u8]) -> Self {
        Self {
            config,
            store: secret.to_vec(),
        }
    }

    async fn read(&self, to: &mut dyn ReceiveSnapshot) -> Result<(), StorageError> {
        let place = connecting::place(&self.config);
        let failed = |why: &str| StorageError::Engine(format!("redis at {place}: {why}"));
        let portions = Portions::of_backup();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Reached {
                connection,
                session,
            } = connecting::begin(&self.config, Purpose::Reconnect).await?;
            if session.store.as_bytes() != self.store {
                return Err(failed("it holds another store by now"));
            }
            to.restart()?;
            to.proceed()?;
            let reader = Reader {
                connection,
                session: &session,
                portions: &portions,
            };
            let why = match read_at_once(reader, to).await {
                Ok(()) => return Ok(()),
                Err(Failure::Storage(error)) => return Err(error),
                Err(Failure::Lost(Lost::ForGood(error))) => return Err(failed(&error.to_string())),
                Err(Failure::Lost(Lost::Passing(why))) => why,
                Err(Failure::Lost(Lost::Connection)) => {
                    "another server is the master by now, or it began anew".into()
                }
            };
            if attempts == ATTEMPTS {
                return Err(failed(&why));
            }
            tracing::warn!(
                why,
                "a snapshot of redis for a backup failed, and is begun anew"
            );
            sleep(AGAIN).await;
        }
    }
}

impl SnapshotSource for RedisSnapshots {
    fn take(&self, to: &mut dyn ReceiveSnapshot) -> Result<(), StorageError> {
        snapshots::run(self.read(to))
    }
}

async fn read_at_once(reader: Reader<'_>, to: &mut dyn ReceiveSnapshot) -> Result<(), Failure> {
    let mut reading = Reading(reader);
    let (mut known, _) = reading.0.position().await?;
    let mut buckets = reading.filled_buckets().await?;
    while !buckets.is_empty() {
        let mut keys = reading.keys(&mut buckets).await?;
        while !keys.is_empty() {
            reading.entries(&mut keys, to).await?;
            known = reading.changes(known, to).await?;
            to.proceed()?;
        }
    }
    let (at, floors) = reading.0.position().await?;
    known = reading.changes(known, to).await?;
    if known < at {
        return Err(passing("some changes were not there any more").into());
    }
    for floor in floors {
        to.deletion(floor);
    }
    Ok(())
}

/// A snapshot in progress.
struct Reading<'a>(Reader<'a>);

impl Reading<'_> {
    /// Returns the buckets that have records, with their numbers of records.
    async fn filled_buckets(&mut self) -> Result<VecDeque<(u16, u64)>, Failure> {
        let mut commands = ::redis::pipe();
        for bucket in 0..BUCKETS {
            commands.cmd("SCARD").arg(self.0.session.names.keys(bucket));
        }
        let mut buckets = VecDeque::new();
        for (bucket, count) in (0..BUCKETS).zip(self.0.answers(commands).await?) {
            match count {
                Value::Int(0) => {}
                Value::Int(count) => buckets.push_back((bucket, count.unsigned_abs())),
                other => return Err(unexpected(&other)),
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
        while count < KEYS_AT_ONCE
            && let Some((bucket, keys)) = buckets.pop_front()
        {
            commands
                .cmd("SMEMBERS")
                .arg(self.0.session.names.keys(bucket));
            listed.push(bucket);
            count += keys;
        }
        let mut keys = VecDeque::new();
        for (bucket, answer) in listed.into_iter().zip(self.0.answers(commands).await?) {
            let members = match answer {
                Value::Array(members) | Value::Set(members) => members,
                other => return Err(unexpected(&other)),
            };
            for member in members {
                let Value::BulkString(key) = member else {
                    return Err(unexpected(&member));
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
        to: &mut dyn ReceiveSnapshot,
    ) -> Result<(), Failure> {
        let (session, portions) = (self.0.session, self.0.portions);
        let portion = &portions.pages;
        let most = portion.now().min(keys.len());
        let asked: Vec<_> = keys.drain(..most).collect();
        let mut commands = ::redis::pipe();
        for group in asked.chunk_by(|(one, _), (other, _)| one == other) {
            let names = &session.names;
            let bucket = group.first().map_or(0, |(bucket, _)| *bucket);
            commands.cmd("HMGET").arg(names.entries_with(bucket));
            for (_, key) in group {
                commands.arg(&key[..]);
            }
        }
        let begun = Instant::now();
        let answers = self.0.answers(commands).await;
        portion.took(most, begun.elapsed());
        let mut values = Vec::with_capacity(most);
        for answer in answers? {
            match answer {
                Value::Array(found) => values.extend(found),
                other => return Err(unexpected(&other)),
            }
        }
        if values.len() != most {
            return Err(passing("redis answers something else").into());
        }
        let mut bytes = 0;
        for ((_, key), value) in asked.into_iter().zip(values) {
            // A record that no longer exists is among the changes.
            let Value::BulkString(record) = &value else {
                continue;
            };
            bytes += record.len();
            let found = found(&Value::BulkString(key), &value)?;
            snapshots::found(to, &found.key, &found.record)?;
        }
        if bytes > ENOUGH_BYTES {
            portion.was_too_much(most);
        }
        Ok(())
    }

    /// Passes on the changes after a revision. Returns the revision of the last one.
    async fn changes(
        &mut self,
        mut known: Revision,
        to: &mut dyn ReceiveSnapshot,
    ) -> Result<Revision, Failure> {
        loop {
            let most = self.0.portions.items.now();
            let items = self.0.items_behind(known, None).await?;
            let is_all = items.len() < most;
            for item in items {
                known = next(known, &item)?;
                for (key, record) in &item.changes {
                    snapshots::changed(to, key, record.as_ref())?;
                }
            }
            if is_all {
                return Ok(known);
            }
            to.proceed()?;
        }
    }
}

fn unexpected(answer: &Value) -> Failure {
    Failure::Lost(Lost::Passing(format!("redis answers {answer:?}")))
}
