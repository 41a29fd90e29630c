//! Reads and commits as etcd's transactions.
use super::names::{Names, decode_floor, encode_floor};
use super::{MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use crate::keyspace::remote::{
    AskId, BUCKETS, EngineError, News, Place, Put, Record, Revision, Seen, Unit, Verdict, bucket_of,
};
use bytes::Bytes;
use etcd_client::{
    Client, Compare, CompareOp, Error, GetResponse, KeyValue, KvClient, ResponseHeader, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

/// The only format so far.
const FORMAT: &[u8] = b"libstatestore 1";

/// The largest record: etcd takes requests of 1.5 MiB by default.
const MAX_RECORD_BYTES: usize = 1_400_000;

/// Most operations of a transaction that makes the floors.
const FLOORS_AT_ONCE: usize = 100;

pub(super) enum BeginError {
    Etcd(Error),
    Foreign(String),
}

impl From<Error> for BeginError {
    fn from(error: Error) -> Self {
        Self::Etcd(error)
    }
}

/// Makes what has to be there at the first start: all floors, and then what says that they are there.
pub(super) async fn initialise(client: &mut Client, names: &Names) -> Result<(), BeginError> {
    let found = client.get(names.manifest(), None).await?;
    match found.kvs().first().map(KeyValue::value) {
        Some(FORMAT) => return Ok(()),
        Some(other) => {
            let other = String::from_utf8_lossy(other).into_owned();
            return Err(BeginError::Foreign(format!("its format is {other:?}")));
        }
        None => {}
    }
    tracing::info!("making the store in etcd");
    let create = |name: Vec<u8>, value: Vec<u8>| {
        let absent = Compare::mod_revision(name.clone(), CompareOp::Equal, 0);
        Txn::new()
            .when([absent])
            .and_then([TxnOp::put(name, value, None)])
    };
    let buckets: Vec<_> = (0..BUCKETS).collect();
    for some in buckets.chunks(FLOORS_AT_ONCE) {
        let floor = |bucket: &u16| TxnOp::txn(create(names.floor(*bucket), encode_floor((0, 0))));
        let floors: Vec<_> = some.iter().map(floor).collect();
        client.txn(Txn::new().and_then(floors)).await?;
    }
    client
        .txn(create(names.manifest(), FORMAT.to_vec()))
        .await?;
    Ok(())
}

/// The limits of messages are etcd's own.
pub(super) fn kv(client: &Client) -> KvClient {
    client
        .kv_client()
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
}

fn gets(names: &Names, keys: &[Bytes]) -> Vec<TxnOp> {
    let gets = keys.iter().flat_map(|key| {
        let bucket = bucket_of(key);
        [
            TxnOp::get(names.entry(bucket, key), None),
            TxnOp::get(names.floor(bucket), None),
        ]
    });
    gets.collect()
}

fn foreign(what: impl std::fmt::Display) -> EngineError {
    EngineError::Foreign(what.to_string())
}

pub(super) fn revision_of(found: &KeyValue) -> Revision {
    Revision(u64::try_from(found.mod_revision()).unwrap_or_default())
}

pub(super) fn record_of(found: &KeyValue) -> Result<Record, EngineError> {
    Record::decode(Bytes::copy_from_slice(found.value())).map_err(foreign)
}

/// What a pair of [gets] has found.
fn seen(entry: &GetResponse, floor: &GetResponse) -> Result<Seen, EngineError> {
    let record = match entry.kvs().first() {
        Some(found) => Some((record_of(found)?, revision_of(found))),
        None => None,
    };
    let floor = floor.kvs().first();
    let floor = floor.ok_or_else(|| foreign("a floor is missing: data was lost"))?;
    let version = decode_floor(floor.value()).ok_or_else(|| foreign("a floor is no version"))?;
    Ok(Seen {
        record,
        floor: (version, revision_of(floor)),
    })
}

/// What the answers to [gets] have found.
fn all_seen(responses: &[TxnOpResponse]) -> Result<Vec<Seen>, EngineError> {
    let pairs = responses.as_chunks::<2>().0.iter().map(|pair| match pair {
        [TxnOpResponse::Get(entry), TxnOpResponse::Get(floor)] => seen(entry, floor),
        _ => Err(foreign("an answer to something else")),
    });
    pairs.collect()
}

/// Reads what some questions are about, all at one moment.
pub(super) async fn read(
    mut kv: KvClient,
    names: Arc<Names>,
    asked: Vec<(AskId, Vec<Bytes>)>,
    tell: UnboundedSender<News>,
) {
    let all = asked.iter().flat_map(|(_, keys)| gets(&names, keys));
    let txn = Txn::new().and_then(all.collect::<Vec<_>>());
    let response = timeout(REQUEST_TIMEOUT, kv.txn(txn)).await;
    let responses = match response {
        Ok(Ok(response)) => response.op_responses(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "etcd did not answer a read");
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let mut rest = &responses[..];
    for (ask, keys) in asked {
        let found = match rest.split_at_checked(2 * keys.len()) {
            Some((own, behind)) => {
                rest = behind;
                all_seen(own).map_err(Some)
            }
            None => Err(None),
        };
        // Nobody may listen any more.
        let _ = tell.send(News::Read(ask, found));
    }
}

/// The keys that a unit compares, in their order.
fn keys_of(unit: &Unit) -> Vec<Bytes> {
    let keys = unit.compares.iter().filter_map(|(place, _)| match place {
        Place::Entry(key) => Some(key.clone()),
        Place::Floor(_) => None,
    });
    keys.collect()
}

fn txn_of(names: &Names, unit: &Unit) -> Txn {
    let compares = unit.compares.iter().map(|(place, revision)| {
        let revision = i64::try_from(revision.0).unwrap_or(i64::MAX);
        Compare::mod_revision(names.of(place), CompareOp::Equal, revision)
    });
    let puts = unit.puts.iter().map(|(place, put)| {
        let name = names.of(place);
        match put {
            Put::Record(record) => TxnOp::put(name, record.encode(), None),
            Put::Floor(version) => TxnOp::put(name, encode_floor(*version), None),
            Put::Nothing => TxnOp::delete(name, None),
        }
    });
    Txn::new()
        .when(compares.collect::<Vec<_>>())
        .and_then(puts.collect::<Vec<_>>())
        .or_else(gets(names, &keys_of(unit)))
}

/// How many operations the transaction of a unit has, whatever becomes of it.
pub(super) fn operations_of(unit: &Unit) -> usize {
    unit.puts.len().max(2 * unit.compares.len())
}

/// Roughly how many bytes a unit has.
pub(super) fn bytes_of(unit: &Unit) -> usize {
    let bytes = unit.puts.iter().map(|(place, put)| {
        let key = match place {
            Place::Entry(key) => 3 * key.len(),
            Place::Floor(_) => 0,
        };
        let value = match put {
            Put::Record(record) => record.encode().len(),
            Put::Floor(_) | Put::Nothing => 16,
        };
        200 + key + value
    });
    bytes.sum()
}

pub(super) fn is_too_large(unit: &Unit) -> bool {
    bytes_of(unit) > MAX_RECORD_BYTES
}

/// Commits several units, each by itself.
pub(super) async fn commit(
    mut kv: KvClient,
    names: Arc<Names>,
    asked: Vec<(AskId, Unit)>,
    tell: UnboundedSender<News>,
) {
    let mut units: Vec<_> = asked.iter().map(|(_, unit)| txn_of(&names, unit)).collect();
    let is_alone = units.len() == 1;
    let txn = if is_alone {
        units.remove(0)
    } else {
        let nested: Vec<_> = units.into_iter().map(TxnOp::txn).collect();
        Txn::new().and_then(nested)
    };
    let response = match timeout(REQUEST_TIMEOUT, kv.txn(txn)).await {
        Ok(Ok(response)) => response,
        result => {
            let error = result.ok().and_then(Result::err);
            tracing::debug!(?error, "etcd did not answer a commit");
            let verdict = error.as_ref().map_or(Verdict::Unclear, verdict_of_error);
            for (ask, _) in asked {
                let _ = tell.send(News::Committed(ask, verdict.clone()));
            }
            return;
        }
    };
    let at = response.header().map_or(0, ResponseHeader::revision);
    let at = Revision(u64::try_from(at).unwrap_or_default());
    let mut nested = if is_alone {
        vec![response]
    } else {
        let responses = response.op_responses().into_iter();
        let nested = responses.filter_map(|response| match response {
            TxnOpResponse::Txn(response) => Some(response),
            _ => None,
        });
        nested.collect()
    }
    .into_iter();
    for (ask, _) in asked {
        let verdict = nested
            .next()
            .map_or(Verdict::Unclear, |it| verdict_of(&it, at));
        let _ = tell.send(News::Committed(ask, verdict));
    }
}

fn verdict_of(response: &TxnResponse, at: Revision) -> Verdict {
    if response.succeeded() {
        return Verdict::Done(at);
    }
    match all_seen(&response.op_responses()) {
        Ok(seen) => Verdict::Refused(seen),
        Err(error) => Verdict::Failed(error),
    }
}

/// Only few errors say that something was certainly not done.
fn verdict_of_error(error: &Error) -> Verdict {
    let Error::GRpcStatus(status) = error else {
        return Verdict::Unclear;
    };
    let message = status.message();
    if message.contains("database space exceeded") {
        Verdict::Failed(EngineError::Full)
    } else if message.contains("request is too large") {
        Verdict::Failed(EngineError::TooLarge)
    } else {
        Verdict::Unclear
    }
}
