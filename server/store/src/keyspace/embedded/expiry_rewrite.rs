//! Times at which entries expire, as the storage has them.
//!
//! Deadlines are counted on the monotonic clock, which ends with the process. The next process restores them by the wall clock.
//! That clock may jump ahead, for example if a machine gets the time from the network a while after its start. The entries stored
//! before the jump would then be expired at the next start. So the keyspace reports all entries that expire again, a part at a time.
use super::{EmbeddedKeyspace, PackedEntry};
use crate::keyspace::EventSink;
use bytes::Bytes;
use statestore_protocol::Hlc;
use statestored_common::ClockReading;
use statestored_storage::{Expiry, Record};

/// Maximum jump of the wall clock, in milliseconds, after which the stored ends stay as they are.
const MAX_JUMP_MS: i128 = 1_000;

/// Maximum number of entries reported at a time, and of their bytes. The last entry may exceed the bytes.
const SLICE_ENTRIES: usize = 256;
const SLICE_BYTES: usize = 256 * 1024;

/// Lead of the wall clock at which the ends of entries were stored, and the pass that reports them again.
#[derive(Debug, Default)]
pub(super) struct ExpiryRewrite {
    /// Smallest lead of the wall clock over the monotonic clock when an end was stored; `None` before the first.
    lead_ms: Option<i128>,
    /// Deadline to report next, with the hash of its key; `None` if no pass is under way.
    next_deadline: Option<(u64, u64)>,
}

fn lead_ms(now: ClockReading) -> i128 {
    i128::from(now.wall_ms) - i128::from(now.mono_ms)
}

impl ExpiryRewrite {
    /// Records that the storage gets the end of an entry by the clocks of `now`.
    pub(super) fn expiry_stored(&mut self, now: ClockReading) {
        let ahead_ms = lead_ms(now);
        self.lead_ms = Some(self.lead_ms.map_or(ahead_ms, |least| least.min(ahead_ms)));
    }

    /// Returns the deadline at which the pass continues, or starts after a jump; `None` if there is nothing to report.
    fn due_deadline(&mut self, now: ClockReading) -> Option<(u64, u64)> {
        let ahead_ms = lead_ms(now);
        if ahead_ms - self.lead_ms? > MAX_JUMP_MS {
            self.lead_ms = Some(ahead_ms);
            self.next_deadline = Some((0, 0));
        }
        self.next_deadline
    }
}

impl EmbeddedKeyspace {
    /// Reports a part of the entries whose ends were stored before the wall clock jumped. Returns whether more follow.
    pub(super) fn rewrite_expiry_slice(
        &mut self,
        now: ClockReading,
        events: &mut dyn EventSink,
    ) -> bool {
        let Some(next) = self.expiry_rewrite.due_deadline(now) else {
            return false;
        };
        let (mut entries, mut bytes) = (0, 0);
        self.expiry_rewrite.next_deadline = None;
        for (deadline_ms, hash) in self.expiry_index.from(next) {
            if entries >= SLICE_ENTRIES || bytes >= SLICE_BYTES {
                self.expiry_rewrite.next_deadline = Some((deadline_ms, hash));
                break;
            }
            let same_hash = self.table.with_hash(hash);
            for packed in same_hash.filter(|it| it.key_and_deadline().1 == Some(deadline_ms)) {
                entries += 1;
                bytes += packed.len();
                if let Some(record) = record(packed, now) {
                    events.expiry_rewritten(record);
                }
            }
        }
        events.add_work(bytes);
        self.expiry_rewrite.next_deadline.is_some()
    }
}

/// Returns an entry with its remaining time; `None` if it has expired, or does not expire.
fn record(packed: &PackedEntry, now: ClockReading) -> Option<Record> {
    let fields = packed.fields();
    let left_ms = fields.deadline_ms()?.checked_sub(now.mono_ms)?;
    let fence = match fields.token {
        None => None,
        Some(token) => {
            let node_id = std::str::from_utf8(token.node_id).ok()?;
            Some(Hlc::new(token.wall_ms, token.counter, node_id).ok()?)
        }
    };
    Some(Record {
        key: Bytes::copy_from_slice(fields.key),
        value: Bytes::copy_from_slice(fields.value),
        version: fields.version,
        fence,
        expiry: Some(Expiry {
            at_wall_ms: now.wall_ms.saturating_add(left_ms),
            ttl_ms: left_ms,
        }),
    })
}
