//! Removal of a store that a restore did not finish.
use ::redis::RedisError;
use ::redis::aio::MultiplexedConnection;
use statestored_link::restoring::UNFINISHED;

const REMOVE: &str = include_str!("remove.lua");

/// Removes an unfinished store that has these names: the one with this id, or any if the id is empty.
pub(super) async fn remove(
    connection: &mut MultiplexedConnection,
    names: &[String],
    store: &str,
) -> Result<(), RedisError> {
    let mut remove = ::redis::cmd("EVAL");
    remove.arg(REMOVE).arg(names.len()).arg(names);
    remove.arg(UNFINISHED).arg(store);
    remove.query_async(connection).await
}
