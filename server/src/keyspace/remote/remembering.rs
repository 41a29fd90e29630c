//! What is remembered of keys, and the reads that are answered from that: those who ask for no more.
//!
//! Such an answer is a state that the key had, and never older than what this node has answered or told of the key before.
//! There is none unless all changes are known as they come, the watch has spoken lately, and the key was looked at lately;
//! then the read goes to the engine like any other.
use super::Remote;
use super::engine::{AskId, Link, Revision, Seen};
use super::plan::{Circumstances, Decision, Work};
use super::record::{Record, WriteId};
use crate::clock::Now;
use crate::keyspace::rules::Operation;
use crate::keyspace::{End, OwnedOperation};
use bytes::Bytes;

impl<L: Link> Remote<L> {
    /// What a read answers that may be answered from a moment ago, if that is known.
    pub(super) fn remembered(
        &mut self,
        key: &Bytes,
        operation: &Operation<'_>,
        now: Now,
    ) -> Option<End> {
        let Operation::Get { eventual: true, .. } = operation else {
            return None;
        };
        // A watch that has been silent may be behind, though nobody has noticed yet: this process may have stood still.
        let silent_ms = now.mono_ms.saturating_sub(self.heard_ms);
        if !self.is_live() || silent_ms > self.config.trust_ms {
            return None;
        }
        let seen = self.guesses.of(std::slice::from_ref(key))?;
        if let Some((record, revision)) = &seen[0].record
            && record.expiry().is_some()
        {
            self.sights.left_ms(key, *revision, now)?;
        }
        let circumstances = Circumstances {
            keys: std::slice::from_ref(key),
            seen: &seen,
            sights: &self.sights,
            now,
            // A read writes nothing.
            write: WriteId {
                process: self.config.process,
                number: 0,
            },
        };
        let work = Work::Operation(OwnedOperation::of(operation));
        let Decision::Ended(end) = circumstances.decide(&work) else {
            // Its time is over: somebody has to commit that first.
            return None;
        };
        self.standing.remembered();
        Some(end)
    }

    /// An answer to `ask` says what keys hold.
    pub(super) fn saw_keys(&mut self, ask: AskId, keys: &[Bytes], seen: &[Seen], now: Now) {
        for (key, seen) in keys.iter().zip(seen) {
            self.guesses.saw(ask, key, seen);
            match &seen.record {
                Some((record, revision)) => self.saw(key, record, *revision, now),
                None => self.sights.saw_none(key, seen.revision()),
            }
        }
    }

    pub(super) fn saw(&mut self, key: &Bytes, record: &Record, revision: Revision, now: Now) {
        self.highest = self.highest.max(record.version);
        self.guesses.changed(key, record, revision);
        self.sights.saw(key, record, revision, now, false);
    }
}
