//! Start of tasks, and the engine requests that they send.
use super::clock_comparison::ClockStatus;
use super::engine::{Keys, Link};
use super::plan::TaskAction;
use super::tasks::Tasks;
use super::{COMMIT_HOLD_MS, SharedKeyspace};
use statestored_common::ClockReading;
use statestored_store::keyspace::{Completion, RequestContext};

impl<L: Link> SharedKeyspace<L> {
    pub(super) fn start_task(
        &mut self,
        context: &RequestContext,
        keys: Keys,
        work: TaskAction,
    ) -> Option<Completion> {
        let deadline_ms = context
            .deadline_ms
            .unwrap_or_else(|| Tasks::deadline(context.now));
        let ticket = Some(context.ticket);
        for key in &keys {
            // Operations on a key run in the order of their requests.
            self.read_key_from_engine(key);
        }
        self.tasks
            .add(ticket, context.digest, deadline_ms, keys, work);
        self.send_requests(context.now);
        None
    }

    /// Returns the time until which commits wait for the watch.
    pub(super) fn commits_held_until_ms(&self) -> Option<u64> {
        self.gap_since_ms.map(|since_ms| since_ms + COMMIT_HOLD_MS)
    }

    /// Sends the engine requests of the tasks.
    pub(super) fn send_requests(&mut self, now: ClockReading) {
        self.clock_comparison.update(now);
        if self.clock_comparison.status(now) == ClockStatus::Unknown {
            return;
        }
        let stamps = self.version_clock(now);
        let is_live = self.is_live();
        // An operation whose commit was sent cannot be refused any more. If the engine may be away, it is therefore asked for something
        // else first.
        let may_guess = is_live && !self.health.is_unanswered();
        if self.is_watched() {
            self.gap_since_ms = None;
        } else {
            self.gap_since_ms.get_or_insert(now.mono_ms);
        }
        let may_commit = self
            .commits_held_until_ms()
            .is_none_or(|until_ms| until_ms <= now.mono_ms);
        if may_commit {
            self.tasks.release_held_commits();
        }
        loop {
            let guesses = may_guess.then_some(&mut self.record_cache);
            let next =
                self.tasks
                    .next_request((may_commit, is_live), guesses, &self.expiry_index, stamps);
            let Some((task, ask)) = next else {
                break;
            };
            let ask = self.request(ask);
            self.tasks.request_sent(task, ask);
        }
    }
}
