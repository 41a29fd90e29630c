//! The thread that has the connection. It gathers waiting requests, sends them in as few packets as it can, and reconnects when the
//! connection is no longer usable.
use super::batch_sizes::BatchSizes;
use super::change_reporter::ChangeReporter;
use super::clocks;
use super::commits::{self, ScriptCommit};
use super::connection::{Address, ConnectError, ConnectPurpose, MasterConnection, Session};
use super::master_discovery;
use super::transactions::{self, ConnectionStatus};
use super::{RedisConfig, pages, revision, watch};
use statestored_link::log_deduplicator::LogDeduplicator;
use statestored_link::thread_link::{ReadRequest, ThreadChannels, failure_event};
use statestored_shared::{CommitOutcome, EngineError, EngineEvent, EngineRequest};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Maximum number of groups of reads in progress, while which further reads gather.
const MAX_READ_GROUPS: usize = 4;

/// Maximum number of groups of commits in progress. The larger a group is, the less each of its commits costs.
const MAX_COMMIT_GROUPS: usize = 2;

/// Maximum size of a record in bytes. Redis accepts larger ones, but has to hold them twice.
pub(super) const MAX_RECORD_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of requests received at once.
const MAX_RECEIVED: usize = 512;

/// Approximate size in bytes of the changes kept in the stream, for servers that are behind.
const STREAM_BYTES: u64 = 64 * 1024 * 1024;

/// Minimum and maximum number of items in the stream.
const STREAM_ITEMS: (u64, u64) = (100, 100_000);

/// First and maximum pause between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

pub(super) async fn run(config: RedisConfig, reached: MasterConnection, mut ends: ThreadChannels) {
    let config = Arc::new(config);
    let batch_sizes = BatchSizes::default();
    let log_deduplicator = LogDeduplicator::default();
    let reporter = Arc::new(ChangeReporter::default());
    let mut watches = JoinSet::new();
    let mut reached = reached;
    loop {
        let session = Arc::clone(&reached.session);
        let serving = serve(
            &config,
            reached,
            (&batch_sizes, &log_deduplicator, &reporter),
            &mut ends,
            &mut watches,
        );
        let superseded = match serving.await {
            ServeEnd::LinkDropped => return,
            ServeEnd::ConnectionLost => {
                tracing::warn!("the connection to redis is lost; reconnecting");
                None
            }
            ServeEnd::Superseded((host, port)) => {
                let (former_host, former_port) = &session.address;
                tracing::warn!(
                    "most sentinels name {host}:{port} as the master of redis: leaving {former_host}:{former_port}"
                );
                Some(&session.address)
            }
        };
        match reconnect(&config, &session, superseded, &mut ends).await {
            Some(next) => reached = next,
            None => return,
        }
        if reached.session.history != session.history {
            tracing::warn!(
                "redis restarted, or a replica took over: the last acknowledged changes may be lost"
            );
            // Earlier events were reported before this one.
            let _ = ends.events.send(EngineEvent::Reverted);
        }
    }
}

/// The reason why requests are no longer served through a connection.
enum ServeEnd {
    /// The link was dropped.
    LinkDropped,
    /// The connection is no longer usable.
    ConnectionLost,
    /// The sentinels name this master in place of the connected one.
    Superseded(Address),
}

/// Serves requests until the connection is no longer usable, or the sentinels name another master.
async fn serve(
    config: &Arc<RedisConfig>,
    reached: MasterConnection,
    (batch_sizes, log_deduplicator, reporter): (
        &BatchSizes,
        &LogDeduplicator,
        &Arc<ChangeReporter>,
    ),
    ThreadChannels { requests, events }: &mut ThreadChannels,
    watches: &mut JoinSet<ConnectionStatus>,
) -> ServeEnd {
    let MasterConnection {
        connection,
        session,
    } = reached;
    let mut reads: VecDeque<ReadRequest> = VecDeque::new();
    let mut commits: VecDeque<ScriptCommit> = VecDeque::new();
    let (mut reading, mut committing, mut paging) =
        (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let (mut others, mut revisions) = (JoinSet::new(), Vec::new());
    let mut stream = StreamStats::default();
    let mut received = Vec::with_capacity(MAX_RECEIVED);
    let mut superseded = std::pin::pin!(master_discovery::superseded(config, &session.address));
    let mut next_master = None;
    let mut is_lost = false;
    while !is_lost && next_master.is_none() {
        while reading.len() < MAX_READ_GROUPS && !reads.is_empty() {
            let group = gather(&mut reads, batch_sizes.reads.current());
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            let batch_size = Arc::clone(&batch_sizes.reads);
            reading.spawn(transactions::read(
                connection,
                session,
                group,
                batch_size,
                events.clone(),
            ));
        }
        if !revisions.is_empty() {
            let ids = std::mem::take(&mut revisions);
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            others.spawn(revision::report(connection, session, ids, events.clone()));
        }
        while committing.len() < MAX_COMMIT_GROUPS && !commits.is_empty() {
            let group = commits::gather(&mut commits);
            let items = stream.max_items(&group);
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            let reporter = Arc::clone(reporter);
            let commit =
                transactions::commit(connection, session, group, items, reporter, events.clone());
            committing.spawn(commit);
        }
        tokio::select! {
            Some(status) = reading.join_next() => is_lost = is_connection_lost(&status),
            Some(status) = committing.join_next() => is_lost = is_connection_lost(&status),
            Some(_) = paging.join_next() => {}
            Some(status) = others.join_next() => is_lost = is_connection_lost(&status),
            Some(status) = watches.join_next() => is_lost = status.is_ok_and(|status| status == ConnectionStatus::Lost),
            other = &mut superseded => {
                session.leave();
                next_master = Some(other);
            }
            count = requests.recv_many(&mut received, MAX_RECEIVED) => {
                if count == 0 {
                    return ServeEnd::LinkDropped;
                }
                for (id, request) in received.drain(..) {
                    match request {
                        EngineRequest::Read(keys) => reads.push_back(ReadRequest::with_floors(id, keys)),
                        EngineRequest::ReadRecord(key) => reads.push_back(ReadRequest::without_floor(id, key)),
                        EngineRequest::ReadRecords(keys) => {
                            others.spawn(transactions::read_records(connection.clone(), Arc::clone(&session), (id, keys), events.clone()));
                        }
                        EngineRequest::Revision => revisions.push(id),
                        EngineRequest::Commit(unit) => queue_commit(ScriptCommit::new(id, &unit), &mut commits, events),
                        EngineRequest::Page { after, limit } => {
                            let (connection, session) = (connection.clone(), Arc::clone(&session));
                            let limits = (limit, Arc::clone(&batch_sizes.pages));
                            paging.spawn(pages::page(connection, session, id, after, limits, events.clone()));
                        }
                        EngineRequest::Clocks { process, reading_ms } => {
                            let (connection, session) = (connection.clone(), Arc::clone(&session));
                            others.spawn(clocks::compare(connection, session, id, (process, reading_ms), events.clone()));
                        }
                        EngineRequest::Watch => {
                            // There is one watch at a time.
                            watches.abort_all();
                            let (config, session) = (Arc::clone(config), Arc::clone(&session));
                            let (batch_sizes, log_deduplicator) = (batch_sizes.clone(), log_deduplicator.clone());
                            let reporter = Arc::clone(reporter);
                            watches.spawn(watch::watch(config, session, (batch_sizes, reporter), log_deduplicator, id, events.clone()));
                        }
                    }
                }
            }
        }
    }
    drop(connection);
    // Each task reports its own outcomes.
    while reading.join_next().await.is_some() {}
    while committing.join_next().await.is_some() {}
    while paging.join_next().await.is_some() {}
    while others.join_next().await.is_some() {}
    report_unsent(reads, commits, events);
    next_master.map_or(ServeEnd::ConnectionLost, ServeEnd::Superseded)
}

/// Queues the commit, or rejects it if it is too large for a script.
fn queue_commit(
    commit: ScriptCommit,
    commits: &mut VecDeque<ScriptCommit>,
    events: &UnboundedSender<EngineEvent>,
) {
    if commit.bytes <= MAX_RECORD_BYTES {
        commits.push_back(commit);
    } else {
        let verdict = CommitOutcome::Failed(EngineError::TooLarge(MAX_RECORD_BYTES));
        let _ = events.send(EngineEvent::Committed(commit.request_id, verdict));
    }
}

/// Reports that these requests were not sent.
fn report_unsent(
    reads: VecDeque<ReadRequest>,
    commits: VecDeque<ScriptCommit>,
    events: &UnboundedSender<EngineEvent>,
) {
    let reads = reads.into_iter();
    let reads = reads.map(|read| EngineEvent::Read(read.id, Err(None)));
    let commits = commits.into_iter();
    let commits =
        commits.map(|commit| EngineEvent::Committed(commit.request_id, CommitOutcome::NotSent));
    for event in reads.chain(commits) {
        // The receiver may be gone.
        let _ = events.send(event);
    }
}

fn is_connection_lost(status: &Result<ConnectionStatus, tokio::task::JoinError>) -> bool {
    !matches!(status, Ok(ConnectionStatus::Usable))
}

/// Reconnects to the same store, however long it takes. Requests get no answer meanwhile. Returns `None` if the link was dropped.
async fn reconnect(
    config: &RedisConfig,
    former: &Session,
    superseded: Option<&Address>,
    ThreadChannels { requests, events }: &mut ThreadChannels,
) -> Option<MasterConnection> {
    let replaced = {
        let mut connecting = std::pin::pin!(reconnect_to_store(config, former, superseded));
        loop {
            tokio::select! {
                reached = &mut connecting => match reached {
                    Ok(reached) => return Some(reached),
                    Err(error) => break error,
                },
                next = requests.recv() => {
                    let (id, request) = next?;
                    let _ = events.send(failure_event(id, &request, None));
                }
            }
        }
    };
    loop {
        let (id, request) = requests.recv().await?;
        let _ = events.send(failure_event(id, &request, Some(replaced.clone())));
    }
}

/// Connects to the store of the former session.
///
/// # Errors
/// The store was replaced by another one.
async fn reconnect_to_store(
    config: &RedisConfig,
    former: &Session,
    superseded: Option<&Address>,
) -> Result<MasterConnection, EngineError> {
    let mut pause = BACKOFF.0;
    let log_deduplicator = LogDeduplicator::default();
    loop {
        let purpose = ConnectPurpose::Reconnect;
        match master_discovery::connect_to_master(config, purpose, superseded).await {
            Ok(reached) if reached.session.store == former.store => return Ok(reached),
            Ok(_) => {
                let why = "its manifest was removed and created again";
                return Err(EngineError::Replaced(why.into()));
            }
            Err(obstacle @ (ConnectError::StoreMissing | ConnectError::Foreign(_))) => {
                return Err(EngineError::Replaced(obstacle.describe()));
            }
            Err(obstacle) => {
                let error = obstacle.describe();
                if log_deduplicator.is_new(&error) {
                    tracing::warn!(error, "cannot connect to redis yet; retrying");
                }
            }
        }
        sleep(pause).await;
        pause = (2 * pause).min(BACKOFF.1);
    }
}

/// Takes as many requests as fit a group of `max_keys` keys, at least one.
fn gather(queue: &mut VecDeque<ReadRequest>, max_keys: usize) -> Vec<ReadRequest> {
    let mut group = Vec::new();
    let mut count = 0;
    while let Some(request) = queue.front() {
        count += request.keys.len();
        if !group.is_empty() && count > max_keys {
            break;
        }
        group.extend(queue.pop_front());
    }
    group
}

/// The average size of items of the stream.
#[derive(Default)]
struct StreamStats {
    mean_item_bytes: u64,
}

impl StreamStats {
    /// Returns the number of items that the stream keeps once this group is added, which is one item.
    fn max_items(&mut self, group: &[ScriptCommit]) -> u64 {
        let bytes: usize = group.iter().map(|commit| commit.bytes).sum();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        // Large items count at once, and lose their weight slowly.
        self.mean_item_bytes = bytes.max(self.mean_item_bytes - self.mean_item_bytes / 256);
        let (fewest, most) = STREAM_ITEMS;
        (STREAM_BYTES / self.mean_item_bytes.max(1)).clamp(fewest, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_sizes::MAX_KEYS;
    use bytes::Bytes;
    use smallvec::smallvec;
    use statestored_shared::EngineRequestId;

    #[test]
    fn a_group_of_reads_has_at_least_one_read_and_is_bounded() {
        let sized = |sizes: &[usize]| {
            let mut queue: VecDeque<_> = sizes
                .iter()
                .map(|keys| {
                    ReadRequest::with_floors(EngineRequestId(1), smallvec![Bytes::new(); *keys])
                })
                .collect();
            let group = gather(&mut queue, MAX_KEYS);
            (group.len(), queue.len())
        };
        assert_eq!(sized(&[2 * MAX_KEYS, 1]), (1, 1));
        assert_eq!(sized(&[MAX_KEYS / 2, MAX_KEYS / 2, 1]), (2, 1));
        assert_eq!(sized(&[1; 200]), (MAX_KEYS, 200 - MAX_KEYS));
    }
}
