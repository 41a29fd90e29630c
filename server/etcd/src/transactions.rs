//! Reads and commits as etcd's transactions.
use super::REQUEST_TIMEOUT;
use super::commit_grouping::CommitGrouping;
use super::connection::{is_timed_out, is_unsent, kv};
use super::key_names::{KeyNames, decode_floor, encode_floor};
use super::limits::{
    MAX_OPERATIONS, MAX_RECORD_BYTES, is_full, is_message_too_large, is_request_too_large,
};
use super::members::Members;
use super::reply_lease::ReplyLease;
use super::store::Store;
use bytes::Bytes;
use etcd_client::{
    Compare, CompareOp, Error, GetResponse, KeyValue, PutOptions, ResponseHeader, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_link::thread_link::ReadRequest;
use statestored_shared::{
    CommitOutcome, EngineCommit, EngineError, EngineEvent, EngineKey, EngineRequestId, EngineValue,
    KeyState, Record, Revision, UNKNOWN_FLOOR, bucket_of,
};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// Sends a transaction to one member.
pub(super) async fn txn(members: &Members, txn: Txn) -> Result<TxnResponse, Error> {
    members
        .request(|client| async move { kv(&client).txn(txn).await })
        .await
}

fn read_record(names: &KeyNames, key: &Bytes) -> TxnOp {
    TxnOp::get(names.entry(bucket_of(key), key), None)
}

fn read_keys(names: &KeyNames, keys: &[Bytes]) -> Vec<TxnOp> {
    let gets = keys.iter().flat_map(|key| {
        let floor = TxnOp::get(names.floor(bucket_of(key)), None);
        [read_record(names, key), floor]
    });
    gets.collect()
}

/// Returns the operations that read the keys of a request.
fn read_operations(names: &KeyNames, request: &ReadRequest) -> Vec<TxnOp> {
    if request.has_floors {
        return read_keys(names, &request.keys);
    }
    request
        .keys
        .iter()
        .map(|key| read_record(names, key))
        .collect()
}

/// Returns the number of these operations.
pub(super) fn read_operation_count(request: &ReadRequest) -> usize {
    request.keys.len() * if request.has_floors { 2 } else { 1 }
}

fn foreign_data(what: impl std::fmt::Display) -> EngineError {
    EngineError::Foreign(what.to_string())
}

pub(super) fn decode_revision(found: &KeyValue) -> Revision {
    Revision(u64::try_from(found.mod_revision()).unwrap_or_default())
}

pub(super) fn decode_record(found: &KeyValue) -> Result<Record, EngineError> {
    Record::decode(Bytes::copy_from_slice(found.value())).map_err(foreign_data)
}

/// Decodes the result of a get.
fn decode_entry(entry: &GetResponse) -> Result<Option<(Record, Revision)>, EngineError> {
    let found = entry.kvs().first();
    found
        .map(|found| Ok((decode_record(found)?, decode_revision(found))))
        .transpose()
}

/// Decodes the results of a pair of gets.
fn decode_state(entry: &GetResponse, floor: &GetResponse) -> Result<KeyState, EngineError> {
    let floor = floor.kvs().first();
    let floor = floor.ok_or_else(|| foreign_data("a floor is missing: data was lost"))?;
    let version =
        decode_floor(floor.value()).ok_or_else(|| foreign_data("a floor is not a version"))?;
    Ok(KeyState {
        record: decode_entry(entry)?,
        floor: (version, decode_revision(floor)),
    })
}

/// Decodes the results of a request.
fn decode_answer(
    request: &ReadRequest,
    responses: &[TxnOpResponse],
) -> Result<Vec<KeyState>, EngineError> {
    if request.has_floors {
        return decode_states(responses);
    }
    responses.iter().map(decode_record_state).collect()
}

/// Decodes the result of a get of a record without its floor.
pub(super) fn decode_record_state(response: &TxnOpResponse) -> Result<KeyState, EngineError> {
    match response {
        TxnOpResponse::Get(entry) => Ok(KeyState {
            record: decode_entry(entry)?,
            floor: UNKNOWN_FLOOR,
        }),
        _ => Err(foreign_data("an answer to something else")),
    }
}

/// Decodes the results of gets.
fn decode_states(responses: &[TxnOpResponse]) -> Result<Vec<KeyState>, EngineError> {
    let pairs = responses.as_chunks::<2>().0.iter().map(|pair| match pair {
        [TxnOpResponse::Get(entry), TxnOpResponse::Get(floor)] => decode_state(entry, floor),
        _ => Err(foreign_data("an answer to something else")),
    });
    pairs.collect()
}

/// Reads the keys of some requests, all at one moment.
pub(super) async fn read(
    members: Arc<Members>,
    store: Arc<Store>,
    requests: Vec<ReadRequest>,
    batch_size: Arc<AdaptiveBatchSize>,
    events: UnboundedSender<EngineEvent>,
) {
    let responses = send_reads(&members, &store, &requests, &batch_size).await;
    let mut rest = responses.as_deref().unwrap_or_default();
    for request in requests {
        let found = match (
            &responses,
            rest.split_at_checked(read_operation_count(&request)),
        ) {
            (Err(error), _) => Err(error.clone()),
            (Ok(_), Some((own, behind))) => {
                rest = behind;
                decode_answer(&request, own).map_err(Some)
            }
            (Ok(_), None) => Err(None),
        };
        // The receiver may be gone.
        let _ = events.send(EngineEvent::Read(request.id, found));
    }
}

/// Returns the answers to the [`read_operations`] of all these requests. If there are none, the error is `None`.
async fn send_reads(
    members: &Members,
    store: &Store,
    requests: &[ReadRequest],
    batch_size: &AdaptiveBatchSize,
) -> Result<Vec<TxnOpResponse>, Option<EngineError>> {
    store.check()?;
    let all: Vec<_> = requests
        .iter()
        .flat_map(|request| read_operations(store.names(), request))
        .collect();
    let count = all.len();
    let latest = store.latest();
    let begun = Instant::now();
    let error = match txn(members, store.guarded_read(all)).await {
        Ok(response) => {
            batch_size.answered(count, begun.elapsed());
            return Ok(store.check_responses(&response, latest)?);
        }
        Err(error) => error,
    };
    tracing::debug!(%error, "etcd did not answer a read");
    if is_message_too_large(&error) || is_timed_out(&error) {
        batch_size.too_large(count);
    }
    Err(None)
}

/// Returns the keys that a unit compares, in their order.
fn keys_of(unit: &EngineCommit) -> Vec<Bytes> {
    let keys = unit.compares.iter().filter_map(|(place, _)| match place {
        EngineKey::Entry(key) => Some(key.clone()),
        EngineKey::Floor(_) | EngineKey::Reply(_) => None,
    });
    keys.collect()
}

/// Returns the changes of a unit. An answer is put under this lease.
fn put_operations(
    names: &KeyNames,
    unit: &EngineCommit,
    lease: i64,
) -> impl Iterator<Item = TxnOp> {
    unit.puts.iter().map(move |(place, put)| {
        let name = names.engine_key(place);
        match put {
            EngineValue::Record(record) => TxnOp::put(name, record.encode(), None),
            EngineValue::Floor(version) => TxnOp::put(name, encode_floor(*version), None),
            EngineValue::Reply(answer) => {
                let options = PutOptions::new().with_lease(lease);
                TxnOp::put(name, answer.to_vec(), Some(options))
            }
            EngineValue::Absent => TxnOp::delete(name, None),
        }
    })
}

fn compare_operations(names: &KeyNames, unit: &EngineCommit) -> impl Iterator<Item = Compare> {
    unit.compares.iter().map(|(place, revision)| {
        let revision = i64::try_from(revision.0).unwrap_or(i64::MAX);
        Compare::mod_revision(names.engine_key(place), CompareOp::Equal, revision)
    })
}

fn txn_of(names: &KeyNames, unit: &EngineCommit, lease: i64) -> Txn {
    guarded_by_compares(names, unit, put_operations(names, unit, lease).collect())
}

/// Returns a transaction that makes all of these units or none. It costs etcd a fraction of separate transactions.
fn atomic_txn(names: &KeyNames, units: &[Arc<EngineCommit>], lease: i64) -> Txn {
    let compares = units
        .iter()
        .flat_map(|unit| compare_operations(names, unit));
    let puts = units
        .iter()
        .flat_map(|unit| put_operations(names, unit, lease));
    Txn::new()
        .when(compares.collect::<Vec<_>>())
        .and_then(puts.collect::<Vec<_>>())
}

/// Returns whether units can be made as one: there is more than one, and etcd accepts the number of their comparisons and changes.
fn fits_atomic_txn(units: &[Arc<EngineCommit>]) -> bool {
    let compares: usize = units.iter().map(|unit| unit.compares.len()).sum();
    let puts: usize = units.iter().map(|unit| unit.puts.len()).sum();
    units.len() > 1 && compares.max(1 + puts) <= MAX_OPERATIONS
}

/// Returns a transaction that does the operations if the comparisons of the unit hold.
fn guarded_by_compares(names: &KeyNames, unit: &EngineCommit, operations: Vec<TxnOp>) -> Txn {
    let compares = compare_operations(names, unit);
    let mut otherwise = read_keys(names, &keys_of(unit));
    otherwise.extend(unit.request().map(|request| {
        let name = names.engine_key(&EngineKey::Reply(request));
        TxnOp::get(name, None)
    }));
    Txn::new()
        .when(compares.collect::<Vec<_>>())
        .and_then(operations)
        .or_else(otherwise)
}

/// Returns the maximum number of operations in the transaction of a unit, whatever its outcome.
pub(super) fn operation_count(unit: &EngineCommit) -> usize {
    unit.puts.len().max(2 * unit.compares.len())
}

/// Returns the approximate size of a unit in bytes.
pub(super) fn approximate_bytes(unit: &EngineCommit) -> usize {
    let bytes = unit.puts.iter().map(|(place, put)| {
        let key = match place {
            EngineKey::Entry(key) => 3 * key.len(),
            EngineKey::Floor(_) | EngineKey::Reply(_) => 0,
        };
        let value = match put {
            EngineValue::Record(record) => record.encoded_len(),
            EngineValue::Reply(answer) => answer.len(),
            EngineValue::Floor(_) | EngineValue::Absent => 16,
        };
        200 + key + value
    });
    bytes.sum()
}

pub(super) fn is_too_large(unit: &EngineCommit) -> bool {
    approximate_bytes(unit) > MAX_RECORD_BYTES
}

/// Commits several units, each independently of the others.
pub(super) async fn commit(
    members: Arc<Members>,
    store: Arc<Store>,
    leases: ReplyLease,
    commits: Vec<(EngineRequestId, Arc<EngineCommit>)>,
    grouping: Arc<CommitGrouping>,
    events: UnboundedSender<EngineEvent>,
) {
    let (mut ids, units): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
    let mut rest = &units[..];
    let mut many = rest.len();
    while !rest.is_empty() {
        let some = &rest[..many.min(rest.len())];
        let begun = Instant::now();
        let verdicts = commit_all(&members, &store, &leases, some, &grouping).await;
        match verdicts {
            // No part of it was made, and a smaller group may be accepted.
            Err(CommitOutcome::Failed(EngineError::LimitExceeded)) if some.len() > 1 => {
                many = some.len() / 2;
                grouping.batch_size.too_large(some.len());
                continue;
            }
            // The commits will be sent again.
            Err(CommitOutcome::Unknown) if begun.elapsed() >= REQUEST_TIMEOUT => {
                grouping.batch_size.too_large(some.len());
            }
            Err(_) => {}
            Ok(_) => grouping.batch_size.answered(some.len(), begun.elapsed()),
        }
        let mut verdicts = verdicts.map(Vec::into_iter);
        for id in ids.drain(..some.len()) {
            let verdict = match &mut verdicts {
                Ok(verdicts) => verdicts.next().unwrap_or(CommitOutcome::Unknown),
                Err(verdict) => verdict.clone(),
            };
            let _ = events.send(EngineEvent::Committed(id, verdict));
        }
        rest = &rest[some.len()..];
    }
}

/// Commits a group. Returns a verdict for each unit, or one for all.
async fn commit_all(
    members: &Members,
    store: &Store,
    leases: &ReplyLease,
    units: &[Arc<EngineCommit>],
    grouping: &CommitGrouping,
) -> Result<Vec<CommitOutcome>, CommitOutcome> {
    store.check().map_err(CommitOutcome::Failed)?;
    let lease = if units.iter().any(|unit| unit.request().is_some()) {
        let lease = leases.current().await;
        // No commit was sent so far.
        lease.map_err(|error| match outcome_of_error(&error) {
            CommitOutcome::Unknown => CommitOutcome::NotSent,
            verdict => verdict,
        })?
    } else {
        0
    };
    let latest = store.latest();
    if fits_atomic_txn(units) && grouping.is_atomic() {
        let txn = TxnOp::txn(atomic_txn(store.names(), units, lease));
        let txn = store.guarded_write(vec![txn]);
        let response = match send_write(members, leases, lease, txn).await {
            Ok(response) => response,
            Err(CommitFailure::Full) => return outcomes_when_full(members, store, units).await,
            Err(CommitFailure::Outcome(verdict)) => return Err(verdict),
        };
        let verdicts = outcomes_of(store, &response, latest)?;
        match &verdicts[..] {
            [CommitOutcome::Committed(at)] => {
                return Ok(vec![CommitOutcome::Committed(*at); units.len()]);
            }
            [CommitOutcome::Conflict(_)] => grouping.conflicted(),
            _ => return Err(CommitOutcome::Unknown),
        }
    }
    let nested = units
        .iter()
        .map(|unit| TxnOp::txn(txn_of(store.names(), unit, lease)));
    let txn = store.guarded_write(nested.collect());
    match send_write(members, leases, lease, txn).await {
        Ok(response) => outcomes_of(store, &response, latest),
        Err(CommitFailure::Full) => outcomes_when_full(members, store, units).await,
        Err(CommitFailure::Outcome(verdict)) => Err(verdict),
    }
}

/// The reason why a transaction that writes has no answer.
enum CommitFailure {
    Full,
    /// The verdict on all units in it.
    Outcome(CommitOutcome),
}

async fn send_write(
    members: &Members,
    leases: &ReplyLease,
    lease: i64,
    txn: Txn,
) -> Result<TxnResponse, CommitFailure> {
    let error = match self::txn(members, txn).await {
        Ok(response) => return Ok(response),
        Err(error) if is_full(&error) => return Err(CommitFailure::Full),
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
    Err(CommitFailure::Outcome(outcome_of_error(&error)))
}

/// Returns the verdicts on units for which etcd has no room.
///
/// etcd checks for room before it puts a transaction into its log, and again when it applies the transaction. If room is missing only at
/// the second check, etcd applies the transaction and still reports a failure. Reads continue to work, and show which of the two happened.
async fn outcomes_when_full(
    members: &Members,
    store: &Store,
    units: &[Arc<EngineCommit>],
) -> Result<Vec<CommitOutcome>, CommitOutcome> {
    let nested = units
        .iter()
        .map(|unit| TxnOp::txn(guarded_by_compares(store.names(), unit, Vec::new())));
    let latest = store.latest();
    let request = txn(members, store.guarded_read(nested.collect()));
    let Ok(response) = request.await else {
        return Err(CommitOutcome::Unknown);
    };
    let found = outcomes_of(store, &response, latest)?.into_iter();
    let verdicts = found.zip(units).map(|(verdict, unit)| match verdict {
        // All comparisons still hold.
        CommitOutcome::Committed(_) => CommitOutcome::Failed(EngineError::Full),
        CommitOutcome::Conflict(seen) => {
            put_revision(unit, &seen).map_or(CommitOutcome::Unknown, CommitOutcome::Committed)
        }
        verdict => verdict,
    });
    Ok(verdicts.collect())
}

/// Returns the revision of the record that this unit has put, if the states contain it.
fn put_revision(unit: &EngineCommit, seen: &[KeyState]) -> Option<Revision> {
    let own = unit.puts.iter().find_map(|(_, put)| match put {
        EngineValue::Record(record) => Some(record.write),
        EngineValue::Floor(_) | EngineValue::Reply(_) | EngineValue::Absent => None,
    })?;
    let records = seen.iter().filter_map(|seen| seen.record.as_ref());
    let mut revisions = records.filter_map(|(record, at)| (record.write == own).then_some(*at));
    revisions.next()
}

/// Returns a verdict for each unit of a transaction.
fn outcomes_of(
    store: &Store,
    response: &TxnResponse,
    latest: i64,
) -> Result<Vec<CommitOutcome>, CommitOutcome> {
    let answers = store
        .check_responses(response, latest)
        .map_err(CommitOutcome::Failed)?;
    let at = response.header().map_or(0, ResponseHeader::revision);
    let at = Revision(u64::try_from(at).unwrap_or_default());
    let verdicts = answers.iter().map(|answer| match answer {
        TxnOpResponse::Txn(response) => outcome_of(response, at),
        _ => CommitOutcome::Unknown,
    });
    Ok(verdicts.collect())
}

fn outcome_of(response: &TxnResponse, at: Revision) -> CommitOutcome {
    if response.succeeded() {
        return CommitOutcome::Committed(at);
    }
    let mut responses = response.op_responses();
    // A response without a partner is the answer to the request.
    if responses.len() % 2 == 1
        && let Some(TxnOpResponse::Get(found)) = responses.pop()
        && let Some(answer) = found.kvs().first()
    {
        return CommitOutcome::AlreadyAnswered(Bytes::copy_from_slice(answer.value()));
    }
    match decode_states(&responses) {
        Ok(seen) => CommitOutcome::Conflict(seen),
        Err(error) => CommitOutcome::Failed(error),
    }
}

/// Returns the verdict of an error. Few errors mean that the commit was certainly not made.
fn outcome_of_error(error: &Error) -> CommitOutcome {
    if is_full(error) {
        return CommitOutcome::Failed(EngineError::Full);
    }
    if is_request_too_large(error) {
        CommitOutcome::Failed(EngineError::LimitExceeded)
    } else if is_unsent(error) {
        CommitOutcome::NotSent
    } else {
        CommitOutcome::Unknown
    }
}
