//! etcd as the engine: names and values of its keys, transactions, and the watch.
//!
//! One thread of its own has the connections, one to each member; the keyspace talks to it through channels. Commits that wait while others are under
//! way go in one transaction: all or none, or else as nested ones, each with its own compares and its own refusal.
//!
//! | key | value |
//! |---|---|
//! | `PREFIX/m` | format of all of this |
//! | `PREFIX/e/BUCKET/KEY` | a [record](super::Record) |
//! | `PREFIX/k` | 32 random bytes: the [secret](super::Link::store_secret) of the store |
//! | `PREFIX/x` | nothing: left by a server that found another store where its own was |
//! | `PREFIX/r/DIGEST` | the [answer](super::Place::Answer) to a request, under a lease that ends some time later |
//! | `PREFIX/c` | up to which revision etcd may be compacted next time, in decimal digits |
//! | `PREFIX/n/PROCESS` | what the wall clock of a node shows, in decimal digits, under a lease |
//! | `PREFIX/f/BUCKET` | wall clock and counter of the [floor](super::Place::Floor), 16 bytes |
//!
//! A bucket is four hexadecimal digits. All floors exist from the first start on: without one, data is missing, and nothing is
//! answered.
mod clocks;
mod compacting;
mod connecting;
mod habit;
mod leases;
mod limits;
mod members;
mod names;
mod progress;
mod ranges;
mod releases;
mod snapshot;
mod store;
mod transactions;
mod watch;
mod worker;

pub use snapshot::EtcdSnapshots;

use super::thread::{Ends, ThreadLink};
use super::tls::EngineTls;
use std::path::PathBuf;
use std::time::Duration;

/// How long one request may take before its outcome counts as unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes of an answer that is read: as many of the largest records as one transaction may have to show.
const MAX_MESSAGE_BYTES: usize = transactions::MOST_OPERATIONS * 3 / 2 * 1024 * 1024;

/// Where an etcd is, and which of its keys are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// `http://host:port` of the members.
    pub endpoints: Vec<String>,
    /// What all keys begin with, without the last `/`.
    pub prefix: String,
    /// What TLS is made of, for endpoints that begin with `https`.
    pub tls: Option<EngineTls>,
    /// Which of its users the server is, and the file that holds the password.
    pub user: Option<(String, PathBuf)>,
    /// For how long etcd keeps former values; without it, nobody here lets it forget any.
    pub history: Option<Duration>,
}

/// Why an etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// It cannot be reached.
    #[error("etcd at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// It refuses.
    #[error("etcd at {0} refuses: {1}")]
    Refused(String, String),
    /// A file cannot be used.
    #[error("cannot read {0:?}: {1}")]
    File(PathBuf, std::io::Error),
    /// It does not answer in time.
    #[error("etcd at {0} does not answer within {1:?}")]
    TimedOut(String, Duration),
    /// The keys below the prefix are not what this program writes.
    #[error("etcd at {0} holds something else below the prefix: {1}")]
    Foreign(String, String),
    /// A member is of a release that cannot be used.
    #[error("etcd at {0} is of the release {1}: {2}")]
    Release(String, String, &'static str),
    /// No thread could be started.
    #[error("cannot start the thread that talks to etcd: {0}")]
    Thread(std::io::Error),
}

impl From<std::io::Error> for EtcdError {
    fn from(error: std::io::Error) -> Self {
        Self::Thread(error)
    }
}

/// Connects, and makes what has to be there at the first start.
///
/// # Errors
/// It does not answer, or holds something else.
pub async fn connect(config: EtcdConfig) -> Result<ThreadLink, EtcdError> {
    let history = config.history;
    let begin = || async move { connecting::begin(&config, true).await };
    let work = move |(members, store), ends: Ends| worker::work(members, store, history, ends);
    ThreadLink::start("etcd", begin, work).await
}
