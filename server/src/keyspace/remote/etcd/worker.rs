//! The thread that has the connections: it gathers waiting requests, and sends them in as few transactions as it can.
use super::clocks;
use super::compacting;
use super::habit::Habit;
use super::leases::Leases;
use super::members::Members;
use super::ranges;
use super::store::Store;
use super::transactions::{self, MOST_OPERATIONS};
use super::watch;
use crate::keyspace::remote::portion::Portion;
use crate::keyspace::remote::said::Said;
use crate::keyspace::remote::thread::{Ends, Question, unanswered};
use crate::keyspace::remote::{Ask, AskId, EngineError, News, Place, Unit, Verdict};
use foldhash::quality;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Maximum number of transactions of a kind in progress, while which further requests gather.
const UNDER_WAY: usize = 4;

/// Number of commit groups in progress below which the next one begins with any commit. Further groups begin only with [`ENOUGH`] commits:
/// a few large groups cost etcd and this server less than many small ones.
const BEGUN_AT_ONCE: usize = 2;
const ENOUGH: usize = MOST_OPERATIONS / 2;

/// Maximum size of a group of commits in bytes.
const MOST_BYTES: usize = 1_000_000;

/// Maximum number of requests received at once.
const AT_ONCE: usize = 512;

pub(super) async fn work(
    members: Arc<Members>,
    store: Arc<Store>,
    history: Option<Duration>,
    Ends { mut asked, tell }: Ends,
) {
    let leases = Leases::new(Arc::clone(&members));
    let habit = Arc::new(Habit::default());
    let readable = Arc::new(Portion::new(MOST_OPERATIONS));
    let scannable = Arc::new(Portion::new(ranges::AT_ONCE));
    let clock_lease = clocks::OwnLease::default();
    let said = Said::default();
    let mut reads: VecDeque<Question> = VecDeque::new();
    let mut commits = VecDeque::new();
    let (mut reading, mut committing, mut others) =
        (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let mut watches = JoinSet::new();
    // These tasks end with this set.
    let mut lasting = JoinSet::new();
    lasting.spawn(Arc::clone(&members).keep());
    if let Some(history) = history {
        let (members, store) = (Arc::clone(&members), Arc::clone(&store));
        lasting.spawn(compacting::compact(members, store, history));
    }
    let mut some = Vec::with_capacity(AT_ONCE);
    loop {
        while reading.len() < UNDER_WAY && !reads.is_empty() {
            let group = gather_reads(&mut reads, readable.now());
            reading.spawn(transactions::read(
                Arc::clone(&members),
                Arc::clone(&store),
                group,
                Arc::clone(&readable),
                tell.clone(),
            ));
        }
        while may_begin(committing.len(), commits.len()) {
            let group = gather_commits(&mut commits, habit.portion.now());
            committing.spawn(transactions::commit(
                Arc::clone(&members),
                Arc::clone(&store),
                leases.clone(),
                group,
                Arc::clone(&habit),
                tell.clone(),
            ));
        }
        tokio::select! {
            Some(_) = reading.join_next() => {}
            Some(_) = committing.join_next() => {}
            Some(_) = others.join_next() => {}
            Some(_) = watches.join_next() => {}
            count = asked.recv_many(&mut some, AT_ONCE) => {
                if count == 0 {
                    return;
                }
                for (id, ask) in some.drain(..) {
                    match ask {
                        Ask::Read(keys) => reads.push_back(Question::with_floors(id, keys)),
                        Ask::Look(key) => reads.push_back(Question::of_entry(id, key)),
                        // Never requested: etcd counts changes of other keys as well.
                        Ask::Revision => _ = tell.send(unanswered(id, &ask)),
                        Ask::Commit(unit) if transactions::is_too_large(&unit) => {
                            let verdict = Verdict::Failed(EngineError::TooLarge(transactions::MAX_RECORD_BYTES));
                            let _ = tell.send(News::Committed(id, verdict));
                        }
                        Ask::Commit(unit) => commits.push_back((id, unit)),
                        Ask::Page { after, most } => {
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let portion = Arc::clone(&scannable);
                            others.spawn(ranges::page(members, store, id, after, (most, portion), tell.clone()));
                        }
                        Ask::Clocks { process, shown_ms } => {
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let lease = Arc::clone(&clock_lease);
                            others.spawn(clocks::compare(members, store, lease, id, (process, shown_ms), tell.clone()));
                        }
                        Ask::Watch => {
                            // There is one watch at a time.
                            watches.abort_all();
                            let (members, store) = (Arc::clone(&members), Arc::clone(&store));
                            let portion = Arc::clone(&scannable);
                            watches.spawn(watch::watch(members, store, id, portion, said.clone(), tell.clone()));
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether another group of the waiting commits begins, with this many in progress.
fn may_begin(under_way: usize, waiting: usize) -> bool {
    if under_way < BEGUN_AT_ONCE {
        waiting > 0
    } else {
        under_way < UNDER_WAY && waiting >= ENOUGH
    }
}

/// Takes as many reads as fit one transaction of at most `most` operations.
fn gather_reads(reads: &mut VecDeque<Question>, most: usize) -> Vec<Question> {
    let mut group = Vec::new();
    let mut operations = 0;
    while let Some(question) = reads.front() {
        operations += transactions::gets_of(question);
        if operations > most && !group.is_empty() {
            break;
        }
        group.extend(reads.pop_front());
    }
    group
}

/// Takes at most `most` units that fit one transaction, which must not put an engine key twice.
fn gather_commits(
    commits: &mut VecDeque<(AskId, Arc<Unit>)>,
    most: usize,
) -> Vec<(AskId, Arc<Unit>)> {
    let mut group: Vec<(AskId, Arc<Unit>)> = Vec::new();
    let mut places = HashSet::<Place, quality::RandomState>::default();
    let (mut bytes, mut longest) = (0, 0);
    while let Some((_, unit)) = commits.front() {
        bytes += transactions::bytes_of(unit);
        longest = longest.max(transactions::operations_of(unit));
        let fits = bytes <= MOST_BYTES
            && group.len() < most
            && group.len() + 1 + longest <= MOST_OPERATIONS
            && unit.puts.iter().all(|(place, _)| !places.contains(place));
        if !fits && !group.is_empty() {
            break;
        }
        places.extend(unit.puts.iter().map(|(place, _)| place.clone()));
        group.extend(commits.pop_front());
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_are_begun_at_once_and_two_more_if_they_are_large() {
        for under_way in [0, 1] {
            assert!(!may_begin(under_way, 0) && may_begin(under_way, 1));
        }
        for under_way in [2, 3] {
            assert!(!may_begin(under_way, ENOUGH - 1) && may_begin(under_way, ENOUGH));
        }
        assert!(!may_begin(4, 1_000));
    }
}
