//! Single faults, and the time until clients receive responses again.
use crate::balancer::Balancer;
use crate::calls::{self, Shared};
use crate::engine::Engine;
use crate::nodes::{NODES, Nodes, impatient};
use crate::stalls::Figures;
use crate::storm::{self, Trouble};
use crate::{LONG, setting};
use statestore::Settings;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often each kind happens if nothing is said.
const ROUNDS: u64 = 1;

/// How long each fault lasts if nothing is said.
const SECONDS: u64 = 3;

/// How many clients there are.
const CLIENTS: usize = 4;

/// Time without faults after all clients are served again.
const CALM: Duration = Duration::from_secs(2);

/// Faults after which another server may be the better choice.
const OF_NODES: [Trouble; 3] = [Trouble::KillNode, Trouble::StopNode, Trouble::CutAllWays];

/// Prints for each kind what clients met that know all servers, and some that know `HAProxy`.
pub(crate) async fn one_after_the_other() {
    let seed = setting("CLUSTER_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("CLUSTER_SEED={seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut engine = Engine::etcd().await;
    let mut nodes = Nodes::start(&engine).await;
    println!("Clients that know all servers:");
    let known = (0..NODES).map(|first| nodes.settings(first)).collect();
    measure(
        "direct",
        known,
        &Trouble::ALL,
        &mut engine,
        &mut nodes,
        &mut chance,
    )
    .await;
    println!("Clients behind HAProxy:");
    let balancer = Balancer::start(&nodes).await;
    let known = vec![impatient(balancer.settings())];
    measure(
        "balanced",
        known,
        &OF_NODES,
        &mut engine,
        &mut nodes,
        &mut chance,
    )
    .await;
}

async fn measure(
    keys: &'static str,
    known: Vec<Settings>,
    troubles: &[Trouble],
    engine: &mut Engine,
    nodes: &mut Nodes,
    chance: &mut fastrand::Rng,
) {
    let rounds = setting("CLUSTER_ROUNDS").unwrap_or(ROUNDS);
    let lasts = Duration::from_secs(setting("CLUSTER_FAULT_SECONDS").unwrap_or(SECONDS));
    let shared = Shared::new(keys);
    let mut workers = JoinSet::new();
    for _ in 0..CLIENTS {
        let calls = calls::call(known.clone(), Rc::clone(&shared), chance.fork());
        workers.spawn_local(calls);
    }
    quiet(&shared).await;
    println!(
        "| {lasts:?} of | times | median | longest | calls not done | unknown | told during the longest"
    );
    for trouble in troubles {
        let mut met = Vec::new();
        for _ in 0..rounds {
            shared.stalls.borrow_mut().take();
            storm::happen(*trouble, lasts, engine, nodes, chance).await;
            for number in 0..NODES {
                nodes.listens(number).await;
            }
            quiet(&shared).await;
            met.push(shared.stalls.borrow_mut().take());
        }
        tell(*trouble, &mut met);
    }
    shared.is_over.set(true);
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    shared
        .history
        .borrow_mut()
        .check_finished(|_| true)
        .unwrap();
}

/// Until each client is answered again, and for a while after that.
async fn quiet(shared: &Shared) {
    let healed = Instant::now();
    while !shared.stalls.borrow().all_answered_since(healed) {
        assert!(healed.elapsed() < LONG, "a client is not answered any more");
        sleep(Duration::from_millis(10)).await;
    }
    sleep(CALM).await;
}

fn tell(trouble: Trouble, met: &mut [Figures]) {
    met.sort_by_key(Figures::lasts);
    let refused: usize = met.iter().map(|figures| figures.refused).sum();
    let unknown: usize = met.iter().map(|figures| figures.unknown).sum();
    let (times, median) = (met.len(), met[met.len() / 2].lasts());
    let Some(longest) = met.last().and_then(|figures| figures.longest.as_ref()) else {
        return;
    };
    println!(
        "| {trouble:?} | {times} | {median:.1?} | {:.1?} | {refused} | {unknown} | {:?}",
        longest.lasts(),
        longest.told(),
    );
}
