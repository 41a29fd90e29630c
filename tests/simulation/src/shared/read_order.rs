//! The order in which a node executes requests on a key.
use super::{Invocation, NodeRequest, NodeSimulation, RequestKind};
use bytes::Bytes;
use statestored_store::keyspace::Completion;
use statestored_store::keyspace::rules::Version;
use std::collections::BTreeMap;

/// The last answer of a node to those reads of a key that had to wait.
#[derive(Default)]
struct LastRead {
    at_ms: u64,
    version: Version,
}

/// Checks that reads of a key end in the order of their requests, and that none finds an older version than a read before it. A
/// change may be answered after a later read, when its notification has arrived.
pub(super) fn check(world: &NodeSimulation) -> Result<(), String> {
    let mut last: BTreeMap<(usize, u64, &Bytes), LastRead> = BTreeMap::new();
    for asked in &world.requests {
        let Some((at_ms, key, version)) = completed_read(asked) else {
            continue;
        };
        let last = last.entry((asked.node, asked.life, key)).or_default();
        if at_ms < last.at_ms {
            return Err(format!("one asked later was answered before: {asked:?}"));
        }
        let version = version.unwrap_or_default();
        if version < last.version && version > (0, 0) {
            return Err(format!("one asked before has found more: {asked:?}"));
        }
        *last = LastRead {
            at_ms,
            version: last.version.max(version),
        };
    }
    Ok(())
}

/// Returns the time of a read's answer, its key, and the version that was found, if the read had to wait.
fn completed_read(asked: &NodeRequest) -> Option<(u64, &Bytes, Option<Version>)> {
    match (&asked.kind, &asked.completion) {
        (
            RequestKind::Operation(key, Invocation::Get { .. }),
            Some((at_ms, Completion::Answered { version, .. })),
        ) if !asked.completed_at_once => Some((*at_ms, key, *version)),
        _ => None,
    }
}
