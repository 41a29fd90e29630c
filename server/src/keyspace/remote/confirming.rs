//! Reads from the record cache that the engine confirms. The engine is asked for its current revision, once for all waiting reads. When all
//! changes up to this revision are known, the cached record is the answer. A read of the engine between request and answer would have found
//! the same.
//!
//! Reads of one key end in the order in which they were requested. Behind a read that the cache cannot answer, the key is read from the
//! engine, one read after the other. If any other operation on the key is requested, all waiting reads of the key go to the engine before
//! it.
use super::Remote;
use super::engine::{Ask, AskId, BUCKETS, EngineError, Link, Revision, bucket_of};
use super::plan::{self, Work};
use super::tasks::Tasks;
use crate::clock::Now;
use crate::keyspace::rules::Operation;
use crate::keyspace::{Asked, End, OwnedOperation, Ticket};
use bytes::Bytes;
use smallvec::smallvec;
use std::collections::VecDeque;

/// Maximum time in milliseconds for which reads gather, unless [`ask_gathered`](crate::keyspace::Keyspace::ask_gathered) is called before.
/// They gather longer only while [`UNDER_WAY`] engine requests are in progress.
const GATHERING_MS: u64 = 2;
const UNDER_WAY: usize = 8;

/// Number of engine requests in progress from which on more reads gather. With fewer, a new request is sent at once, so that there is work
/// while one is in progress.
const OVERLAPPING: usize = 2;

/// Time in milliseconds for which reads wait for a change that the engine has made and that is not known here. Then the engine is read.
const PATIENCE_MS: u64 = 20;

/// A read that waits.
#[derive(Debug)]
struct Reading {
    ticket: Ticket,
    key: Bytes,
    remaining: bool,
    deadline_ms: u64,
}

/// Waiting reads, oldest first: `behind`, then `asked`, then `gathered`.
#[derive(Debug)]
pub(super) struct Confirming {
    /// Reads that wait until changes up to the revision are known, or until the time in milliseconds.
    behind: VecDeque<(Revision, u64, Vec<Reading>)>,
    /// Reads that wait for the engine's revision, by engine request.
    asked: VecDeque<(AskId, Vec<Reading>)>,
    /// Time at which the gathered reads began to gather.
    gathered_ms: u64,
    /// Reads of the next engine request.
    gathered: Vec<Reading>,
    /// Number of waiting reads for each bucket.
    counts: Box<[u32]>,
    /// The highest revision whose changes became known too late.
    too_late: Revision,
    /// Lower bound of all deadlines.
    deadline_ms: u64,
}

impl Default for Confirming {
    fn default() -> Self {
        Self {
            behind: VecDeque::new(),
            asked: VecDeque::new(),
            gathered_ms: 0,
            gathered: Vec::new(),
            counts: vec![0; usize::from(BUCKETS)].into(),
            too_late: Revision(0),
            deadline_ms: u64::MAX,
        }
    }
}

impl Confirming {
    fn count(&mut self, key: &[u8]) -> &mut u32 {
        &mut self.counts[usize::from(bucket_of(key))]
    }

    fn add(&mut self, reading: Reading, now_ms: u64) {
        if self.gathered.is_empty() {
            self.gathered_ms = now_ms;
        }
        *self.count(&reading.key) += 1;
        self.deadline_ms = self.deadline_ms.min(reading.deadline_ms);
        self.gathered.push(reading);
    }

    /// Returns the number of reads whose engine request can be sent at any time.
    pub(super) fn gathered(&self) -> usize {
        if self.asked.len() < OVERLAPPING {
            self.gathered.len()
        } else {
            0
        }
    }

    /// Returns the latest time for the next engine request.
    fn due_ms(&self) -> Option<u64> {
        let is_due = !self.gathered.is_empty() && self.asked.len() < UNDER_WAY;
        is_due.then_some(self.gathered_ms + GATHERING_MS)
    }

    /// Takes the reads of this engine request and of those before it: the answer holds for them as well.
    fn take_asked(&mut self, ask: AskId) -> Vec<Reading> {
        let Some(place) = self.asked.iter().position(|(asked, _)| *asked == ask) else {
            return Vec::new();
        };
        let asked = self.asked.drain(..=place).map(|(_, reads)| reads);
        asked.reduce(together).unwrap_or_default()
    }

    /// Takes the reads that wait for changes up to this revision.
    fn take_behind(&mut self, known: Revision) -> Vec<Reading> {
        let count = self.behind.partition_point(|(at, ..)| *at <= known);
        let reads = self.behind.drain(..count).map(|(.., reads)| reads);
        reads.reduce(together).unwrap_or_default()
    }

    /// Takes the reads that have waited too long for changes, and those before them.
    fn take_late(&mut self, now_ms: u64) -> Vec<Reading> {
        let count = self
            .behind
            .partition_point(|(_, until_ms, _)| *until_ms <= now_ms);
        let late = self.behind.drain(..count).map(|(at, _, reads)| {
            self.too_late = self.too_late.max(at);
            reads
        });
        late.reduce(together).unwrap_or_default()
    }

    /// Takes the reads for which `is_meant` returns true, in their order.
    fn extract(&mut self, mut is_meant: impl FnMut(&Reading) -> bool) -> Vec<Reading> {
        let behind = self.behind.iter_mut().map(|(.., reads)| reads);
        let asked = self.asked.iter_mut().map(|(_, reads)| reads);
        let all = behind.chain(asked).chain([&mut self.gathered]);
        let mut taken = Vec::new();
        for reads in all {
            taken.extend(reads.extract_if(.., |reading| is_meant(reading)));
        }
        taken
    }

    fn take_key(&mut self, key: &[u8]) -> Vec<Reading> {
        if *self.count(key) == 0 {
            return Vec::new();
        }
        self.extract(|reading| reading.key == key)
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        let behind = self.behind.front().map(|(_, until_ms, _)| *until_ms);
        let deadline = Some(self.deadline_ms).filter(|ms| *ms < u64::MAX);
        [behind, deadline, self.due_ms()]
            .into_iter()
            .flatten()
            .min()
    }
}

fn together(mut reads: Vec<Reading>, next: Vec<Reading>) -> Vec<Reading> {
    reads.extend(next);
    reads
}

impl<L: Link> Remote<L> {
    /// Adds the operation if it is a read that waits only for the engine's revision. Returns whether it was added.
    pub(super) fn confirms(
        &mut self,
        asked: &Asked,
        key: &Bytes,
        operation: &Operation<'_>,
    ) -> bool {
        let Operation::Get { remaining, .. } = *operation else {
            return false;
        };
        let is_up_to_date = self
            .known()
            .is_some_and(|known| known >= self.confirming.too_late);
        if !is_up_to_date
            || !self.link.counts_revisions()
            || self.tasks.is_busy(key)
            || !self.guesses.has(key)
        {
            return false;
        }
        let deadline_ms = asked
            .deadline_ms
            .unwrap_or_else(|| Tasks::deadline(asked.now));
        let reading = Reading {
            ticket: asked.ticket,
            key: key.clone(),
            remaining,
            deadline_ms,
        };
        self.confirming.add(reading, asked.now.mono_ms);
        true
    }

    /// Requests the engine's revision if it is time.
    pub(super) fn ask_revision_due(&mut self, now: Now) {
        let due_ms = self.confirming.due_ms();
        if due_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.ask_revision();
        }
    }

    /// Requests the engine's revision.
    pub(super) fn ask_revision(&mut self) {
        let ask = self.ask(Ask::Revision);
        let reads = std::mem::take(&mut self.confirming.gathered);
        self.confirming.asked.push_back((ask, reads));
    }

    /// Records the engine's revision.
    pub(super) fn told_revision(
        &mut self,
        ask: AskId,
        result: Result<Revision, Option<EngineError>>,
        now: Now,
    ) {
        let reads = self.confirming.take_asked(ask);
        if reads.is_empty() {
            return;
        }
        match (result, self.known()) {
            (Ok(at), Some(known)) if at <= known => self.confirm(reads, now),
            (Ok(at), Some(_)) => {
                let until_ms = now.mono_ms + PATIENCE_MS;
                self.confirming.behind.push_back((at, until_ms, reads));
            }
            _ => {
                // The earlier reads go first, since reads of a key end in order.
                let behind = self.confirming.take_behind(Revision(u64::MAX));
                self.unconfirmed(together(behind, reads));
            }
        }
    }

    /// Answers the reads that wait for changes up to this revision, which are known now.
    pub(super) fn confirm_until(&mut self, known: Revision, now: Now) {
        if !self.confirming.behind.is_empty() {
            let reads = self.confirming.take_behind(known);
            self.confirm(reads, now);
        }
    }

    /// Answers reads whose cached records are confirmed by the engine.
    fn confirm(&mut self, reads: Vec<Reading>, now: Now) {
        let mut count = 0;
        for reading in reads {
            let key = &reading.key;
            // An earlier read of the key may have gone to the engine, and this one ends behind it.
            let seen = self.guesses.look(key).filter(|_| !self.tasks.is_busy(key));
            let end =
                seen.and_then(|seen| plan::look((key, seen), reading.remaining, &self.sights, now));
            let Some(end) = end else {
                self.add_reading(reading);
                continue;
            };
            count += 1;
            *self.confirming.count(key) -= 1;
            self.tasks.put_ended(reading.ticket, end);
        }
        self.standing.confirmed(count);
    }

    /// Sends the reads to the engine.
    fn unconfirmed(&mut self, reads: Vec<Reading>) {
        for reading in reads {
            self.add_reading(reading);
        }
    }

    /// Sends the waiting reads of a key to the engine, because another operation on it follows.
    pub(super) fn read_plainly(&mut self, key: &[u8]) {
        for reading in self.confirming.take_key(key) {
            self.add_reading(reading);
        }
    }

    fn add_reading(&mut self, reading: Reading) {
        *self.confirming.count(&reading.key) -= 1;
        let read = Operation::Get {
            remaining: reading.remaining,
            eventual: false,
        };
        let work = Work::Operation(OwnedOperation::of(&read));
        let (ticket, keys) = (Some(reading.ticket), smallvec![reading.key]);
        self.tasks
            .add(ticket, None, reading.deadline_ms, keys, work);
    }

    /// Expires reads, and sends those to the engine that have waited too long.
    pub(super) fn pass_confirming(&mut self, now: Now) {
        if self.confirming.deadline_ms <= now.mono_ms {
            let mut next_ms = u64::MAX;
            let over = self.confirming.extract(|reading| {
                let is_over = reading.deadline_ms <= now.mono_ms;
                if !is_over {
                    next_ms = next_ms.min(reading.deadline_ms);
                }
                is_over
            });
            self.confirming.deadline_ms = next_ms;
            for reading in over {
                *self.confirming.count(&reading.key) -= 1;
                self.tasks.put_ended(reading.ticket, End::Expired);
            }
        }
        let late = self.confirming.take_late(now.mono_ms);
        self.unconfirmed(late);
    }

    /// Sends the waiting reads to the engine, because changes may have been missed.
    pub(super) fn doubt_confirming(&mut self) {
        self.confirming.too_late = Revision(0);
        let reads = self.confirming.take_behind(Revision(u64::MAX));
        self.unconfirmed(reads);
    }

    /// Refuses all waiting reads, because the engine is away.
    pub(super) fn give_up_confirming(&mut self) {
        self.confirming.counts.fill(0);
        for reading in self.confirming.extract(|_| true) {
            self.tasks.put_ended(reading.ticket, End::Away);
        }
    }
}

#[cfg(test)]
mod tests;
