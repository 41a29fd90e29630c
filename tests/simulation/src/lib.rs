//! Whole clients and the whole server in one thread, on a simulated network, disk and clock.
//!
//! A [run](run) is defined by one number, its seed: the same seed gives the same run on every machine. The client
//! ([`statestore::Client`] with all its tasks), the server's connections, hub, service and storage, and every byte between them
//! are real. Time, the wall clocks, the network, and the disk are simulated, each with its faults. `docs/testing.md` lists the
//! faults and the checks.
// The whole crate is a test: a panic fails it.
#![allow(clippy::unwrap_used)]

mod broker;
mod chance;
mod checks;
mod course;
mod disk;
pub mod elsewhere;
pub mod enumeration;
mod history;
pub mod linearizability;
mod machine;
mod mishaps;
mod network;
mod observers;
mod register;
mod scenario;
mod server;
mod socket;
mod trace;
mod transactor;
mod truth;
pub mod wholes;
mod wire;
mod witness;
mod workload;
mod world;

pub use mishaps::{Mishap, Mishaps};

use bytes::Bytes;
use std::fmt;
use tokio::time::sleep_until;
use world::World;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Place of the server.
    pub place: Place,
    /// The violated invariant, if there is one.
    pub violation: Option<String>,
    /// The trace of the run, if it was requested.
    pub trace: Vec<String>,
    /// Counters of the run.
    pub counts: Counts,
    /// Keys with a history that took long to decide.
    pub hard: Vec<Bytes>,
}

/// Counters of a run, which show that it was not idle.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls of clients.
    pub operations: usize,
    /// Calls with an unknown outcome.
    pub unknown: usize,
    /// Connections.
    pub connections: usize,
    /// Changes of keys.
    pub changes: usize,
    /// Observations that were reported to observers.
    pub observations: usize,
    /// Histories of a key that took long to decide.
    pub hard: usize,
    /// Histories of these that were not decided after all.
    pub undecided: usize,
    /// Ends of the server.
    pub crashes: usize,
    /// Merges of data files.
    pub merges: usize,
    /// Transactions that were executed and made a change.
    pub transactions: usize,
    /// Checks of the state that an end of the server would have left on the disk.
    pub probes: usize,
    /// Ends of a foreign broker.
    pub broker_losses: usize,
    /// Cuts of the server's connection to that broker.
    pub detachments: usize,
    /// Faults of each kind.
    pub mishaps: Mishaps,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.connections += other.connections;
        self.changes += other.changes;
        self.observations += other.observations;
        self.hard += other.hard;
        self.undecided += other.undecided;
        self.crashes += other.crashes;
        self.merges += other.merges;
        self.transactions += other.transactions;
        self.probes += other.probes;
        self.broker_losses += other.broker_losses;
        self.detachments += other.detachments;
        self.mishaps += other.mishaps;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        match &self.violation {
            None => write!(f, "seed {}: {:?}", self.seed, self.counts),
            Some(violation) => write!(
                f,
                "seed {0}: {violation}\nSee it happen: SIMULATION_SEED={0} cargo test -p simulation --test seeds {1} -- --nocapture",
                self.seed,
                match self.place {
                    Place::Front => "every",
                    Place::Behind => "behind",
                }
            ),
        }
    }
}

/// Place of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Clients connect to it.
    Front,
    /// Behind a broker: the server is a client of it, like all others.
    Behind,
}

/// Runs one seed to its end, or to the first violation.
pub fn run(seed: u64, place: Place, is_traced: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    let world = runtime.block_on(async {
        let world = World::new(seed, place, is_traced);
        world.lock().unwrap().begin();
        loop {
            let (wakeup, changed) = {
                let mut world = world.lock().unwrap();
                world.proceed();
                if world.is_over || world.violation().is_some() {
                    break;
                }
                let next_ms = world.next_ms().unwrap_or(u64::MAX / 2);
                (world.instant(next_ms), world.changed.clone())
            };
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = sleep_until(wakeup) => {}
            }
        }
        world
    });
    // The remaining tasks hang up, for which they need the world.
    drop(runtime);
    let mut world = world.lock().unwrap();
    let told = world
        .followings
        .iter()
        .map(|following| following.told.len());
    let mut mishaps = world.mishaps;
    mishaps += world.server.disk_mishaps();
    let counts = Counts {
        operations: world.operations.len(),
        unknown: world.count_unknown(),
        connections: world.links.len(),
        changes: world.truth.changes.len(),
        observations: told.sum(),
        hard: world.hard.len(),
        undecided: world.undecided,
        crashes: world.crashes,
        merges: world.merges,
        transactions: world.transactions,
        probes: world.probes,
        broker_losses: world.broker_losses,
        detachments: world.detachments,
        mishaps,
    };
    Report {
        seed,
        place,
        violation: world.violation().cloned(),
        trace: std::mem::take(&mut world.trace).into_lines(),
        counts,
        hard: std::mem::take(&mut world.hard),
    }
}
