//! An engine that loses acknowledged changes, as an engine with asynchronous replicas does.
//!
//! Answers from before the loss are not checked. But all nodes continue, and in the end all nodes have the state of the engine.
//! No entry outlasts its expiry for ever, and each follower of a key was notified of its last change.
use super::node::Node;
use super::{Action, Asked, CALM_MS, Fault, KEYS, What, World};
use bytes::Bytes;
use statestore_protocol::{Hlc, Reply};
use statestored::keyspace::End;
use statestored::keyspace::remote::{Content, Record};

/// Maximum number of changes that are lost at a time.
const MOST_LOST: u64 = 40;

/// Maximum delay of an answer without faults.
const SOON_MS: u64 = 1_000;

/// Runs nodes over such an engine, without one of its rules if a fault is given. Returns the number of times that it lost
/// changes.
///
/// # Errors
/// The violated invariant.
pub fn run_reverting(seed: u64, fault: Option<Fault>) -> Result<usize, String> {
    let mut world = World::new(seed, fault);
    world.reversions = Some(0);
    world.storm();
    world.calm();
    world.check()?;
    Ok(world.reversions.unwrap_or_default())
}

impl World {
    pub(super) fn revert(&mut self) {
        let lost = usize::try_from(self.chance.below(MOST_LOST)).unwrap();
        self.engine.lock().unwrap().lose(lost);
        for way in self.nodes.iter().flat_map(Node::ways) {
            way.lock().reverted();
        }
    }

    fn check(&mut self) -> Result<(), String> {
        for asked in &self.asked {
            let is_over = asked.end.is_some() || asked.life < self.nodes[asked.node].life;
            if !is_over {
                return Err(format!("no end in {CALM_MS} ms: {asked:?}"));
            }
        }
        for key in KEYS.iter() {
            let record = self.engine.lock().unwrap().record(key);
            let record = record.map(|(record, _)| record);
            if record
                .as_ref()
                .is_some_and(|it| it.expiry().is_some() || !it.is_entry())
            {
                return Err(format!("{key:?} is there still: {record:?}"));
            }
            for node in 0..self.nodes.len() {
                self.has(node, key, record.as_ref())?;
                followed(&self.nodes[node], key, record.as_ref())?;
            }
        }
        Ok(())
    }

    /// Checks the content of a key at a node.
    fn has(&mut self, node: usize, key: &Bytes, record: Option<&Record>) -> Result<(), String> {
        let ticket = self.asked.len();
        let mut asked = Asked {
            node,
            life: self.nodes[node].life,
            what: What::One(key.clone(), Action::Get { eventual: false }),
            timestamp: Hlc::new(super::node::BASE_MS + self.now_ms, 0, "client").unwrap(),
            at_ms: self.now_ms,
            end: None,
            at_once: false,
            request: None,
            former: None,
            is_twice: false,
        };
        let now_ms = self.now_ms;
        let end = self.nodes[node].ask(ticket, &asked, now_ms, SOON_MS);
        asked.end = end.map(|end| (now_ms, end));
        self.asked.push(asked);
        while self.asked[ticket].end.is_none() && self.now_ms < now_ms + 2 * SOON_MS {
            self.pass(now_ms + 2 * SOON_MS);
        }
        let expected = match record.map(|record| &record.content) {
            Some(Content::Entry { value, .. }) => Some(value.clone()),
            _ => None,
        };
        match &self.asked[ticket].end {
            Some((
                _,
                End::Answered {
                    reply: Reply::Value(value),
                    ..
                },
            )) if Some(value) == expected.as_ref() => Ok(()),
            Some((
                _,
                End::Answered {
                    reply: Reply::Nil, ..
                },
            )) if expected.is_none() => Ok(()),
            other => Err(format!(
                "node {node}: {key:?} holds {expected:?}, and it says {other:?}"
            )),
        }
    }
}

/// Reported versions may be lost, and the present one may be older. A newer version was reported.
fn followed(node: &Node, key: &Bytes, record: Option<&Record>) -> Result<(), String> {
    let Some(following) = node.following.get(key) else {
        return Ok(());
    };
    let versions = following.heard.iter().map(|heard| heard.version);
    if !versions.is_sorted_by(|former, next| former < next) {
        return Err(format!("{key:?}: versions do not rise: {following:?}"));
    }
    let (Some(last), Some(record)) = (following.heard.last(), record) else {
        return Ok(());
    };
    if last.version < record.version {
        return Err(format!(
            "{key:?}: nobody was told of {record:?}: {following:?}"
        ));
    }
    Ok(())
}
