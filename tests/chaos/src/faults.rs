//! The kinds of faults, and their counters.
use std::collections::BTreeMap;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A server is killed and restarted.
    KillServer,
    /// A server is killed and restarted while its disk is slow, so that a commit is always pending.
    KillBusyServer,
    /// A server is paused.
    PauseServer,
    /// A client process is killed and replaced.
    KillClient,
    /// A client process is paused.
    PauseClient,
    /// All connections are reset.
    Cut,
    /// All connections end in good order, although no side closed them.
    Finish,
    /// Connections are cut in the middle of packets.
    CutInPackets,
    /// A direction is blocked silently.
    HalfOpen,
    /// Existing and new connections are blocked silently.
    SilenceConnections,
    /// Connections are reset, and new ones are rejected.
    RejectConnections,
    /// All data is delayed.
    Slow,
    /// Few bytes pass in a second.
    Throttled,
    /// A server's clock is set ahead, and later back.
    ServerClock,
    /// The clock of a client process is set ahead, and later back.
    ClientClock,
    /// The disk is full.
    DiskFull,
    /// Each sync takes long.
    SlowDisk,
    /// A sync fails: the server has to end.
    FailedSync,
}

/// Faults of any server.
pub const GENERAL_FAULTS: [Fault; 14] = [
    Fault::KillServer,
    Fault::PauseServer,
    Fault::KillClient,
    Fault::PauseClient,
    Fault::Cut,
    Fault::Finish,
    Fault::CutInPackets,
    Fault::HalfOpen,
    Fault::SilenceConnections,
    Fault::RejectConnections,
    Fault::Slow,
    Fault::Throttled,
    Fault::ServerClock,
    Fault::ClientClock,
];

/// Faults of a server with a disk.
pub const DISK_FAULTS: [Fault; 4] = [
    Fault::KillBusyServer,
    Fault::DiskFull,
    Fault::SlowDisk,
    Fault::FailedSync,
];

/// A deck that deals the faults evenly, in random order.
#[derive(Debug)]
pub struct FaultDeck {
    all: Vec<Fault>,
    remaining: Vec<Fault>,
    /// Number of times that each fault was dealt.
    pub counts: BTreeMap<Fault, usize>,
}

impl FaultDeck {
    /// Creates a deck with the possible faults.
    pub fn new(has_disk: bool) -> Self {
        let mut all = GENERAL_FAULTS.to_vec();
        if has_disk {
            all.extend(DISK_FAULTS);
        }
        let counts = all.iter().map(|trouble| (*trouble, 0)).collect();
        Self {
            all,
            remaining: Vec::new(),
            counts,
        }
    }

    /// Deals the next fault.
    pub fn deal(&mut self, chance: &mut fastrand::Rng) -> Fault {
        if self.remaining.is_empty() {
            self.remaining.clone_from(&self.all);
            chance.shuffle(&mut self.remaining);
        }
        let trouble = self.remaining.pop().expect("it was filled");
        *self.counts.entry(trouble).or_default() += 1;
        trouble
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_dealt_equally_often_in_the_order_of_the_seed() {
        let deal = |seed| {
            let (mut deck, mut chance) = (FaultDeck::new(true), fastrand::Rng::with_seed(seed));
            let dealt: Vec<_> = (0..36).map(|_| deck.deal(&mut chance)).collect();
            assert!(deck.counts.values().all(|count| *count == 2), "{deck:?}");
            dealt
        };
        assert_eq!(deal(1), deal(1));
        assert_ne!(deal(1), deal(2));
    }
}
