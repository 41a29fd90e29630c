//! Compaction of etcd, which keeps every former value until it is compacted.
//!
//! One key contains the revision up to which etcd may be compacted next time. Each server reads it once in the time for which history is
//! kept. If the key is unchanged since the server's last turn, no other server has taken this turn. The server then puts the latest
//! revision there by compare-and-swap, and compacts up to the former one, which is old enough by then. If the key has changed, the server
//! waits for its next turn.
//!
//! A server that etcd does not allow to compact takes no more turns: other servers may be allowed to. The releases of etcd differ in this
//! permission. Other permissions, such as that for the key itself, may be granted by the next turn.
use super::REQUEST_TIMEOUT;
use super::connection::{self, is_timed_out, kv};
use super::members::Members;
use super::store::Store;
use etcd_client::{
    Client, Compare, CompareOp, Error, KeyValue, ResponseHeader, Txn, TxnOp, TxnOpResponse,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The content of the key at this server's last turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CompactionMarker {
    /// The revision of the key; zero if it does not exist.
    revision: i64,
    /// The revision up to which etcd may be compacted; zero if none was given.
    up_to: i64,
}

/// The outcome of a turn.
enum CompactionOutcome {
    Done(CompactionMarker),
    /// The server may not compact etcd.
    NotAllowed(Error),
}

/// gRPC's code of a missing permission.
const PERMISSION_DENIED: i32 = 7;

/// Compacts periodically. Keeps the `history` of this length, and at most twice as much.
pub(super) async fn compact(members: Arc<Members>, store: Arc<Store>, history: Duration) {
    let mut last = None;
    let mut is_told = false;
    loop {
        let turn = members.request_slow(2 * REQUEST_TIMEOUT, |client| {
            let store = Arc::clone(&store);
            async move { compact_once(&client, &store, last).await }
        });
        match turn.await {
            Ok(CompactionOutcome::Done(turn)) => {
                // The first turn only reads the key. Nothing is compacted before a former revision is old enough.
                is_told &= last.is_none_or(|last: CompactionMarker| last.up_to == 0);
                last = Some(turn);
            }
            Ok(CompactionOutcome::NotAllowed(error)) => {
                tracing::warn!(
                    error = connection::describe(&error),
                    "this server may not compact etcd: former values use its space until it is compacted. Set \
                     --auto-compaction-retention of etcd and --etcd-history 0, or use an etcd user with the role root"
                );
                return;
            }
            Err(error) if !is_timed_out(&error) && !std::mem::replace(&mut is_told, true) => {
                tracing::warn!(
                    error = connection::describe(&error),
                    "cannot compact etcd: former values use its space until it is compacted"
                );
            }
            // The next turn tries again.
            Err(_) => {}
        }
        sleep(history).await;
    }
}

/// Takes a turn. Returns the content of the key for the comparison at the next turn.
async fn compact_once(
    client: &Client,
    store: &Store,
    last: Option<CompactionMarker>,
) -> Result<CompactionOutcome, Error> {
    let name = store.names().compaction();
    let mut kv = kv(client);
    let Some(last) = last else {
        let found = kv.get(name, None).await?;
        return Ok(CompactionOutcome::Done(marker_of(found.kvs().first())));
    };
    // Another store must not be compacted. The commits report the replacement.
    if store.check().is_err() {
        return Ok(CompactionOutcome::Done(last));
    }
    let latest = store.latest();
    let is_ours = Compare::mod_revision(name.clone(), CompareOp::Equal, last.revision);
    let txn = Txn::new()
        .when([is_ours])
        .and_then([TxnOp::put(name.clone(), latest.to_string(), None)])
        .or_else([TxnOp::get(name, None)]);
    let response = kv.txn(txn).await?;
    if !response.succeeded() {
        let found = response.op_responses().into_iter().find_map(|it| match it {
            TxnOpResponse::Get(found) => Some(marker_of(found.kvs().first())),
            _ => None,
        });
        return Ok(CompactionOutcome::Done(found.unwrap_or(last)));
    }
    if last.up_to > 0 {
        match kv.compact(last.up_to, None).await {
            Ok(_) => tracing::debug!(revision = last.up_to, "etcd was compacted"),
            // By etcd itself, or by another program.
            Err(Error::GRpcStatus(status)) if status.message().contains("has been compacted") => {}
            Err(error) if is_denied(&error) => return Ok(CompactionOutcome::NotAllowed(error)),
            Err(error) => return Err(error),
        }
    }
    let at = response.header().map_or(0, ResponseHeader::revision);
    Ok(CompactionOutcome::Done(CompactionMarker {
        revision: at,
        up_to: latest,
    }))
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == PERMISSION_DENIED)
}

fn marker_of(entry: Option<&KeyValue>) -> CompactionMarker {
    let up_to = entry.and_then(|entry| std::str::from_utf8(entry.value()).ok()?.parse().ok());
    CompactionMarker {
        revision: entry.map_or(0, KeyValue::mod_revision),
        up_to: up_to.unwrap_or(0),
    }
}
