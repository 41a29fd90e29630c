//! Reads of more than single keys, for watches and backups.
use super::batch_sizes::BatchSizes;
use super::connection::Session;
use super::key_names::{decode_entry, decode_floor, number};
use super::transactions::{
    ConnectionStatus, add_confirmation, check_confirmation, foreign_data, is_same_history,
};
use ::redis::aio::MultiplexedConnection;
use ::redis::{Pipeline, Value};
use bytes::Bytes;
use statestored_shared::{BUCKETS, EngineError, KeyedRecord, Record, Revision};
use statestored_store::keyspace::rules::Version;
use std::time::Duration;
use tokio::time::Instant;

const POSITION: &str = include_str!("position.lua");

/// The reason why changes may be missed.
pub(super) enum ReadError {
    /// The reason is temporary.
    Transient(String),
    Permanent(EngineError),
    /// The master has changed, or continues from another history.
    ConnectionLost,
}

impl From<EngineError> for ReadError {
    fn from(error: EngineError) -> Self {
        Self::Permanent(error)
    }
}

impl From<::redis::RedisError> for ReadError {
    fn from(error: ::redis::RedisError) -> Self {
        Self::Transient(error.to_string())
    }
}

pub(super) fn transient(reason: &str) -> ReadError {
    ReadError::Transient(reason.into())
}

/// A change in the stream.
pub(super) struct StreamItem {
    pub(super) revision: Revision,
    pub(super) changes: Vec<(Bytes, Option<Record>)>,
}

/// A connection for reads, with the sizes of its requests.
pub(super) struct Reader<'a> {
    pub(super) connection: MultiplexedConnection,
    pub(super) session: &'a Session,
    pub(super) batch_sizes: &'a BatchSizes,
}

impl Reader<'_> {
    /// Sends commands, and returns their answers if enough replicas have the data.
    pub(super) async fn query(&mut self, mut commands: Pipeline) -> Result<Vec<Value>, ReadError> {
        add_confirmation(&mut commands, self.session);
        commands.ignore_errors();
        let count = commands.len();
        let asking = self.connection.send_packed_commands(&commands, 0, count);
        let answers = check_confirmation(asking.await?, self.session);
        answers.map_err(|then| match then {
            ConnectionStatus::Lost => ReadError::ConnectionLost,
            ConnectionStatus::Usable => transient("too few replicas have them"),
        })
    }

    /// Reads the last revision, and the floors at that revision.
    pub(super) async fn position(&mut self) -> Result<(Revision, Vec<Version>), ReadError> {
        let names = &self.session.names;
        let mut commands = ::redis::pipe();
        commands.cmd("EVAL").arg(POSITION).arg(3);
        commands.arg(names.manifest()).arg(names.counter());
        commands.arg(names.floors());
        commands.arg(&self.session.history).arg(BUCKETS);
        let answer = self.query(commands).await?.pop();
        let Some(Value::Array(found)) = answer else {
            return Err(ReadError::Transient(format!("redis answers {answer:?}")));
        };
        let [Value::BulkString(counter), floors @ ..] = &found[..] else {
            return Err(foreign_data("there is no counter: data was lost").into());
        };
        let at = number(counter).ok_or_else(|| foreign_data("the counter is not a number"))?;
        let floors: Option<Vec<_>> = floors
            .iter()
            .map(|floor| match floor {
                Value::BulkString(floor) => decode_floor(floor).map(|(version, _)| version),
                _ => None,
            })
            .collect();
        let floors = floors.ok_or_else(|| foreign_data("floors are missing: data was lost"))?;
        Ok((Revision(at), floors))
    }

    /// Returns the items of the stream after a revision, in the history of the session. Waits for one if there is none.
    pub(super) async fn items_after(
        &mut self,
        Revision(at): Revision,
        wait: Option<Duration>,
    ) -> Result<Vec<StreamItem>, ReadError> {
        let mut commands = ::redis::pipe();
        let manifest = commands.cmd("HGET").arg(self.session.names.manifest());
        manifest.arg("history");
        let most = self.batch_sizes.items.current();
        commands.cmd("XREAD").arg("COUNT").arg(most);
        if let Some(wait) = wait {
            commands
                .arg("BLOCK")
                .arg(u64::try_from(wait.as_millis()).unwrap_or_default());
        }
        commands.arg("STREAMS").arg(self.session.names.stream());
        commands.arg(format!("{at}-0"));
        let begun = Instant::now();
        let answers = self.query(commands).await;
        self.batch_sizes.items.finished(most, begun.elapsed());
        let mut answers = answers?.into_iter();
        if !answers
            .next()
            .is_some_and(|history| is_same_history(&history, self.session))
        {
            return Err(ReadError::ConnectionLost);
        }
        let items = match answers.next() {
            Some(Value::Nil) | None => Vec::new(),
            Some(Value::Array(mut streams)) => match streams.pop() {
                Some(Value::Array(mut stream)) => match stream.pop() {
                    Some(Value::Array(items)) => items,
                    other => return Err(ReadError::Transient(format!("redis answers {other:?}"))),
                },
                other => return Err(ReadError::Transient(format!("redis answers {other:?}"))),
            },
            other => return Err(ReadError::Transient(format!("redis answers {other:?}"))),
        };
        let items = items.into_iter().map(decode_item);
        Ok(items.collect::<Result<_, _>>()?)
    }
}

/// Returns the revision of the item if it is the one after `known`.
pub(super) fn next_revision(known: Revision, item: &StreamItem) -> Result<Revision, ReadError> {
    if item.revision.0 == known.0 + 1 {
        Ok(item.revision)
    } else {
        Err(transient("some were not there any more"))
    }
}

pub(super) fn decode_record(key: &Value, value: &Value) -> Result<KeyedRecord, EngineError> {
    let (Value::BulkString(key), Value::BulkString(value)) = (key, value) else {
        return Err(foreign_data("an entry is not a text"));
    };
    let (record, revision) = decode_entry(Bytes::copy_from_slice(value)).map_err(foreign_data)?;
    Ok(KeyedRecord {
        key: Bytes::copy_from_slice(key),
        record,
        revision,
    })
}

fn decode_item(item: Value) -> Result<StreamItem, EngineError> {
    let malformed = || foreign_data("an item of the stream is not of this program");
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
            Some(Record::decode(record.into()).map_err(foreign_data)?)
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
    Ok(StreamItem {
        revision: Revision(at),
        changes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestored_shared::{RecordContent, WriteId};

    /// Creates an item of two changes, with this content in place of their order.
    fn two(order: &[u8]) -> Result<StreamItem, EngineError> {
        let record = Record {
            version: (1, 0),
            write: WriteId {
                process: 1,
                number: 1,
            },
            content: RecordContent::Tombstone,
        };
        let text = |text: &[u8]| Value::BulkString(text.to_vec());
        let encoded = text(&record.encode());
        let (b, a) = (text(b"b"), text(b"a"));
        let fields = vec![b, encoded.clone(), a, encoded, text(b""), text(order)];
        decode_item(Value::Array(vec![text(b"7-0"), Value::Array(fields)]))
    }

    #[test]
    fn changes_are_reported_in_the_order_of_their_requests() {
        let keys = |order: &[u8]| -> Vec<Bytes> {
            let item = two(order).unwrap();
            assert_eq!(item.revision, Revision(7));
            item.changes.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(&[1, 0]), ["a", "b"]);
        assert_eq!(keys(&[0, 1]), ["b", "a"]);
        assert_eq!(keys(&[]), ["b", "a"]);
        assert!(two(&[0]).is_err() && two(&[0, 1, 2]).is_err());
    }
}
