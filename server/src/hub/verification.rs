//! Logins that another thread verifies, since that takes long.
//!
//! ```text
//!   waiting ──next_verification──▶ Verification::run, on whatever thread ──▶ Verified ──▶ Hub::verified
//! ```
//!
//! Passwords for one user from one address are verified one at a time. The next one is delayed by a refusal before it, or accepted at once
//! if the one before was right and is equal.
use super::{ConnectionId, Hub};
use crate::access::{HashingMemory, Job, Verdict};
use crate::clock::Now;
use crate::connection::{Connection, Stage};
use std::collections::VecDeque;

/// Maximum number of logins that wait; one more is refused with "server busy".
const MOST_WAITING: usize = 1024;

/// A login to be verified.
#[derive(Debug)]
pub struct Verification {
    connection: ConnectionId,
    epoch: u64,
    job: Job,
    memory: HashingMemory,
}

/// The result of a verification.
#[derive(Debug)]
pub struct Verified {
    pub(super) connection: ConnectionId,
    pub(super) epoch: u64,
    pub(super) verdict: Verdict,
    pub(super) memory: HashingMemory,
}

impl Verification {
    /// Verifies the login; may take tens of milliseconds, and read a file.
    pub fn run(mut self) -> Verified {
        Verified {
            connection: self.connection,
            epoch: self.epoch,
            verdict: self.job.run(&mut self.memory),
            memory: self.memory,
        }
    }
}

/// A login that waits.
#[derive(Debug)]
struct Waiting {
    connection: ConnectionId,
    /// Hash of user and address; of equal ones, one login is verified at a time.
    line: Option<u64>,
    has_turn: bool,
}

/// A login that another thread verifies.
#[derive(Debug)]
struct UnderWay {
    connection: ConnectionId,
    line: Option<u64>,
    hashing_bytes: usize,
}

/// All logins that are verified by other threads, and those that wait for it.
#[derive(Debug, Default)]
pub(super) struct Verifications {
    waiting: VecDeque<Waiting>,
    under_way: Vec<UnderWay>,
    /// Memory of each free slot.
    free: Vec<HashingMemory>,
    /// Whether the next login needs the memory of a slot that is in use, since the process has none for another slot.
    lacks_memory: bool,
    /// Number of changes of the users. Results for former users do not count.
    epoch: u64,
}

impl Verifications {
    /// Makes the results of verifications under way void.
    pub(super) fn begin_anew(&mut self) {
        self.epoch += 1;
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Queues a login; quick ones go first. Returns false if there is no room.
    pub(super) fn push(
        &mut self,
        connection: ConnectionId,
        line: Option<u64>,
        has_turn: bool,
        is_quick: bool,
    ) -> bool {
        if self.waiting.len() >= MOST_WAITING {
            return false;
        }
        let waiting = Waiting {
            connection,
            line,
            has_turn,
        };
        if is_quick {
            self.waiting.push_front(waiting);
        } else {
            self.waiting.push_back(waiting);
        }
        true
    }

    /// Returns the index of the first login that may be verified.
    fn first(&self) -> Option<usize> {
        let is_free = |waiting: &Waiting| {
            waiting.line.is_none() || self.under_way.iter().all(|it| it.line != waiting.line)
        };
        self.waiting.iter().position(is_free)
    }

    /// Takes back the memory of a login whose verification has ended.
    pub(super) fn ended(&mut self, connection: ConnectionId, memory: HashingMemory) {
        self.under_way.retain(|it| it.connection != connection);
        self.free.push(memory);
        self.lacks_memory = false;
    }

    /// Takes the free slot with the most memory.
    fn take_slot(&mut self) -> HashingMemory {
        let slots = self.free.iter().enumerate();
        let largest = slots.max_by_key(|(_, memory)| memory.bytes());
        match largest.map(|(index, _)| index) {
            Some(index) => self.free.swap_remove(index),
            None => HashingMemory::default(),
        }
    }

    /// Returns the bytes of memory that the slots for hashing take.
    pub(super) fn hashing_bytes(&self) -> usize {
        let free: usize = self.free.iter().map(HashingMemory::bytes).sum();
        let used: usize = self.under_way.iter().map(|it| it.hashing_bytes).sum();
        free + used
    }
}

impl Hub {
    /// Returns the next login to be [verified](Verification::run), if any waits. A driver runs it soon and on another thread, since its
    /// connection waits for the [result](Self::verified). It has few of them under way at a time.
    pub fn next_verification(&mut self, now: Now) -> Option<Verification> {
        let verification = loop {
            let Some(place) = self.verifications.first() else {
                break None;
            };
            let Some(waiting) = self.verifications.waiting.remove(place) else {
                break None;
            };
            let id = waiting.connection;
            let stage = self
                .connections
                .get(id)
                .and_then(Connection::proving)
                .map(|proving| &proving.stage);
            if !matches!(stage, Some(Stage::Queued)) {
                // The connection is gone, or its login has ended.
                continue;
            }
            if !waiting.has_turn && !self.has_turn(id, now) {
                continue;
            }
            if let Some(job) = self.look(id, now) {
                let memory = self.verifications.take_slot();
                let needed = job.hashing_bytes();
                if memory.bytes() < needed
                    && !self.verifications.under_way.is_empty()
                    && !self.large_allocations.allows(needed)
                {
                    self.verifications.free.push(memory);
                    self.wait_for_memory(&waiting);
                    break None;
                }
                self.verifications.under_way.push(UnderWay {
                    connection: id,
                    line: waiting.line,
                    hashing_bytes: memory.bytes().max(needed),
                });
                break Some(Verification {
                    connection: id,
                    epoch: self.verifications.epoch,
                    job,
                    memory,
                });
            }
        };
        self.settle(now);
        verification
    }

    /// Queues a login again, until another one returns the memory of its slot.
    fn wait_for_memory(&mut self, waiting: &Waiting) {
        let connection = self.connections.get_mut(waiting.connection);
        if let Some(proving) = connection.and_then(Connection::proving_mut) {
            proving.stage = Stage::Queued;
        }
        let verifications = &mut self.verifications;
        verifications.lacks_memory = true;
        verifications.waiting.push_front(Waiting {
            has_turn: true,
            ..*waiting
        });
    }

    /// Returns whether there may be a [next verification](Self::next_verification).
    pub fn has_verification(&self) -> bool {
        !self.verifications.lacks_memory && self.verifications.first().is_some()
    }
}
