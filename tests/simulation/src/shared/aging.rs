//! Nodes that outlive entries of more than ten minutes. A starting node learns the age of these entries from wall clocks.
//!
//! Nodes restart, one of them or all, and clocks are set. A correct clock is set to another correct time. In some of the runs,
//! one clock at a time is far off, on a running or a starting node.
//!
//! No entry expires early, whatever the clocks show. In runs without a clock that is far off, no entry lasts much longer than it
//! should either. The minute after the last start of a node is an exception: a starting node adds that allowance.
use super::NodeSimulation;
use super::clock_skew::{ClockSkew, USUAL_ERROR_MS};
use super::engine::CLOCK_LIFETIME_MS;
use super::ground_truth::GroundTruth;

/// Range of the times to live of the long entries.
pub(super) const TTL_MS: (u64, u64) = (600_001, 660_000);

/// Duration of a run after the storm: longer than any of the entries lasts.
pub(super) const AGE_MS: u64 = 13 * 60_000;

/// Maximum difference of two wall clocks that a starting node assumes.
const ALLOWANCE_MS: u64 = 60_000;

/// Time in which a started node has read all entries, and expires those that are due.
const EXPIRY_DELAY_MS: u64 = 10_000;

/// Upper bound of the time that the clock readings of other nodes take.
const CLOCK_REPORT_MS: u64 = 2 * CLOCK_LIFETIME_MS;

/// Checks that, if no clock is far off, a starting node knows the remaining time of an entry well enough.
pub(super) fn check_expiry_delays(
    truth: &GroundTruth<'_>,
    world: &NodeSimulation,
) -> Result<(), String> {
    if world.may_have_far_clock()
        || !world
            .clock_skew
            .as_ref()
            .is_some_and(ClockSkew::has_aging_entries)
    {
        return Ok(());
    }
    // The writing and the starting node may have clocks as far apart. A node whose clock is set forward misjudges the others by
    // as much again, until they report their clocks once more.
    let most_ms = 4 * USUAL_ERROR_MS + ALLOWANCE_MS + CLOCK_REPORT_MS;
    for (index, key, record) in truth.records() {
        let Some(expiry) = record.expiry().filter(|it| it.ttl_ms >= TTL_MS.0) else {
            continue;
        };
        let mut later = truth
            .records()
            .filter(|(at, of, _)| *at > index && *of == key);
        let until_ms = later
            .next()
            .map_or(world.now_ms, |(at, ..)| truth.log[at].at_ms);
        let lasted_ms = until_ms - truth.log[index].at_ms;
        let begun_ms = world.restarts_ms.iter().filter(|it| **it <= until_ms).max();
        let is_new =
            begun_ms.is_some_and(|begun_ms| until_ms - begun_ms <= ALLOWANCE_MS + EXPIRY_DELAY_MS);
        if lasted_ms > expiry.ttl_ms + most_ms && !is_new {
            return Err(format!(
                "change {index}: {key:?} lasted {lasted_ms} ms instead of {} ms",
                expiry.ttl_ms
            ));
        }
    }
    Ok(())
}

impl NodeSimulation {
    /// Whether a wrong clock can be detected.
    fn may_have_far_clock(&self) -> bool {
        self.engine_has_clock || self.nodes.len() > 2
    }

    pub(super) fn inject_aging_fault(&mut self) {
        let index = self.chance.index(self.nodes.len());
        match self.chance.below(8) {
            0 if self.engine_has_clock => self.nodes[index].cut(true),
            1 => self.nodes[index].cut(false),
            2 => self.restart(index),
            3 => self.restart_all(),
            4 | 5 if self.may_have_far_clock() => self.set_wrong(index),
            6 if self.may_have_far_clock() => self.set_right(),
            _ => self.adjust(index),
        }
    }

    /// Restarts all nodes, so that none has seen an entry before. Does nothing while a clock is wrong, because no node might notice.
    fn restart_all(&mut self) {
        let now_ms = self.now_ms;
        let Some(skew) = &mut self.clock_skew else {
            return;
        };
        if skew.wrong_node.is_some() {
            return;
        }
        skew.since_ms = now_ms;
        for index in 0..self.nodes.len() {
            self.restart(index);
        }
    }

    /// Sets a correct clock to another correct time.
    fn adjust(&mut self, index: usize) {
        if self
            .clock_skew
            .as_ref()
            .is_some_and(|it| it.wrong_node == Some(index))
        {
            return;
        }
        let ahead_ms = self.usual_error_ms();
        self.nodes[index].step_clock(ahead_ms, self.now_ms);
    }
}
