//! The thread that has the connections: it gathers waiting requests, and sends them in as few transactions as it can.
use super::clocks;
use super::commit_grouping::CommitGrouping;
use super::compaction;
use super::limits::{MAX_OPERATIONS, MAX_RECORD_BYTES};
use super::members::Members;
use super::ranges;
use super::record_reads;
use super::reply_lease::ReplyLease;
use super::store::Store;
use super::transactions;
use super::watch;
use foldhash::quality;
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_link::log_deduplicator::LogDeduplicator;
use statestored_link::thread_link::{ReadRequest, ThreadChannels, failure_event};
use statestored_shared::{
    CommitOutcome, EngineCommit, EngineError, EngineEvent, EngineKey, EngineRequest,
    EngineRequestId,
};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Maximum number of transactions of a kind in progress, while which further requests gather.
const MAX_IN_FLIGHT: usize = 4;

/// Number of commit groups in progress below which the next one begins with any commit. Further groups begin only with [`LARGE_GROUP`] commits:
/// a few large groups cost etcd and this server less than many small ones.
const EAGER_GROUPS: usize = 2;
const LARGE_GROUP: usize = MAX_OPERATIONS / 2;

/// Maximum size of a group of commits in bytes.
const MAX_GROUP_BYTES: usize = 1_000_000;

/// Maximum number of requests received at once.
const MAX_RECEIVED: usize = 512;

pub(super) async fn run(
    members: Arc<Members>,
    store: Arc<Store>,
    history: Option<Duration>,
    ThreadChannels {
        mut requests,
        events,
    }: ThreadChannels,
) {
    let leases = ReplyLease::new(Arc::clone(&members));
    let grouping = Arc::new(CommitGrouping::default());
    let read_batch_size = Arc::new(AdaptiveBatchSize::new(MAX_OPERATIONS));
    let page_batch_size = Arc::new(AdaptiveBatchSize::new(ranges::MAX_RECORDS));
    let clock_lease = clocks::OwnLease::default();
    let log_deduplicator = LogDeduplicator::default();
    let mut reads: VecDeque<ReadRequest> = VecDeque::new();
    let mut commits = VecDeque::new();
    let (mut reading, mut committing, mut others) =
        (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let mut watches = JoinSet::new();
    // These tasks end with this set.
    let mut background = JoinSet::new();
    background.spawn(Arc::clone(&members).reconnect_suspended());
    if let Some(history) = history {
        let (members, store) = (Arc::clone(&members), Arc::clone(&store));
        background.spawn(compaction::compact(members, store, history));
    }
    let mut received = Vec::with_capacity(MAX_RECEIVED);
    loop {
        while reading.len() < MAX_IN_FLIGHT && !reads.is_empty() {
            let group = gather_reads(&mut reads, read_batch_size.current());
            reading.spawn(transactions::read(
                Arc::clone(&members),
                Arc::clone(&store),
                group,
                Arc::clone(&read_batch_size),
                events.clone(),
            ));
        }
        while may_start_group(committing.len(), commits.len()) {
            let group = gather_commits(&mut commits, grouping.batch_size.current());
            committing.spawn(transactions::commit(
                Arc::clone(&members),
                Arc::clone(&store),
                leases.clone(),
                group,
                Arc::clone(&grouping),
                events.clone(),
            ));
        }
        tokio::select! {
            Some(_) = reading.join_next() => {}
            Some(_) = committing.join_next() => {}
            Some(_) = others.join_next() => {}
            Some(_) = watches.join_next() => {}
            count = requests.recv_many(&mut received, MAX_RECEIVED) => {
                if count == 0 {
                    return;
                }
                for (id, request) in received.drain(..) {
                    match request {
                        EngineRequest::Read(keys) => reads.push_back(ReadRequest::with_floors(id, keys)),
                        EngineRequest::ReadRecord(key) => reads.push_back(ReadRequest::without_floor(id, key)),
                        EngineRequest::ReadRecords(keys) => {
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let batch_size = Arc::clone(&read_batch_size);
                            others.spawn(record_reads::read_records(members, store, (id, keys), batch_size, events.clone()));
                        }
                        // Never requested: etcd counts changes of other keys as well.
                        EngineRequest::Revision => _ = events.send(failure_event(id, &request, None)),
                        EngineRequest::Commit(unit) if transactions::is_too_large(&unit) => {
                            let verdict = CommitOutcome::Failed(EngineError::TooLarge(MAX_RECORD_BYTES));
                            let _ = events.send(EngineEvent::Committed(id, verdict));
                        }
                        EngineRequest::Commit(unit) => commits.push_back((id, unit)),
                        EngineRequest::Page { after, limit } => {
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let batch_size = Arc::clone(&page_batch_size);
                            others.spawn(ranges::page(members, store, id, after, (limit, batch_size), events.clone()));
                        }
                        EngineRequest::Clocks { process, reading_ms } => {
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let lease = Arc::clone(&clock_lease);
                            others.spawn(clocks::compare(members, store, lease, id, (process, reading_ms), events.clone()));
                        }
                        EngineRequest::Watch => {
                            // There is one watch at a time.
                            watches.abort_all();
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let batch_size = Arc::clone(&page_batch_size);
                            watches.spawn(watch::watch(members, store, id, batch_size, log_deduplicator.clone(), events.clone()));
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether another group of the waiting commits begins, with this many in progress.
fn may_start_group(under_way: usize, waiting: usize) -> bool {
    if under_way < EAGER_GROUPS {
        waiting > 0
    } else {
        under_way < MAX_IN_FLIGHT && waiting >= LARGE_GROUP
    }
}

/// Takes as many reads as fit one transaction of at most `limit` operations.
fn gather_reads(reads: &mut VecDeque<ReadRequest>, limit: usize) -> Vec<ReadRequest> {
    let mut group = Vec::new();
    let mut operations = 0;
    while let Some(request) = reads.front() {
        operations += transactions::read_operation_count(request);
        if operations > limit && !group.is_empty() {
            break;
        }
        group.extend(reads.pop_front());
    }
    group
}

/// Takes at most `limit` units that fit one transaction, which must not put an engine key twice.
fn gather_commits(
    commits: &mut VecDeque<(EngineRequestId, Arc<EngineCommit>)>,
    limit: usize,
) -> Vec<(EngineRequestId, Arc<EngineCommit>)> {
    let mut group: Vec<(EngineRequestId, Arc<EngineCommit>)> = Vec::new();
    let mut engine_keys = HashSet::<EngineKey, quality::RandomState>::default();
    let (mut bytes, mut longest) = (0, 0);
    while let Some((_, unit)) = commits.front() {
        bytes += transactions::approximate_bytes(unit);
        longest = longest.max(transactions::operation_count(unit));
        let fits = bytes <= MAX_GROUP_BYTES
            && group.len() < limit
            && group.len() + 1 + longest <= MAX_OPERATIONS
            && unit.puts.iter().all(|(key, _)| !engine_keys.contains(key));
        if !fits && !group.is_empty() {
            break;
        }
        engine_keys.extend(unit.puts.iter().map(|(key, _)| key.clone()));
        group.extend(commits.pop_front());
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_start_eagerly_and_two_more_if_they_are_large() {
        for under_way in [0, 1] {
            assert!(!may_start_group(under_way, 0) && may_start_group(under_way, 1));
        }
        for under_way in [2, 3] {
            assert!(
                !may_start_group(under_way, LARGE_GROUP - 1)
                    && may_start_group(under_way, LARGE_GROUP)
            );
        }
        assert!(!may_start_group(4, 1_000));
    }
}
