//! Mutual exclusion under stopped machines, jumping clocks, cut and silent connections and restarts.
//!
//! Two guards are never valid at once, and no write under an old token is applied after one under a newer token.
use crate::lease::{SECOND, lasting};
use crate::machine::Machine;
use crate::world::World;
use statestore::{Client, Guard, LockOptions};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NAMES: [&str; 3] = ["one", "two", "three"];
const LEASE: Duration = Duration::from_secs(2);
/// How long there are faults.
const TROUBLE: Duration = Duration::from_secs(120);
/// Clocks jump by so much.
const JUMP_MS: i64 = 120_000;

/// What happens besides stopped machines, cuts, silence and slow networks.
#[derive(Debug, Clone, Copy)]
struct Faults {
    server_clock: bool,
    client_clocks: bool,
    restarts: bool,
}

impl Faults {
    /// Whether guards exclude each other. A restart after the server's clock jumped ahead shortens leases, so that only
    /// the fence keeps the old holder out.
    fn spare_leases(self) -> bool {
        !(self.server_clock && self.restarts)
    }
}

/// All guards that anybody has.
#[derive(Debug, Clone, Default)]
struct Guards(Arc<Mutex<Vec<Weak<Guard>>>>);

impl Guards {
    fn add(&self, guard: &Arc<Guard>) {
        self.0.lock().unwrap().push(Arc::downgrade(guard));
    }

    /// Who believes to have the lock.
    fn valid(&self) -> Vec<String> {
        let mut guards = self.0.lock().unwrap();
        guards.retain(|guard| guard.strong_count() > 0);
        let guards = guards.iter().filter_map(Weak::upgrade);
        let valid = guards.filter(|guard| guard.is_valid());
        valid.map(|guard| guard.holder().to_string()).collect()
    }
}

fn options() -> LockOptions {
    LockOptions {
        lease: lasting(LEASE),
        wait: Some(20 * SECOND),
    }
}

/// Takes the lock again and again, and writes under it.
async fn act(client: Client, guards: Guards, mut chance: fastrand::Rng, end: Instant) -> usize {
    let mut taken = 0;
    while Instant::now() < end {
        let Ok(guard) = client.lock_with("lock", &options()).await else {
            sleep(SECOND / 10).await;
            continue;
        };
        taken += 1;
        let guard = Arc::new(guard);
        guards.add(&guard);
        for _ in 0..chance.u32(1..8) {
            // Whatever comes of it: what was applied stands in the history of the store.
            let _ = guard.set("protected", guard.token().to_string()).await;
            sleep(Duration::from_millis(chance.u64(0..700))).await;
        }
        let guard = Arc::into_inner(guard).unwrap();
        if chance.bool() {
            // An error says that it could not be given back in time.
            let _ = guard.release().await;
        }
    }
    taken
}

/// One fault after the other.
async fn trouble(world: World, machines: Vec<Machine>, faults: Faults, mut chance: fastrand::Rng) {
    let end = Instant::now() + TROUBLE;
    while Instant::now() < end {
        sleep(Duration::from_millis(chance.u64(50..1_500))).await;
        let machine = machines[chance.usize(..machines.len())].clone();
        let (name, world) = (machine.name, world.clone());
        let lasts = Duration::from_millis(chance.u64(0..6_000));
        let jump_ms = [-JUMP_MS, 0, JUMP_MS][chance.usize(..3)];
        match chance.u32(..8) {
            0 | 1 => {
                machine.stop();
                tokio::spawn(async move {
                    sleep(lasts).await;
                    machine.go_on();
                });
            }
            2 => world.cut(name),
            3 => {
                world.silence(name, true);
                tokio::spawn(async move {
                    sleep(lasts).await;
                    world.silence(name, false);
                });
            }
            4 => {
                let most = Duration::from_millis(chance.u64(0..400));
                world.spread_latency(most / 8, most);
            }
            5 if faults.client_clocks => machine.set_clock(jump_ms),
            6 if faults.server_clock => world.set_clock(jump_ms),
            7 if faults.restarts => {
                world.shut_down();
                sleep(lasts / 4).await;
                world.come_back(true);
            }
            _ => {}
        }
    }
    for machine in &machines {
        machine.go_on();
        machine.set_clock(0);
        world.silence(machine.name, false);
    }
    world.set_clock(0);
    world.set_latency(Duration::from_millis(1));
}

async fn exclude(seed: u64, faults: Faults) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let world = World::start();
    let guards = Guards::default();
    let end = Instant::now() + TROUBLE + 10 * SECOND;
    let mut machines = Vec::new();
    let mut actors = Vec::new();
    let mut clients = Vec::new();
    for name in NAMES {
        let machine = Machine::new(&world, name, chance.u64(..));
        let client = machine.connect().await;
        clients.push(client.clone());
        actors.push(machine.run(act(client, guards.clone(), chance.fork(), end)));
        machines.push(machine);
    }
    let trouble = tokio::spawn(trouble(world.clone(), machines, faults, chance.fork()));
    while Instant::now() < end {
        let valid = guards.valid();
        assert!(
            valid.len() <= 1 || !faults.spare_leases(),
            "seed {seed}: {valid:?}"
        );
        sleep(Duration::from_millis(5)).await;
    }
    trouble.await.unwrap();
    let mut taken = 0;
    for actor in actors {
        taken += actor.await.unwrap();
    }
    assert!(taken > 10, "seed {seed}: the lock was taken {taken} times");

    let mut newest = None;
    let mut writes = 0;
    for change in world.history() {
        if change.key != "protected" || change.value.is_none() {
            continue;
        }
        assert!(
            change.fence >= newest,
            "seed {seed}: {change:?} after {newest:?}"
        );
        newest = change.fence;
        writes += 1;
    }
    assert!(writes > 10, "seed {seed}: {writes} writes");
    // Clocks that were two minutes ahead are caught up with.
    sleep(300 * SECOND).await;
    for client in clients {
        let guard = client.lock_with("lock", &options()).await.unwrap();
        guard.release().await.unwrap();
    }
}

const CALM: Faults = Faults {
    server_clock: false,
    client_clocks: false,
    restarts: false,
};

/// Runs one seed on a runtime of its own, whose clock jumps to the next timer when nothing else is to be done.
fn simulate(seed: u64, faults: Faults) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(exclude(seed, faults));
}

#[test]
fn under_stopped_machines_and_bad_networks() {
    for seed in 0..8 {
        simulate(seed, CALM);
    }
}

#[test]
fn under_clocks_that_jump_on_all_sides() {
    for seed in 100..108 {
        let faults = Faults {
            server_clock: true,
            client_clocks: true,
            ..CALM
        };
        simulate(seed, faults);
    }
}

#[test]
fn under_restarts_of_the_server() {
    for seed in 200..208 {
        let faults = Faults {
            client_clocks: true,
            restarts: true,
            ..CALM
        };
        simulate(seed, faults);
    }
}

#[test]
fn the_fence_holds_when_clocks_jump_between_restarts() {
    for seed in 300..308 {
        let faults = Faults {
            server_clock: true,
            client_clocks: true,
            restarts: true,
        };
        simulate(seed, faults);
    }
}
