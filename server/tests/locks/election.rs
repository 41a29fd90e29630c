//! Elections.
use crate::lease::{SECOND, lease_options};
use crate::machine::Machine;
use crate::network_simulation::NetworkSimulation;
use statestore::{LockOptions, Release};
use tokio::time::sleep;

fn options() -> LockOptions {
    LockOptions::new()
        .lease(lease_options(3 * SECOND))
        .wait(None)
}

#[tokio::test(start_paused = true)]
async fn the_leader_and_its_value_are_observed_until_it_resigns() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let election = one.election_with("elect", &options()).unwrap();
    let seen_by_two = two.election_with("elect", &options()).unwrap();
    let mut leaders = seen_by_two.observe().await.unwrap();
    assert_eq!(leaders.next().await.unwrap().unwrap(), None);

    let leadership = election.campaign("10.0.0.1").await.unwrap();
    let mut seen = leaders.next().await.unwrap().unwrap().unwrap();
    if seen.value.is_none() {
        seen = leaders.next().await.unwrap().unwrap().unwrap();
    }
    assert_eq!(seen.holder, *leadership.guard().holder());
    assert_eq!(seen.value.unwrap(), "10.0.0.1");
    leadership.proclaim("10.0.0.1\nport 7").await.unwrap();
    let seen = leaders.next().await.unwrap().unwrap().unwrap();
    assert_eq!(seen.value.unwrap(), "10.0.0.1\nport 7");
    sleep(10 * SECOND).await;
    assert_eq!(leadership.resign().await.unwrap(), Release::Released);
    while leaders.next().await.unwrap().unwrap().is_some() {}
    assert_eq!(world.value("elect/leader"), None);
}

#[tokio::test(start_paused = true)]
async fn the_record_of_a_dead_leader_is_ignored() {
    let world = NetworkSimulation::start();
    let machine = Machine::new(&world, "one", 1);
    let one = machine.connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let first = one
        .election_with("elect", &options())
        .unwrap()
        .campaign("first")
        .await
        .unwrap();
    let election = two.election_with("elect", &options()).unwrap();
    machine.stop();
    let (next, election) = tokio::spawn(async move {
        let next = election.campaign("second").await.unwrap();
        (next, election)
    })
    .await
    .unwrap();
    assert!(!first.guard().is_valid());
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!(leader.value.unwrap(), "second");
    assert!(next.guard().token() > first.guard().token());

    // The next leader dies too. Then there is no leader, whatever the record says, and later a leader that has
    // proclaimed nothing yet.
    let lock = world.value("elect").unwrap();
    two.vdel("elect", lock).await.unwrap();
    assert!(world.value("elect/leader").is_some());
    assert_eq!(election.leader().await.unwrap(), None);
    let silent = two.lock_with("elect", &options()).await.unwrap();
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!((&leader.holder, leader.value), (silent.holder(), None));
    machine.resume();
    let error = first.proclaim("late").await.unwrap_err();
    assert_eq!(error.kind(), statestore::ErrorKind::LockLost);
}
