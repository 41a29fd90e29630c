//! When entries end, as the storage has it.
//!
//! Deadlines are counted on the clock that never jumps, which ends with the process. The next one goes by the wall clock. If that
//! jumps ahead, as on a machine that learns the time from the network a while after its start, what was stored before would be over
//! at the next start. So it is told anew then: all entries that end, a part at a time.
use super::{Embedded, Packed};
use crate::clock::Now;
use crate::keyspace::Told;
use crate::storage::{Expiry, Record};
use bytes::Bytes;
use statestore_protocol::Hlc;

/// A wall clock that is no further ahead than this is let be.
const MOST_AHEAD_MS: i128 = 1_000;

/// Most entries that are told at a time, and most bytes of them; the last one may exceed these.
const PART_ENTRIES: usize = 256;
const PART_BYTES: usize = 256 * 1024;

/// By which clock the storage knows when entries end.
#[derive(Debug, Default)]
pub(super) struct Dating {
    /// By how much the wall clock was ahead of the one that never jumps when it was looked at for what is stored, at least.
    ahead_ms: Option<i128>,
    /// The deadline, with the hash of its key, that is to be told next.
    next: Option<(u64, u64)>,
}

fn ahead_ms(now: Now) -> i128 {
    i128::from(now.wall_ms) - i128::from(now.mono_ms)
}

impl Dating {
    /// The storage has the end of an entry as of now.
    pub(super) fn stored(&mut self, now: Now) {
        let ahead_ms = ahead_ms(now);
        self.ahead_ms = Some(self.ahead_ms.map_or(ahead_ms, |least| least.min(ahead_ms)));
    }

    /// Where to go on, if there is anything to be told anew.
    fn next(&mut self, now: Now) -> Option<(u64, u64)> {
        let ahead_ms = ahead_ms(now);
        if ahead_ms - self.ahead_ms? > MOST_AHEAD_MS {
            self.ahead_ms = Some(ahead_ms);
            self.next = Some((0, 0));
        }
        self.next
    }
}

impl Embedded {
    /// Tells a part of what the storage has by a wall clock that has jumped; whether there is more.
    pub(super) fn tell_ends(&mut self, now: Now, told: &mut dyn Told) -> bool {
        let Some(next) = self.dating.next(now) else {
            return false;
        };
        let (mut entries, mut bytes) = (0, 0);
        self.dating.next = None;
        for (deadline_ms, hash) in self.deadlines.from(next) {
            if entries >= PART_ENTRIES || bytes >= PART_BYTES {
                self.dating.next = Some((deadline_ms, hash));
                break;
            }
            let same_hash = self.table.with_hash(hash);
            for packed in same_hash.filter(|it| it.key_and_deadline().1 == Some(deadline_ms)) {
                entries += 1;
                bytes += packed.len();
                if let Some(record) = record(packed, now) {
                    told.redated(record);
                }
            }
        }
        told.worked(bytes);
        self.dating.next.is_some()
    }
}

/// An entry with the time that it has left; `None` if it has none.
fn record(packed: &Packed, now: Now) -> Option<Record> {
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
