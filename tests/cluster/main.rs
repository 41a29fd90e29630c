//! Servers over three members of etcd, or over Redis, all of them real processes, while one after the other is killed, stopped, or cut off.
//!
//! `CLUSTER_SECONDS` says for how long, `CLUSTER_TROUBLES` which kinds go wrong, `CLUSTER_SEED` when; docs/testing.md says more.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod balancer;
mod calls;
mod disk;
mod engine;
mod etcd;
mod failover;
mod faults_alone;
mod hidden;
mod hosts;
mod lagging;
mod locks;
mod nodes;
mod process;
mod redis;
mod stalls;
mod storm;
mod window;

use calls::Shared;
use engine::Engine;
use histories::{CounterTally, LockHoldings};
use hosts::isolated;
use nodes::{NODES, Nodes};
use statestore::{
    Client, Condition, Error, Observation, Observer, Outcome, SetOptions, SetOutcome,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet};

/// Longer than anything takes once everything is in order again.
const LONG: Duration = Duration::from_secs(60);

/// How long things go wrong over each engine if nothing is said: over etcd, and over Redis.
const SECONDS: [u64; 2] = [120, 30];

fn word(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn setting(name: &str) -> Option<u64> {
    Some(word(name)?.parse().expect("a number"))
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Counts one further; whether that was done.
async fn count(client: &Client) -> Result<bool, Error> {
    let entry = client.get("count").await?;
    let (count, condition) = match entry {
        None => (0, Condition::IfAbsent),
        Some(entry) => (
            number(&entry.value),
            Condition::IfVersion((&entry.version).into()),
        ),
    };
    let options = SetOptions::new().condition(condition);
    let set = client.set_with("count", (count + 1).to_string(), &options);
    Ok(matches!(set.await?, SetOutcome::Applied { .. }))
}

async fn count_on(client: Client, shared: Rc<Shared>, counted: Rc<RefCell<CounterTally>>) {
    while !shared.is_over.get() {
        match count(&client).await {
            Ok(true) => counted.borrow_mut().certain += 1,
            Err(error) if error.outcome() == Outcome::Unknown => {
                counted.borrow_mut().uncertain += 1;
            }
            Ok(false) | Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Checks that this value is the last that an observer reports of a key which no longer changes.
async fn reaches(observer: &mut Observer, value: u64) {
    let mut last = None;
    let waiting = async {
        while last != Some(value) {
            match observer.next().await.expect("it goes on") {
                Observation::Set { value, .. } => last = Some(number(&value)),
                Observation::Deleted { .. } => last = None,
                _ => {}
            }
        }
    };
    let reached = tokio::time::timeout(LONG, waiting).await;
    assert!(
        reached.is_ok(),
        "an observer was told {last:?} last of {value}"
    );
}

async fn patiently<T>(what: impl AsyncFn() -> Result<T, Error>) -> T {
    let end = Instant::now() + LONG;
    loop {
        match what().await {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Tests that measure do so one after the other.
static MACHINE: Mutex<()> = Mutex::new(());

fn alone(test: impl Future<Output = ()>) {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn what_was_promised_holds_while_members_and_servers_are_killed_stopped_and_cut_off() {
    alone(async { storm_and_calm(Engine::etcd().await).await });
}

#[test]
fn it_holds_over_a_redis_whose_log_is_on_disk_before_it_answers() {
    alone(async { storm_and_calm(Engine::redis().await).await });
}

#[test]
fn it_holds_over_a_redis_whose_replica_has_confirmed_what_is_answered_and_takes_over() {
    alone(async { storm_and_calm(Engine::redis_and_replica().await).await });
}

#[test]
fn after_each_kind_of_fault_all_clients_are_answered_again() {
    alone(faults_alone::one_after_the_other());
}

#[test]
fn a_member_that_does_not_answer_holds_up_few_requests_though_its_connections_stand() {
    isolated(
        "a_member_that_does_not_answer_holds_up_few_requests_though_its_connections_stand",
        hidden::members(),
    );
}

#[test]
fn a_replica_that_does_not_answer_holds_up_few_requests_though_its_connections_stand() {
    isolated(
        "a_replica_that_does_not_answer_holds_up_few_requests_though_its_connections_stand",
        hidden::replicas(),
    );
}

#[test]
fn a_leader_that_is_not_heard_makes_no_watch_late_and_no_read_old() {
    isolated(
        "a_leader_that_is_not_heard_makes_no_watch_late_and_no_read_old",
        lagging::leader(),
    );
}

#[test]
fn a_client_that_knows_two_servers_goes_to_the_other_when_its_own_is_killed() {
    alone(failover::again_and_again());
}

#[test]
fn what_a_replica_has_confirmed_is_there_when_it_takes_over_and_what_it_had_not_may_be_lost() {
    alone(window::measured());
}

async fn storm_and_calm(mut engine: Engine) {
    let seed = setting("CLUSTER_SEED").unwrap_or_else(|| fastrand::u64(..));
    let usual = SECONDS[usize::from(matches!(engine, Engine::Redis(..)))];
    let lasts = Duration::from_secs(setting("CLUSTER_SECONDS").unwrap_or(usual));
    println!("CLUSTER_SEED={seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut nodes = Nodes::start(&engine).await;
    let shared = Shared::new("register");
    let holdings = Rc::new(RefCell::new(LockHoldings::default()));
    let counted = Rc::new(RefCell::new(CounterTally::default()));
    let mut workers = JoinSet::new();
    let mut observers = Vec::new();
    let settings: Vec<_> = (0..NODES).map(|first| nodes.settings(first)).collect();
    for _ in 0..4 {
        let calls = calls::call(settings.clone(), Rc::clone(&shared), chance.fork());
        workers.spawn_local(calls);
    }
    for number in 0..3 {
        let client = Client::connect(nodes.settings(number)).await.unwrap();
        observers.push(client.observe("count").await.unwrap());
        let (shared, holdings) = (Rc::clone(&shared), Rc::clone(&holdings));
        let held = locks::hold(number, client.clone(), Rc::clone(&shared), holdings);
        workers.spawn_local(held);
        workers.spawn_local(count_on(client, shared, Rc::clone(&counted)));
    }
    let log = storm::rage(&mut engine, &mut nodes, lasts, &mut chance).await;
    for number in 0..NODES {
        nodes.listens(number).await;
    }
    shared.is_over.set(true);
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }

    let client = Client::connect(nodes.settings(0)).await.unwrap();
    while !patiently(async || count(&client).await).await {}
    counted.borrow_mut().certain += 1;
    let last = patiently(async || client.get("count").await).await.unwrap();
    let last = number(&last.value);
    let tally = *counted.borrow();
    let (calls, unknown) = shared.history.borrow().counts();
    let met = shared.stalls.borrow_mut().take();
    println!(
        "{:?}: {calls} calls, {unknown} of them unknown; counted to {last}, {} certainly and {} perhaps; \
         {} times locked",
        log.counts(),
        tally.certain,
        tally.uncertain,
        holdings.borrow().count(),
    );
    if let Some(stall) = &met.longest {
        let (lasts, during, told) = (stall.lasts(), log.during(stall), stall.told());
        println!("longest time without an answer {lasts:.1?}, during {during:?}, told {told:?}");
    }
    tally.check(last).unwrap();
    holdings.borrow_mut().check().unwrap();
    shared
        .history
        .borrow_mut()
        .check_finished(|_| true)
        .unwrap();
    for mut observer in observers {
        reaches(&mut observer, last).await;
    }
    let is_idle = calls < 100 || holdings.borrow().count() < 5 || tally.certain < 20;
    assert!(!is_idle, "too little happened for this to say anything");
}
