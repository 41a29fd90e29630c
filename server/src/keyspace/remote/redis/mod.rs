//! Redis and Valkey as the engine: hashes that hold the entries, one script per commit, and a stream of all changes.
//!
//! One thread of its own has the connection. All names of a prefix are in one slot, as scripts and transactions need it: a cluster divides
//! prefixes, not the keys below one.
//!
//! | name | holds |
//! |---|---|
//! | `{PREFIX}:manifest` | hash: `format`, `store` (its id), `history` (how often the engine began anew), `engine` (the name of its replication) |
//! | `{PREFIX}:revision` | the last revision |
//! | `{PREFIX}:entries:SHELF` | hash: key → `REVISION:` and its [record](super::Record), of all keys of 128 buckets |
//! | `{PREFIX}:keys:BUCKET` | set: the keys of a bucket that have records, for SCAN |
//! | `{PREFIX}:answer:DIGEST` | the [answer](super::Place::Answer) to a request; expires some time later |
//! | `{PREFIX}:floors` | hash: bucket → `REVISION:WALL_MS:COUNTER` |
//! | `{PREFIX}:changes` | stream: at each revision the keys that it changed, with their records; nothing for one that was purged; at an empty key, in which order they are told |
//! | `{PREFIX}:clocks` | hash: node → what its wall clock shows, and what Redis's did then, both in milliseconds |
//! | `{PREFIX}:mark` | nothing of use: written so that replicas have something to confirm |
//!
//! # What has been acknowledged may be lost
//!
//! Replication is asynchronous, and so is the log on disk unless it is `appendfsync always`. Redis that begins anew has another name of its
//! replication: whoever connects first then lets revisions jump, so that none is given twice, and every server forgets what it knew.
mod clocks;
mod commits;
mod connecting;
mod names;
mod pages;
mod portions;
mod reaching;
mod reading;
mod revision;
mod snapshot;
mod telling;
mod transactions;
mod watch;
mod worker;

pub use snapshot::RedisSnapshots;

use super::thread::{Ends, ThreadLink};
use super::tls::EngineTls;
use reaching::Purpose;
use std::path::PathBuf;
use std::time::Duration;

/// How long one request may take before its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Where a Redis is, and which of its keys are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisConfig {
    /// Host and port of each server that may be the master, or of the sentinels.
    pub addresses: Vec<(String, u16)>,
    /// What the sentinels call the master, if the addresses are theirs.
    pub master: Option<String>,
    /// Which of its numbered databases.
    pub database: u32,
    /// What all keys begin with, in braces.
    pub prefix: String,
    /// What TLS is made of, if it is used.
    pub tls: Option<EngineTls>,
    /// Which of its users the server is; `None` is the default user.
    pub user: Option<String>,
    /// The file that holds the password.
    pub password: Option<PathBuf>,
    /// How many replicas have to confirm what is answered and told.
    pub replicas: u32,
}

/// Why a Redis cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// It cannot be reached.
    #[error("redis at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// It refuses.
    #[error("redis at {0} refuses: {1}")]
    Refused(String, String),
    /// A file cannot be used.
    #[error("cannot read {0:?}: {1}")]
    File(PathBuf, std::io::Error),
    /// The keys of the prefix are not what this program writes.
    #[error("redis at {0} holds something else under the prefix: {1}")]
    Foreign(String, String),
    /// It would lose entries, or cannot do what is asked of it.
    #[error("redis at {0} cannot have the entries: {1}")]
    Unfit(String, String),
    /// No thread could be started.
    #[error("cannot start the thread that talks to redis: {0}")]
    Thread(std::io::Error),
}

impl From<std::io::Error> for RedisError {
    fn from(error: std::io::Error) -> Self {
        Self::Thread(error)
    }
}

/// Connects, and makes what has to be there at the first start.
///
/// # Errors
/// It does not answer, holds something else, or would lose entries by its settings.
pub async fn connect(config: RedisConfig) -> Result<ThreadLink, RedisError> {
    let asked = config.clone();
    let begin = || async move { connecting::begin(&asked, Purpose::Start).await };
    let work = |reached, ends: Ends| worker::work(config, reached, ends);
    let link: Result<_, RedisError> = ThreadLink::start("redis", begin, work).await;
    Ok(link?.sending_once().counting_revisions())
}
