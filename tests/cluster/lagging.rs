//! A leader that hears the other members but is not heard by them. The others elect a new leader, while the old one still
//! answers clients.
//!
//! A client writes rising numbers. The numbers that watchers and eventual reads see are compared with those acknowledged
//! before.
use crate::engine::{Engine, Way};
use crate::nodes::{NODES, Nodes};
use crate::{number, setting};
use statestore::{Client, GetOptions, Observation};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long each fault lasts if nothing is said.
const SECONDS: u64 = 30;

/// How many leaders are cut off, one after the other.
const ROUNDS: usize = 2;

/// Time after which every server knows a write: docs/etcd.md promises ten seconds. The rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(12);

/// How often is written and read.
const PAUSE: Duration = Duration::from_millis(20);

const KEY: &str = "rising";

/// When each number was acknowledged.
#[derive(Default)]
struct Written {
    is_over: Cell<bool>,
    acknowledged: RefCell<Vec<(u64, Instant)>>,
}

impl Written {
    /// How long ago the first number after this one was acknowledged, seen from a moment.
    fn age(&self, known: u64, at: Instant) -> Duration {
        let acknowledged = self.acknowledged.borrow();
        let next = acknowledged.partition_point(|(number, _)| *number <= known);
        let since = acknowledged.get(next).map(|(_, since)| *since);
        since.map_or(Duration::ZERO, |since| at.saturating_duration_since(since))
    }

    /// The longest time between two acknowledgements from one of this index on.
    fn longest_pause(&self, first: usize) -> Duration {
        let acknowledged = self.acknowledged.borrow();
        let from = first.saturating_sub(1);
        let pauses = acknowledged[from..].windows(2).map(|it| it[1].1 - it[0].1);
        pauses.max().unwrap_or_default()
    }
}

/// The greatest ages that one server's clients have met.
#[derive(Default)]
struct Ages {
    read: Cell<Duration>,
    told: Cell<Duration>,
    reads: Cell<u64>,
    observations: Cell<u64>,
}

async fn write(client: Client, written: Rc<Written>) {
    for number in 1_u64.. {
        if written.is_over.get() {
            return;
        }
        if client.set(KEY, number.to_string()).await.is_ok() {
            let now = Instant::now();
            written.acknowledged.borrow_mut().push((number, now));
        }
        sleep(PAUSE).await;
    }
}

async fn read(client: Client, written: Rc<Written>, ages: Rc<Ages>) {
    let eventual = GetOptions::new().eventual(true);
    while !written.is_over.get() {
        let asked = Instant::now();
        if let Ok(Some(entry)) = client.get_with(KEY, &eventual).await {
            let age = written.age(number(&entry.value), asked);
            ages.read.set(ages.read.get().max(age));
            ages.reads.set(ages.reads.get() + 1);
        }
        sleep(PAUSE).await;
    }
}

async fn observe(client: Client, written: Rc<Written>, ages: Rc<Ages>) {
    // The storage may not answer yet.
    let mut observer = loop {
        match client.observe(KEY).await {
            Ok(observer) => break observer,
            Err(error) if written.is_over.get() => panic!("no observation began: {error}"),
            Err(_) => sleep(PAUSE).await,
        }
    };
    let (mut known, began) = (0, Instant::now());
    while !written.is_over.get() {
        // Changes before the observation are not reported.
        let age = written.age(known, Instant::now()).min(began.elapsed());
        ages.told.set(ages.told.get().max(age));
        let next = tokio::time::timeout(PAUSE, observer.next()).await;
        if let Ok(Some(Observation::Set { value, .. })) = next {
            known = number(&value);
            ages.observations.set(ages.observations.get() + 1);
        }
    }
}

pub(crate) async fn leader() {
    let lasts = Duration::from_secs(setting("CLUSTER_FAULT_SECONDS").unwrap_or(SECONDS));
    let engine = Engine::etcd_on_hosts().await;
    let Engine::Etcd(etcd) = &engine else {
        panic!("it is etcd")
    };
    let nodes = Nodes::start(&engine).await;
    let written = Rc::new(Written::default());
    let mut workers = JoinSet::new();
    let mut all = Vec::new();
    for server in 0..NODES {
        let client = Client::connect(nodes.settings(server)).await.unwrap();
        let ages = Rc::new(Ages::default());
        if server == 0 {
            workers.spawn_local(write(client.clone(), Rc::clone(&written)));
        }
        workers.spawn_local(read(client.clone(), Rc::clone(&written), Rc::clone(&ages)));
        workers.spawn_local(observe(client, Rc::clone(&written), Rc::clone(&ages)));
        all.push(ages);
    }
    for _ in 0..ROUNDS {
        let leader = etcd.leader().await;
        let before = written.acknowledged.borrow().len();
        engine.set_lost(leader, Way::FromMember, true);
        sleep(lasts).await;
        engine.set_lost(leader, Way::FromMember, false);
        let during = written.acknowledged.borrow().len() - before;
        let pause = written.longest_pause(before);
        println!(
            "member {leader} led and was not heard: {during} writes acknowledged, the longest pause {pause:.1?}"
        );
        assert!(during > 0, "nothing was written without member {leader}");
    }
    written.is_over.set(true);
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }
    for (server, ages) in all.iter().enumerate() {
        let (read, told) = (ages.read.get(), ages.told.get());
        println!(
            "server {server}: eventual reads {read:.1?} old at most, watchers {told:.1?} behind"
        );
        assert!(
            read <= LIMIT,
            "an eventual read of server {server} was {read:.1?} old"
        );
        assert!(
            told <= LIMIT,
            "a watcher of server {server} was {told:.1?} behind"
        );
        assert!(ages.reads.get() > 0 && ages.observations.get() > 0);
    }
}
