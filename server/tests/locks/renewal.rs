//! Knowledge of a guard about its lease.
use crate::lease::{SECOND, lease_options, take, try_take};
use crate::machine::{Machine, one_and_two};
use crate::network_simulation::NetworkSimulation;
use statestore::{ErrorKind, Guard, LostReason, Outcome, Release, Renewal, SetOptions};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Waits until the guard is lost, and checks that it is lost before the store ended the lease.
async fn assert_lost_before_the_store_ends_it(world: &NetworkSimulation, guard: &Guard) {
    guard.lost().await;
    let lost_at = Instant::now();
    assert!(!guard.is_valid());
    assert!(world.value("lock").is_some(), "the store still has it");
    sleep(60 * SECOND).await;
    let end = world
        .history()
        .into_iter()
        .find(|change| change.value.is_none());
    assert!(end.expect("the lease ended").at >= lost_at);
    assert!(!guard.is_valid(), "a lost guard stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_after_each_third_of_its_duration() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let start = Instant::now();
    let guard = take(&one, &lease_options(3 * SECOND)).await;
    sleep(Duration::from_millis(10_500)).await;
    let at: Vec<_> = world
        .history()
        .iter()
        .map(|change| (change.at - start).as_secs())
        .collect();
    assert_eq!(at, (0..=10).collect::<Vec<_>>());
    assert!(guard.is_valid());
    assert!(try_take(&two, &lease_options(SECOND)).await.is_none());
    let token = guard.token().clone();
    let lost = guard.lost();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert_eq!(lost.await, LostReason::Released);
    assert!(*take(&two, &lease_options(SECOND)).await.token() > token);
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_guard_ends_just_before_its_lease() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let options = lease_options(10 * SECOND).renewal(Renewal::Manual);
    // The lease counts from before its request is sent, however late the response arrives.
    world.set_latency(SECOND / 2);
    let sent = Instant::now();
    let guard = take(&one, &options).await;
    assert_eq!(guard.valid_until(), sent + options.validity());
    sleep(5 * SECOND).await;
    let sent = Instant::now();
    let renewed = guard.renew().await.unwrap();
    assert!(
        renewed > *guard.token(),
        "the key has a new version, the guard its old token"
    );
    assert_eq!(guard.valid_until(), sent + options.validity());
    assert_lost_before_the_store_ends_it(&world, &guard).await;
    assert_eq!(guard.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn a_guard_ends_before_its_lease_at_a_store_whose_clock_runs_fast() {
    let world = NetworkSimulation::start_at_speed(1_010);
    let (one, _) = one_and_two(&world).await;
    let options = lease_options(100 * SECOND).renewal(Renewal::Manual);
    let guard = take(&one, &options).await;
    assert_lost_before_the_store_ends_it(&world, &guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_guard_without_a_connection_ends_before_its_lease() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let start = Instant::now();
    let guard = take(&one, &lease_options(3 * SECOND)).await;
    sleep(SECOND / 2).await;
    world.set_silent("one", true);
    // The renewal at 1 s gives up at 2 s, so that there is time for another one.
    sleep_until(start + SECOND * 21 / 10).await;
    assert!(guard.is_valid() && guard.reason().is_some());
    assert_eq!(guard.lost_reason(), None);
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(try_take(&two, &lease_options(SECOND)).await.is_none());
    assert_lost_before_the_store_ends_it(&world, &guard).await;
    assert_eq!(guard.reason().unwrap().kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_machine_finds_its_guard_lost() {
    let world = NetworkSimulation::start();
    let machine = Machine::new(&world, "one", 1);
    let one = machine.connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(SECOND)).await;
    let write = guard.set("protected", "first");
    write.await.unwrap();
    machine.stop();
    assert_lost_before_the_store_ends_it(&world, &guard).await;
    let next = take(&two, &lease_options(SECOND)).await;
    next.set("protected", "second").await.unwrap();
    machine.resume();

    let sent = one.counters().sent;
    let error = guard.set("protected", "late").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::LockLost, Outcome::NotDone)
    );
    for error in [
        guard.del("protected").await.unwrap_err(),
        guard.check().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::LockLost);
    }
    assert_eq!(one.counters().sent, sent, "nothing was sent");
    // The same write past all checks, as if the machine had stopped after them.
    let unchecked = SetOptions::new().fencing_token(guard.token().clone());
    let error = one
        .set_with("protected", "late", &unchecked)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FencingTokenLower);
    assert_eq!(world.value("protected").unwrap(), "second");
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_response_does_not_restore_the_guard() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let start = Instant::now();
    let guard = take(&one, &lease_options(SECOND)).await;
    // The renewal at 333 ms is carried out at 833 ms and answered at 1333 ms.
    world.set_latency(SECOND / 2);
    guard.lost().await;
    let renewals = world.history().len();
    assert_eq!(renewals, 2, "it was renewed, only nobody heard of it");
    sleep(5 * SECOND).await;
    assert!(!guard.is_valid());
    let history = world.history();
    let end = history.last().unwrap();
    // By itself the lease ends at 1833 ms.
    assert!(end.value.is_none(), "it was given back");
    assert!(end.at - start < Duration::from_millis(1_500));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_response_read_after_a_pause_does_not_restore_the_guard() {
    let world = NetworkSimulation::start();
    let machine = Machine::new(&world, "one", 1);
    let one = machine.connect().await;
    world.set_latency(Duration::from_millis(10));
    let start = Instant::now();
    let guard = take(&one, &lease_options(3 * SECOND)).await;
    // The renewal at 2 s is executed 10 ms later, and answered while the machine stands still.
    sleep_until(start + Duration::from_millis(2_005)).await;
    machine.stop();
    let until = guard.valid_until();
    sleep_until(until).await;
    assert_eq!(world.history().len(), 3, "it was renewed twice");
    assert!(!guard.is_valid());
    machine.resume();
    for _ in 0..100 {
        sleep(SECOND / 10).await;
        assert!(!guard.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_expires_before_its_response_is_not_acquired() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    world.set_latency(SECOND * 6 / 10);
    let lease = one.lease_with("lock", &lease_options(SECOND)).unwrap();
    let error = lease.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    sleep(5 * SECOND).await;
    assert_eq!(world.value("lock"), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_response_is_read_after_a_pause_is_not_acquired() {
    let world = NetworkSimulation::start();
    let machine = Machine::new(&world, "one", 1);
    let one = machine.connect().await;
    world.set_latency(Duration::from_millis(10));
    let lease = one.lease_with("lock", &lease_options(SECOND)).unwrap();
    let attempt = machine.run(async move { lease.acquire().await });
    sleep(Duration::from_millis(15)).await;
    assert!(world.value("lock").is_some(), "the store gave the lease");
    machine.stop();
    sleep(SECOND).await;
    machine.resume();
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_guard_survives_a_restart_of_the_server_and_renews_soon_after_it() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(9 * SECOND)).await;
    sleep(2 * SECOND).await;
    world.shut_down();
    sleep(3 * SECOND).await;
    world.start_up(true);
    let back = Instant::now();
    sleep(3 * SECOND).await;
    let renewed = world.history().last().unwrap().at;
    assert!(
        renewed > back && renewed < back + 2 * SECOND,
        "{:?}",
        renewed - back
    );
    sleep(60 * SECOND).await;
    assert!(guard.is_valid());
    assert!(try_take(&two, &lease_options(SECOND)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_retried_early() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let start = Instant::now();
    let guard = take(&one, &lease_options(30 * SECOND)).await;
    // A client that is so far ahead of the store is refused.
    world.set_clock(-240_000);
    sleep_until(start + 11 * SECOND).await;
    assert_eq!(guard.reason().unwrap().kind(), ErrorKind::TimestampSkew);
    world.set_clock(0);
    sleep_until(start + 15 * SECOND).await;
    let history = world.history();
    assert_eq!(history.len(), 2, "renewed once, before 20 s have passed");
    assert!(guard.is_valid() && guard.reason().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_lost_at_the_next_renewal_if_its_lease_was_removed() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(3 * SECOND)).await;
    let start = Instant::now();
    two.del("lock").await.unwrap();
    let thief = take(&two, &lease_options(30 * SECOND)).await;
    assert_eq!(guard.lost().await, LostReason::Taken);
    assert_eq!(start.elapsed().as_secs(), 1);
    assert!(
        guard
            .reason()
            .unwrap()
            .to_string()
            .contains("another client")
    );
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert!(thief.is_valid());
    assert_eq!(world.value("lock").unwrap(), thief.holder().name());
}

#[tokio::test(start_paused = true)]
async fn a_guarded_write_is_bounded_by_the_certain_lease_time() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(SECOND)).await;
    world.set_silent("one", true);
    let valid_until = guard.valid_until();
    let error = guard.set("protected", "value").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::LockLost, Outcome::Unknown)
    );
    let late = Instant::now().saturating_duration_since(valid_until);
    assert!(late <= Duration::from_millis(2), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_guarded_write_uses_only_the_token_of_its_guard() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(SECOND)).await;
    let options = SetOptions::new().fencing_token(guard.token().clone());
    let error = guard
        .set_with("protected", "value", &options)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn all_writes_of_a_guard_have_one_token_across_renewals() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(SECOND)).await;
    let early = SetOptions::new().fencing_token(guard.token().clone());
    sleep(5 * SECOND).await;
    guard.set("protected", "1").await.unwrap();
    // A client that received the token before is not kept out by the renewals.
    one.set_with("protected", "2", &early).await.unwrap();
    guard.vdel("protected", "2").await.unwrap();
    assert_eq!(world.value("protected"), None);
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_lost_when_its_session_is_taken_over() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let options = lease_options(30 * SECOND).renewal(Renewal::Manual);
    let guard = take(&one, &options).await;
    let start = Instant::now();
    let _other = Machine::new(&world, "one", 3).connect().await;
    assert_eq!(guard.lost().await, LostReason::TakenOver);
    assert!(start.elapsed() < SECOND);
    assert_eq!(guard.reason().unwrap().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn clock_jumps_do_not_affect_a_guard() {
    let world = NetworkSimulation::start();
    let machine = Machine::new(&world, "one", 1);
    let one = machine.connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let guard = take(&one, &lease_options(3 * SECOND)).await;
    for wrong_by_ms in [50_000, 120_000, 60_000] {
        world.set_clock(wrong_by_ms);
        sleep(10 * SECOND).await;
        assert!(guard.is_valid(), "server {wrong_by_ms}");
        assert!(try_take(&two, &lease_options(SECOND)).await.is_none());
    }
    machine.set_clock(-120_000);
    sleep(10 * SECOND).await;
    assert!(guard.is_valid());
    // A client whose clock is more than a minute ahead of the store's is refused, and loses its lease in time.
    machine.set_clock(240_000);
    assert_lost_before_the_store_ends_it(&world, &guard).await;
    assert_eq!(guard.reason().unwrap().kind(), ErrorKind::TimestampSkew);
}
