//! Eventual reads, held against the log of the engine and against all that their node had said before.
use super::checks::{Truth, apply};
use super::{Action, Asked, What, World};
use bytes::Bytes;
use statestore_protocol::Reply;
use statestored::keyspace::End;
use statestored::keyspace::rules::Version;
use std::collections::{BTreeMap, BTreeSet};

/// What somebody asked for an eventual answer, and got one without the engine.
fn remembered(asked: &Asked) -> Option<(&Bytes, &Action, &Reply, Option<Version>)> {
    match (&asked.what, &asked.end) {
        (
            What::One(key, action @ Action::Get { eventual: true }),
            Some((at_ms, End::Answered { reply, version })),
        ) if *at_ms == asked.at_ms => Some((key, action, reply, *version)),
        _ => None,
    }
}

/// Whether it is one that the engine was not asked about.
pub(super) fn is_remembered(asked: &Asked) -> bool {
    remembered(asked).is_some()
}

/// How many there were.
pub(super) fn count(asked: &[Asked]) -> usize {
    asked.iter().filter(|it| is_remembered(it)).count()
}

/// Each is some state that the key had until then, and none goes back behind what the node had said.
pub(super) fn check(truth: &Truth<'_>, world: &World) -> Result<(), String> {
    let mut least = BTreeMap::new();
    for asked in &world.asked {
        let Some((key, action, reply, version)) = remembered(asked) else {
            continue;
        };
        let failed = |what: &str| Err(format!("{what}: {asked:?}"));
        let before = said_before(truth, world, asked, key);
        let least = least
            .entry((asked.node, asked.life, key))
            .or_insert(0_usize);
        *least = before.max(*least);
        let last = truth.until(asked.at_ms);
        let explains = |state: &usize| {
            let states = &truth.states[*state];
            let (could, its_version, _) = apply(states, key, action, asked);
            could == *reply && its_version == version
        };
        match (*least..=last).find(explains) {
            None if (0..=last).any(|state| explains(&state)) => {
                return failed("the node had said something later before");
            }
            None => return failed("there was nothing to answer this so far"),
            Some(found) => *least = found,
        }
    }
    Ok(())
}

/// The latest state of a key that the node had answered or told before this was asked.
fn said_before(truth: &Truth<'_>, world: &World, asked: &Asked, key: &Bytes) -> usize {
    let answers = world.asked.iter().filter_map(|former| {
        let (at_ms, end) = former.end.as_ref()?;
        let is_before = *at_ms < asked.at_ms
            && (former.node, former.life) == (asked.node, asked.life)
            && !is_remembered(former);
        match (&former.what, end) {
            (What::One(of, _), End::Answered { version, .. }) if is_before && of == key => *version,
            _ => None,
        }
    });
    let node = &world.nodes[asked.node];
    let following = (node.life == asked.life).then(|| node.following.get(key));
    let heard = following.flatten().into_iter().flat_map(|it| &it.heard);
    let told = heard
        .filter(|heard| heard.at_ms < asked.at_ms)
        .map(|heard| heard.version);
    let versions: BTreeSet<Version> = answers.chain(told).collect();
    let said = truth
        .records()
        .filter(|(_, of, record)| *of == key && versions.contains(&record.version));
    said.map(|(index, ..)| index + 1).max().unwrap_or(0)
}
