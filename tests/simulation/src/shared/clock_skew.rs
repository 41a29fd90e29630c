//! Nodes with one clock at a time that is far off: it steps there, or starts so, and comes back.
//!
//! No version is far ahead, no entry expires early, and only a node that is far ahead rejects changes. Most of the clocks show
//! which one is right: a single clock is wrong at a time, and the engine has a clock of its own, or there are three nodes.
use super::engine::{BASE_MS, CLOCK_LIFETIME_MS};
use super::ground_truth::GroundTruth;
use super::node::{CLOCK_LIMIT_MS, Node};
use super::{Invocation, KEYS, Mutation, NodeRequest, NodeSimulation, RequestKind};
use bytes::Bytes;
use statestore_protocol::{Condition, Hlc, Reply, ServiceError};
use statestored_store::keyspace::Completion;

/// Maximum error of a correct clock.
pub(super) const USUAL_ERROR_MS: u64 = 20_000;

/// Range of the error of a wrong clock.
const FAR_ERROR_MS: (u64, u64) = (300_000, 365 * 24 * 3_600_000);

/// Time to live of entries that outlast such a run. Their age is known from wall clocks.
const LONG_TTL_MS: u64 = 20 * 60 * 1_000;

/// Maximum delay of an answer without faults.
const RESPONSE_DELAY_MS: u64 = 2_000;

/// The wrong clock of a run.
#[derive(Debug, Default)]
pub(super) struct ClockSkew {
    /// Number of the node with a wrong clock.
    pub(super) wrong_node: Option<usize>,
    /// Time since which no clock is wrong.
    pub(super) since_ms: u64,
    /// Time to live of a long entry that expires within the run, if there are any.
    pub(super) aging_ms: Option<u64>,
}

impl ClockSkew {
    pub(super) fn has_aging_entries(&self) -> bool {
        self.aging_ms.is_some()
    }
}

/// Returns the number of changes that were rejected because of a clock.
pub(super) fn clock_rejections(asked: &[NodeRequest]) -> usize {
    let is_refused = |asked: &&NodeRequest| matches!(&asked.completion, Some((_, end)) if is_clock_rejection(end));
    asked.iter().filter(is_refused).count()
}

fn is_clock_rejection(end: &Completion) -> bool {
    let refusal = Reply::Error(ServiceError::TimestampSkew);
    matches!(end, Completion::Answered { reply, .. } if *reply == refusal)
}

/// Checks that a rejection has a reason: some clock was far off a moment ago. A node that starts, or sees a restarted process,
/// may not know for a while which of two clocks is wrong. A rejected request stays rejected on every node that gets it again.
pub(super) fn check_rejection(
    world: &NodeSimulation,
    asked: &NodeRequest,
    end_ms: u64,
) -> Result<(), String> {
    let since_ms = asked.started_ms.saturating_sub(2 * CLOCK_LIFETIME_MS);
    let mut nodes = world.nodes.iter();
    let may = nodes.any(|node| node.was_far_off(since_ms, end_ms));
    let wrong = || "it was refused although no clock is far off".into();
    may.then_some(()).ok_or_else(wrong)
}

/// Checks that no version is made from a clock that is far ahead.
pub(super) fn check_version_times(
    truth: &GroundTruth<'_>,
    world: &NodeSimulation,
) -> Result<(), String> {
    if world.clock_skew.is_none() {
        return Ok(());
    }
    for (index, key, record) in truth.records() {
        let right_ms = BASE_MS + truth.log[index].at_ms;
        let ahead_ms = record.version.0.saturating_sub(right_ms);
        if ahead_ms > CLOCK_LIMIT_MS {
            return Err(format!(
                "change {index}: the version of {key:?} is {ahead_ms} ms ahead"
            ));
        }
    }
    Ok(())
}

impl NodeSimulation {
    pub(super) fn set_up_engine(&mut self, has_clock: bool) {
        self.engine.lock().unwrap().has_clock = has_clock;
        self.engine_has_clock = has_clock;
    }

    pub(super) fn set_up_nodes(&mut self, least: u64, fault: Option<Mutation>) {
        let weather = self.nodes[0].link_faults();
        let limit_ms = if fault == Some(Mutation::WrongClockTrusted) {
            u64::MAX
        } else {
            CLOCK_LIMIT_MS
        };
        let tombstone_ms = self.chance.log_uniform(10, super::TOMBSTONE_MS);
        let terms = (tombstone_ms, limit_ms);
        let count = self.chance.between(least, least + 1);
        let engine = &self.engine;
        let chance = &mut self.chance;
        let nodes = (0..count).map(|_| Node::new(engine, chance, weather, terms));
        self.nodes = nodes.collect();
        for index in 0..self.nodes.len() {
            let ahead_ms = self.usual_error_ms();
            self.nodes[index].step_clock(ahead_ms, 0);
        }
    }

    pub(super) fn usual_error_ms(&mut self) -> i64 {
        self.chance.below(2 * USUAL_ERROR_MS).cast_signed() - USUAL_ERROR_MS.cast_signed()
    }

    /// Makes half of the times to live long.
    pub(super) fn skew_ttl(&mut self, ttl_ms: Option<u64>) -> Option<u64> {
        let Some(skew) = &self.clock_skew else {
            return ttl_ms;
        };
        let long_ms = skew.aging_ms.unwrap_or(LONG_TTL_MS);
        let is_long = ttl_ms.is_some() && self.chance.percent(50);
        if is_long { Some(long_ms) } else { ttl_ms }
    }

    pub(super) fn inject_clock_fault(&mut self) {
        let has_clock = self.engine_has_clock;
        let index = self.chance.index(self.nodes.len());
        match self.chance.below(8) {
            // A node that cannot reach the engine's clock cannot know.
            0 if has_clock => self.nodes[index].cut(true),
            1 => self.nodes[index].cut(false),
            2 => {
                let until_ms = self.now_ms + self.chance.log_uniform(10, super::MAX_PAUSE_MS);
                self.nodes[index].pause_until(until_ms);
            }
            3 => self.restart(index),
            4 | 5 => self.set_wrong(index),
            6 => self.set_right(),
            _ => {}
        }
    }

    /// Sets the clock of a node wrong, and perhaps restarts the node. Does nothing while another clock is wrong.
    pub(super) fn set_wrong(&mut self, index: usize) {
        let now_ms = self.now_ms;
        let Some(skew) = &mut self.clock_skew else {
            return;
        };
        // The other nodes have reported their clocks, and the reading of the last wrong one has expired.
        let is_known = skew.since_ms + CLOCK_LIFETIME_MS <= now_ms;
        if skew.wrong_node.is_some() || !is_known {
            return;
        }
        skew.wrong_node = Some(index);
        let (least, most) = FAR_ERROR_MS;
        let far = self.chance.log_uniform(least, most).cast_signed();
        let ahead_ms = if self.chance.percent(70) { far } else { -far };
        self.nodes[index].step_clock(ahead_ms, now_ms);
        if self.chance.percent(50) {
            self.restart(index);
        }
    }

    pub(super) fn set_right(&mut self) {
        let ahead_ms = self.usual_error_ms();
        let now_ms = self.now_ms;
        let Some(skew) = &mut self.clock_skew else {
            return;
        };
        if let Some(index) = skew.wrong_node.take() {
            skew.since_ms = now_ms;
            self.nodes[index].step_clock(ahead_ms, now_ms);
        }
    }

    /// Checks that every node accepts a change, now that all clocks are right.
    pub(super) fn check_all_nodes_write(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            let ticket = self.requests.len();
            let key: &Bytes = &KEYS[0];
            let action = Invocation::Set {
                value: Bytes::from(format!("last{node}")),
                condition: Condition::Always,
                ttl_ms: None,
                // Some key may have a fencing token.
                token: Hlc::new(BASE_MS + self.now_ms, node as u64, "zzz").ok(),
            };
            let mut asked = NodeRequest {
                node,
                life: self.nodes[node].life,
                kind: RequestKind::Operation(key.clone(), action),
                timestamp: Hlc::new(BASE_MS + self.now_ms, 0, "client").unwrap(),
                started_ms: self.now_ms,
                completion: None,
                completed_at_once: false,
                digest: None,
                original: None,
                is_redelivered: false,
            };
            let (now_ms, until_ms) = (self.now_ms, self.now_ms + 2 * RESPONSE_DELAY_MS);
            let end = self.nodes[node].request(ticket, &asked, now_ms, RESPONSE_DELAY_MS);
            asked.completion = end.map(|end| (now_ms, end));
            self.requests.push(asked);
            while self.requests[ticket].completion.is_none() && self.now_ms < until_ms {
                self.advance_to(until_ms);
            }
            match &self.requests[ticket].completion {
                Some((
                    _,
                    Completion::Answered {
                        reply: Reply::Ok, ..
                    },
                )) => {}
                other => return Err(format!("node {node} writes no more: {other:?}")),
            }
        }
        Ok(())
    }
}
