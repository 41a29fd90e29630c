//! Reads of more than single keys, for watches and backups.
use super::connecting::Session;
use super::names::{decode_entry, decode_floor, number};
use super::portions::Portions;
use super::transactions::{Connection, confirm, confirmed, foreign, is_here};
use crate::keyspace::remote::{BUCKETS, EngineError, Found, Record, Revision};
use crate::keyspace::rules::Version;
use ::redis::aio::MultiplexedConnection;
use ::redis::{Pipeline, Value};
use bytes::Bytes;
use std::time::Duration;
use tokio::time::Instant;

const POSITION: &str = include_str!("position.lua");

/// The reason why changes may be missed.
pub(super) enum Lost {
    /// The reason is temporary.
    Passing(String),
    ForGood(EngineError),
    /// The master has changed, or continues from another history.
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

pub(super) fn passing(reason: &str) -> Lost {
    Lost::Passing(reason.into())
}

/// A change in the stream.
pub(super) struct Item {
    pub(super) at: Revision,
    pub(super) changes: Vec<(Bytes, Option<Record>)>,
}

/// A connection for reads, with the sizes of its requests.
pub(super) struct Reader<'a> {
    pub(super) connection: MultiplexedConnection,
    pub(super) session: &'a Session,
    pub(super) portions: &'a Portions,
}

impl Reader<'_> {
    /// Sends commands, and returns their answers if enough replicas have the data.
    pub(super) async fn answers(&mut self, mut commands: Pipeline) -> Result<Vec<Value>, Lost> {
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

    /// Reads the last revision, and the floors at that revision.
    pub(super) async fn position(&mut self) -> Result<(Revision, Vec<Version>), Lost> {
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

    /// Returns the items of the stream after a revision, in the history of the session. Waits for one if there is none.
    pub(super) async fn items_behind(
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
        let items = items.into_iter().map(item);
        Ok(items.collect::<Result<_, _>>()?)
    }
}

/// Returns the revision of the item if it is the one after `known`.
pub(super) fn next(known: Revision, item: &Item) -> Result<Revision, Lost> {
    if item.at.0 == known.0 + 1 {
        Ok(item.at)
    } else {
        Err(passing("some were not there any more"))
    }
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
    // Empty if only floors were changed, or the changes are in their order.
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

    /// Creates an item of two changes, with this content in place of their order.
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
