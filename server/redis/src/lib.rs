//! Redis and Valkey as the engine: hashes that hold the entries, one script per commit, and a stream of all changes.
//!
//! A separate thread has the connection. All names of a prefix are in one slot, because scripts and transactions need it. A cluster
//! distributes prefixes, not the keys below one.
//!
//! | name | content |
//! |---|---|
//! | `{PREFIX}:manifest` | hash: `format` (`libstatestore restoring` until a restore is complete), `store` (its id), `history` (a counter of restarts and failovers of the engine), `engine` (the name of its replication) |
//! | `{PREFIX}:revision` | the last revision |
//! | `{PREFIX}:entries:SHELF` | hash: key → `REVISION:` and its [record](statestored_shared::Record), of all keys of 128 buckets |
//! | `{PREFIX}:keys:BUCKET` | set: the keys of a bucket that have records, for SCAN |
//! | `{PREFIX}:answer:DIGEST` | the [answer](statestored_shared::EngineKey::Reply) to a request; expires some time later |
//! | `{PREFIX}:floors` | hash: bucket → `REVISION:WALL_MS:COUNTER` |
//! | `{PREFIX}:changes` | stream: for each revision the changed keys with their records, empty for a purged one; under an empty key, the order in which they are reported |
//! | `{PREFIX}:clocks` | hash: node → the reading of its wall clock, and that of Redis at the time, both in milliseconds |
//! | `{PREFIX}:mark` | a value without meaning, written so that replicas have something to confirm |
//!
//! # Acknowledged changes may be lost
//!
//! Replication is asynchronous, and so is the log on disk unless it is set to `appendfsync always`. A Redis that has restarted has another
//! name of its replication. The first server that connects then increases the revision by a jump, so that no revision is used twice.
//! Every server drops the state that it knew.
#![forbid(unsafe_code)]

mod batch_sizes;
mod change_reporter;
mod clocks;
mod commits;
mod connection;
mod key_names;
mod master_discovery;
mod pages;
mod reader;
mod restoring;
mod revision;
mod snapshot;
mod transactions;
mod unfinished_store;
mod watch;
mod worker;

pub use restoring::UnfinishedStore;
pub use snapshot::RedisSnapshots;

use connection::ConnectPurpose;
pub use statestored_link::RedisConfig;
use statestored_link::ThreadLink;
use statestored_link::thread_link::ThreadChannels;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of a request, after which its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why a Redis cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// Redis cannot be reached.
    #[error("redis at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// Redis rejects the server.
    #[error("redis at {0} refuses: {1}")]
    Refused(String, String),
    /// A file cannot be used.
    #[error("cannot read {0:?}: {1}")]
    File(PathBuf, std::io::Error),
    /// The keys of the prefix are not what this program writes.
    #[error("redis at {0} holds something else under the prefix: {1}")]
    Foreign(String, String),
    /// Redis would lose entries, or lacks a feature.
    #[error("redis at {0} cannot have the entries: {1}")]
    Unfit(String, String),
    /// No thread could be started.
    #[error("cannot start the thread that talks to redis: {0}")]
    Thread(#[from] std::io::Error),
}

/// Connects, and creates the store at the first start.
///
/// # Errors
/// Redis does not answer, contains other data, or would lose entries with its settings.
pub async fn connect(config: RedisConfig) -> Result<ThreadLink, RedisError> {
    let start_config = config.clone();
    let begin =
        || async move { master_discovery::begin(&start_config, ConnectPurpose::Start).await };
    let work = |reached, ends: ThreadChannels| worker::run(config, reached, ends);
    let link: Result<_, RedisError> = ThreadLink::start("redis", begin, work).await;
    Ok(link?.sending_once().counting_revisions())
}
