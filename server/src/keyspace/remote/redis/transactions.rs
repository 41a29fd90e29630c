//! Reads, and commits as scripts.
use super::commits::{Commit, describe, names_of};
use super::connecting::Session;
use super::names::{decode_entry, decode_floor, number};
use crate::keyspace::remote::{
    ANSWER_LIFETIME, AskId, EngineError, News, Revision, Seen, Verdict, bucket_of,
};
use ::redis::aio::MultiplexedConnection;
use ::redis::{Pipeline, ServerError, Value};
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

type Question = (AskId, Vec<Bytes>);

/// Asks what single keys hold: first their floors, and at the end which history that was. Who purges a tombstone in between raises a floor
/// that has been read, so that a commit is refused which takes its key for one that was never there.
fn look(commands: &mut Pipeline, session: &Session, single: &[Question]) {
    let names = &session.names;
    let keys = single.iter().flat_map(|(_, keys)| keys);
    let floors = commands.cmd("HMGET").arg(names.floors());
    for key in keys.clone() {
        floors.arg(bucket_of(key));
    }
    for key in keys {
        let entry = commands.cmd("HGET").arg(names.entries(bucket_of(key)));
        entry.arg(&key[..]);
    }
    let history = commands.cmd("HGET").arg(names.manifest());
    history.arg("history");
}

/// Asks what several keys hold at one moment.
fn look_together(commands: &mut Pipeline, session: &Session, several: &[Question]) {
    let names = &session.names;
    let keys: Vec<&Bytes> = several.iter().flat_map(|(_, keys)| keys).collect();
    let call = commands.cmd("EVALSHA").arg(&session.read);
    call.arg(2 + keys.len());
    call.arg(names.manifest()).arg(names.floors());
    for key in &keys {
        call.arg(names.entries(bucket_of(key)));
    }
    call.arg(&session.history);
    for key in &keys {
        call.arg(bucket_of(key));
    }
    for key in keys {
        call.arg(&key[..]);
    }
}

/// What single keys hold, by the answers to [`look`]; nothing if that is not known.
fn seen_each(
    answers: &[Value],
    session: &Session,
    count: usize,
) -> Result<Vec<Result<Seen, Option<EngineError>>>, Connection> {
    let [Value::Array(floors), entries @ .., history] = answers else {
        return Ok(Vec::new());
    };
    if floors.len() != count || entries.len() != count {
        return Ok(Vec::new());
    }
    if !is_here(history, session) {
        return Err(Connection::IsLost);
    }
    let all = entries.iter().zip(floors);
    let seen = all.map(|(entry, floor)| match entry {
        // It moves to another member of a cluster, or is loaded.
        Value::ServerError(error) if error.code() != "WRONGTYPE" => Err(None),
        entry => seen(entry, floor).map_err(Some),
    });
    Ok(seen.collect())
}

/// Reads what some questions are about, that of each at one moment.
pub(super) async fn read(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    asked: Vec<Question>,
    tell: UnboundedSender<News>,
) -> Connection {
    let (single, several): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|(_, keys)| keys.len() == 1);
    let mut commands = ::redis::pipe();
    if !single.is_empty() {
        look(&mut commands, &session, &single);
    }
    let count = commands.len();
    if !several.is_empty() {
        look_together(&mut commands, &session, &several);
    }
    let mut then = Connection::IsFine;
    let answers = ask_for(&mut connection, &session, commands).await;
    let answers = answers.unwrap_or_else(|lost| {
        then = lost;
        Vec::new()
    });
    let (of_single, of_several) = answers.split_at_checked(count).unwrap_or_default();
    let found = seen_each(of_single, &session, single.len()).unwrap_or_else(|lost| {
        then = lost;
        Vec::new()
    });
    let mut found = found.into_iter();
    for (ask, _) in single {
        let found = found.next().unwrap_or(Err(None)).map(|seen| vec![seen]);
        // Nobody may listen any more.
        let _ = tell.send(News::Read(ask, found));
    }
    let all = match of_several {
        [Value::Array(all)] => &all[..],
        [] => &[],
        answer => {
            tracing::debug!(?answer, "redis did not answer a read");
            &[]
        }
    };
    let mut rest = all;
    for (ask, keys) in several {
        let found = match rest.split_at_checked(2 * keys.len()) {
            Some((own, behind)) => {
                rest = behind;
                all_seen(own).map_err(Some)
            }
            None => Err(None),
        };
        let _ = tell.send(News::Read(ask, found));
    }
    then
}

pub(super) fn is_here(history: &Value, session: &Session) -> bool {
    matches!(history, Value::BulkString(history) if history == session.history.as_bytes())
}

/// Commits several units, each by itself. The stream keeps so many items.
pub(super) async fn commit(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    group: Vec<Commit>,
    items: u64,
    tell: UnboundedSender<News>,
) -> Connection {
    let names = &session.names;
    let mut call = ::redis::cmd("EVALSHA");
    call.arg(&session.commit).arg(4 + names_of(&group));
    call.arg(names.manifest()).arg(names.counter());
    call.arg(names.floors()).arg(names.stream());
    let (items, seconds) = (items.to_string(), ANSWER_LIFETIME.as_secs().to_string());
    let head = [
        session.history.as_bytes(),
        items.as_bytes(),
        seconds.as_bytes(),
    ];
    describe(&mut call, &group, names, head);
    let mut commands = ::redis::pipe();
    commands.add_command(call);
    let (answer, then) = match ask_for(&mut connection, &session, commands).await {
        Ok(mut answers) => (answers.pop(), Connection::IsFine),
        Err(then) => (None, then),
    };
    let verdicts = verdicts_of(answer, &group);
    for (commit, verdict) in group.iter().zip(verdicts) {
        // Nobody may listen any more.
        let _ = tell.send(News::Committed(commit.ask, verdict));
    }
    then
}

/// What became of each unit of a group.
fn verdicts_of(answer: Option<Value>, group: &[Commit]) -> Vec<Verdict> {
    match answer {
        Some(Value::Array(outcomes)) if outcomes.len() == group.len() => {
            let outcomes = outcomes.iter().zip(group);
            let verdicts = outcomes.map(|(outcome, commit)| verdict_of(outcome, commit.compared));
            verdicts.collect()
        }
        Some(Value::ServerError(error)) => vec![verdict_of_error(&error); group.len()],
        _ => vec![Verdict::Unclear; group.len()],
    }
}

fn verdict_of(outcome: &Value, compared: usize) -> Verdict {
    match outcome {
        Value::BulkString(revision) => match number(revision) {
            Some(revision) => Verdict::Done(Revision(revision)),
            None => Verdict::Unclear,
        },
        Value::Array(found) => {
            if let [Value::BulkString(answer)] = &found[..] {
                return Verdict::Answered(Bytes::copy_from_slice(answer));
            }
            let own = found.get(..2 * compared).unwrap_or_default();
            match all_seen(own) {
                Ok(seen) => Verdict::Refused(seen),
                Err(error) => Verdict::Failed(error),
            }
        }
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
