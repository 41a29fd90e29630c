//! Reads of the records of several keys at one moment, in as many transactions as necessary.
//!
//! The first transaction determines the revision, and the others read the same one. A transaction that is too large is repeated with fewer
//! keys. If etcd compacts the revision in between, or a transaction fails for another reason, the read fails as a whole, and the keyspace
//! repeats it.
use super::connection::is_timed_out;
use super::limits::is_message_too_large;
use super::members::Members;
use super::store::Store;
use super::transactions::{decode_record_state, txn};
use bytes::Bytes;
use etcd_client::{GetOptions, TxnOp};
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_shared::{
    EngineError, EngineEvent, EngineRequestId, KeyState, Keys, MAX_READ_BYTES, bucket_of,
};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Reads the records of these keys. Leaves out the last ones if the records before them exceed [`MAX_READ_BYTES`].
pub(super) async fn read_records(
    members: Arc<Members>,
    store: Arc<Store>,
    (id, keys): (EngineRequestId, Keys),
    batch_size: Arc<AdaptiveBatchSize>,
    events: UnboundedSender<EngineEvent>,
) {
    let found = states_at_one_revision(&members, &store, &keys, &batch_size).await;
    // The receiver may be gone.
    let _ = events.send(EngineEvent::Read(id, found));
}

/// Returns the states of the first keys, at least one. If there is no answer, the error is `None`.
async fn states_at_one_revision(
    members: &Members,
    store: &Store,
    keys: &[Bytes],
    batch_size: &AdaptiveBatchSize,
) -> Result<Vec<KeyState>, Option<EngineError>> {
    store.check()?;
    let latest = store.latest();
    let mut states: Vec<KeyState> = Vec::with_capacity(keys.len());
    let (mut bytes, mut revision) = (0, None);
    while states.len() < keys.len() && bytes <= MAX_READ_BYTES {
        let rest = &keys[states.len()..];
        let part = &rest[..rest.len().min(batch_size.current())];
        let gets = part.iter().map(|key| {
            let options = revision.map(|revision| GetOptions::new().with_revision(revision));
            TxnOp::get(store.names().entry(bucket_of(key), key), options)
        });
        let request = store.guarded_read(gets.collect());
        let begun = Instant::now();
        let response = match txn(members, request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(%error, "etcd did not answer a read");
                let is_too_large = is_message_too_large(&error);
                if is_too_large || is_timed_out(&error) {
                    batch_size.too_large(part.len());
                }
                if is_too_large && part.len() > 1 {
                    continue;
                }
                return Err(None);
            }
        };
        batch_size.answered(part.len(), begun.elapsed());
        let Some(header) = response.header() else {
            return Err(None);
        };
        revision.get_or_insert(header.revision());
        let answers = store.check_responses(&response, latest)?;
        if answers.len() != part.len() {
            return Err(None);
        }
        for answer in &answers {
            let state = decode_record_state(answer)?;
            let record = state.record.as_ref();
            bytes += record.map_or(0, |(record, _)| record.encoded_len());
            states.push(state);
        }
    }
    Ok(states)
}
