//! Mutual exclusion under stopped machines, jumping clocks, cut and silent connections, slow disks and restarts.
//!
//! A guard that is valid is the one whose lease the store holds, so two are never valid at once; and no write under an old
//! token is applied after one under a newer token.
//!
//! `LOCK_SEEDS=1000 cargo test -p statestored --test locks exclusion` runs more seeds than CI does.
use crate::lease::{SECOND, lease_options};
use crate::machine::Machine;
use crate::network_simulation::{NetworkSimulation, StoreChange};
use statestore::{Client, ErrorKind, Guard, LockOptions, SetOptions};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NAMES: [&str; 3] = ["one", "two", "three"];
const LEASE: Duration = Duration::from_secs(2);
/// How long there are faults.
const FAULT_DURATION: Duration = Duration::from_secs(120);
/// Size of a clock jump.
const JUMP_MS: i64 = 120_000;
/// How many milliseconds the server counts in a thousand: nearly a hundredth too many, or too few.
const SPEEDS: [u64; 3] = [992, 1_000, 1_008];
/// How many seeds each test runs, unless `LOCK_SEEDS` says otherwise.
const SEEDS: u64 = 8;

/// Faults in addition to stopped machines, cuts, silence and slow networks.
// Each is independent of the others.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Copy)]
struct FaultConfig {
    server_clock: bool,
    client_clocks: bool,
    restarts: bool,
    /// The disk is slow at times, and a restart loses what it does not have.
    disk: bool,
}

impl FaultConfig {
    /// Whether guards exclude each other. A restart after the server's clock jumped ahead shortens leases, so that only
    /// the fence keeps the old holder out.
    fn preserve_leases(self) -> bool {
        !(self.server_clock && self.restarts)
    }
}

/// How often something happened.
#[derive(Debug, Clone, Copy, Default)]
struct EventCounts {
    /// The lock was taken.
    acquired: u32,
    /// The store applied a write of a holder.
    written: u32,
    /// A holder found its guard lost.
    lost: u32,
    /// A holder looked at its guard, was stopped, wrote nevertheless, and was refused by the fence.
    refused: u32,
    stops: u32,
    cuts: u32,
    silences: u32,
    client_jumps: u32,
    server_jumps: u32,
    restarts: u32,
    /// Commits that a restart lost.
    forgotten: u32,
}

impl EventCounts {
    fn add(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.written += other.written;
        self.lost += other.lost;
        self.refused += other.refused;
        self.stops += other.stops;
        self.cuts += other.cuts;
        self.silences += other.silences;
        self.client_jumps += other.client_jumps;
        self.server_jumps += other.server_jumps;
        self.restarts += other.restarts;
        self.forgotten += other.forgotten;
    }
}

/// All guards that any client has.
#[derive(Debug, Clone, Default)]
struct GuardRegistry(Arc<Mutex<Vec<Weak<Guard>>>>);

impl GuardRegistry {
    fn add(&self, guard: &Arc<Guard>) {
        self.0.lock().unwrap().push(Arc::downgrade(guard));
    }

    /// Returns the holders of guards that are valid although the store holds another value.
    fn wrongly_valid_holders(&self, stored: Option<&[u8]>) -> Vec<String> {
        let mut guards = self.0.lock().unwrap();
        guards.retain(|guard| guard.strong_count() > 0);
        let guards = guards.iter().filter_map(Weak::upgrade);
        let valid = guards.filter(|guard| guard.is_valid());
        let mistaken = valid.filter(|guard| stored != Some(guard.holder().name()));
        mistaken.map(|guard| guard.holder().to_string()).collect()
    }
}

fn options() -> LockOptions {
    LockOptions::new()
        .lease(lease_options(LEASE))
        .wait(20 * SECOND)
}

/// Takes the lock again and again, and writes under it.
async fn act(
    machine: Machine,
    client: Client,
    guards: GuardRegistry,
    mut chance: fastrand::Rng,
    end: Instant,
    counts: Arc<Mutex<EventCounts>>,
) {
    while Instant::now() < end {
        let Ok(guard) = client.lock_with("lock", &options()).await else {
            sleep(SECOND / 10).await;
            continue;
        };
        counts.lock().unwrap().acquired += 1;
        let guard = Arc::new(guard);
        guards.add(&guard);
        for _ in 0..chance.u32(1..8) {
            let pause = Duration::from_millis(chance.u64(0..700));
            // Whatever comes of a write: what was applied stands in the history of the store.
            if chance.u32(..4) > 0 {
                let _ = guard.set("protected", guard.token().to_string()).await;
                sleep(pause).await;
            } else if guard.is_valid() {
                counts.lock().unwrap().stops += 1;
                machine.stop_for(pause * 8);
                tokio::task::yield_now().await;
                let unchecked = SetOptions::new().fencing_token(guard.token().clone());
                let value = guard.token().to_string();
                let written = client.set_with("protected", value, &unchecked).await;
                if written.is_err_and(|error| error.kind() == ErrorKind::FencingTokenLower) {
                    counts.lock().unwrap().refused += 1;
                }
            }
        }
        counts.lock().unwrap().lost += u32::from(!guard.is_valid());
        let guard = Arc::into_inner(guard).unwrap();
        if chance.bool() {
            // An error says that it could not be given back in time.
            let _ = guard.release().await;
        }
    }
}

/// Causes one fault after the other.
async fn inject_faults(
    world: NetworkSimulation,
    machines: Vec<Machine>,
    faults: FaultConfig,
    mut chance: fastrand::Rng,
) -> EventCounts {
    let mut counts = EventCounts::default();
    let end = Instant::now() + FAULT_DURATION;
    while Instant::now() < end {
        sleep(Duration::from_millis(chance.u64(50..1_500))).await;
        let machine = machines[chance.usize(..machines.len())].clone();
        let (name, world) = (machine.name, world.clone());
        let lasts = Duration::from_millis(chance.u64(0..6_000));
        let jump_ms = [-JUMP_MS, 0, JUMP_MS][chance.usize(..3)];
        match chance.u32(..8) {
            0 | 1 => {
                counts.stops += 1;
                machine.stop_for(lasts);
            }
            2 => {
                counts.cuts += 1;
                world.cut(name);
            }
            3 => {
                counts.silences += 1;
                world.set_silent(name, true);
                tokio::spawn(async move {
                    sleep(lasts).await;
                    world.set_silent(name, false);
                });
            }
            4 => {
                let most = Duration::from_millis(chance.u64(0..400));
                world.set_latency_range(most / 8, most);
            }
            5 if faults.client_clocks => {
                counts.client_jumps += 1;
                machine.set_clock(jump_ms);
            }
            6 if faults.server_clock => {
                counts.server_jumps += 1;
                world.set_clock(jump_ms);
            }
            7 if faults.restarts => {
                counts.restarts += 1;
                counts.forgotten += u32::try_from(world.shut_down()).unwrap();
                sleep(lasts / 4).await;
                world.start_up(true);
                if faults.disk {
                    world.slow_disk(Duration::from_millis(chance.u64(0..1_500)));
                }
            }
            _ => {}
        }
    }
    for machine in &machines {
        machine.resume();
        machine.set_clock(0);
        world.set_silent(machine.name, false);
    }
    world.set_clock(0);
    world.set_latency(Duration::from_millis(1));
    world.slow_disk(Duration::ZERO);
    counts
}

/// Runs one seed; gives what happened in it.
async fn run_seed(seed: u64, faults: FaultConfig) -> EventCounts {
    let mut chance = fastrand::Rng::with_seed(seed);
    let world = NetworkSimulation::start_at_speed(SPEEDS[chance.usize(..SPEEDS.len())]);
    let guards = GuardRegistry::default();
    let counts = Arc::new(Mutex::new(EventCounts::default()));
    let end = Instant::now() + FAULT_DURATION + 10 * SECOND;
    let mut machines = Vec::new();
    let mut actors = Vec::new();
    let mut clients = Vec::new();
    for name in NAMES {
        let machine = Machine::new(&world, name, chance.u64(..));
        let client = machine.connect().await;
        clients.push(client.clone());
        let actor = act(
            machine.clone(),
            client,
            guards.clone(),
            chance.fork(),
            end,
            counts.clone(),
        );
        actors.push(machine.run(actor));
        machines.push(machine);
    }
    let mistakes = Arc::new(Mutex::new(Vec::new()));
    if faults.preserve_leases() {
        let (guards, mistakes) = (guards.clone(), mistakes.clone());
        world.witness(move |change: &StoreChange| {
            if change.key == "lock" {
                let mut mistakes = mistakes.lock().unwrap();
                mistakes.extend(guards.wrongly_valid_holders(change.value.as_deref()));
            }
        });
    }
    let trouble = tokio::spawn(inject_faults(
        world.clone(),
        machines,
        faults,
        chance.fork(),
    ));
    while Instant::now() < end {
        if faults.preserve_leases() {
            let stored = world.value("lock");
            let wrong = guards.wrongly_valid_holders(stored.as_deref());
            assert!(wrong.is_empty(), "seed {seed}: {wrong:?} {stored:?}");
        }
        sleep(Duration::from_millis(5)).await;
    }
    let troubles = trouble.await.unwrap();
    for actor in actors {
        actor.await.unwrap();
    }
    let mistakes = std::mem::take(&mut *mistakes.lock().unwrap());
    assert!(mistakes.is_empty(), "seed {seed}: {mistakes:?}");
    let mut counts = *counts.lock().unwrap();
    counts.add(troubles);
    counts.written = count_writes_in_order(seed, &world.history());

    // Clocks that were two minutes ahead are caught up with.
    sleep(300 * SECOND).await;
    for client in clients {
        let guard = client.lock_with("lock", &options()).await.unwrap();
        guard.release().await.unwrap();
    }
    counts
}

/// Checks that no write under an old token comes after one under a newer token.
fn count_writes_in_order(seed: u64, history: &[StoreChange]) -> u32 {
    let mut newest = None;
    let mut writes = 0;
    for change in history {
        if change.key != "protected" || change.value.is_none() {
            continue;
        }
        assert!(
            change.fence >= newest,
            "seed {seed}: {change:?} after {newest:?}"
        );
        newest.clone_from(&change.fence);
        writes += 1;
    }
    writes
}

const CALM: FaultConfig = FaultConfig {
    server_clock: false,
    client_clocks: false,
    restarts: false,
    disk: false,
};

/// Runs seeds, each on a runtime of its own, whose clock jumps to the next timer when nothing else is to be done. All that
/// the guards have to withstand must have happened.
fn simulate(first_seed: u64, faults: FaultConfig) {
    let seeds = match std::env::var("LOCK_SEEDS") {
        Ok(seeds) => seeds.parse().expect("LOCK_SEEDS is a number"),
        Err(_) => SEEDS,
    };
    let mut counts = EventCounts::default();
    for seed in first_seed..first_seed + seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        counts.add(runtime.unwrap().block_on(run_seed(seed, faults)));
    }
    println!("{seeds} seeds: {counts:?}");
    for often in [counts.acquired / 5, counts.written / 5] {
        assert!(u64::from(often) >= seeds, "{counts:?}");
    }
    for often in [counts.lost, counts.stops, counts.cuts, counts.silences] {
        assert!(u64::from(often) >= seeds, "{counts:?}");
    }
    assert!(counts.refused > 0, "{counts:?}");
    for (may_happen, often) in [
        (faults.client_clocks, counts.client_jumps),
        (faults.server_clock, counts.server_jumps),
        (faults.restarts, counts.restarts),
        (faults.disk, counts.forgotten),
    ] {
        assert_eq!(may_happen, u64::from(often) >= seeds, "{counts:?}");
    }
}

#[test]
fn exclusion_holds_with_stopped_machines_and_bad_networks() {
    simulate(0, CALM);
}

#[test]
fn exclusion_holds_with_clock_jumps() {
    let faults = FaultConfig {
        server_clock: true,
        client_clocks: true,
        ..CALM
    };
    simulate(1 << 32, faults);
}

#[test]
fn exclusion_holds_across_server_restarts() {
    let faults = FaultConfig {
        client_clocks: true,
        restarts: true,
        ..CALM
    };
    simulate(2 << 32, faults);
}

#[test]
fn exclusion_holds_across_restarts_that_lose_unsynced_writes() {
    let faults = FaultConfig {
        restarts: true,
        disk: true,
        ..CALM
    };
    simulate(4 << 32, faults);
}

#[test]
fn the_fence_holds_with_clock_jumps_between_restarts() {
    let faults = FaultConfig {
        server_clock: true,
        client_clocks: true,
        restarts: true,
        ..CALM
    };
    simulate(3 << 32, faults);
}
