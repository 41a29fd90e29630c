//! What the thread does that has the connection: it gathers what waits, sends it in as few packets as it can, and connects anew when the
//! connection is of no use any more.
use super::connecting::{self, Obstacle, Reached, Session};
use super::transactions::{self, Connection};
use super::{RedisConfig, pages, watch};
use crate::keyspace::remote::thread::{Ends, refused, unanswered};
use crate::keyspace::remote::{Ask, AskId, EngineError, News, Place, Put, Unit, Verdict};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Most groups of a kind under way: while these are, others gather.
const UNDER_WAY: usize = 4;

/// Most keys or units of a group.
const MOST_IN_GROUP: usize = 128;

/// Most bytes of a group of commits.
const MOST_BYTES: usize = 1_000_000;

/// The largest record: Redis takes more, but has to hold it twice.
const MOST_RECORD_BYTES: usize = 64 * 1024 * 1024;

/// How many questions are taken at once.
const AT_ONCE: usize = 512;

/// About so many bytes of changes are kept in the stream, for servers that are behind.
const STREAM_BYTES: u64 = 64 * 1024 * 1024;

/// Fewest and most items of the stream.
const STREAM_ITEMS: (u64, u64) = (100, 100_000);

/// Between two tries to connect, at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

pub(super) async fn work(config: RedisConfig, reached: Reached, mut ends: Ends) {
    let config = Arc::new(config);
    let mut watches = JoinSet::new();
    let mut reached = reached;
    loop {
        let session = Arc::clone(&reached.session);
        if !serve(&config, reached, &mut ends, &mut watches).await {
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
            // What was told before is told before this.
            let _ = ends.tell.send(News::Reverted);
        }
    }
}

/// Serves what is asked until the connection is of no use any more; not for ever if everybody who asks is gone.
async fn serve(
    config: &Arc<RedisConfig>,
    reached: Reached,
    Ends { asked, tell }: &mut Ends,
    watches: &mut JoinSet<Connection>,
) -> bool {
    let Reached {
        connection,
        session,
    } = reached;
    let mut reads: VecDeque<(AskId, Vec<Bytes>)> = VecDeque::new();
    let mut commits: VecDeque<(AskId, Unit)> = VecDeque::new();
    let (mut reading, mut committing, mut paging) =
        (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let mut stream = Stream::default();
    let mut some = Vec::with_capacity(AT_ONCE);
    let mut is_lost = false;
    while !is_lost {
        while reading.len() < UNDER_WAY && !reads.is_empty() {
            let group = gather(&mut reads, |(_, keys)| (keys.len(), 0));
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            reading.spawn(transactions::read(connection, session, group, tell.clone()));
        }
        while committing.len() < UNDER_WAY && !commits.is_empty() {
            let group = gather(&mut commits, |(_, unit)| (1, bytes_of(unit)));
            let items = stream.items(&group);
            let (connection, session) = (connection.clone(), Arc::clone(&session));
            let commit = transactions::commit(connection, session, group, items, tell.clone());
            committing.spawn(commit);
        }
        tokio::select! {
            Some(then) = reading.join_next() => is_lost = is_over(&then),
            Some(then) = committing.join_next() => is_lost = is_over(&then),
            Some(_) = paging.join_next() => {}
            Some(then) = watches.join_next() => is_lost = then.is_ok_and(|then| then == Connection::IsLost),
            count = asked.recv_many(&mut some, AT_ONCE) => {
                if count == 0 {
                    return false;
                }
                for (id, ask) in some.drain(..) {
                    match ask {
                        Ask::Read(keys) => reads.push_back((id, keys)),
                        Ask::Commit(unit) if bytes_of(&unit) > MOST_RECORD_BYTES => {
                            let verdict = Verdict::Failed(EngineError::TooLarge);
                            let _ = tell.send(News::Committed(id, verdict));
                        }
                        Ask::Commit(unit) => commits.push_back((id, unit)),
                        Ask::Page { after, most } => {
                            let (connection, session) = (connection.clone(), Arc::clone(&session));
                            paging.spawn(pages::page(connection, session, id, after, most, tell.clone()));
                        }
                        Ask::Watch => {
                            // There is one at a time.
                            watches.abort_all();
                            let (config, session) = (Arc::clone(config), Arc::clone(&session));
                            watches.spawn(watch::watch(config, session, id, tell.clone()));
                        }
                    }
                }
            }
        }
    }
    drop(connection);
    // Each tells what became of its own.
    while reading.join_next().await.is_some() {}
    while committing.join_next().await.is_some() {}
    while paging.join_next().await.is_some() {}
    let reads = reads.into_iter().map(|(id, keys)| (id, Ask::Read(keys)));
    let commits = commits
        .into_iter()
        .map(|(id, unit)| (id, Ask::Commit(unit)));
    for (id, ask) in reads.chain(commits) {
        let _ = tell.send(unanswered(id, &ask));
    }
    true
}

fn is_over(then: &Result<Connection, tokio::task::JoinError>) -> bool {
    !matches!(then, Ok(Connection::IsFine))
}

/// Connects to the same store again, however long that takes; what is asked meanwhile gets no answer. `None` if nobody asks any more.
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

/// # Errors
/// It is another store by now.
async fn same_store(config: &RedisConfig, former: &Session) -> Result<Reached, EngineError> {
    let mut pause = PAUSES.0;
    loop {
        match connecting::reach(config, false).await {
            Ok(reached) if reached.session.store == former.store => return Ok(reached),
            Ok(_) => {
                let why = "its manifest was removed and made anew";
                return Err(EngineError::Replaced(why.into()));
            }
            Err(obstacle @ (Obstacle::Gone | Obstacle::Foreign(_))) => {
                return Err(EngineError::Replaced(obstacle.describe()));
            }
            Err(obstacle) => {
                tracing::debug!(
                    error = obstacle.describe(),
                    "redis cannot be connected to yet"
                );
            }
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSES.1);
    }
}

/// So much as fits a group; each has a number of parts and bytes.
fn gather<T>(queue: &mut VecDeque<T>, size_of: impl Fn(&T) -> (usize, usize)) -> Vec<T> {
    let mut group = Vec::new();
    let (mut parts, mut bytes) = (0, 0);
    while let Some(next) = queue.front() {
        let size = size_of(next);
        parts += size.0;
        bytes += size.1;
        if !group.is_empty() && (parts > MOST_IN_GROUP || bytes > MOST_BYTES) {
            break;
        }
        group.extend(queue.pop_front());
    }
    group
}

/// Roughly how many bytes a unit has.
fn bytes_of(unit: &Unit) -> usize {
    let bytes = unit.puts.iter().map(|(place, put)| {
        let key = match place {
            Place::Entry(key) => key.len(),
            Place::Floor(_) | Place::Answer(_) => 0,
        };
        let value = match put {
            Put::Record(record) => record.encode().len(),
            Put::Answer(answer) => answer.len(),
            Put::Floor(_) | Put::Nothing => 0,
        };
        100 + key + value
    });
    bytes.sum()
}

/// How large items of the stream are, on the average.
#[derive(Default)]
struct Stream {
    bytes: u64,
}

impl Stream {
    /// How many items it keeps, when these have been added.
    fn items(&mut self, group: &[(AskId, Unit)]) -> u64 {
        for (_, unit) in group {
            let bytes = u64::try_from(bytes_of(unit)).unwrap_or(u64::MAX);
            // Large ones count at once, and are forgotten slowly.
            self.bytes = bytes.max(self.bytes - self.bytes / 256);
        }
        let (fewest, most) = STREAM_ITEMS;
        (STREAM_BYTES / self.bytes.max(1)).clamp(fewest, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_at_least_and_no_more_than_fits() {
        let sized = |sizes: &[usize]| {
            let mut queue: VecDeque<_> = sizes.iter().copied().collect();
            let group = gather(&mut queue, |bytes| (1, *bytes));
            (group.len(), queue.len())
        };
        assert_eq!(sized(&[2 * MOST_BYTES, 1]), (1, 1));
        assert_eq!(sized(&[MOST_BYTES / 2, MOST_BYTES / 2, 1]), (2, 1));
        assert_eq!(sized(&[1; 200]), (MOST_IN_GROUP, 200 - MOST_IN_GROUP));
    }
}
