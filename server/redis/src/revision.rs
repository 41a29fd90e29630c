//! The current revision of Redis.
use super::connection::Session;
use super::key_names::number;
use super::transactions::{ConnectionStatus, foreign_data, is_same_history, query};
use ::redis::Value;
use ::redis::aio::MultiplexedConnection;
use statestored_shared::{EngineError, EngineEvent, EngineRequestId, Revision};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// Reports the last revision to all requests, if it belongs to the history of the session.
pub(super) async fn report(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    ids: Vec<EngineRequestId>,
    events: UnboundedSender<EngineEvent>,
) -> ConnectionStatus {
    let names = &session.names;
    let mut commands = ::redis::pipe();
    commands.cmd("GET").arg(names.counter());
    commands.cmd("HGET").arg(names.manifest()).arg("history");
    let (found, status) = match query(&mut connection, &session, commands).await {
        Ok(answers) => decode(&answers, &session),
        Err(status) => (Err(None), status),
    };
    for id in ids {
        // The receiver may be gone.
        let _ = events.send(EngineEvent::Revision(id, found.clone()));
    }
    status
}

fn decode(
    answers: &[Value],
    session: &Session,
) -> (Result<Revision, Option<EngineError>>, ConnectionStatus) {
    let [counter, history] = answers else {
        return (Err(None), ConnectionStatus::Usable);
    };
    if !is_same_history(history, session) {
        return (Err(None), ConnectionStatus::Lost);
    }
    let found = match counter {
        Value::BulkString(counter) => match number(counter) {
            Some(at) => Ok(Revision(at)),
            None => Err(Some(foreign_data("the counter is not a number"))),
        },
        Value::Nil => Err(Some(foreign_data("there is no counter: data was lost"))),
        // The key moves to another member of a cluster, or Redis is loading.
        _ => Err(None),
    };
    (found, ConnectionStatus::Usable)
}
