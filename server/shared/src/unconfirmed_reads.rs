//! Reads from the record cache that the engine confirms. The engine is asked for its current revision, once for all waiting reads. When all
//! changes up to this revision are known, the cached record is the answer. A read of the engine between request and answer would have found
//! the same.
//!
//! Reads of one key end in the order in which they were requested. Behind a read that the cache cannot answer, the key is read from the
//! engine, one read after the other. If any other operation on the key is requested, all waiting reads of the key go to the engine before
//! it.
use super::SharedKeyspace;
use super::engine::{
    BUCKETS, EngineError, EngineRequest, EngineRequestId, Link, Revision, bucket_of,
};
use super::plan::{self, TaskAction};
use super::tasks::Tasks;
use bytes::Bytes;
use smallvec::smallvec;
use statestored_common::ClockReading;
use statestored_store::keyspace::rules::Operation;
use statestored_store::keyspace::{Completion, OwnedOperation, RequestContext, Ticket};
use std::collections::VecDeque;

/// Maximum time in milliseconds for which reads gather, unless [`flush_gathered`](statestored_store::keyspace::Keyspace::flush_gathered) is called before.
/// They gather longer only while [`MAX_IN_FLIGHT`] engine requests are in progress.
const MAX_BUFFERED_MS: u64 = 2;
const MAX_IN_FLIGHT: usize = 8;

/// Number of engine requests in progress from which on more reads gather. With fewer, a new request is sent at once, so that there is work
/// while one is in progress.
const BUFFER_FROM_IN_FLIGHT: usize = 2;

/// Time in milliseconds for which reads wait for a change that the engine has made and that is not known here. Then the engine is read.
const CHANGE_TIMEOUT_MS: u64 = 20;

/// A read that waits.
#[derive(Debug)]
struct PendingRead {
    ticket: Ticket,
    key: Bytes,
    remaining: bool,
    deadline_ms: u64,
}

/// Waiting reads, oldest first: `waiting_for_changes`, then `requested`, then `buffered`.
#[derive(Debug)]
pub(super) struct UnconfirmedReads {
    /// Reads that wait until changes up to the revision are known, or until the time in milliseconds.
    waiting_for_changes: VecDeque<(Revision, u64, Vec<PendingRead>)>,
    /// Reads that wait for the engine's revision, by engine request.
    requested: VecDeque<(EngineRequestId, Vec<PendingRead>)>,
    /// Time at which the gathered reads began to gather.
    buffered_since_ms: u64,
    /// Reads of the next engine request.
    buffered: Vec<PendingRead>,
    /// Number of waiting reads for each bucket.
    bucket_counts: Box<[u32]>,
    /// The highest revision whose changes became known too late.
    late_revision: Revision,
    /// Lower bound of all deadlines.
    deadline_ms: u64,
}

impl Default for UnconfirmedReads {
    fn default() -> Self {
        Self {
            waiting_for_changes: VecDeque::new(),
            requested: VecDeque::new(),
            buffered_since_ms: 0,
            buffered: Vec::new(),
            bucket_counts: vec![0; usize::from(BUCKETS)].into(),
            late_revision: Revision(0),
            deadline_ms: u64::MAX,
        }
    }
}

impl UnconfirmedReads {
    fn count_mut(&mut self, key: &[u8]) -> &mut u32 {
        &mut self.bucket_counts[usize::from(bucket_of(key))]
    }

    fn add(&mut self, reading: PendingRead, now_ms: u64) {
        if self.buffered.is_empty() {
            self.buffered_since_ms = now_ms;
        }
        *self.count_mut(&reading.key) += 1;
        self.deadline_ms = self.deadline_ms.min(reading.deadline_ms);
        self.buffered.push(reading);
    }

    /// Returns the number of reads whose engine request can be sent at any time.
    pub(super) fn buffered_count(&self) -> usize {
        if self.requested.len() < BUFFER_FROM_IN_FLIGHT {
            self.buffered.len()
        } else {
            0
        }
    }

    /// Returns the latest time for the next engine request.
    fn due_ms(&self) -> Option<u64> {
        let is_due = !self.buffered.is_empty() && self.requested.len() < MAX_IN_FLIGHT;
        is_due.then_some(self.buffered_since_ms + MAX_BUFFERED_MS)
    }

    /// Takes the reads of this engine request and of those before it: the answer holds for them as well.
    fn take_requested(&mut self, ask: EngineRequestId) -> Vec<PendingRead> {
        let Some(place) = self
            .requested
            .iter()
            .position(|(context, _)| *context == ask)
        else {
            return Vec::new();
        };
        let context = self.requested.drain(..=place).map(|(_, reads)| reads);
        context.reduce(concatenate).unwrap_or_default()
    }

    /// Takes the reads that wait for changes up to this revision.
    fn take_up_to(&mut self, known: Revision) -> Vec<PendingRead> {
        let count = self
            .waiting_for_changes
            .partition_point(|(at, ..)| *at <= known);
        let reads = self
            .waiting_for_changes
            .drain(..count)
            .map(|(.., reads)| reads);
        reads.reduce(concatenate).unwrap_or_default()
    }

    /// Takes the reads that have waited too long for changes, and those before them.
    fn take_late(&mut self, now_ms: u64) -> Vec<PendingRead> {
        let count = self
            .waiting_for_changes
            .partition_point(|(_, until_ms, _)| *until_ms <= now_ms);
        let late = self
            .waiting_for_changes
            .drain(..count)
            .map(|(at, _, reads)| {
                self.late_revision = self.late_revision.max(at);
                reads
            });
        late.reduce(concatenate).unwrap_or_default()
    }

    /// Takes the reads for which `is_meant` returns true, in their order.
    fn extract(&mut self, mut is_meant: impl FnMut(&PendingRead) -> bool) -> Vec<PendingRead> {
        let behind = self.waiting_for_changes.iter_mut().map(|(.., reads)| reads);
        let context = self.requested.iter_mut().map(|(_, reads)| reads);
        let all = behind.chain(context).chain([&mut self.buffered]);
        let mut taken = Vec::new();
        for reads in all {
            taken.extend(reads.extract_if(.., |reading| is_meant(reading)));
        }
        taken
    }

    fn take_key(&mut self, key: &[u8]) -> Vec<PendingRead> {
        if *self.count_mut(key) == 0 {
            return Vec::new();
        }
        self.extract(|reading| reading.key == key)
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        let behind = self
            .waiting_for_changes
            .front()
            .map(|(_, until_ms, _)| *until_ms);
        let deadline = Some(self.deadline_ms).filter(|ms| *ms < u64::MAX);
        [behind, deadline, self.due_ms()]
            .into_iter()
            .flatten()
            .min()
    }
}

fn concatenate(mut reads: Vec<PendingRead>, next: Vec<PendingRead>) -> Vec<PendingRead> {
    reads.extend(next);
    reads
}

impl<L: Link> SharedKeyspace<L> {
    /// Adds the operation if it is a read that waits only for the engine's revision. Returns whether it was added.
    pub(super) fn try_add_unconfirmed(
        &mut self,
        context: &RequestContext,
        key: &Bytes,
        operation: &Operation<'_>,
    ) -> bool {
        let Operation::Get { remaining, .. } = *operation else {
            return false;
        };
        let is_up_to_date = self
            .known_revision()
            .is_some_and(|known| known >= self.unconfirmed_reads.late_revision);
        if !is_up_to_date
            || !self.link.counts_revisions()
            || self.tasks.is_busy(key)
            || !self.record_cache.contains(key)
        {
            return false;
        }
        let deadline_ms = context
            .deadline_ms
            .unwrap_or_else(|| Tasks::deadline(context.now));
        let reading = PendingRead {
            ticket: context.ticket,
            key: key.clone(),
            remaining,
            deadline_ms,
        };
        self.unconfirmed_reads.add(reading, context.now.mono_ms);
        true
    }

    /// Requests the engine's revision if it is time.
    pub(super) fn request_revision_if_due(&mut self, now: ClockReading) {
        let due_ms = self.unconfirmed_reads.due_ms();
        if due_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.request_revision();
        }
    }

    /// Requests the engine's revision.
    pub(super) fn request_revision(&mut self) {
        let ask = self.request(EngineRequest::Revision);
        let reads = std::mem::take(&mut self.unconfirmed_reads.buffered);
        self.unconfirmed_reads.requested.push_back((ask, reads));
    }

    /// Records the engine's revision.
    pub(super) fn revision_received(
        &mut self,
        ask: EngineRequestId,
        result: Result<Revision, Option<EngineError>>,
        now: ClockReading,
    ) {
        let reads = self.unconfirmed_reads.take_requested(ask);
        if reads.is_empty() {
            return;
        }
        match (result, self.known_revision()) {
            (Ok(at), Some(known)) if at <= known => self.confirm(reads, now),
            (Ok(at), Some(_)) => {
                let until_ms = now.mono_ms + CHANGE_TIMEOUT_MS;
                self.unconfirmed_reads
                    .waiting_for_changes
                    .push_back((at, until_ms, reads));
            }
            _ => {
                // The earlier reads go first, since reads of a key end in order.
                let behind = self.unconfirmed_reads.take_up_to(Revision(u64::MAX));
                self.read_from_engine(concatenate(behind, reads));
            }
        }
    }

    /// Answers the reads that wait for changes up to this revision, which are known now.
    pub(super) fn confirm_until(&mut self, known: Revision, now: ClockReading) {
        if !self.unconfirmed_reads.waiting_for_changes.is_empty() {
            let reads = self.unconfirmed_reads.take_up_to(known);
            self.confirm(reads, now);
        }
    }

    /// Answers reads whose cached records are confirmed by the engine.
    fn confirm(&mut self, reads: Vec<PendingRead>, now: ClockReading) {
        let mut count = 0;
        for reading in reads {
            let key = &reading.key;
            // An earlier read of the key may have gone to the engine, and this one ends behind it.
            let seen = self
                .record_cache
                .state(key)
                .filter(|_| !self.tasks.is_busy(key));
            let end = seen.and_then(|seen| {
                plan::read_outcome((key, seen), reading.remaining, &self.expiry_index, now)
            });
            let Some(end) = end else {
                self.add_pending_read(reading);
                continue;
            };
            count += 1;
            *self.unconfirmed_reads.count_mut(key) -= 1;
            self.tasks.add_completed(reading.ticket, end);
        }
        self.health.add_confirmed_cache_hits(count);
    }

    /// Sends the reads to the engine.
    fn read_from_engine(&mut self, reads: Vec<PendingRead>) {
        for reading in reads {
            self.add_pending_read(reading);
        }
    }

    /// Sends the waiting reads of a key to the engine, because another operation on it follows.
    pub(super) fn read_key_from_engine(&mut self, key: &[u8]) {
        for reading in self.unconfirmed_reads.take_key(key) {
            self.add_pending_read(reading);
        }
    }

    fn add_pending_read(&mut self, reading: PendingRead) {
        *self.unconfirmed_reads.count_mut(&reading.key) -= 1;
        let read = Operation::Get {
            remaining: reading.remaining,
            eventual: false,
        };
        let work = TaskAction::Operation(OwnedOperation::of(&read));
        let (ticket, keys) = (Some(reading.ticket), smallvec![reading.key]);
        self.tasks
            .add(ticket, None, reading.deadline_ms, keys, work);
    }

    /// Expires reads, and sends those to the engine that have waited too long.
    pub(super) fn advance_unconfirmed(&mut self, now: ClockReading) {
        if self.unconfirmed_reads.deadline_ms <= now.mono_ms {
            let mut next_ms = u64::MAX;
            let over = self.unconfirmed_reads.extract(|reading| {
                let is_over = reading.deadline_ms <= now.mono_ms;
                if !is_over {
                    next_ms = next_ms.min(reading.deadline_ms);
                }
                is_over
            });
            self.unconfirmed_reads.deadline_ms = next_ms;
            for reading in over {
                *self.unconfirmed_reads.count_mut(&reading.key) -= 1;
                self.tasks
                    .add_completed(reading.ticket, Completion::Expired);
            }
        }
        let late = self.unconfirmed_reads.take_late(now.mono_ms);
        self.read_from_engine(late);
    }

    /// Sends the waiting reads to the engine, because changes may have been missed.
    pub(super) fn read_unconfirmed_from_engine(&mut self) {
        self.unconfirmed_reads.late_revision = Revision(0);
        let reads = self.unconfirmed_reads.take_up_to(Revision(u64::MAX));
        self.read_from_engine(reads);
    }

    /// Refuses all waiting reads, because the engine is away.
    pub(super) fn reject_unconfirmed(&mut self) {
        self.unconfirmed_reads.bucket_counts.fill(0);
        for reading in self.unconfirmed_reads.extract(|_| true) {
            self.tasks
                .add_completed(reading.ticket, Completion::Unavailable);
        }
    }
}

#[cfg(test)]
mod tests;
