//! Faults of one member that its connections do not show, and the number of requests that are answered during each.
//!
//! The rate during a fault is held against the one right before it, of the same clients on the same machine.
use crate::engine::{Engine, Way};
use crate::nodes::{NODES, Nodes};
use crate::setting;
use harness::Proxy;
use harness::proxy::Direction;
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

/// Time after its beginning during which a fault may delay requests.
const NOTICED: Duration = Duration::from_secs(3);

/// The least part of the former rate that is answered while a majority is in order.
const LEAST: f64 = 0.8;

/// How often a fault is measured at most: a busy machine answers less from one moment to the next.
const ATTEMPTS: usize = 3;

/// A request that takes longer is late.
const LATE: Duration = Duration::from_secs(1);

/// Clients of each server.
const CLIENTS: usize = 8;

/// Each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The member's process is stopped.
    Stopped,
    /// Writes to the member's disk wait.
    FrozenDisk,
    /// Requests of servers to the member are lost.
    RequestsLost,
    /// Responses of the member to servers are lost.
    ResponsesLost,
    /// Data from the member to the others, or from a replica to its master, is lost.
    UnheardByPeers,
    /// Data from the others to the member is lost.
    PeersUnheard,
    /// Data between it and the servers takes this time longer.
    Slow(Duration),
}

/// Faults of a member that servers ask themselves.
const ASKED: [Fault; 8] = [
    Fault::Stopped,
    Fault::FrozenDisk,
    Fault::RequestsLost,
    Fault::ResponsesLost,
    Fault::UnheardByPeers,
    Fault::PeersUnheard,
    Fault::Slow(Duration::from_millis(100)),
    Fault::Slow(Duration::from_millis(1_500)),
];

/// Faults of a replica, which servers do not ask.
const FOLLOWING: [Fault; 4] = [
    Fault::Stopped,
    Fault::FrozenDisk,
    Fault::UnheardByPeers,
    Fault::PeersUnheard,
];

/// Counters of the clients.
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
    let engine = Engine::etcd_on_hosts().await;
    one_after_the_other(engine, &ASKED, &[0, 1]).await;
}

/// Faults of one of two replicas of a Redis. One replica has to confirm each write before it is acknowledged.
pub(crate) async fn replicas() {
    let engine = Engine::redis_and_two_replicas().await;
    one_after_the_other(engine, &FOLLOWING, &[1, 2]).await;
}

/// Prints for each fault, of these members in turns, how many requests are answered.
async fn one_after_the_other(mut engine: Engine, faults: &[Fault], members: &[usize]) {
    let nodes = Nodes::start(&engine).await;
    let counted = Rc::new(Counted::default());
    let mut workers = JoinSet::new();
    for number in 0..NODES * CLIENTS {
        let client = Client::connect(nodes.settings(number)).await.unwrap();
        workers.spawn_local(ask_on(client, number, Rc::clone(&counted)));
    }
    println!("| fault of member | before, in 1 s | during | part | late | longest | failed");
    for (fault, member) in faults.iter().zip(members.iter().cycle()) {
        measure(*fault, *member, &mut engine, &nodes, &counted).await;
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
    if fault == Fault::FrozenDisk && engine.disk(member).is_none() {
        println!("left out: cluster: {fault:?} of member {member}: only root can mount a disk");
        return;
    }
    for attempt in 1.. {
        let found = measure_once(fault, member, engine, nodes, counted).await;
        println!(
            "| {fault:?} {member} | {:.0} | {:.0} | {:.2} | {} | {:.1?} | {}",
            found.before,
            found.during,
            found.part(),
            found.late,
            found.longest,
            found.failed,
        );
        // Each client has one request under way.
        if found.part() >= LEAST && found.late <= 2 * NODES * CLIENTS {
            return;
        }
        assert!(
            attempt < ATTEMPTS,
            "{fault:?} of member {member}: {:.2} of the former rate is answered, and {} requests are late",
            found.part(),
            found.late
        );
    }
}

/// Measurements of the clients during one fault.
struct Measured {
    /// Answers in a second, before and during the fault.
    before: f64,
    during: f64,
    /// Requests that were late, and the longest time that one took.
    late: usize,
    longest: Duration,
    failed: u64,
}

impl Measured {
    fn part(&self) -> f64 {
        self.during / self.before
    }
}

async fn measure_once(
    fault: Fault,
    member: usize,
    engine: &mut Engine,
    nodes: &Nodes,
    counted: &Counted,
) -> Measured {
    let lasts = Duration::from_secs(setting("CLUSTER_FAULT_SECONDS").unwrap_or(SECONDS));
    let before = counted.rate(BEFORE).await;
    counted.late.take();
    let failed = counted.failed.get();
    begin(fault, member, engine, nodes);
    sleep(NOTICED).await;
    let during = counted.rate(lasts.saturating_sub(NOTICED)).await;
    end(fault, member, engine, nodes);
    let (late, failed) = (counted.late.take(), counted.failed.get() - failed);
    // Members that were stopped catch up.
    sleep(NOTICED).await;
    Measured {
        before,
        during,
        late: late.len(),
        longest: late.into_iter().max().unwrap_or_default(),
        failed,
    }
}

fn begin(fault: Fault, member: usize, engine: &mut Engine, nodes: &Nodes) {
    match fault {
        Fault::Stopped => engine.process(member).unwrap().stop(),
        Fault::FrozenDisk => engine.disk(member).unwrap().freeze(),
        Fault::RequestsLost => nodes
            .ways(member)
            .for_each(|way| way.block(Direction::ToServer)),
        Fault::ResponsesLost => nodes
            .ways(member)
            .for_each(|way| way.block(Direction::ToClient)),
        Fault::UnheardByPeers => engine.set_lost(member, Way::FromMember, true),
        Fault::PeersUnheard => engine.set_lost(member, Way::ToMember, true),
        Fault::Slow(delay) => nodes.ways(member).for_each(|way| way.set_delay(delay)),
    }
}

fn end(fault: Fault, member: usize, engine: &mut Engine, nodes: &Nodes) {
    match fault {
        Fault::Stopped => engine.process(member).unwrap().go_on(),
        Fault::FrozenDisk => engine.disk(member).unwrap().thaw(),
        Fault::RequestsLost | Fault::ResponsesLost => {
            nodes.ways(member).for_each(Proxy::unblock);
        }
        Fault::UnheardByPeers => engine.set_lost(member, Way::FromMember, false),
        Fault::PeersUnheard => engine.set_lost(member, Way::ToMember, false),
        Fault::Slow(_) => nodes
            .ways(member)
            .for_each(|way| way.set_delay(Duration::ZERO)),
    }
}
