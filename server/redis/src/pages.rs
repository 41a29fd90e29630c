//! Pages of keys: bucket by bucket, the keys of each in their order.
use super::connection::Session;
use super::reader::decode_record;
use super::transactions::{is_confirmed, is_same_history};
use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, Value};
use bytes::Bytes;
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_shared::{
    BUCKETS, EngineError, EngineEvent, EngineRequestId, KeyedRecord, RecordPage,
};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

enum Failure {
    Redis(RedisError),
    HistoryChanged,
    /// Too few replicas have the records.
    Unconfirmed,
    Engine(EngineError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

/// Reads a page of records behind a key.
pub(super) async fn page(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    id: EngineRequestId,
    after: Option<(u16, Bytes)>,
    (limit, batch_size): (usize, Arc<AdaptiveBatchSize>),
    events: UnboundedSender<EngineEvent>,
) {
    let limit = limit.min(batch_size.current());
    let begun = Instant::now();
    let page = confirmed_page(&mut connection, &session, after, limit).await;
    batch_size.finished(limit, begun.elapsed());
    let page = page.map_err(|failure| match failure {
        Failure::Redis(error) => {
            tracing::debug!(%error, "redis did not answer a page");
            None
        }
        Failure::HistoryChanged | Failure::Unconfirmed => None,
        Failure::Engine(error) => Some(error),
    });
    let _ = events.send(EngineEvent::Page(id, page));
}

/// Reads a page. Like reads of single keys, it counts only once enough replicas have the data.
async fn confirmed_page(
    connection: &mut MultiplexedConnection,
    session: &Session,
    after: Option<(u16, Bytes)>,
    limit: usize,
) -> Result<RecordPage, Failure> {
    let page = page_after(connection, session, after, limit).await?;
    // A master that has become a replica of another one has the records of that one.
    if !is_of_session(connection, session).await? {
        return Err(Failure::HistoryChanged);
    }
    if is_confirmed(connection, session).await? {
        Ok(page)
    } else {
        Err(Failure::Unconfirmed)
    }
}

/// Returns whether Redis still has the history of the session.
async fn is_of_session(
    connection: &mut MultiplexedConnection,
    session: &Session,
) -> Result<bool, RedisError> {
    let mut manifest = ::redis::cmd("HGET");
    manifest.arg(session.names.manifest()).arg("history");
    let history: Value = manifest.query_async(connection).await?;
    Ok(is_same_history(&history, session))
}

async fn page_after(
    connection: &mut MultiplexedConnection,
    session: &Session,
    after: Option<(u16, Bytes)>,
    limit: usize,
) -> Result<RecordPage, Failure> {
    let names = &session.names;
    let first = after.as_ref().map_or(0, |(bucket, _)| *bucket);
    let mut counting = ::redis::pipe();
    counting.cmd("HGET").arg(names.manifest()).arg("history");
    for bucket in first..BUCKETS {
        counting.cmd("SCARD").arg(names.keys(bucket));
    }
    let counts: Vec<Value> = counting.query_async(connection).await?;
    if !counts
        .first()
        .is_some_and(|history| is_same_history(history, session))
    {
        return Err(Failure::HistoryChanged);
    }
    let mut buckets = VecDeque::new();
    for (bucket, count) in (first..BUCKETS).zip(&counts[1..]) {
        if *count != Value::Int(0) {
            buckets.push_back(bucket);
        }
    }
    let mut records: Vec<KeyedRecord> = Vec::new();
    while records.len() < limit
        && let Some(bucket) = buckets.pop_front()
    {
        let after = after.as_ref().filter(|(of, _)| *of == bucket);
        let room = limit - records.len();
        let (found, has_more) =
            read_bucket(connection, session, bucket, after.map(|(_, key)| key), room).await?;
        records.extend(found);
        if has_more {
            return Ok(RecordPage {
                records,
                has_more: true,
            });
        }
    }
    Ok(RecordPage {
        has_more: !buckets.is_empty(),
        records,
    })
}

/// Returns some records of a bucket, and whether there are more.
async fn read_bucket(
    connection: &mut MultiplexedConnection,
    session: &Session,
    bucket: u16,
    after: Option<&Bytes>,
    limit: usize,
) -> Result<(Vec<KeyedRecord>, bool), Failure> {
    let names = &session.names;
    let mut keys: Vec<Vec<u8>> = ::redis::cmd("SMEMBERS")
        .arg(names.keys(bucket))
        .query_async(connection)
        .await?;
    keys.retain(|key| after.is_none_or(|after| key[..] > after[..]));
    keys.sort_unstable();
    let has_more = keys.len() > limit;
    keys.truncate(limit);
    if keys.is_empty() {
        return Ok((Vec::new(), false));
    }
    let values: Vec<Value> = ::redis::cmd("HMGET")
        .arg(names.entries_of_bucket(bucket))
        .arg(&keys)
        .query_async(connection)
        .await?;
    let mut records = Vec::with_capacity(keys.len());
    for (key, value) in keys.into_iter().zip(&values) {
        // A record that no longer exists is not shown.
        if *value != Value::Nil {
            records.push(decode_record(&Value::BulkString(key), value).map_err(Failure::Engine)?);
        }
    }
    Ok((records, has_more))
}
