//! Reads of what is known here. The engine is asked how far it is, once for all that wait for that; when all changes up to there are known, what is
//! known is the answer: it is what a read of the engine between question and answer would have found.
//!
//! Reads of one key end in the order in which they were asked. So behind one that cannot be answered so its key is read from the engine, one after
//! the other; and if anything else is asked of the key, all that wait to read it are read so before it.
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

/// For so long reads gather at most if nobody [says](crate::keyspace::Keyspace::ask_gathered) that no more come soon; for longer only while so many questions
/// are under way.
const GATHERING_MS: u64 = 2;
const UNDER_WAY: usize = 8;

/// While fewer are under way, nobody waits for an answer to others: there is something to do while one is on its way.
const OVERLAPPING: usize = 2;

/// For so long a change that the engine has made may not be known here. Then the engine is read.
const PATIENCE_MS: u64 = 20;

/// A read that waits.
#[derive(Debug)]
struct Reading {
    ticket: Ticket,
    key: Bytes,
    remaining: bool,
    deadline_ms: u64,
}

/// What waits, oldest first: `behind`, then `asked`, then `gathered`.
#[derive(Debug)]
pub(super) struct Confirming {
    /// The engine was so far, and these wait until that is known, or until then.
    behind: VecDeque<(Revision, u64, Vec<Reading>)>,
    /// Under which name it was asked how far the engine is.
    asked: VecDeque<(AskId, Vec<Reading>)>,
    /// Since when they gather.
    gathered_ms: u64,
    /// The next question is for these.
    gathered: Vec<Reading>,
    /// How many are of each bucket.
    counts: Box<[u32]>,
    /// How far the engine was when that was known too late.
    too_late: Revision,
    /// No deadline is earlier.
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

    /// How many wait for a question that can be asked at any time.
    pub(super) fn gathered(&self) -> usize {
        if self.asked.len() < OVERLAPPING {
            self.gathered.len()
        } else {
            0
        }
    }

    /// When the engine is to be asked at the latest.
    fn due_ms(&self) -> Option<u64> {
        let is_due = !self.gathered.is_empty() && self.asked.len() < UNDER_WAY;
        is_due.then_some(self.gathered_ms + GATHERING_MS)
    }

    /// Those that were asked before this question or the ones before it: the answer holds for them as well.
    fn take_asked(&mut self, ask: AskId) -> Vec<Reading> {
        let Some(place) = self.asked.iter().position(|(asked, _)| *asked == ask) else {
            return Vec::new();
        };
        let asked = self.asked.drain(..=place).map(|(_, reads)| reads);
        asked.reduce(together).unwrap_or_default()
    }

    /// Those that wait for changes up to this revision.
    fn take_behind(&mut self, known: Revision) -> Vec<Reading> {
        let count = self.behind.partition_point(|(at, ..)| *at <= known);
        let reads = self.behind.drain(..count).map(|(.., reads)| reads);
        reads.reduce(together).unwrap_or_default()
    }

    /// Those that have waited for changes in vain, and those before them.
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

    /// Those for which this holds, in their order.
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
    /// Whether an operation is a read that waits only until it is known how far the engine is.
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

    /// Asks how far the engine is, if it is time.
    pub(super) fn ask_revision_due(&mut self, now: Now) {
        let due_ms = self.confirming.due_ms();
        if due_ms.is_some_and(|at_ms| at_ms <= now.mono_ms) {
            self.ask_revision();
        }
    }

    /// Asks how far the engine is.
    pub(super) fn ask_revision(&mut self) {
        let ask = self.ask(Ask::Revision);
        let reads = std::mem::take(&mut self.confirming.gathered);
        self.confirming.asked.push_back((ask, reads));
    }

    /// So far the engine was.
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
                // Those before them first: what ends in order is read in order.
                let behind = self.confirming.take_behind(Revision(u64::MAX));
                self.unconfirmed(together(behind, reads));
            }
        }
    }

    /// All changes up to this revision are known.
    pub(super) fn confirm_until(&mut self, known: Revision, now: Now) {
        if !self.confirming.behind.is_empty() {
            let reads = self.confirming.take_behind(known);
            self.confirm(reads, now);
        }
    }

    /// What is known of the keys of these is what the engine has.
    fn confirm(&mut self, reads: Vec<Reading>, now: Now) {
        let mut count = 0;
        for reading in reads {
            let key = &reading.key;
            // One before it may have had to be read, and this one ends behind it.
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

    /// The engine is asked what the keys of these hold.
    fn unconfirmed(&mut self, reads: Vec<Reading>) {
        for reading in reads {
            self.add_reading(reading);
        }
    }

    /// What waits to read a key is read from the engine: something else is to be done on it.
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

    /// Lets time pass.
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

    /// Changes may be missed: nobody waits for them any longer.
    pub(super) fn doubt_confirming(&mut self) {
        self.confirming.too_late = Revision(0);
        let reads = self.confirming.take_behind(Revision(u64::MAX));
        self.unconfirmed(reads);
    }

    /// The engine is away.
    pub(super) fn give_up_confirming(&mut self) {
        self.confirming.counts.fill(0);
        for reading in self.confirming.extract(|_| true) {
            self.tasks.put_ended(reading.ticket, End::Away);
        }
    }
}

#[cfg(test)]
mod tests;
