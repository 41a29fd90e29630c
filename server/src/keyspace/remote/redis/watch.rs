//! Snapshots, and the changes behind them: each change is an item of the stream, whose revisions have no gaps.
use super::RedisConfig;
use super::connecting::{self, Session};
use super::names::{SHELVES, decode_entry, decode_floor, number};
use super::portions::Portions;
use super::telling::{Lies, Telling};
use super::transactions::{Connection, confirm, confirmed, foreign, is_here};
use crate::keyspace::remote::said::Said;
use crate::keyspace::remote::{AskId, BUCKETS, EngineError, Found, News, Record, Revision};
use crate::keyspace::rules::Version;
use ::redis::aio::MultiplexedConnection;
use ::redis::{Pipeline, Value};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

const POSITION: &str = include_str!("position.lua");

/// About so many entries of a shelf come at once, at most.
const ENTRIES_AT_ONCE: usize = 1_000;

/// How long Redis waits for the next change before it says that there was none.
const WAIT: Duration = Duration::from_secs(1);

/// Tells a snapshot and all changes behind it, and then that some may be missed.
pub(super) async fn watch(
    config: Arc<RedisConfig>,
    session: Arc<Session>,
    (portions, telling): (Portions, Arc<Telling>),
    said: Said,
    ask: AskId,
    tell: UnboundedSender<News>,
) -> Connection {
    let mut then = Connection::IsFine;
    let lost = follow(&config, &session, (&portions, &telling), &said, ask, &tell).await;
    telling.end(ask);
    let (reason, error) = match lost {
        Lost::Passing(reason) => (reason, None),
        Lost::ForGood(error) => (error.to_string(), Some(error)),
        Lost::Connection => {
            then = Connection::IsLost;
            ("redis has to be connected to anew".into(), None)
        }
    };
    if said.is_new(&reason) {
        tracing::warn!(
            reason,
            "the changes of redis are not known any more; they are watched anew"
        );
    }
    // Nobody may listen any more.
    let _ = tell.send(News::WatchLost(ask, error));
    then
}

/// Why changes may be missed.
enum Lost {
    /// It may be otherwise in a moment.
    Passing(String),
    ForGood(EngineError),
    /// The master is another one by now, or goes on from another history.
    Connection,
}

impl From<EngineError> for Lost {
    fn from(error: EngineError) -> Self {
        Self::ForGood(error)
    }
}

impl From<::redis::RedisError> for Lost {
    fn from(error: ::redis::RedisError) -> Self {
        Self::Passing(error.to_string())
    }
}

fn passing(reason: &str) -> Lost {
    Lost::Passing(reason.into())
}

async fn follow(
    config: &RedisConfig,
    session: &Session,
    (portions, telling): (&Portions, &Telling),
    said: &Said,
    ask: AskId,
    tell: &UnboundedSender<News>,
) -> Lost {
    let connection = match connecting::connect(config, &session.address).await {
        Ok(connection) => connection,
        Err(obstacle) => return passing(&obstacle.describe()),
    };
    let watch = Watching {
        connection,
        session,
        portions,
        telling,
        said,
        ask,
        tell,
    };
    match watch.follow().await {
        Err(lost) => lost,
    }
}

struct Watching<'a> {
    connection: MultiplexedConnection,
    session: &'a Session,
    portions: &'a Portions,
    telling: &'a Telling,
    said: &'a Said,
    ask: AskId,
    tell: &'a UnboundedSender<News>,
}

/// A change as the stream has it.
struct Item {
    at: Revision,
    changes: Vec<(Bytes, Option<Record>)>,
}

impl Watching<'_> {
    async fn follow(mut self) -> Result<std::convert::Infallible, Lost> {
        let (before, _) = self.position().await?;
        self.tell_entries().await?;
        let (at, floors) = self.position().await?;
        // What was changed while the entries were read may be missing among them.
        let mut known = before;
        while known < at {
            for item in self.items_behind(known, None).await? {
                known = next(known, &item)?;
                self.tell_as_entries(item);
            }
        }
        let at = at.max(known);
        let _ = self.tell.send(News::Synced(self.ask, at, floors));
        self.telling.begin(self.ask, at);
        self.said.forget();
        loop {
            self.telling.due().await;
            let at = self.telling.known(self.ask);
            let at = at.ok_or_else(|| passing("another watch has begun"))?;
            let begun = Instant::now();
            let most = self.portions.items.now();
            let items = self.items_behind(at, Some(WAIT)).await?;
            // There are no others, or there were none when Redis had waited.
            let waited = if items.is_empty() {
                WAIT
            } else {
                Duration::ZERO
            };
            let is_all = items.len() < most;
            let ago = begun.elapsed().saturating_sub(waited);
            for Item { at, changes } in items {
                if self.telling.read(self.ask, at, changes, self.tell) == Lies::Ahead {
                    return Err(passing("some were not there any more"));
                }
            }
            if is_all {
                let _ = self.tell.send(News::Watching(self.ask, ago));
            }
        }
    }

    /// Asks, and gives what was answered if enough replicas have it.
    async fn answers(&mut self, mut commands: Pipeline) -> Result<Vec<Value>, Lost> {
        confirm(&mut commands, self.session);
        commands.ignore_errors();
        let count = commands.len();
        let asking = self.connection.send_packed_commands(&commands, 0, count);
        let answers = confirmed(asking.await?, self.session);
        answers.map_err(|then| match then {
            Connection::IsLost => Lost::Connection,
            Connection::IsFine => passing("too few replicas have them"),
        })
    }

    /// The last revision, and the floors at that.
    async fn position(&mut self) -> Result<(Revision, Vec<Version>), Lost> {
        let names = &self.session.names;
        let mut commands = ::redis::pipe();
        commands.cmd("EVAL").arg(POSITION).arg(3);
        commands.arg(names.manifest()).arg(names.counter());
        commands.arg(names.floors());
        commands.arg(&self.session.history).arg(BUCKETS);
        let answer = self.answers(commands).await?.pop();
        let Some(Value::Array(found)) = answer else {
            return Err(Lost::Passing(format!("redis answers {answer:?}")));
        };
        let [Value::BulkString(counter), floors @ ..] = &found[..] else {
            return Err(foreign("there is no counter: data was lost").into());
        };
        let at = number(counter).ok_or_else(|| foreign("the counter is no number"))?;
        let floors: Option<Vec<_>> = floors
            .iter()
            .map(|floor| match floor {
                Value::BulkString(floor) => decode_floor(floor).map(|(version, _)| version),
                _ => None,
            })
            .collect();
        let floors = floors.ok_or_else(|| foreign("floors are missing: data was lost"))?;
        Ok((Revision(at), floors))
    }

    /// Tells all entries, each as it is when it is read.
    async fn tell_entries(&mut self) -> Result<(), Lost> {
        let mut left: Vec<(u16, Vec<u8>)> = Vec::new();
        let mut next = 0;
        loop {
            let most = self.portions.entries.now();
            let shelves = (most / ENTRIES_AT_ONCE).max(1);
            while left.len() < shelves && next < SHELVES {
                left.push((next, b"0".to_vec()));
                next += 1;
            }
            if left.is_empty() {
                return Ok(());
            }
            let mut commands = ::redis::pipe();
            for (shelf, cursor) in &left {
                commands
                    .cmd("HSCAN")
                    .arg(self.session.names.entries(*shelf));
                commands.arg(&cursor[..]).arg("COUNT");
                commands.arg(most.min(ENTRIES_AT_ONCE));
            }
            let begun = Instant::now();
            let answers = self.answers(commands).await;
            self.portions.entries.took(most, begun.elapsed());
            let answers = answers?;
            let mut later = Vec::new();
            let mut records = Vec::new();
            for ((shelf, _), answer) in left.into_iter().zip(answers) {
                let (cursor, found) = scanned(answer)?;
                records.extend(found);
                if cursor != b"0" {
                    later.push((shelf, cursor));
                }
            }
            left = later;
            let _ = self.tell.send(News::Snapshot(self.ask, records));
        }
    }

    /// The items of the stream behind a revision, in the history of the beginning; waits for one if there is none.
    async fn items_behind(
        &mut self,
        Revision(at): Revision,
        wait: Option<Duration>,
    ) -> Result<Vec<Item>, Lost> {
        let mut commands = ::redis::pipe();
        let manifest = commands.cmd("HGET").arg(self.session.names.manifest());
        manifest.arg("history");
        let most = self.portions.items.now();
        commands.cmd("XREAD").arg("COUNT").arg(most);
        if let Some(wait) = wait {
            commands
                .arg("BLOCK")
                .arg(u64::try_from(wait.as_millis()).unwrap_or_default());
        }
        commands.arg("STREAMS").arg(self.session.names.stream());
        commands.arg(format!("{at}-0"));
        let begun = Instant::now();
        let answers = self.answers(commands).await;
        self.portions.items.took(most, begun.elapsed());
        let mut answers = answers?.into_iter();
        if !answers
            .next()
            .is_some_and(|history| is_here(&history, self.session))
        {
            return Err(Lost::Connection);
        }
        let items = match answers.next() {
            Some(Value::Nil) | None => Vec::new(),
            Some(Value::Array(mut streams)) => match streams.pop() {
                Some(Value::Array(mut stream)) => match stream.pop() {
                    Some(Value::Array(items)) => items,
                    other => return Err(Lost::Passing(format!("redis answers {other:?}"))),
                },
                other => return Err(Lost::Passing(format!("redis answers {other:?}"))),
            },
            other => return Err(Lost::Passing(format!("redis answers {other:?}"))),
        };
        if items.is_empty() && wait.is_none() {
            return Err(passing("some were not there any more"));
        }
        let items = items.into_iter().map(item);
        Ok(items.collect::<Result<_, _>>()?)
    }

    fn tell_as_entries(&self, item: Item) {
        let Item { at, changes } = item;
        let records = changes.into_iter().filter_map(|(key, record)| {
            Some(Found {
                key,
                record: record?,
                revision: at,
            })
        });
        let records = records.collect();
        let _ = self.tell.send(News::Snapshot(self.ask, records));
    }
}

/// The revision of the item behind `known`, if that is the next one.
fn next(known: Revision, item: &Item) -> Result<Revision, Lost> {
    if item.at.0 == known.0 + 1 {
        Ok(item.at)
    } else {
        Err(passing("some were not there any more"))
    }
}

/// The cursor and the entries of an answer.
fn scanned(answer: Value) -> Result<(Vec<u8>, Vec<Found>), Lost> {
    let Value::Array(parts) = answer else {
        return Err(Lost::Passing(format!("redis answers {answer:?}")));
    };
    let [Value::BulkString(cursor), Value::Array(fields)] = &parts[..] else {
        return Err(Lost::Passing(format!("redis answers {parts:?}")));
    };
    let found = fields
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[key, value]| found(key, value));
    let found = found.collect::<Result<_, _>>()?;
    Ok((cursor.clone(), found))
}

pub(super) fn found(key: &Value, value: &Value) -> Result<Found, EngineError> {
    let (Value::BulkString(key), Value::BulkString(value)) = (key, value) else {
        return Err(foreign("an entry is no text"));
    };
    let (record, revision) = decode_entry(Bytes::copy_from_slice(value)).map_err(foreign)?;
    Ok(Found {
        key: Bytes::copy_from_slice(key),
        record,
        revision,
    })
}

fn item(item: Value) -> Result<Item, EngineError> {
    let malformed = || foreign("an item of the stream is not of this program");
    let Value::Array(parts) = item else {
        return Err(malformed());
    };
    let Ok([Value::BulkString(id), Value::Array(fields)]) = <[Value; 2]>::try_from(parts) else {
        return Err(malformed());
    };
    let at = id
        .strip_suffix(b"-0")
        .and_then(number)
        .ok_or_else(malformed)?;
    let mut changes = Vec::with_capacity(fields.len() / 2);
    // Nothing if floors were changed only, or they are in their order.
    let mut order = Vec::new();
    let mut fields = fields.into_iter();
    while let (Some(key), Some(record)) = (fields.next(), fields.next()) {
        let (Value::BulkString(key), Value::BulkString(record)) = (key, record) else {
            return Err(malformed());
        };
        if key.is_empty() {
            order = record;
            continue;
        }
        let record = if record.is_empty() {
            None
        } else {
            Some(Record::decode(record.into()).map_err(foreign)?)
        };
        changes.push((key.into(), record));
    }
    if !order.is_empty() {
        if order.len() != changes.len() {
            return Err(malformed());
        }
        let mut ordered: Vec<_> = order.into_iter().zip(changes).collect();
        ordered.sort_by_key(|(place, _)| *place);
        changes = ordered.into_iter().map(|(_, change)| change).collect();
    }
    Ok(Item {
        at: Revision(at),
        changes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::remote::{Content, WriteId};

    /// An item of two changes, with this in the place of their order.
    fn two(order: &[u8]) -> Result<Item, EngineError> {
        let record = Record {
            version: (1, 0),
            write: WriteId {
                process: 1,
                number: 1,
            },
            content: Content::Tombstone,
        };
        let text = |text: &[u8]| Value::BulkString(text.to_vec());
        let encoded = text(&record.encode());
        let (b, a) = (text(b"b"), text(b"a"));
        let fields = vec![b, encoded.clone(), a, encoded, text(b""), text(order)];
        item(Value::Array(vec![text(b"7-0"), Value::Array(fields)]))
    }

    #[test]
    fn changes_are_told_in_the_order_of_their_requests() {
        let keys = |order: &[u8]| -> Vec<Bytes> {
            let item = two(order).unwrap();
            assert_eq!(item.at, Revision(7));
            item.changes.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(&[1, 0]), ["a", "b"]);
        assert_eq!(keys(&[0, 1]), ["b", "a"]);
        assert_eq!(keys(&[]), ["b", "a"]);
        assert!(two(&[0]).is_err() && two(&[0, 1, 2]).is_err());
    }
}
