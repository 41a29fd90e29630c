//! The current revision of Redis.
use super::connecting::Session;
use super::names::number;
use super::transactions::{Connection, ask_for, foreign, is_here};
use crate::keyspace::remote::{AskId, EngineError, News, Revision};
use ::redis::Value;
use ::redis::aio::MultiplexedConnection;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// Reports the last revision to all requests, if it belongs to the history of the session.
pub(super) async fn tell(
    mut connection: MultiplexedConnection,
    session: Arc<Session>,
    asked: Vec<AskId>,
    tell: UnboundedSender<News>,
) -> Connection {
    let names = &session.names;
    let mut commands = ::redis::pipe();
    commands.cmd("GET").arg(names.counter());
    commands.cmd("HGET").arg(names.manifest()).arg("history");
    let (found, then) = match ask_for(&mut connection, &session, commands).await {
        Ok(answers) => read(&answers, &session),
        Err(then) => (Err(None), then),
    };
    for ask in asked {
        // The receiver may be gone.
        let _ = tell.send(News::Revision(ask, found.clone()));
    }
    then
}

fn read(
    answers: &[Value],
    session: &Session,
) -> (Result<Revision, Option<EngineError>>, Connection) {
    let [counter, history] = answers else {
        return (Err(None), Connection::IsFine);
    };
    if !is_here(history, session) {
        return (Err(None), Connection::IsLost);
    }
    let found = match counter {
        Value::BulkString(counter) => match number(counter) {
            Some(at) => Ok(Revision(at)),
            None => Err(Some(foreign("the counter is no number"))),
        },
        Value::Nil => Err(Some(foreign("there is no counter: data was lost"))),
        // The key moves to another member of a cluster, or Redis is loading.
        _ => Err(None),
    };
    (found, Connection::IsFine)
}
