//! How much happened.
use super::Asked;
use super::engine::Engine;
use statestore_protocol::Reply;
use statestored::keyspace::End;
use statestored::keyspace::remote::Put;

/// How many transactions were carried out.
pub(super) fn transactions(asked: &[Asked]) -> usize {
    let is_made = |asked: &&Asked| {
        matches!(
            &asked.end,
            Some((_, End::Answered { reply: Reply::Transacted(versions), .. })) if versions.iter().flatten().next().is_some()
        )
    };
    asked.iter().filter(is_made).count()
}

/// How many tombstones were purged.
pub(super) fn purged(engine: &Engine) -> usize {
    let changes = engine.log.iter().flat_map(|logged| &logged.changes);
    changes.filter(|(_, put)| *put == Put::Nothing).count()
}
