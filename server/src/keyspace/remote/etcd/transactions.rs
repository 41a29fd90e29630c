//! Reads and commits as etcd's transactions.
use super::connecting::is_unsent;
use super::habit::Habit;
use super::leases::Leases;
use super::limits::{is_refused_as_too_much, says_too_much};
use super::members::Members;
use super::names::{Names, decode_floor, encode_floor};
use super::ranges::is_late;
use super::store::Store;
use super::{MAX_MESSAGE_BYTES, REQUEST_TIMEOUT};
use crate::keyspace::remote::portion::Portion;
use crate::keyspace::remote::thread::Question;
use crate::keyspace::remote::{
    AskId, EngineError, News, Place, Put, Record, Revision, Seen, UNKNOWN_FLOOR, Unit, Verdict,
    bucket_of,
};
use bytes::Bytes;
use etcd_client::{
    Client, Compare, CompareOp, Error, GetResponse, KeyValue, KvClient, PutOptions, ResponseHeader,
    Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Maximum number of operations along a path of nested transactions; etcd accepts 128.
pub(super) const MOST_OPERATIONS: usize = 120;

/// Maximum size of a record in bytes: etcd accepts requests of 1.5 MiB by default.
pub(super) const MAX_RECORD_BYTES: usize = 1_400_000;

/// Returns a client that accepts answers of up to [`MAX_MESSAGE_BYTES`]. The limit of requests is that of etcd.
pub(super) fn kv(client: &Client) -> KvClient {
    client
        .kv_client()
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
}

/// Sends a transaction to one member.
async fn txn(members: &Members, txn: Txn) -> Result<TxnResponse, Error> {
    members
        .ask(|client| async move { kv(&client).txn(txn).await })
        .await
}

fn get(names: &Names, key: &Bytes) -> TxnOp {
    TxnOp::get(names.entry(bucket_of(key), key), None)
}

fn gets(names: &Names, keys: &[Bytes]) -> Vec<TxnOp> {
    let gets = keys.iter().flat_map(|key| {
        let floor = TxnOp::get(names.floor(bucket_of(key)), None);
        [get(names, key), floor]
    });
    gets.collect()
}

/// Returns the operations that read the keys of a question.
fn gets_for(names: &Names, question: &Question) -> Vec<TxnOp> {
    if question.has_floors {
        return gets(names, &question.keys);
    }
    question.keys.iter().map(|key| get(names, key)).collect()
}

/// Returns the number of these operations.
pub(super) fn gets_of(question: &Question) -> usize {
    question.keys.len() * if question.has_floors { 2 } else { 1 }
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

/// Decodes the result of a [get].
fn found(entry: &GetResponse) -> Result<Option<(Record, Revision)>, EngineError> {
    let found = entry.kvs().first();
    found
        .map(|found| Ok((record_of(found)?, revision_of(found))))
        .transpose()
}

/// Decodes the results of a pair of [gets].
fn seen(entry: &GetResponse, floor: &GetResponse) -> Result<Seen, EngineError> {
    let floor = floor.kvs().first();
    let floor = floor.ok_or_else(|| foreign("a floor is missing: data was lost"))?;
    let version = decode_floor(floor.value()).ok_or_else(|| foreign("a floor is no version"))?;
    Ok(Seen {
        record: found(entry)?,
        floor: (version, revision_of(floor)),
    })
}

/// Decodes the results of a question.
fn answered(question: &Question, responses: &[TxnOpResponse]) -> Result<Vec<Seen>, EngineError> {
    if question.has_floors {
        return all_seen(responses);
    }
    let entries = responses.iter().map(|response| match response {
        TxnOpResponse::Get(entry) => Ok(Seen {
            record: found(entry)?,
            floor: UNKNOWN_FLOOR,
        }),
        _ => Err(foreign("an answer to something else")),
    });
    entries.collect()
}

/// Decodes the results of [gets].
fn all_seen(responses: &[TxnOpResponse]) -> Result<Vec<Seen>, EngineError> {
    let pairs = responses.as_chunks::<2>().0.iter().map(|pair| match pair {
        [TxnOpResponse::Get(entry), TxnOpResponse::Get(floor)] => seen(entry, floor),
        _ => Err(foreign("an answer to something else")),
    });
    pairs.collect()
}

/// Reads the keys of some questions, all at one moment.
pub(super) async fn read(
    members: Arc<Members>,
    store: Arc<Store>,
    asked: Vec<Question>,
    portion: Arc<Portion>,
    tell: UnboundedSender<News>,
) {
    let responses = ask_for(&members, &store, &asked, &portion).await;
    let mut rest = responses.as_deref().unwrap_or_default();
    for question in asked {
        let found = match (&responses, rest.split_at_checked(gets_of(&question))) {
            (Err(error), _) => Err(error.clone()),
            (Ok(_), Some((own, behind))) => {
                rest = behind;
                answered(&question, own).map_err(Some)
            }
            (Ok(_), None) => Err(None),
        };
        // The receiver may be gone.
        let _ = tell.send(News::Read(question.ask, found));
    }
}

/// Returns the answers to [`gets_for`] all of these questions. If there are none, the error is `None`.
async fn ask_for(
    members: &Members,
    store: &Store,
    asked: &[Question],
    portion: &Portion,
) -> Result<Vec<TxnOpResponse>, Option<EngineError>> {
    store.check()?;
    let all: Vec<_> = asked
        .iter()
        .flat_map(|question| gets_for(store.names(), question))
        .collect();
    let count = all.len();
    let latest = store.latest();
    let begun = Instant::now();
    let error = match txn(members, store.only_here(all)).await {
        Ok(response) => {
            portion.came(count, begun.elapsed());
            return Ok(store.answers(&response, latest)?);
        }
        Err(error) => error,
    };
    tracing::debug!(%error, "etcd did not answer a read");
    if says_too_much(&error) || is_late(&error) {
        portion.was_too_much(count);
    }
    Err(None)
}

/// Returns the keys that a unit compares, in their order.
fn keys_of(unit: &Unit) -> Vec<Bytes> {
    let keys = unit.compares.iter().filter_map(|(place, _)| match place {
        Place::Entry(key) => Some(key.clone()),
        Place::Floor(_) | Place::Answer(_) => None,
    });
    keys.collect()
}

/// Returns the changes of a unit. An answer is put under this lease.
fn puts_of(names: &Names, unit: &Unit, lease: i64) -> impl Iterator<Item = TxnOp> {
    unit.puts.iter().map(move |(place, put)| {
        let name = names.of(place);
        match put {
            Put::Record(record) => TxnOp::put(name, record.encode(), None),
            Put::Floor(version) => TxnOp::put(name, encode_floor(*version), None),
            Put::Answer(answer) => {
                let options = PutOptions::new().with_lease(lease);
                TxnOp::put(name, answer.to_vec(), Some(options))
            }
            Put::Nothing => TxnOp::delete(name, None),
        }
    })
}

fn compares_of(names: &Names, unit: &Unit) -> impl Iterator<Item = Compare> {
    unit.compares.iter().map(|(place, revision)| {
        let revision = i64::try_from(revision.0).unwrap_or(i64::MAX);
        Compare::mod_revision(names.of(place), CompareOp::Equal, revision)
    })
}

fn txn_of(names: &Names, unit: &Unit, lease: i64) -> Txn {
    comparing(names, unit, puts_of(names, unit, lease).collect())
}

/// Returns a transaction that makes all of these units or none. It costs etcd a fraction of separate transactions.
fn as_one(names: &Names, units: &[Arc<Unit>], lease: i64) -> Txn {
    let compares = units.iter().flat_map(|unit| compares_of(names, unit));
    let puts = units.iter().flat_map(|unit| puts_of(names, unit, lease));
    Txn::new()
        .when(compares.collect::<Vec<_>>())
        .and_then(puts.collect::<Vec<_>>())
}

/// Returns whether units can be made as one: there is more than one, and etcd accepts the number of their comparisons and changes.
fn fits_as_one(units: &[Arc<Unit>]) -> bool {
    let compares: usize = units.iter().map(|unit| unit.compares.len()).sum();
    let puts: usize = units.iter().map(|unit| unit.puts.len()).sum();
    units.len() > 1 && compares.max(1 + puts) <= MOST_OPERATIONS
}

/// Returns a transaction that does the operations if the comparisons of the unit hold.
fn comparing(names: &Names, unit: &Unit, operations: Vec<TxnOp>) -> Txn {
    let compares = compares_of(names, unit);
    let mut otherwise = gets(names, &keys_of(unit));
    otherwise.extend(unit.request().map(|request| {
        let name = names.of(&Place::Answer(request));
        TxnOp::get(name, None)
    }));
    Txn::new()
        .when(compares.collect::<Vec<_>>())
        .and_then(operations)
        .or_else(otherwise)
}

/// Returns the maximum number of operations in the transaction of a unit, whatever its outcome.
pub(super) fn operations_of(unit: &Unit) -> usize {
    unit.puts.len().max(2 * unit.compares.len())
}

/// Returns the approximate size of a unit in bytes.
pub(super) fn bytes_of(unit: &Unit) -> usize {
    let bytes = unit.puts.iter().map(|(place, put)| {
        let key = match place {
            Place::Entry(key) => 3 * key.len(),
            Place::Floor(_) | Place::Answer(_) => 0,
        };
        let value = match put {
            Put::Record(record) => record.encoded_len(),
            Put::Answer(answer) => answer.len(),
            Put::Floor(_) | Put::Nothing => 16,
        };
        200 + key + value
    });
    bytes.sum()
}

pub(super) fn is_too_large(unit: &Unit) -> bool {
    bytes_of(unit) > MAX_RECORD_BYTES
}

/// Commits several units, each independently of the others.
pub(super) async fn commit(
    members: Arc<Members>,
    store: Arc<Store>,
    leases: Leases,
    asked: Vec<(AskId, Arc<Unit>)>,
    habit: Arc<Habit>,
    tell: UnboundedSender<News>,
) {
    let (mut asks, units): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    let mut rest = &units[..];
    let mut many = rest.len();
    while !rest.is_empty() {
        let some = &rest[..many.min(rest.len())];
        let begun = Instant::now();
        let verdicts = commit_all(&members, &store, &leases, some, &habit).await;
        match verdicts {
            // No part of it was made, and a smaller group may be accepted.
            Err(Verdict::Failed(EngineError::TooMuch)) if some.len() > 1 => {
                many = some.len() / 2;
                habit.portion.was_too_much(some.len());
                continue;
            }
            // The commits will be sent again.
            Err(Verdict::Unclear) if begun.elapsed() >= REQUEST_TIMEOUT => {
                habit.portion.was_too_much(some.len());
            }
            Err(_) => {}
            Ok(_) => habit.portion.came(some.len(), begun.elapsed()),
        }
        let mut verdicts = verdicts.map(Vec::into_iter);
        for ask in asks.drain(..some.len()) {
            let verdict = match &mut verdicts {
                Ok(verdicts) => verdicts.next().unwrap_or(Verdict::Unclear),
                Err(verdict) => verdict.clone(),
            };
            let _ = tell.send(News::Committed(ask, verdict));
        }
        rest = &rest[some.len()..];
    }
}

/// Commits a group. Returns a verdict for each unit, or one for all.
async fn commit_all(
    members: &Members,
    store: &Store,
    leases: &Leases,
    units: &[Arc<Unit>],
    habit: &Habit,
) -> Result<Vec<Verdict>, Verdict> {
    store.check().map_err(Verdict::Failed)?;
    let lease = if units.iter().any(|unit| unit.request().is_some()) {
        let lease = leases.current().await;
        // No commit was sent so far.
        lease.map_err(|error| match verdict_of_error(&error) {
            Verdict::Unclear => Verdict::Unsent,
            verdict => verdict,
        })?
    } else {
        0
    };
    let latest = store.latest();
    if fits_as_one(units) && habit.is_as_one() {
        let txn = TxnOp::txn(as_one(store.names(), units, lease));
        let txn = store.written_only_here(vec![txn]);
        let response = match make(members, leases, lease, txn).await {
            Ok(response) => response,
            Err(Unmade::Full) => return without_room(members, store, units).await,
            Err(Unmade::Is(verdict)) => return Err(verdict),
        };
        let verdicts = verdicts_of(store, &response, latest)?;
        match &verdicts[..] {
            [Verdict::Done(at)] => return Ok(vec![Verdict::Done(*at); units.len()]),
            [Verdict::Refused(_)] => habit.refused(),
            _ => return Err(Verdict::Unclear),
        }
    }
    let nested = units
        .iter()
        .map(|unit| TxnOp::txn(txn_of(store.names(), unit, lease)));
    let txn = store.written_only_here(nested.collect());
    match make(members, leases, lease, txn).await {
        Ok(response) => verdicts_of(store, &response, latest),
        Err(Unmade::Full) => without_room(members, store, units).await,
        Err(Unmade::Is(verdict)) => Err(verdict),
    }
}

/// The reason why a transaction that writes has no answer.
enum Unmade {
    Full,
    /// The verdict on all units in it.
    Is(Verdict),
}

async fn make(
    members: &Members,
    leases: &Leases,
    lease: i64,
    txn: Txn,
) -> Result<TxnResponse, Unmade> {
    let error = match self::txn(members, txn).await {
        Ok(response) => return Ok(response),
        Err(error) if is_full(&error) => return Err(Unmade::Full),
        Err(error) => error,
    };
    tracing::debug!(?error, "etcd did not answer a commit");
    let is_lease_gone = matches!(
        &error,
        Error::GRpcStatus(status) if status.message().contains("requested lease not found")
    );
    if is_lease_gone {
        leases.forget(lease).await;
    }
    Err(Unmade::Is(verdict_of_error(&error)))
}

/// Returns the verdicts on units for which etcd has no room.
///
/// etcd checks for room before it puts a transaction into its log, and again when it applies the transaction. If room is missing only at
/// the second check, etcd applies the transaction and still reports a failure. Reads continue to work, and show which of the two happened.
async fn without_room(
    members: &Members,
    store: &Store,
    units: &[Arc<Unit>],
) -> Result<Vec<Verdict>, Verdict> {
    let nested = units
        .iter()
        .map(|unit| TxnOp::txn(comparing(store.names(), unit, Vec::new())));
    let latest = store.latest();
    let asked = txn(members, store.only_here(nested.collect()));
    let Ok(response) = asked.await else {
        return Err(Verdict::Unclear);
    };
    let found = verdicts_of(store, &response, latest)?.into_iter();
    let verdicts = found.zip(units).map(|(verdict, unit)| match verdict {
        // All comparisons still hold.
        Verdict::Done(_) => Verdict::Failed(EngineError::Full),
        Verdict::Refused(seen) => made_at(unit, &seen).map_or(Verdict::Unclear, Verdict::Done),
        verdict => verdict,
    });
    Ok(verdicts.collect())
}

/// Returns the revision of the record that this unit has put, if the states contain it.
fn made_at(unit: &Unit, seen: &[Seen]) -> Option<Revision> {
    let own = unit.puts.iter().find_map(|(_, put)| match put {
        Put::Record(record) => Some(record.write),
        Put::Floor(_) | Put::Answer(_) | Put::Nothing => None,
    })?;
    let records = seen.iter().filter_map(|seen| seen.record.as_ref());
    let mut revisions = records.filter_map(|(record, at)| (record.write == own).then_some(*at));
    revisions.next()
}

/// Returns a verdict for each unit of a transaction.
fn verdicts_of(
    store: &Store,
    response: &TxnResponse,
    latest: i64,
) -> Result<Vec<Verdict>, Verdict> {
    let answers = store.answers(response, latest).map_err(Verdict::Failed)?;
    let at = response.header().map_or(0, ResponseHeader::revision);
    let at = Revision(u64::try_from(at).unwrap_or_default());
    let verdicts = answers.iter().map(|answer| match answer {
        TxnOpResponse::Txn(response) => verdict_of(response, at),
        _ => Verdict::Unclear,
    });
    Ok(verdicts.collect())
}

fn verdict_of(response: &TxnResponse, at: Revision) -> Verdict {
    if response.succeeded() {
        return Verdict::Done(at);
    }
    let mut responses = response.op_responses();
    // A response without a partner is the answer to the request.
    if responses.len() % 2 == 1
        && let Some(TxnOpResponse::Get(found)) = responses.pop()
        && let Some(answer) = found.kvs().first()
    {
        return Verdict::Answered(Bytes::copy_from_slice(answer.value()));
    }
    match all_seen(&responses) {
        Ok(seen) => Verdict::Refused(seen),
        Err(error) => Verdict::Failed(error),
    }
}

pub(super) fn is_full(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("database space exceeded"))
}

/// Returns the verdict of an error. Few errors mean that the commit was certainly not made.
fn verdict_of_error(error: &Error) -> Verdict {
    if is_full(error) {
        return Verdict::Failed(EngineError::Full);
    }
    if is_refused_as_too_much(error) {
        Verdict::Failed(EngineError::TooMuch)
    } else if is_unsent(error) {
        Verdict::Unsent
    } else {
        Verdict::Unclear
    }
}
