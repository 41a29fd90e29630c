//! Logins that another thread verifies, since that takes long.
//!
//! ```text
//!   waiting ──next_verification──▶ Verification::run, on whatever thread ──▶ Verified ──▶ Hub::verified
//! ```
//!
//! Passwords for one user from one address are verified one at a time. The next one is delayed by a refusal before it, or accepted at once
//! if the one before was right and is equal.
use super::{ConnectionId, Hub};
use statestored_access::{HashingMemory, VerificationJob, VerificationOutcome};
use statestored_common::ClockReading;
use statestored_connection::{AuthState, Connection};
use std::collections::VecDeque;

/// Maximum number of logins that wait; one more is refused with "server busy".
const MAX_QUEUED: usize = 1024;

/// A login to be verified.
#[derive(Debug)]
pub struct Verification {
    connection: ConnectionId,
    epoch: u64,
    job: VerificationJob,
    memory: HashingMemory,
}

/// The result of a verification.
#[derive(Debug)]
pub struct CompletedVerification {
    pub(super) connection: ConnectionId,
    pub(super) epoch: u64,
    pub(super) verdict: VerificationOutcome,
    pub(super) memory: HashingMemory,
}

impl Verification {
    /// Verifies the login; may take tens of milliseconds, and read a file.
    pub fn run(mut self) -> CompletedVerification {
        CompletedVerification {
            connection: self.connection,
            epoch: self.epoch,
            verdict: self.job.run(&mut self.memory),
            memory: self.memory,
        }
    }
}

/// A login that waits.
#[derive(Debug)]
struct QueuedVerification {
    connection: ConnectionId,
    /// Hash of user and address; of equal ones, one login is verified at a time.
    serial_key: Option<u64>,
    may_start: bool,
}

/// A login that another thread verifies.
#[derive(Debug)]
struct RunningVerification {
    connection: ConnectionId,
    serial_key: Option<u64>,
    hashing_bytes: usize,
}

/// All logins that are verified by other threads, and those that wait for it.
#[derive(Debug, Default)]
pub(super) struct VerificationQueue {
    queue: VecDeque<QueuedVerification>,
    running: Vec<RunningVerification>,
    /// Memory of each free slot.
    free: Vec<HashingMemory>,
    /// Whether the next login needs the memory of a slot that is in use, since the process has none for another slot.
    lacks_memory: bool,
    /// Number of changes of the users. Results for former users do not count.
    epoch: u64,
}

impl VerificationQueue {
    /// Makes the results of verifications under way void.
    pub(super) fn invalidate_running(&mut self) {
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
        if self.queue.len() >= MAX_QUEUED {
            return false;
        }
        let waiting = QueuedVerification {
            connection,
            serial_key: line,
            may_start: has_turn,
        };
        if is_quick {
            self.queue.push_front(waiting);
        } else {
            self.queue.push_back(waiting);
        }
        true
    }

    /// Returns the index of the first login that may be verified.
    fn next_index(&self) -> Option<usize> {
        let is_free = |waiting: &QueuedVerification| {
            waiting.serial_key.is_none()
                || self
                    .running
                    .iter()
                    .all(|it| it.serial_key != waiting.serial_key)
        };
        self.queue.iter().position(is_free)
    }

    /// Takes back the memory of a login whose verification has ended.
    pub(super) fn finish(&mut self, connection: ConnectionId, memory: HashingMemory) {
        self.running.retain(|it| it.connection != connection);
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
        let used: usize = self.running.iter().map(|it| it.hashing_bytes).sum();
        free + used
    }
}

impl Hub {
    /// Returns the next login to be [verified](Verification::run), if any waits. A driver runs it soon and on another thread, since its
    /// connection waits for the [result](Self::finish_verification). It has few of them under way at a time.
    pub fn next_verification(&mut self, now: ClockReading) -> Option<Verification> {
        let verification = loop {
            let Some(place) = self.verifications.next_index() else {
                break None;
            };
            let Some(waiting) = self.verifications.queue.remove(place) else {
                break None;
            };
            let id = waiting.connection;
            let stage = self
                .connections
                .get(id)
                .and_then(Connection::auth_exchange)
                .map(|proving| &proving.state);
            if !matches!(stage, Some(AuthState::Queued)) {
                // The connection is gone, or its login has ended.
                continue;
            }
            if !waiting.may_start && !self.may_check_login(id, now) {
                continue;
            }
            if let Some(job) = self.check_credentials(id, now) {
                let memory = self.verifications.take_slot();
                let needed = job.hashing_bytes();
                if memory.bytes() < needed
                    && !self.verifications.running.is_empty()
                    && !self.large_allocations.allows(needed)
                {
                    self.verifications.free.push(memory);
                    self.wait_for_memory(&waiting);
                    break None;
                }
                self.verifications.running.push(RunningVerification {
                    connection: id,
                    serial_key: waiting.serial_key,
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
    fn wait_for_memory(&mut self, waiting: &QueuedVerification) {
        let connection = self.connections.get_mut(waiting.connection);
        if let Some(proving) = connection.and_then(Connection::auth_exchange_mut) {
            proving.state = AuthState::Queued;
        }
        let verifications = &mut self.verifications;
        verifications.lacks_memory = true;
        verifications.queue.push_front(QueuedVerification {
            may_start: true,
            ..*waiting
        });
    }

    /// Returns whether there may be a [next verification](Self::next_verification).
    pub fn has_verification(&self) -> bool {
        !self.verifications.lacks_memory && self.verifications.next_index().is_some()
    }
}
