//! Reads, and commits as scripts.
use super::change_reporter::ChangeReporter;
use super::commits::{ScriptCommit, ScriptLayout};
use super::connection::Session;
use super::key_names::{decode_entry, decode_floor, number};
use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, RedisError, ServerError, Value};
use bytes::Bytes;
use statestored_link::adaptive_batch_size::AdaptiveBatchSize;
use statestored_link::thread_link::ReadRequest;
use statestored_shared::{
    CommitOutcome, EngineError, EngineEvent, EngineRequestId, KeyState, Keys, MAX_READ_BYTES,
    REPLY_LIFETIME, Record, Revision, UNKNOWN_FLOOR, bucket_of,
};
use statestored_store::keyspace::rules::Version;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

const CONFIRM: &str = include_str!("confirm.lua");

/// Time limit of the replicas' confirmation in milliseconds.
const CONFIRMATION_MS: u64 = 1_000;

/// Approximate sizes of a command that reads floors, and of each bucket in it.
const FLOORS_BYTES: usize = 64;
const BUCKET_BYTES: usize = 4;

/// Whether the connection can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionStatus {
    Usable,
    Lost,
}

pub(super) fn foreign_data(what: impl std::fmt::Display) -> EngineError {
    EngineError::Foreign(what.to_string())
}

/// Sends commands, and returns their answers. Fails if they are not known, or if too few replicas have the data.
pub(super) async fn query(
    connection: &mut MultiplexedConnection,
    session: &Session,
    mut commands: Pipeline,
) -> Result<Vec<Value>, ConnectionStatus> {
    add_confirmation(&mut commands, session);
    commands.ignore_errors();
    let count = commands.len();
    let answers: Vec<Value> = match connection.send_packed_commands(&commands, 0, count).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::debug!(%error, "redis did not answer");
            return Err(ConnectionStatus::Lost);
        }
    };
    check_confirmation(answers, session)
}

/// Returns whether enough replicas have the data read through this connection so far.
pub(super) async fn is_confirmed(
    connection: &mut MultiplexedConnection,
    session: &Session,
) -> Result<bool, RedisError> {
    let mut commands = Pipeline::new();
    add_confirmation(&mut commands, session);
    commands.ignore_errors();
    let count = commands.len();
    if count == 0 {
        return Ok(true);
    }
    let answers = connection.send_packed_commands(&commands, 0, count).await?;
    Ok(check_confirmation(answers, session).is_ok())
}

/// Adds commands for the replicas to confirm. `WAIT` counts only writes through the same connection.
pub(super) fn add_confirmation(commands: &mut Pipeline, session: &Session) {
    if session.replicas > 0 {
        let mark = commands.cmd("EVAL").arg(CONFIRM);
        mark.arg(1).arg(session.names.mark());
        let wait = commands.cmd("WAIT");
        wait.arg(session.replicas).arg(CONFIRMATION_MS);
    }
}

/// Returns the answers before the confirmation if enough replicas have the data.
pub(super) fn check_confirmation(
    mut answers: Vec<Value>,
    session: &Session,
) -> Result<Vec<Value>, ConnectionStatus> {
    if session.replicas > 0 {
        let replicas = answers.pop();
        answers.pop();
        let has_enough = match &replicas {
            Some(Value::Int(count)) => *count >= i64::from(session.replicas),
            _ => false,
        };
        if !has_enough {
            tracing::debug!(?replicas, "too few replicas of redis have it");
            let is_lost = answers.iter().chain(&replicas).any(ends_connection);
            return Err(if is_lost {
                ConnectionStatus::Lost
            } else {
                ConnectionStatus::Usable
            });
        }
    }
    if answers.iter().any(ends_connection) {
        return Err(ConnectionStatus::Lost);
    }
    Ok(answers)
}

/// Returns whether an answer requires another connection: the master has changed or has restarted.
pub(super) fn ends_connection(answer: &Value) -> bool {
    let Value::ServerError(error) = answer else {
        return false;
    };
    let codes = [
        "CLUSTERDOWN",
        "ELSEWHERE",
        "LOADING",
        "MASTERDOWN",
        "MOVED",
        "NOAUTH",
        "NOPERM",
        "NOSCRIPT",
        "READONLY",
    ];
    let ends = codes.contains(&error.code());
    if ends {
        tracing::debug!(?error, "the connection to redis must be renewed");
    }
    ends
}

/// Decodes an entry.
fn decode_record(entry: Value) -> Result<Option<(Record, Revision)>, EngineError> {
    match entry {
        Value::Nil => Ok(None),
        Value::BulkString(value) => decode_entry(value.into()).map(Some).map_err(foreign_data),
        other => Err(foreign_data(format_args!("an entry is {other:?}"))),
    }
}

fn decode_floor_reply(floor: &Value) -> Result<(Version, Revision), EngineError> {
    let floor = match floor {
        Value::BulkString(value) => decode_floor(value),
        Value::Nil => return Err(foreign_data("a floor is missing: data was lost")),
        _ => None,
    };
    floor.ok_or_else(|| foreign_data("a floor is not a version"))
}

fn decode_states(answers: &[Value]) -> Result<Vec<KeyState>, EngineError> {
    let (pairs, rest) = answers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(foreign_data("an answer to something else"));
    }
    let seen = pairs.iter().map(|[of_entry, of_floor]| {
        Ok(KeyState {
            record: decode_record(of_entry.clone())?,
            floor: decode_floor_reply(of_floor)?,
        })
    });
    seen.collect()
}

/// Adds commands that read single keys: first the necessary floors, then the entries, and at the end the history. If a tombstone is purged
/// in between, the purge raises a floor that was already read. A commit that takes the key for one that never existed is then refused.
fn add_reads(commands: &mut Pipeline, session: &Session, single: &[ReadRequest]) {
    let names = &session.names;
    let count = floors_of(single);
    if count > 0 {
        let with_floors = single.iter().filter(|request| request.has_floors);
        let mut floors = Cmd::with_capacity(2 + count, FLOORS_BYTES + count * BUCKET_BYTES);
        floors.arg("HMGET").arg(names.floors());
        for key in with_floors.flat_map(|request| &request.keys) {
            floors.arg(bucket_of(key));
        }
        commands.add_command(floors);
    }
    for key in single.iter().flat_map(|request| &request.keys) {
        let name = names.entries_of_bucket(bucket_of(key));
        let mut entry = Cmd::with_capacity(3, "HGET".len() + name.len() + key.len());
        entry.arg("HGET").arg(name).arg(&key[..]);
        commands.add_command(entry);
    }
    let history = commands.cmd("HGET").arg(names.manifest());
    history.arg("history");
}

/// Returns the number of requests that need a floor.
fn floors_of(single: &[ReadRequest]) -> usize {
    let wanting = single.iter().filter(|request| request.has_floors);
    wanting.count()
}

/// Adds the command that reads several keys at one moment. Leaves out the last ones if the records before them exceed `max_bytes`.
fn add_joint_read(
    commands: &mut Pipeline,
    session: &Session,
    requests: &[ReadRequest],
    max_bytes: Option<usize>,
) {
    let names = &session.names;
    let keys: Vec<&Bytes> = requests.iter().flat_map(|it| &it.keys).collect();
    let call = commands.cmd("EVALSHA").arg(&session.read);
    call.arg(2 + keys.len());
    call.arg(names.manifest()).arg(names.floors());
    for key in &keys {
        call.arg(names.entries_of_bucket(bucket_of(key)));
    }
    call.arg(&session.history);
    for key in &keys {
        call.arg(bucket_of(key));
    }
    for key in keys {
        call.arg(&key[..]);
    }
    if let Some(max_bytes) = max_bytes {
        call.arg(max_bytes);
    }
}

/// Returns the states of single keys from the answers to [`add_reads`], or nothing if they are not known.
fn decode_single_states(
    answers: Vec<Value>,
    session: &Session,
    single: &[ReadRequest],
) -> Result<Vec<Result<KeyState, Option<EngineError>>>, ConnectionStatus> {
    if single.is_empty() {
        return Ok(Vec::new());
    }
    let count = floors_of(single);
    let mut answers = answers.into_iter();
    let floors = match (count > 0).then(|| answers.next()) {
        None => Vec::new(),
        Some(Some(Value::Array(floors))) if floors.len() == count => floors,
        Some(_) => return Ok(Vec::new()),
    };
    let history = answers.next_back();
    if answers.len() != single.len() {
        return Ok(Vec::new());
    }
    if !history.is_some_and(|history| is_same_history(&history, session)) {
        return Err(ConnectionStatus::Lost);
    }
    let mut floors = floors.iter();
    let seen = answers.zip(single).map(|(found, request)| {
        let of_floor = if request.has_floors {
            floors.next()
        } else {
            None
        };
        if let Value::ServerError(error) = &found
            && error.code() != "WRONGTYPE"
        {
            // The key moves to another member of a cluster, or Redis is loading.
            return Err(None);
        }
        Ok(KeyState {
            record: decode_record(found).map_err(Some)?,
            floor: match of_floor {
                Some(of_floor) => decode_floor_reply(of_floor).map_err(Some)?,
                None => UNKNOWN_FLOOR,
            },
        })
    });
    Ok(seen.collect())
}

/// Reads the keys of some requests. Those of one request are read at one moment.
pub(super) async fn read(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    requests: Vec<ReadRequest>,
    batch_size: Arc<AdaptiveBatchSize>,
    events: UnboundedSender<EngineEvent>,
) -> ConnectionStatus {
    let keys = requests.iter().map(|request| request.keys.len()).sum();
    let (single, joint): (Vec<_>, Vec<_>) = requests
        .into_iter()
        .partition(|request| request.keys.len() == 1);
    let mut commands = Pipeline::with_capacity(single.len() + 3);
    if !single.is_empty() {
        add_reads(&mut commands, &session, &single);
    }
    let count = commands.len();
    if !joint.is_empty() {
        add_joint_read(&mut commands, &session, &joint, None);
    }
    let mut status = ConnectionStatus::Usable;
    let begun = Instant::now();
    let answers = query(&mut connection, &session, commands).await;
    batch_size.finished(keys, begun.elapsed());
    let answers = answers.unwrap_or_else(|lost| {
        status = lost;
        Vec::new()
    });
    let mut of_single = answers;
    let of_joint = of_single.split_off(count.min(of_single.len()));
    let found = decode_single_states(of_single, &session, &single).unwrap_or_else(|lost| {
        status = lost;
        Vec::new()
    });
    let mut found = found.into_iter();
    for request in single {
        let found = found.next().unwrap_or(Err(None)).map(|seen| vec![seen]);
        // The receiver may be gone.
        let _ = events.send(EngineEvent::Read(request.id, found));
    }
    let all = match &of_joint[..] {
        [Value::Array(all)] => &all[..],
        [] => &[],
        answer => {
            tracing::debug!(?answer, "redis did not answer a read");
            &[]
        }
    };
    let mut rest = all;
    for request in joint {
        let found = match rest.split_at_checked(2 * request.keys.len()) {
            Some((own, behind)) => {
                rest = behind;
                decode_states(own).map_err(Some)
            }
            None => Err(None),
        };
        let _ = events.send(EngineEvent::Read(request.id, found));
    }
    status
}

/// Reads the records of these keys at one moment. Leaves out the last ones if the records before them exceed [`MAX_READ_BYTES`].
pub(super) async fn read_records(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    (id, keys): (EngineRequestId, Keys),
    events: UnboundedSender<EngineEvent>,
) -> ConnectionStatus {
    let request = ReadRequest::with_floors(id, keys);
    let mut commands = Pipeline::new();
    add_joint_read(&mut commands, &session, &[request], Some(MAX_READ_BYTES));
    let (found, status) = match query(&mut connection, &session, commands).await {
        Ok(answers) => (decode_first_states(&answers), ConnectionStatus::Usable),
        Err(status) => (Err(None), status),
    };
    // The receiver may be gone.
    let _ = events.send(EngineEvent::Read(id, found));
    status
}

/// Returns the states in the only answer, at least one. If there is no such answer, the error is `None`.
fn decode_first_states(answers: &[Value]) -> Result<Vec<KeyState>, Option<EngineError>> {
    match answers {
        [Value::Array(found)] if !found.is_empty() => decode_states(found).map_err(Some),
        answer => {
            tracing::debug!(?answer, "redis did not answer a read");
            Err(None)
        }
    }
}

pub(super) fn is_same_history(history: &Value, session: &Session) -> bool {
    matches!(history, Value::BulkString(history) if history == session.history.as_bytes())
}

/// Commits several units, each independently of the others. The stream keeps this many items.
pub(super) async fn commit(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    group: Vec<ScriptCommit>,
    items: u64,
    reporter: Arc<ChangeReporter>,
    events: UnboundedSender<EngineEvent>,
) -> ConnectionStatus {
    let _under_way = reporter.begin_commit();
    let names = &session.names;
    let layout = ScriptLayout::of(&group);
    let mut call = ::redis::cmd("EVALSHA");
    call.arg(&session.commit).arg(4 + layout.names());
    call.arg(names.manifest()).arg(names.counter());
    call.arg(names.floors()).arg(names.stream());
    let (items, seconds) = (items.to_string(), REPLY_LIFETIME.as_secs().to_string());
    let head = [
        session.history.as_bytes(),
        items.as_bytes(),
        seconds.as_bytes(),
    ];
    layout.write_to(&mut call, names, head);
    let mut commands = ::redis::pipe();
    commands.add_command(call);
    let (answer, status) = match query(&mut connection, &session, commands).await {
        Ok(mut answers) => (answers.pop(), ConnectionStatus::Usable),
        Err(status) => (None, status),
    };
    let verdicts = outcomes_of(answer, &layout, &group);
    let ids: Vec<_> = group.iter().map(|commit| commit.request_id).collect();
    let is_made = |verdict: &CommitOutcome| matches!(verdict, CommitOutcome::Committed(_));
    let made = verdicts.iter().find_map(|verdict| match verdict {
        CommitOutcome::Committed(revision) => Some(*revision),
        _ => None,
    });
    if let Some(revision) = made {
        let changes = || {
            let made = group.into_iter().zip(&verdicts);
            let made = made.filter(|(_, verdict)| is_made(verdict));
            made.flat_map(|(commit, _)| commit.changes()).collect()
        };
        reporter.report_own(revision, changes, &events);
    }
    for (id, verdict) in ids.into_iter().zip(verdicts) {
        // The receiver may be gone.
        let _ = events.send(EngineEvent::Committed(id, verdict));
    }
    status
}

/// Returns the verdict on each unit of a group.
fn outcomes_of(
    answer: Option<Value>,
    layout: &ScriptLayout<'_>,
    group: &[ScriptCommit],
) -> Vec<CommitOutcome> {
    let unclear = || vec![CommitOutcome::Unknown; group.len()];
    match answer {
        Some(Value::BulkString(revision)) => match number(&revision) {
            Some(revision) => vec![CommitOutcome::Committed(Revision(revision)); group.len()],
            None => unclear(),
        },
        Some(Value::Array(outcomes)) => match layout.in_order(outcomes) {
            Some(outcomes) => {
                let outcomes = outcomes.iter().zip(group);
                let verdicts =
                    outcomes.map(|(outcome, commit)| outcome_of(outcome, &commit.compared));
                verdicts.collect()
            }
            None => unclear(),
        },
        Some(Value::ServerError(error)) => vec![outcome_of_error(&error); group.len()],
        _ => unclear(),
    }
}

fn outcome_of(outcome: &Value, compared: &[usize]) -> CommitOutcome {
    match outcome {
        Value::BulkString(revision) => match number(revision) {
            Some(revision) => CommitOutcome::Committed(Revision(revision)),
            None => CommitOutcome::Unknown,
        },
        Value::Array(found) => {
            if let [Value::BulkString(answer)] = &found[..] {
                return CommitOutcome::AlreadyAnswered(Bytes::copy_from_slice(answer));
            }
            let own: Option<Vec<_>> = compared
                .iter()
                .map(|entry| found.get(2 * entry..2 * entry + 2))
                .collect();
            match decode_states(&own.unwrap_or_default().concat()) {
                Ok(seen) => CommitOutcome::Conflict(seen),
                Err(error) => CommitOutcome::Failed(error),
            }
        }
        _ => CommitOutcome::Unknown,
    }
}

/// Returns the verdict of an error. Few errors mean that the commit was certainly not made.
fn outcome_of_error(error: &ServerError) -> CommitOutcome {
    tracing::debug!(?error, "redis refused a commit");
    if let Some(error) = unwritable_reason(error) {
        return CommitOutcome::Failed(error);
    }
    match error.code() {
        "WRONGTYPE" => CommitOutcome::Failed(foreign_data(
            error.details().unwrap_or("a place is of another type"),
        )),
        _ => CommitOutcome::Unknown,
    }
}

/// Returns why Redis accepts no changes. Redis reports it before a script has written anything.
pub(super) fn unwritable_reason(error: &ServerError) -> Option<EngineError> {
    match error.code() {
        // No memory, or no disk.
        "OOM" | "MISCONF" => Some(EngineError::Full),
        // Fewer than min-replicas-to-write.
        "NOREPLICAS" => Some(EngineError::Unreplicated),
        _ => None,
    }
}
