//! The thread that has the connection. It gathers waiting requests, sends them in as few packets as it can, and reconnects when the
//! connection is no longer usable.
use super::clocks;
use super::commits::{self, Commit};
use super::connecting::{Obstacle, Reached, Session};
use super::portions::Portions;
use super::reaching::{self, Purpose};
use super::telling::Telling;
use super::transactions::{self, Connection};
use super::{RedisConfig, pages, revision, watch};
use crate::keyspace::remote::said::Said;
use crate::keyspace::remote::thread::{Ends, Question, refused, unanswered};
use crate::keyspace::remote::{Ask, EngineError, News, Verdict};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Maximum number of groups of reads in progress, while which further reads gather.
const UNDER_WAY: usize = 4;

/// Maximum number of groups of commits in progress. The larger a group is, the less each of its commits costs.
const COMMITS: usize = 2;

/// Maximum size of a record in bytes. Redis accepts larger ones, but has to hold them twice.
pub(super) const MOST_RECORD_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of requests received at once.
const AT_ONCE: usize = 512;

/// Approximate size in bytes of the changes kept in the stream, for servers that are behind.
const STREAM_BYTES: u64 = 64 * 1024 * 1024;

/// Minimum and maximum number of items in the stream.
const STREAM_ITEMS: (u64, u64) = (100, 100_000);

/// First and maximum pause between two attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

pub(super) async fn work(config: RedisConfig, reached: Reached, mut ends: Ends) {
    let config = Arc::new(config);
    let portions = Portions::default();
    let said = Said::default();
    let telling = Arc::new(Telling::default());
    let mut watches = JoinSet::new();
    let mut reached = reached;
    loop {
        let session = Arc::clone(&reached.session);
        if !serve(
            &config,
            reached,
            (&portions, &said, &telling),
            &mut ends,
            &mut watches,
        )
        .await
        {
            return;
        }
        tracing::warn!("the connection to redis is lost; connecting anew");
        match connect_again(&config, &session, &mut ends).await {
            Some(next) => reached = next,
            None => return,
        }
        if reached.session.history != session.history {
            tracing::warn!(
                "redis began anew, or a replica took over: changes that were acknowledged last may be lost"
            );
            // Earlier events were reported before this one.
            let _ = ends.tell.send(News::Reverted);
        }
    }
}

/// Serves requests until the connection is no longer usable. Returns false if the link was dropped.
async fn serve(
    config: &Arc<RedisConfig>,
    reached: Reached,
    (portions, said, telling): (&Portions, &Said, &Arc<Telling>),
    Ends { asked, tell }: &mut Ends,
    watches: &mut JoinSet<Connection>,
) -> bool {
    let Reached {
        connection,
        session,
    } = reached;
    let mut reads: VecDeque<Question> = VecDeque::new();
    let mut commits: VecDeque<Commit> = VecDeque::new();
    let (mut reading, mut committing, mut paging) =
        (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let (mut others, mut revisions) = (JoinSet::new(), Vec::new());
    let mut stream = Stream::default();
    let mut some = Vec::with_capacity(AT_ONCE);
    let mut is_lost = false;
    while !is_lost {
        while reading.len() < UNDER_WAY && !reads.is_empty() {
            let group = gather(&mut reads, portions.reads.now());
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            let portion = Arc::clone(&portions.reads);
            reading.spawn(transactions::read(
                connection,
                session,
                group,
                portion,
                tell.clone(),
            ));
        }
        if !revisions.is_empty() {
            let asked = std::mem::take(&mut revisions);
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            others.spawn(revision::tell(connection, session, asked, tell.clone()));
        }
        while committing.len() < COMMITS && !commits.is_empty() {
            let group = commits::gather(&mut commits);
            let items = stream.items(&group);
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            let telling = Arc::clone(telling);
            let commit =
                transactions::commit(connection, session, group, items, telling, tell.clone());
            committing.spawn(commit);
        }
        tokio::select! {
            Some(then) = reading.join_next() => is_lost = is_over(&then),
            Some(then) = committing.join_next() => is_lost = is_over(&then),
            Some(_) = paging.join_next() => {}
            Some(then) = others.join_next() => is_lost = is_over(&then),
            Some(then) = watches.join_next() => is_lost = then.is_ok_and(|then| then == Connection::IsLost),
            count = asked.recv_many(&mut some, AT_ONCE) => {
                if count == 0 {
                    return false;
                }
                for (id, ask) in some.drain(..) {
                    match ask {
                        Ask::Read(keys) => reads.push_back(Question::with_floors(id, keys)),
                        Ask::Look(key) => reads.push_back(Question::of_entry(id, key)),
                        Ask::Revision => revisions.push(id),
                        Ask::Commit(unit) => {
                            let commit = Commit::new(id, &unit);
                            if commit.bytes <= MOST_RECORD_BYTES {
                                commits.push_back(commit);
                            } else {
                                let verdict = Verdict::Failed(EngineError::TooLarge(MOST_RECORD_BYTES));
                                let _ = tell.send(News::Committed(id, verdict));
                            }
                        }
                        Ask::Page { after, most } => {
                            let (connection, session) = (connection.clone(), Arc::clone(&session));
                            let most = (most, Arc::clone(&portions.pages));
                            paging.spawn(pages::page(connection, session, id, after, most, tell.clone()));
                        }
                        Ask::Clocks { process, shown_ms } => {
                            let (connection, session) = (connection.clone(), Arc::clone(&session));
                            others.spawn(clocks::compare(connection, session, id, (process, shown_ms), tell.clone()));
                        }
                        Ask::Watch => {
                            // There is one watch at a time.
                            watches.abort_all();
                            let (config, session) = (Arc::clone(config), Arc::clone(&session));
                            let (portions, said) = (portions.clone(), said.clone());
                            let telling = Arc::clone(telling);
                            watches.spawn(watch::watch(config, session, (portions, telling), said, id, tell.clone()));
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
    let reads = reads.into_iter();
    let reads = reads.map(|question| News::Read(question.ask, Err(None)));
    let commits = commits.into_iter();
    let commits = commits.map(|commit| News::Committed(commit.ask, Verdict::Unsent));
    for news in reads.chain(commits) {
        let _ = tell.send(news);
    }
    true
}

fn is_over(then: &Result<Connection, tokio::task::JoinError>) -> bool {
    !matches!(then, Ok(Connection::IsFine))
}

/// Reconnects to the same store, however long it takes. Requests get no answer meanwhile. Returns `None` if the link was dropped.
async fn connect_again(
    config: &RedisConfig,
    former: &Session,
    Ends { asked, tell }: &mut Ends,
) -> Option<Reached> {
    let replaced = {
        let mut connecting = std::pin::pin!(same_store(config, former));
        loop {
            tokio::select! {
                reached = &mut connecting => match reached {
                    Ok(reached) => return Some(reached),
                    Err(error) => break error,
                },
                next = asked.recv() => {
                    let (id, ask) = next?;
                    let _ = tell.send(unanswered(id, &ask));
                }
            }
        }
    };
    loop {
        let (id, ask) = asked.recv().await?;
        let _ = tell.send(refused(id, &ask, &replaced));
    }
}

/// Connects to the store of the former session.
///
/// # Errors
/// The store was replaced by another one.
async fn same_store(config: &RedisConfig, former: &Session) -> Result<Reached, EngineError> {
    let mut pause = PAUSES.0;
    let said = Said::default();
    loop {
        match reaching::reach(config, Purpose::Reconnect).await {
            Ok(reached) if reached.session.store == former.store => return Ok(reached),
            Ok(_) => {
                let why = "its manifest was removed and made anew";
                return Err(EngineError::Replaced(why.into()));
            }
            Err(obstacle @ (Obstacle::Gone | Obstacle::Foreign(_))) => {
                return Err(EngineError::Replaced(obstacle.describe()));
            }
            Err(obstacle) => {
                let error = obstacle.describe();
                if said.is_new(&error) {
                    tracing::warn!(error, "redis cannot be connected to yet: trying on");
                }
            }
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// Takes as many questions as fit a group of `most` keys, at least one.
fn gather(queue: &mut VecDeque<Question>, most: usize) -> Vec<Question> {
    let mut group = Vec::new();
    let mut count = 0;
    while let Some(question) = queue.front() {
        count += question.keys.len();
        if !group.is_empty() && count > most {
            break;
        }
        group.extend(queue.pop_front());
    }
    group
}

/// The average size of items of the stream.
#[derive(Default)]
struct Stream {
    bytes: u64,
}

impl Stream {
    /// Returns the number of items that the stream keeps once this group is added, which is one item.
    fn items(&mut self, group: &[Commit]) -> u64 {
        let bytes: usize = group.iter().map(|commit| commit.bytes).sum();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        // Large items count at once, and lose their weight slowly.
        self.bytes = bytes.max(self.bytes - self.bytes / 256);
        let (fewest, most) = STREAM_ITEMS;
        (STREAM_BYTES / self.bytes.max(1)).clamp(fewest, most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::portions::MOST_KEYS;
    use super::*;
    use crate::keyspace::remote::AskId;
    use bytes::Bytes;
    use smallvec::smallvec;

    #[test]
    fn a_group_of_reads_has_one_at_least_and_no_more_than_fits() {
        let sized = |sizes: &[usize]| {
            let mut queue: VecDeque<_> = sizes
                .iter()
                .map(|keys| Question::with_floors(AskId(1), smallvec![Bytes::new(); *keys]))
                .collect();
            let group = gather(&mut queue, MOST_KEYS);
            (group.len(), queue.len())
        };
        assert_eq!(sized(&[2 * MOST_KEYS, 1]), (1, 1));
        assert_eq!(sized(&[MOST_KEYS / 2, MOST_KEYS / 2, 1]), (2, 1));
        assert_eq!(sized(&[1; 200]), (MOST_KEYS, 200 - MOST_KEYS));
    }
}
