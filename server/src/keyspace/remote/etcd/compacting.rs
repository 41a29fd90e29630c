//! Letting etcd forget what was: it keeps every former value until somebody compacts it.
//!
//! One key says up to which revision that may be next time. Each server looks at it once in so long as history is kept. If it is what it
//! was when the server looked last, nobody else has had this turn: the server puts the latest revision there, by compare-and-swap, and
//! compacts up to what was there before, which is old enough then. Otherwise another one has, and it waits for its own next turn.
//!
//! Whoever etcd does not allow to compact takes no turn any more: others may be allowed to. Releases differ in whom they allow it. What
//! else is not allowed, that key among it, may be again in the next turn.
use super::members::Members;
use super::ranges::is_late;
use super::store::Store;
use super::{REQUEST_TIMEOUT, connecting, transactions};
use etcd_client::{
    Client, Compare, CompareOp, Error, KeyValue, ResponseHeader, Txn, TxnOp, TxnOpResponse,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// What the key held when this server looked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    /// The revision of the key; zero if it is not there.
    at: i64,
    /// Up to where may be compacted; zero if nobody has said so.
    up_to: i64,
}

/// What became of a turn.
enum Taken {
    Turn(Turn),
    /// This server may not compact.
    NotAllowed(Error),
}

/// The code of gRPC for what somebody has no right to.
const PERMISSION_DENIED: i32 = 7;

/// Compacts again and again; history is kept for so long, and at most twice as long.
pub(super) async fn compact(members: Arc<Members>, store: Arc<Store>, keeps: Duration) {
    let mut last = None;
    let mut is_told = false;
    loop {
        let turn = members.ask_at_length(2 * REQUEST_TIMEOUT, |client| {
            let store = Arc::clone(&store);
            async move { take_turn(&client, &store, last).await }
        });
        match turn.await {
            Ok(Taken::Turn(turn)) => {
                // The first look tries nothing, and nothing is compacted before there is something old enough.
                is_told &= last.is_none_or(|last: Turn| last.up_to == 0);
                last = Some(turn);
            }
            Ok(Taken::NotAllowed(error)) => {
                tracing::warn!(
                    error = connecting::describe(&error),
                    "this server may not compact etcd, and does not try again: former values take its space until somebody does it. Have \
                     etcd do it (--auto-compaction-retention), or name a user with the role root; --etcd-history 0 says that it is done"
                );
                return;
            }
            Err(error) if !is_late(&error) && !std::mem::replace(&mut is_told, true) => {
                tracing::warn!(
                    error = connecting::describe(&error),
                    "etcd was not compacted: former values take its space until somebody does it"
                );
            }
            // It is tried again.
            Err(_) => {}
        }
        sleep(keeps).await;
    }
}

/// What is to be compared next time.
async fn take_turn(client: &Client, store: &Store, last: Option<Turn>) -> Result<Taken, Error> {
    let name = store.names().compaction();
    let mut kv = transactions::kv(client);
    let Some(last) = last else {
        let found = kv.get(name, None).await?;
        return Ok(Taken::Turn(turn_of(found.kvs().first())));
    };
    // In another store this would compact what is not known; commits notice that.
    if store.check().is_err() {
        return Ok(Taken::Turn(last));
    }
    let latest = store.latest();
    let is_ours = Compare::mod_revision(name.clone(), CompareOp::Equal, last.at);
    let txn = Txn::new()
        .when([is_ours])
        .and_then([TxnOp::put(name.clone(), latest.to_string(), None)])
        .or_else([TxnOp::get(name, None)]);
    let response = kv.txn(txn).await?;
    if !response.succeeded() {
        let found = response.op_responses().into_iter().find_map(|it| match it {
            TxnOpResponse::Get(found) => Some(turn_of(found.kvs().first())),
            _ => None,
        });
        return Ok(Taken::Turn(found.unwrap_or(last)));
    }
    if last.up_to > 0 {
        match kv.compact(last.up_to, None).await {
            Ok(_) => tracing::debug!(revision = last.up_to, "etcd was compacted"),
            // By etcd itself, or by another program.
            Err(Error::GRpcStatus(status)) if status.message().contains("has been compacted") => {}
            Err(error) if is_denied(&error) => return Ok(Taken::NotAllowed(error)),
            Err(error) => return Err(error),
        }
    }
    let at = response.header().map_or(0, ResponseHeader::revision);
    Ok(Taken::Turn(Turn { at, up_to: latest }))
}

fn is_denied(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == PERMISSION_DENIED)
}

fn turn_of(found: Option<&KeyValue>) -> Turn {
    let up_to = found.and_then(|found| std::str::from_utf8(found.value()).ok()?.parse().ok());
    Turn {
        at: found.map_or(0, KeyValue::mod_revision),
        up_to: up_to.unwrap_or(0),
    }
}
