//! Reads as transactions, commits as scripts.
use super::connecting::Session;
use super::names::{decode_entry, decode_floor, encode_version, number};
use crate::keyspace::remote::{
    ANSWER_LIFETIME, AskId, EngineError, News, Place, Put, Revision, Seen, Unit, Verdict, bucket_of,
};
use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, ServerError, Value};
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

const CONFIRM: &str = include_str!("confirm.lua");

/// How long replicas are waited for.
const CONFIRMATION_MS: u64 = 1_000;

/// Whether the connection can be used any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    IsFine,
    IsLost,
}

pub(super) fn foreign(what: impl std::fmt::Display) -> EngineError {
    EngineError::Foreign(what.to_string())
}

/// Sends commands, and gives what each is answered; nothing if it is not known, or fewer replicas have it than have to.
async fn ask_for(
    connection: &mut MultiplexedConnection,
    session: &Session,
    mut commands: Pipeline,
) -> Result<Vec<Value>, Connection> {
    confirm(&mut commands, session);
    commands.ignore_errors();
    let count = commands.len();
    let answers: Vec<Value> = match connection.send_packed_commands(&commands, 0, count).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::debug!(%error, "redis did not answer");
            return Err(Connection::IsLost);
        }
    };
    confirmed(answers, session)
}

/// Adds what replicas have to confirm: that counts only for what was written through the same connection.
pub(super) fn confirm(commands: &mut Pipeline, session: &Session) {
    if session.replicas > 0 {
        let mark = commands.cmd("EVAL").arg(CONFIRM);
        mark.arg(1).arg(session.names.mark());
        let wait = commands.cmd("WAIT");
        wait.arg(session.replicas).arg(CONFIRMATION_MS);
    }
}

/// What was answered before that, if enough replicas have it.
pub(super) fn confirmed(
    mut answers: Vec<Value>,
    session: &Session,
) -> Result<Vec<Value>, Connection> {
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
                Connection::IsLost
            } else {
                Connection::IsFine
            });
        }
    }
    if answers.iter().any(ends_connection) {
        return Err(Connection::IsLost);
    }
    Ok(answers)
}

/// Whether an answer says that another connection has to be made: the master is another one by now, or has begun anew.
fn ends_connection(answer: &Value) -> bool {
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
        tracing::debug!(?error, "redis has to be connected to anew");
    }
    ends
}

/// What an entry and its floor hold.
fn seen(entry: &Value, floor: &Value) -> Result<Seen, EngineError> {
    let record = match entry {
        Value::Nil => None,
        Value::BulkString(value) => Some(decode_entry(value).map_err(foreign)?),
        other => return Err(foreign(format_args!("an entry is {other:?}"))),
    };
    let floor = match floor {
        Value::BulkString(value) => decode_floor(value),
        Value::Nil => return Err(foreign("a floor is missing: data was lost")),
        _ => None,
    };
    let floor = floor.ok_or_else(|| foreign("a floor is no version"))?;
    Ok(Seen { record, floor })
}

fn all_seen(answers: &[Value]) -> Result<Vec<Seen>, EngineError> {
    let (pairs, rest) = answers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(foreign("an answer to something else"));
    }
    pairs
        .iter()
        .map(|[entry, floor]| seen(entry, floor))
        .collect()
}

/// Reads what some questions are about, all at one moment.
pub(super) async fn read(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    asked: Vec<(AskId, Vec<Bytes>)>,
    tell: UnboundedSender<News>,
) -> Connection {
    let names = &session.names;
    let keys: Vec<&Bytes> = asked.iter().flat_map(|(_, keys)| keys).collect();
    let mut commands = ::redis::pipe();
    commands
        .cmd("EVALSHA")
        .arg(&session.read)
        .arg(2 + keys.len());
    commands.arg(names.manifest()).arg(names.floors());
    for key in &keys {
        commands.arg(names.entries(bucket_of(key)));
    }
    commands.arg(&session.history);
    for key in &keys {
        commands.arg(&key[..]).arg(bucket_of(key));
    }
    let count = 2 * keys.len();
    let answers = ask_for(&mut connection, &session, commands).await;
    let (all, then) = match answers.map(|mut answers| answers.pop()) {
        Ok(Some(Value::Array(all))) if all.len() == count => (Some(all), Connection::IsFine),
        Ok(answer) => {
            tracing::debug!(?answer, "redis did not answer a read");
            (None, Connection::IsFine)
        }
        Err(then) => (None, then),
    };
    let mut rest = all.as_deref().unwrap_or_default();
    for (ask, keys) in asked {
        let found = match rest.split_at_checked(2 * keys.len()) {
            Some((own, behind)) if all.is_some() => {
                rest = behind;
                all_seen(own).map_err(Some)
            }
            _ => Err(None),
        };
        // Nobody may listen any more.
        let _ = tell.send(News::Read(ask, found));
    }
    then
}

pub(super) fn is_here(history: &Value, session: &Session) -> bool {
    matches!(history, Value::BulkString(history) if history == session.history.as_bytes())
}

/// How the script is called that commits a unit.
fn call(unit: &Unit, session: &Session, items: u64) -> Cmd {
    let names = &session.names;
    // Each entry that is compared or changed, and what it has to be.
    let mut entries: Vec<(&Bytes, Option<Revision>)> = Vec::new();
    let mut floors: Vec<(u16, Revision)> = Vec::new();
    for (place, revision) in &unit.compares {
        match place {
            Place::Entry(key) => entries.push((key, Some(*revision))),
            Place::Floor(bucket) => floors.push((*bucket, *revision)),
            // It has to be absent.
            Place::Answer(_) => {}
        }
    }
    let mut records: Vec<(usize, Bytes)> = Vec::new();
    let mut versions: Vec<(u16, String)> = Vec::new();
    let mut answer: Option<(String, &Bytes)> = None;
    for (place, put) in &unit.puts {
        match (place, put) {
            (Place::Answer(request), Put::Answer(bytes)) => {
                answer = Some((names.answer(*request), bytes));
            }
            (Place::Entry(key), put) => {
                let known = entries.iter().position(|(other, _)| *other == key);
                let at = known.unwrap_or_else(|| {
                    entries.push((key, None));
                    entries.len() - 1
                });
                let record = match put {
                    Put::Record(record) => record.encode(),
                    Put::Floor(_) | Put::Answer(_) | Put::Nothing => Bytes::new(),
                };
                records.push((at + 1, record));
            }
            (Place::Floor(bucket), Put::Floor(version)) => {
                versions.push((*bucket, encode_version(*version)));
            }
            (Place::Floor(_) | Place::Answer(_), _) => {}
        }
    }
    let mut call = ::redis::cmd("EVALSHA");
    let places = entries.len() + usize::from(answer.is_some());
    call.arg(&session.commit).arg(4 + places);
    call.arg(names.manifest()).arg(names.counter());
    call.arg(names.floors()).arg(names.stream());
    for (key, _) in &entries {
        call.arg(names.entries(bucket_of(key)));
    }
    if let Some((name, _)) = &answer {
        call.arg(name);
    }
    call.arg(&session.history).arg(items);
    match answer {
        Some((_, bytes)) => call.arg(ANSWER_LIFETIME.as_secs()).arg(&bytes[..]),
        None => call.arg("").arg(""),
    };
    call.arg(entries.len());
    for (key, expected) in entries {
        call.arg(&key[..]).arg(bucket_of(key));
        match expected {
            Some(Revision(revision)) => call.arg(revision),
            None => call.arg(""),
        };
    }
    call.arg(floors.len());
    for (bucket, Revision(revision)) in floors {
        call.arg(bucket).arg(revision);
    }
    call.arg(records.len());
    for (at, record) in records {
        call.arg(at).arg(&record[..]);
    }
    call.arg(versions.len());
    for (bucket, version) in versions {
        call.arg(bucket).arg(version);
    }
    call
}

/// Commits several units, each by itself. The stream keeps so many items.
pub(super) async fn commit(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    asked: Vec<(AskId, Unit)>,
    items: u64,
    tell: UnboundedSender<News>,
) -> Connection {
    let mut commands = ::redis::pipe();
    for (_, unit) in &asked {
        commands.add_command(call(unit, &session, items));
    }
    let (mut answers, then) = match ask_for(&mut connection, &session, commands).await {
        Ok(answers) => (answers.into_iter(), Connection::IsFine),
        Err(then) => (Vec::new().into_iter(), then),
    };
    for (ask, unit) in asked {
        let verdict = answers
            .next()
            .map_or(Verdict::Unclear, |answer| verdict_of(&answer, &unit));
        let _ = tell.send(News::Committed(ask, verdict));
    }
    then
}

fn verdict_of(answer: &Value, unit: &Unit) -> Verdict {
    match answer {
        Value::BulkString(revision) => match number(revision) {
            Some(revision) => Verdict::Done(Revision(revision)),
            None => Verdict::Unclear,
        },
        Value::Array(found) => {
            if let [Value::BulkString(answer)] = &found[..] {
                return Verdict::Answered(Bytes::copy_from_slice(answer));
            }
            let keys = unit.compares.iter();
            let keys = keys.filter(|(place, _)| matches!(place, Place::Entry(_)));
            let own = found.get(..2 * keys.count()).unwrap_or_default();
            match all_seen(own) {
                Ok(seen) => Verdict::Refused(seen),
                Err(error) => Verdict::Failed(error),
            }
        }
        Value::ServerError(error) => verdict_of_error(error),
        _ => Verdict::Unclear,
    }
}

/// Only few errors say that something was certainly not done.
fn verdict_of_error(error: &ServerError) -> Verdict {
    tracing::debug!(?error, "redis refused a commit");
    match error.code() {
        // No memory, or no disk.
        "OOM" | "MISCONF" => Verdict::Failed(EngineError::Full),
        "WRONGTYPE" => Verdict::Failed(foreign(
            error.details().unwrap_or("a place is of another type"),
        )),
        _ => Verdict::Unclear,
    }
}
