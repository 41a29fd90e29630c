//! Operations of requests in the form of the keyspace, and their answers in a state of the engine.
use super::ground_truth::KeyStates;
use super::{Invocation, NodeRequest};
use bytes::Bytes;
use statestore_protocol::{Reply, SetOptions};
use statestored_shared::RecordContent;
use statestored_store::keyspace::rules::{Context, Entry, EntryChange, Operation, Token, Version};

/// Returns an action in the form of the keyspace.
pub(super) fn operation<'a>(action: &'a Invocation, asked: &'a NodeRequest) -> Operation<'a> {
    match action {
        Invocation::Get { eventual } => Operation::Get {
            remaining: false,
            eventual: *eventual,
        },
        Invocation::Set {
            value,
            condition,
            ttl_ms,
            token,
        } => Operation::Set {
            value,
            options: SetOptions {
                condition: *condition,
                expires_in_ms: *ttl_ms,
            },
            timestamp: &asked.timestamp,
            token: token.as_ref(),
        },
        Invocation::Del { if_version, token } => Operation::Del {
            if_version: *if_version,
            token: token.as_ref(),
        },
    }
}

/// Returns the answer of an operation in this state, and the change that it makes. Versions of changes are not compared.
pub(super) fn apply(
    states: &KeyStates,
    key: &Bytes,
    action: &Invocation,
    asked: &NodeRequest,
) -> (Reply, Option<Version>, bool) {
    let record = states.get(key);
    let entry = match record.map(|record| (&record.content, record)) {
        Some((RecordContent::Entry { value, token, .. }, record)) => Some(Entry {
            value,
            version: record.version,
            token: token.as_ref().map(Token::from),
            expires_in_ms: None,
        }),
        _ => None,
    };
    let context = Context {
        wall_ms: 0,
        floor: (0, 0),
        has_capacity: true,
    };
    let outcome = operation(action, asked).apply(entry.as_ref(), &context);
    let changes = !matches!(outcome.change, EntryChange::Keep);
    (outcome.reply, outcome.version, changes)
}
