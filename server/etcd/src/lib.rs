//! etcd as the engine: names and values of its keys, transactions, and the watch.
//!
//! A separate thread has the connections, one to each member. The keyspace communicates with it through channels. Commits that wait
//! while others are in progress share one transaction. It makes all or none of them, or contains a nested transaction for each, with its
//! own compares and its own refusal.
//!
//! | key | value |
//! |---|---|
//! | `PREFIX/m` | the format of the store, or `libstatestore restoring` until a restore is complete |
//! | `PREFIX/e/BUCKET/KEY` | a [record](statestored_shared::Record) |
//! | `PREFIX/k` | 32 random bytes: the [secret](statestored_shared::Link::store_secret) of the store |
//! | `PREFIX/x` | nothing: left by a server that found another store in place of its own |
//! | `PREFIX/r/DIGEST` | the [answer](statestored_shared::EngineKey::Reply) to a request, under a lease that ends some time later |
//! | `PREFIX/c` | the revision up to which etcd may be compacted next time, in decimal digits |
//! | `PREFIX/n/PROCESS` | the reading of a node's wall clock, in decimal digits, under a lease |
//! | `PREFIX/f/BUCKET` | wall clock and counter of the [floor](statestored_shared::EngineKey::Floor), 16 bytes |
//!
//! A bucket is four hexadecimal digits. All floors exist from the first start on. If one is missing, data is missing, and requests get
//! no answer.
#![forbid(unsafe_code)]

mod clocks;
mod commit_grouping;
mod compaction;
mod connection;
mod key_names;
mod limits;
mod members;
mod opened_store;
mod progress;
mod ranges;
mod record_reads;
mod releases;
mod reply_lease;
mod restoring;
mod snapshot;
mod store;
mod transactions;
mod watch;
mod worker;

pub use restoring::UnfinishedStore;
pub use snapshot::EtcdSnapshots;

use opened_store::{OpenedStore, Purpose};
pub use statestored_link::EtcdConfig;
use statestored_link::ThreadLink;
use statestored_link::thread_link::ThreadChannels;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of a request, after which its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum size of an answer in bytes: as many of the largest records as one transaction may have to return.
const MAX_MESSAGE_BYTES: usize = limits::MAX_OPERATIONS * 3 / 2 * 1024 * 1024;

/// The reason why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// etcd cannot be reached.
    #[error("etcd at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// etcd rejects the server.
    #[error("etcd at {0} refuses: {1}")]
    Refused(String, String),
    /// A file cannot be used.
    #[error("cannot read {0:?}: {1}")]
    File(PathBuf, std::io::Error),
    /// etcd does not answer in time.
    #[error("etcd at {0} does not answer within {1:?}")]
    TimedOut(String, Duration),
    /// The keys below the prefix are not what this program writes.
    #[error("etcd at {0} holds something else below the prefix: {1}")]
    Foreign(String, String),
    /// The release of a member cannot be used.
    #[error("etcd at {0} is of the release {1}: {2}")]
    Release(String, String, &'static str),
    /// No thread could be started.
    #[error("cannot start the thread that talks to etcd: {0}")]
    Thread(#[from] std::io::Error),
}

/// Connects, and creates the store at the first start.
///
/// # Errors
/// etcd does not answer, or contains other data.
pub async fn connect(config: EtcdConfig) -> Result<ThreadLink, EtcdError> {
    let history = config.history;
    let begin = || async move { opened_store::begin(&config, Purpose::Start).await };
    let work = move |opened: OpenedStore, ends: ThreadChannels| {
        worker::run(opened.members, opened.store, history, ends)
    };
    ThreadLink::start("etcd", begin, work).await
}
