//! Whole clients and the whole server in one thread, on a simulated network, disk and clock.
//!
//! A [run] is defined by one number, its seed: the same seed gives the same run on every machine. The client
//! ([`statestore::Client`] with all its tasks), the server's connections, hub, service and storage, and every byte between them
//! are real. Time, the wall clocks, the network, and the disk are simulated, each with its faults. `docs/testing.md` lists the
//! faults and the checks.
// The whole crate is a test: a panic fails it.
#![allow(clippy::unwrap_used)]

pub mod atomicity;
mod broker;
mod broker_scenario;
mod disk;
pub mod enumeration;
mod faults;
mod ground_truth;
mod history;
mod key_timeline;
pub mod linearizability;
mod register;
mod scenario;
mod seeded_rng;
pub mod shared;
mod simulation;
mod trace;
mod wire_monitor;

pub use faults::{FaultCounts, Mishap};

use bytes::Bytes;
use simulation::Simulation;
use std::fmt;
use tokio::time::sleep_until;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Place of the server.
    pub placement: ServerPlacement,
    /// The violated invariant, if there is one.
    pub violation: Option<String>,
    /// The trace of the run, if it was requested.
    pub trace: Vec<String>,
    /// Counters of the run.
    pub metrics: RunMetrics,
    /// Keys with a history that took long to decide.
    pub slow_histories: Vec<Bytes>,
}

/// Counters of a run, which show that it was not idle.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RunMetrics {
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
    pub slow_histories: usize,
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
    pub faults: FaultCounts,
}

impl std::ops::AddAssign for RunMetrics {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.connections += other.connections;
        self.changes += other.changes;
        self.observations += other.observations;
        self.slow_histories += other.slow_histories;
        self.undecided += other.undecided;
        self.crashes += other.crashes;
        self.merges += other.merges;
        self.transactions += other.transactions;
        self.probes += other.probes;
        self.broker_losses += other.broker_losses;
        self.detachments += other.detachments;
        self.faults += other.faults;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        match &self.violation {
            None => write!(f, "seed {}: {:?}", self.seed, self.metrics),
            Some(violation) => write!(
                f,
                "seed {0}: {violation}\nSee it happen: SIMULATION_SEED={0} cargo test -p simulation --test seeds {1} -- --nocapture",
                self.seed,
                match self.placement {
                    ServerPlacement::Direct => "every",
                    ServerPlacement::BehindBroker => "behind",
                    ServerPlacement::WithPatterns => "patterns",
                }
            ),
        }
    }
}

/// Place of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPlacement {
    /// Clients connect to it.
    Direct,
    /// Behind a broker: the server is a client of it, like all others.
    BehindBroker,
    /// Clients connect to it, and observe patterns.
    WithPatterns,
}

/// Runs one seed to its end, or to the first violation.
pub fn run(seed: u64, place: ServerPlacement, is_traced: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread");
    let world = runtime.block_on(async {
        let world = Simulation::new(seed, place, is_traced);
        world.lock().unwrap().set_up();
        loop {
            let (wakeup, changed) = {
                let mut world = world.lock().unwrap();
                world.handle_due_events();
                if world.has_ended || world.violation().is_some() {
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
        .observers
        .iter()
        .map(|following| following.observations.len());
    let told_of_patterns = world
        .pattern_observers
        .iter()
        .map(|observer| observer.events);
    let mut mishaps = world.fault_counts;
    mishaps += world.server.disk_faults();
    let counts = RunMetrics {
        operations: world.operations.len(),
        unknown: world.count_unknown(),
        connections: world.links.len(),
        changes: world.ground_truth.changes.len(),
        observations: told.chain(told_of_patterns).sum(),
        slow_histories: world.slow_histories.len(),
        undecided: world.undecided,
        crashes: world.crashes,
        merges: world.merges,
        transactions: world.transactions,
        probes: world.probes,
        broker_losses: world.broker_losses,
        detachments: world.detachments,
        faults: mishaps,
    };
    Report {
        seed,
        placement: place,
        violation: world.violation().cloned(),
        trace: std::mem::take(&mut world.trace).into_lines(),
        metrics: counts,
        slow_histories: std::mem::take(&mut world.slow_histories),
    }
}
