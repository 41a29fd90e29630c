//! An engine that loses acknowledged changes, as an engine with asynchronous replicas does.
//!
//! Answers from before the loss are not checked. But all nodes continue, and in the end all nodes have the state of the engine.
//! No entry outlasts its expiry for ever, and each follower of a key was notified of its last change.
use super::node::Node;
use super::{CALM_MS, Invocation, KEYS, Mutation, NodeRequest, NodeSimulation, RequestKind};
use bytes::Bytes;
use statestore_protocol::{Hlc, Reply};
use statestored_shared::{Record, RecordContent};
use statestored_store::keyspace::Completion;

/// Maximum number of changes that are lost at a time.
const MAX_LOST: u64 = 40;

/// Maximum delay of an answer without faults.
const RESPONSE_DELAY_MS: u64 = 1_000;

/// Runs nodes over such an engine, without one of its rules if a fault is given. Returns the number of times that it lost
/// changes.
///
/// # Errors
/// The violated invariant.
pub fn run_reverting(seed: u64, fault: Option<Mutation>) -> Result<usize, String> {
    let mut world = NodeSimulation::new(seed, fault);
    world.reversions = Some(0);
    world.run_storm();
    world.run_calm();
    world.check()?;
    Ok(world.reversions.unwrap_or_default())
}

impl NodeSimulation {
    pub(super) fn revert(&mut self) {
        let lost = usize::try_from(self.chance.below(MAX_LOST)).unwrap();
        self.engine.lock().unwrap().lose(lost);
        for way in self.nodes.iter().flat_map(Node::links) {
            way.lock().reverted();
        }
    }

    fn check(&mut self) -> Result<(), String> {
        for asked in &self.requests {
            let is_over = asked.completion.is_some() || asked.life < self.nodes[asked.node].life;
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
                self.check_content(node, key, record.as_ref())?;
                check_followed(&self.nodes[node], key, record.as_ref())?;
            }
        }
        Ok(())
    }

    /// Checks the content of a key at a node.
    fn check_content(
        &mut self,
        node: usize,
        key: &Bytes,
        record: Option<&Record>,
    ) -> Result<(), String> {
        let ticket = self.requests.len();
        let mut asked = NodeRequest {
            node,
            life: self.nodes[node].life,
            kind: RequestKind::Operation(key.clone(), Invocation::Get { eventual: false }),
            timestamp: Hlc::new(super::engine::BASE_MS + self.now_ms, 0, "client").unwrap(),
            started_ms: self.now_ms,
            completion: None,
            completed_at_once: false,
            digest: None,
            original: None,
            is_redelivered: false,
        };
        let now_ms = self.now_ms;
        let end = self.nodes[node].request(ticket, &asked, now_ms, RESPONSE_DELAY_MS);
        asked.completion = end.map(|end| (now_ms, end));
        self.requests.push(asked);
        while self.requests[ticket].completion.is_none()
            && self.now_ms < now_ms + 2 * RESPONSE_DELAY_MS
        {
            self.advance_to(now_ms + 2 * RESPONSE_DELAY_MS);
        }
        let expected = match record.map(|record| &record.content) {
            Some(RecordContent::Entry { value, .. }) => Some(value.clone()),
            _ => None,
        };
        match &self.requests[ticket].completion {
            Some((
                _,
                Completion::Answered {
                    reply: Reply::Value(value),
                    ..
                },
            )) if Some(value) == expected.as_ref() => Ok(()),
            Some((
                _,
                Completion::Answered {
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
fn check_followed(node: &Node, key: &Bytes, record: Option<&Record>) -> Result<(), String> {
    let Some(following) = node.following.get(key) else {
        return Ok(());
    };
    let versions = following.reported.iter().map(|heard| heard.version);
    if !versions.is_sorted_by(|former, next| former < next) {
        return Err(format!("{key:?}: versions do not rise: {following:?}"));
    }
    let (Some(last), Some(record)) = (following.reported.last(), record) else {
        return Ok(());
    };
    if last.version < record.version {
        return Err(format!(
            "{key:?}: nobody was told of {record:?}: {following:?}"
        ));
    }
    Ok(())
}
