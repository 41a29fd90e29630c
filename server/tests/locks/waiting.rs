//! Waiting for a lock.
use crate::lease::{SECOND, lease_options, take};
use crate::machine::Machine;
use crate::network_simulation::NetworkSimulation;
use statestore::{Client, Error, ErrorKind, Guard, LockOptions, Outcome};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// How long after the end of a lease a waiter has it at most, without the network.
const HANDOVER: Duration = Duration::from_millis(100);

fn options(lease: Duration) -> LockOptions {
    LockOptions::new().lease(lease_options(lease)).wait(None)
}

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(3600);

/// Begins to wait, and gives the guard with the time at which it was there.
fn wait(client: &Client) -> JoinHandle<(Guard, Instant)> {
    let client = client.clone();
    tokio::spawn(async move {
        let options = options(30 * SECOND);
        let guard = timeout(LONG, client.lock_with("lock", &options)).await;
        let guard = guard.expect("it becomes free").unwrap();
        (guard, Instant::now())
    })
}

async fn assert_handed_over(world: &NetworkSimulation, waiter: JoinHandle<(Guard, Instant)>) {
    let (guard, at) = waiter.await.unwrap();
    let history = world.history();
    let end = history
        .iter()
        .rev()
        .find(|change| change.value.is_none())
        .unwrap();
    assert!(at >= end.at && at - end.at <= HANDOVER, "{:?}", at - end.at);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_has_the_lock_soon_after_its_release() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(10 * SECOND)).await;
    let waiter = wait(&two);
    sleep(25 * SECOND).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    assert_handed_over(&world, waiter).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_has_the_lock_soon_after_a_lease_ended_by_itself() {
    for loses_notifications in [false, true] {
        let world = NetworkSimulation::start();
        let machine = Machine::new(&world, "one", 1);
        let one = machine.connect().await;
        let two = Machine::new(&world, "two", 2).connect().await;
        let _guard = take(&one, &lease_options(10 * SECOND)).await;
        if loses_notifications {
            world.lose_notifications("two");
        }
        let waiter = wait(&two);
        // The holder dies just after a renewal.
        sleep(Duration::from_millis(10_001)).await;
        machine.stop();
        if loses_notifications {
            // The end is taken from the lease that the holder's name tells, counted from the last look.
            let (guard, at) = waiter.await.unwrap();
            let history = world.history();
            let end = history
                .iter()
                .rev()
                .find(|change| change.value.is_none())
                .unwrap();
            assert!(at - end.at <= 10 * SECOND + HANDOVER, "{:?}", at - end.at);
            assert!(guard.is_valid());
        } else {
            assert_handed_over(&world, waiter).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_finds_the_end_of_a_lease_that_is_not_renewed_on_its_own_clock() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(10 * SECOND)).await;
    guard.leave().await;
    world.lose_notifications("two");
    assert_handed_over(&world, wait(&two)).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_waiting_through_a_lost_connection_and_a_restart() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(30 * SECOND)).await;
    let waiter = wait(&two);
    sleep(SECOND).await;
    world.cut("two");
    sleep(SECOND).await;
    world.shut_down();
    sleep(SECOND).await;
    world.start_up(true);
    sleep(20 * SECOND).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    assert_handed_over(&world, waiter).await;
}

#[tokio::test(start_paused = true)]
async fn the_wait_timeout_is_respected_and_leaves_nothing() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(10 * SECOND)).await;
    for (wait, limit) in [
        (Duration::ZERO, "at once"),
        (Duration::from_millis(4_321), "within 4.321s"),
    ] {
        let start = Instant::now();
        let options = options(10 * SECOND).wait(wait);
        let error = two.lock_with("lock", &options).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::LockHeld, Outcome::NotDone)
        );
        let reason = format!("was not released {limit}");
        assert!(error.to_string().contains(&reason), "{error}");
        assert!(
            error.to_string().contains(&guard.holder().to_string()),
            "{error}"
        );
        assert!(
            start.elapsed() <= wait + Duration::from_millis(2),
            "{:?}",
            start.elapsed()
        );
    }
    guard.release().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!(world.value("lock"), None);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_at_any_moment_leaves_nothing_behind() {
    let world = NetworkSimulation::start();
    world.set_latency(Duration::from_millis(3));
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    for milliseconds in 0..60 {
        let guard = take(&one, &lease_options(10 * SECOND)).await;
        let waiter = wait(&two);
        sleep(SECOND).await;
        tokio::spawn(guard.release());
        sleep(Duration::from_millis(milliseconds)).await;
        waiter.abort();
        drop(waiter.await);
        sleep(SECOND).await;
        assert_eq!(world.value("lock"), None, "{milliseconds} ms");
    }
}

/// Every client takes the lock again as soon as it gave it back. Gives the order in which they had it.
async fn contend(clients: Vec<Client>, rounds: usize) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut contenders = Vec::new();
    for (number, client) in clients.into_iter().enumerate() {
        let order = order.clone();
        contenders.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let guard = client.lock("lock").await.unwrap();
                order.lock().unwrap().push(number);
                sleep(Duration::from_millis(5)).await;
                assert!(guard.is_valid());
                guard.release().await.unwrap();
            }
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    Arc::into_inner(order).unwrap().into_inner().unwrap()
}

/// The most that others had the lock while one waited for it.
fn max_turns_waited(order: &[usize], contenders: usize) -> usize {
    let waits = (0..contenders).flat_map(|number| {
        let turns = order.iter().enumerate().filter(|(_, who)| **who == number);
        let mut last = 0;
        turns
            .map(|(at, _)| at - std::mem::replace(&mut last, at))
            .collect::<Vec<_>>()
    });
    waits.max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn none_of_twenty_clients_starves() {
    let world = NetworkSimulation::start();
    world.set_latency_range(Duration::from_millis(1), Duration::from_millis(4));
    let mut clients = Vec::new();
    for (seed, name) in (0..).zip(NAMES) {
        clients.push(Machine::new(&world, name, seed).connect().await);
    }
    let order = contend(clients, 6).await;
    assert_eq!(order.len(), 120);
    let longest = max_turns_waited(&order, 20);
    assert!(longest <= 60, "{longest}: {order:?}");
}

#[tokio::test(start_paused = true)]
async fn none_of_twenty_tasks_of_one_client_starves() {
    let world = NetworkSimulation::start();
    world.set_latency_range(Duration::from_millis(1), Duration::from_millis(4));
    let client = Machine::new(&world, "one", 1).connect().await;
    let order = contend(vec![client; 20], 6).await;
    assert_eq!(order.len(), 120);
    let longest = max_turns_waited(&order, 20);
    assert!(longest <= 60, "{longest}: {order:?}");
}

const NAMES: [&str; 20] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s",
    "t",
];

#[tokio::test(start_paused = true)]
async fn work_under_a_lock_is_cancelled_when_it_is_lost() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let work = one.clone();
    let result = tokio::spawn(async move {
        let short = options(SECOND);
        work.with_lock("lock", &short, async |guard| {
            guard.set("protected", "value").await?;
            Ok::<_, Error>(guard.token().clone())
        })
        .await
    });
    let token = result.await.unwrap().unwrap();
    assert_eq!(world.value("lock"), None);
    assert_eq!(
        world
            .history()
            .iter()
            .find_map(|change| change.fence.clone()),
        Some(token)
    );

    let world_of_work = world.clone();
    let short = options(SECOND);
    let endless = one.with_lock("lock", &short, async |_| {
        world_of_work.set_silent("one", true);
        std::future::pending::<Result<(), Error>>().await
    });
    let lost: Result<(), Error> = timeout(LONG, endless).await.expect("it is ended");
    let error = lost.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::LockLost, Outcome::Unknown)
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_no_holder_is_reported() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let at_once = options(10 * SECOND).wait(Duration::ZERO);
    let patient = at_once.clone().wait(3 * SECOND);
    // The connection looks alive, and nothing comes back: one attempt takes no longer than its options say.
    world.set_silent("one", true);
    let brief = at_once.clone().lease(at_once.lease.clone().timeout(SECOND));
    let start = Instant::now();
    let error = one.lock_with("lock", &brief).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(start.elapsed() < SECOND * 11 / 10);
    // Before that is over it is known that the connection is lost.
    let error = one.lock_with("lock", &patient).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unreachable, Outcome::NotDone),
        "{error}"
    );
    sleep(60 * SECOND).await;
    assert!(!one.state().borrow().is_connected());
    let start = Instant::now();
    let error = one.lock_with("lock", &at_once).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unreachable, Outcome::NotDone),
        "{error}"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
    let error = one.lock_with("lock", &patient).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_reports_the_holder() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(10 * SECOND)).await;
    let at_once = options(10 * SECOND).wait(Duration::ZERO);
    let error = two.lock_with("lock", &at_once).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockHeld);
    let holder = guard.holder().to_string();
    assert!(error.to_string().contains(&holder), "{error}");
}
