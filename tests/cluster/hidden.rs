//! Faults of one member that its connections do not show, each for so long, and how many requests are answered meanwhile.
//!
//! The rate during a fault is held against the one right before it, of the same clients on the same machine.
use crate::engine::Engine;
use crate::nodes::{NODES, Nodes};
use crate::setting;
use faults::Proxy;
use faults::proxy::Direction;
use statestore::Client;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long each fault lasts if nothing is said.
const SECONDS: u64 = 30;

/// How long is counted before a fault.
const BEFORE: Duration = Duration::from_secs(5);

/// For so long after its begin a fault may hold up requests.
const NOTICED: Duration = Duration::from_secs(3);

/// The least of the former rate that is answered while a majority is in order. A busy machine answers less from one moment to the next.
const LEAST: f64 = 0.5;

/// A request that takes longer is late.
const LATE: Duration = Duration::from_secs(1);

/// Clients of each server.
const CLIENTS: usize = 8;

/// Each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Its process stands still.
    Stopped,
    /// It does not hear the servers, and they hear it.
    Deaf,
    /// It hears the servers, and they do not hear it.
    Mute,
    /// Each byte between it and the servers takes this time longer.
    Slow(Duration),
}

/// Those of a member that servers ask themselves.
const ASKED: [Fault; 5] = [
    Fault::Stopped,
    Fault::Deaf,
    Fault::Mute,
    Fault::Slow(Duration::from_millis(100)),
    Fault::Slow(Duration::from_millis(1_500)),
];

/// What the clients have counted.
#[derive(Default)]
struct Counted {
    is_over: Cell<bool>,
    answered: Cell<u64>,
    failed: Cell<u64>,
    /// How long those took that were late.
    late: RefCell<Vec<Duration>>,
}

async fn ask_on(client: Client, number: usize, counted: Rc<Counted>) {
    let key = format!("hidden-{number}");
    for round in 0_u64.. {
        if counted.is_over.get() {
            return;
        }
        let begun = Instant::now();
        let done = if round % 2 == 0 {
            client.set(key.clone(), round.to_string()).await.map(drop)
        } else {
            client.get(key.clone()).await.map(drop)
        };
        let count = match done {
            Ok(()) => &counted.answered,
            Err(_) => &counted.failed,
        };
        count.set(count.get() + 1);
        if begun.elapsed() > LATE {
            counted.late.borrow_mut().push(begun.elapsed());
        }
    }
}

impl Counted {
    /// How many were answered in a second.
    async fn rate(&self, lasts: Duration) -> f64 {
        let (begun, before) = (Instant::now(), self.answered.get());
        sleep(lasts).await;
        let answered = u32::try_from(self.answered.get() - before).unwrap();
        f64::from(answered) / begun.elapsed().as_secs_f64()
    }
}

/// Members of etcd.
pub(crate) async fn members() {
    let engine = Engine::etcd().await;
    one_after_the_other(engine, &ASKED, &[0, 1]).await;
}

/// One of two replicas of a Redis, of which one has to confirm what is answered.
pub(crate) async fn replicas() {
    let engine = Engine::redis_and_two_replicas().await;
    one_after_the_other(engine, &[Fault::Stopped], &[1, 2]).await;
}

/// Prints for each fault of each of these members how many requests are answered.
async fn one_after_the_other(mut engine: Engine, faults: &[Fault], members: &[usize]) {
    let nodes = Nodes::start(&engine).await;
    let counted = Rc::new(Counted::default());
    let mut workers = JoinSet::new();
    for number in 0..NODES * CLIENTS {
        let client = Client::connect(nodes.settings(number)).await.unwrap();
        workers.spawn_local(ask_on(client, number, Rc::clone(&counted)));
    }
    println!("| fault of member | before, in 1 s | during | part | late | longest | failed");
    for fault in faults {
        for member in members {
            measure(*fault, *member, &mut engine, &nodes, &counted).await;
        }
    }
    counted.is_over.set(true);
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
}

async fn measure(
    fault: Fault,
    member: usize,
    engine: &mut Engine,
    nodes: &Nodes,
    counted: &Counted,
) {
    let lasts = Duration::from_secs(setting("CLUSTER_FAULT_SECONDS").unwrap_or(SECONDS));
    let before = counted.rate(BEFORE).await;
    counted.late.take();
    let failed = counted.failed.get();
    begin(fault, member, engine, nodes);
    sleep(NOTICED).await;
    let during = counted.rate(lasts.saturating_sub(NOTICED)).await;
    end(fault, member, engine, nodes);
    let (late, failed) = (counted.late.take(), counted.failed.get() - failed);
    let part = during / before;
    let longest = late.iter().max().copied().unwrap_or_default();
    println!(
        "| {fault:?} {member} | {before:.0} | {during:.0} | {part:.2} | {} | {longest:.1?} | {failed}",
        late.len(),
    );
    // Each client has one request under way.
    let most = 2 * NODES * CLIENTS;
    assert!(
        part >= LEAST,
        "{fault:?} of member {member}: only {part:.2} of the former rate is answered"
    );
    assert!(
        late.len() <= most,
        "{fault:?} of member {member}: {} requests are late",
        late.len()
    );
    // Members that were stopped catch up.
    sleep(NOTICED).await;
}

fn begin(fault: Fault, member: usize, engine: &mut Engine, nodes: &Nodes) {
    match fault {
        Fault::Stopped => engine.process(member).unwrap().stop(),
        Fault::Deaf => nodes
            .ways(member)
            .for_each(|way| way.block(Direction::ToServer)),
        Fault::Mute => nodes
            .ways(member)
            .for_each(|way| way.block(Direction::ToClient)),
        Fault::Slow(delay) => nodes.ways(member).for_each(|way| way.set_delay(delay)),
    }
}

fn end(fault: Fault, member: usize, engine: &mut Engine, nodes: &Nodes) {
    match fault {
        Fault::Stopped => engine.process(member).unwrap().go_on(),
        Fault::Deaf | Fault::Mute => nodes.ways(member).for_each(Proxy::unblock),
        Fault::Slow(_) => nodes
            .ways(member)
            .for_each(|way| way.set_delay(Duration::ZERO)),
    }
}
