//! Records in the order of their names, in answers of limited size.
use super::REQUEST_TIMEOUT;
use super::connection::{is_timed_out, kv};
use super::key_names::KeyNames;
use super::limits::is_message_too_large;
use super::members::Members;
use super::store::Store;
use super::transactions::{decode_record, decode_revision};
use bytes::Bytes;
use etcd_client::{Error, GetOptions, GetResponse, KeyValue};
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_shared::{EngineError, EngineEvent, EngineRequestId, KeyedRecord, RecordPage};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Maximum number of records in one answer.
pub(super) const MAX_RECORDS: usize = 1_000;

/// Size in bytes above which an answer is larger than necessary: it delays other answers.
const TARGET_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn decode_key(found: &KeyValue, names: &KeyNames) -> Result<Bytes, EngineError> {
    names.key(found.key()).ok_or_else(|| {
        let name = String::from_utf8_lossy(found.key());
        EngineError::Foreign(format!("this program gives no key the name {name:?}"))
    })
}

pub(super) fn decode_records(
    response: &GetResponse,
    names: &KeyNames,
) -> Result<Vec<KeyedRecord>, EngineError> {
    let found = response.kvs().iter().map(|found| {
        Ok(KeyedRecord {
            key: decode_key(found, names)?,
            record: decode_record(found)?,
            revision: decode_revision(found),
        })
    });
    found.collect()
}

/// Entries from a name on, at this revision unless it is zero.
pub(super) struct Range {
    pub(super) from: Vec<u8>,
    pub(super) revision: i64,
    pub(super) limit: usize,
}

impl Range {
    /// Requests as many entries as make an answer of limited size.
    pub(super) async fn read(
        &self,
        members: &Members,
        store: &Store,
        batch_size: &AdaptiveBatchSize,
        timeout: Duration,
    ) -> Result<GetResponse, Error> {
        loop {
            let limit = self.limit.min(batch_size.current());
            let options = GetOptions::new()
                .with_range(prefix_end(&store.names().entries()))
                .with_revision(self.revision)
                .with_limit(i64::try_from(limit).unwrap_or(i64::MAX));
            let begun = Instant::now();
            let request = members.request_slow(timeout, |client| async move {
                let mut kv = kv(&client);
                kv.get(self.from.clone(), Some(options)).await
            });
            let error = match request.await {
                Ok(response) => {
                    let sizes = response
                        .kvs()
                        .iter()
                        .map(|it| it.key().len() + it.value().len());
                    if sizes.sum::<usize>() > TARGET_BYTES {
                        batch_size.too_large(limit);
                    } else {
                        batch_size.answered(response.kvs().len(), begun.elapsed());
                    }
                    return Ok(response);
                }
                Err(error) => error,
            };
            let is_too_large = is_message_too_large(&error);
            if is_too_large || is_timed_out(&error) {
                batch_size.too_large(limit);
            }
            if !is_too_large || limit == 1 {
                return Err(error);
            }
        }
    }
}

/// Returns the first name behind all names with this prefix.
fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Prefixes end with a slash here, which has a successor.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Reads a page of records behind a key.
pub(super) async fn page(
    members: Arc<Members>,
    store: Arc<Store>,
    id: EngineRequestId,
    after: Option<(u16, Bytes)>,
    (limit, batch_size): (usize, Arc<AdaptiveBatchSize>),
    events: UnboundedSender<EngineEvent>,
) {
    let page = page_after(&members, &store, after, limit, &batch_size).await;
    let _ = events.send(EngineEvent::Page(id, page));
}

async fn page_after(
    members: &Members,
    store: &Store,
    after: Option<(u16, Bytes)>,
    limit: usize,
    batch_size: &AdaptiveBatchSize,
) -> Result<RecordPage, Option<EngineError>> {
    store.check()?;
    let names = store.names();
    let from = match after {
        Some((bucket, key)) => [&names.entry(bucket, &key)[..], b"\0"].concat(),
        None => names.entries(),
    };
    let range = Range {
        from,
        revision: 0,
        limit,
    };
    let latest = store.latest();
    let request = range.read(members, store, batch_size, REQUEST_TIMEOUT);
    let Ok(response) = request.await else {
        return Err(None);
    };
    store.check_header(response.header(), latest)?;
    Ok(RecordPage {
        records: decode_records(&response, names)?,
        has_more: response.more(),
    })
}
