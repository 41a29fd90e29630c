//! Eventual reads, checked against the log of the engine and against the earlier results of their node.
use super::ground_truth::GroundTruth;
use super::node::MAX_STALENESS_MS;
use super::operation::apply;
use super::{Invocation, NodeRequest, NodeSimulation, RequestKind};
use bytes::Bytes;
use statestore_protocol::Reply;
use statestored_shared::Revision;
use statestored_store::keyspace::Completion;
use statestored_store::keyspace::rules::Version;
use std::collections::{BTreeMap, BTreeSet};

/// An answer to an eventual read that a node gave without the engine.
struct EventualRead<'w> {
    at_ms: u64,
    key: &'w Bytes,
    action: &'w Invocation,
    reply: &'w Reply,
    version: Option<Version>,
}

fn eventual_read(asked: &NodeRequest) -> Option<EventualRead<'_>> {
    match (&asked.kind, &asked.completion) {
        (
            RequestKind::Operation(key, action @ Invocation::Get { eventual: true }),
            Some((at_ms, Completion::Answered { reply, version })),
        ) if asked.completed_at_once => Some(EventualRead {
            at_ms: *at_ms,
            key,
            action,
            reply,
            version: *version,
        }),
        _ => None,
    }
}

/// Whether the read was answered without the engine.
pub(super) fn is_from_cache(asked: &NodeRequest) -> bool {
    eventual_read(asked).is_some()
}

/// Returns the number of such reads.
pub(super) fn count(asked: &[NodeRequest]) -> usize {
    asked.iter().filter(|it| is_from_cache(it)).count()
}

/// Checks that each eventual read returns a state that the key had until then, and that none is older than an earlier result of
/// the node.
///
/// The age of such a state has no bound: the watch reports the changes one after the other, each with a delay, and can lag by any
/// number.
pub(super) fn check(truth: &GroundTruth<'_>, world: &NodeSimulation) -> Result<(), String> {
    let mut least = BTreeMap::new();
    for asked in &world.requests {
        let Some(EventualRead {
            at_ms,
            key,
            action,
            reply,
            version,
        }) = eventual_read(asked)
        else {
            continue;
        };
        let failed = |what: &str| Err(format!("{what}: {asked:?}"));
        let Some((heard_ms, heard)) = last_watch_report(world, asked, at_ms) else {
            return failed("the node had heard nothing");
        };
        if heard_ms + MAX_STALENESS_MS < at_ms {
            return failed(&format!("the node had heard nothing since {heard_ms} ms"));
        }
        let before =
            last_returned_state(truth, world, asked, (at_ms, key)).max(truth.index_after(heard));
        let least = least
            .entry((asked.node, asked.life, key))
            .or_insert(0_usize);
        *least = before.max(*least);
        let now = truth.index_at(at_ms);
        let explains = |state: &usize| {
            let states = &truth.states[*state];
            let (could, its_version, _) = apply(states, key, action, asked);
            could == *reply && its_version == version
        };
        match (*least..=now).find(explains) {
            None if (0..=now).any(|state| explains(&state)) => {
                return failed("the node had said or heard something later before");
            }
            None => return failed("there was nothing to answer this so far"),
            Some(found) => *least = found,
        }
    }
    Ok(())
}

/// Returns the time at which the node last heard of the watch, and the last revision that it heard of.
fn last_watch_report(
    world: &NodeSimulation,
    asked: &NodeRequest,
    at_ms: u64,
) -> Option<(u64, Revision)> {
    let way = world.nodes[asked.node].link_of(asked.life)?.lock();
    let count = way
        .watch_reports
        .partition_point(|(heard_ms, _)| *heard_ms <= at_ms);
    way.watch_reports[..count].last().copied()
}

/// Returns the latest state of a key that the node had returned or reported before.
fn last_returned_state(
    truth: &GroundTruth<'_>,
    world: &NodeSimulation,
    asked: &NodeRequest,
    (at_ms, key): (u64, &Bytes),
) -> usize {
    let answers = world.requests.iter().filter_map(|former| {
        let (former_ms, end) = former.completion.as_ref()?;
        let is_before = *former_ms < at_ms
            && (former.node, former.life) == (asked.node, asked.life)
            && !is_from_cache(former);
        match (&former.kind, end) {
            (RequestKind::Operation(of, _), Completion::Answered { version, .. })
                if is_before && of == key =>
            {
                *version
            }
            _ => None,
        }
    });
    let node = &world.nodes[asked.node];
    let following = (node.life == asked.life).then(|| node.following.get(key));
    let heard = following.flatten().into_iter().flat_map(|it| &it.reported);
    let told = heard
        .filter(|heard| heard.at_ms < at_ms)
        .map(|heard| heard.version);
    let versions: BTreeSet<Version> = answers.chain(told).collect();
    let said = truth
        .records()
        .filter(|(_, of, record)| *of == key && versions.contains(&record.version));
    said.map(|(index, ..)| index + 1).max().unwrap_or(0)
}
