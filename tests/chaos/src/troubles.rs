//! The kinds of faults, and their counters.
use std::collections::BTreeMap;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A server is killed and restarted.
    KillServer,
    /// A server is killed and restarted while its disk is slow, so that a commit is always pending.
    KillBusyServer,
    /// A server is paused.
    StopServer,
    /// A client process is killed and replaced.
    KillClient,
    /// A client process is paused.
    StopClient,
    /// All connections are reset.
    Cut,
    /// All connections end in good order, although no side closed them.
    Finish,
    /// Connections are cut in the middle of packets.
    Torn,
    /// A direction is blocked silently.
    HalfOpen,
    /// Existing and new connections are blocked silently.
    Silence,
    /// Connections are reset, and new ones are rejected.
    Refused,
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
pub const ANYWHERE: [Trouble; 14] = [
    Trouble::KillServer,
    Trouble::StopServer,
    Trouble::KillClient,
    Trouble::StopClient,
    Trouble::Cut,
    Trouble::Finish,
    Trouble::Torn,
    Trouble::HalfOpen,
    Trouble::Silence,
    Trouble::Refused,
    Trouble::Slow,
    Trouble::Throttled,
    Trouble::ServerClock,
    Trouble::ClientClock,
];

/// Faults of a server with a disk.
pub const WITH_DISK: [Trouble; 4] = [
    Trouble::KillBusyServer,
    Trouble::DiskFull,
    Trouble::SlowDisk,
    Trouble::FailedSync,
];

/// A deck that deals the faults evenly, in random order.
#[derive(Debug)]
pub struct Deck {
    all: Vec<Trouble>,
    left: Vec<Trouble>,
    /// Number of times that each fault was dealt.
    pub counts: BTreeMap<Trouble, usize>,
}

impl Deck {
    /// Creates a deck with the possible faults.
    pub fn new(has_disk: bool) -> Self {
        let mut all = ANYWHERE.to_vec();
        if has_disk {
            all.extend(WITH_DISK);
        }
        let counts = all.iter().map(|trouble| (*trouble, 0)).collect();
        Self {
            all,
            left: Vec::new(),
            counts,
        }
    }

    /// Deals the next fault.
    pub fn deal(&mut self, chance: &mut fastrand::Rng) -> Trouble {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            chance.shuffle(&mut self.left);
        }
        let trouble = self.left.pop().expect("it was filled");
        *self.counts.entry(trouble).or_default() += 1;
        trouble
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_dealt_as_often_and_the_order_is_that_of_the_seed() {
        let deal = |seed| {
            let (mut deck, mut chance) = (Deck::new(true), fastrand::Rng::with_seed(seed));
            let dealt: Vec<_> = (0..36).map(|_| deck.deal(&mut chance)).collect();
            assert!(deck.counts.values().all(|count| *count == 2), "{deck:?}");
            dealt
        };
        assert_eq!(deal(1), deal(1));
        assert_ne!(deal(1), deal(2));
    }
}
