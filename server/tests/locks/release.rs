//! How a lease is given back: by its guard, by a guard that is dropped, by a client that is closed.
use crate::lease::{SECOND, lease_options, take};
use crate::machine::{Machine, one_and_two};
use crate::network_simulation::NetworkSimulation;
use statestore::{Client, DelOptions, Error, ErrorKind, LockOptions, LostReason, Outcome, Release};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

#[tokio::test(start_paused = true)]
async fn a_renewal_under_way_does_not_take_the_lease_again_after_its_release() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    world.set_latency(Duration::from_millis(100));
    for milliseconds in [300, 340, 440, 530, 560] {
        let guard = take(&one, &lease_options(SECOND)).await;
        let until = guard.valid_until() - lease_options(SECOND).validity()
            + Duration::from_millis(milliseconds);
        sleep_until(until).await;
        assert_eq!(guard.release().await.unwrap(), Release::Released);
        assert_eq!(world.value("lock"), None);
        let changes = world.history().len();
        sleep(5 * SECOND).await;
        assert_eq!(world.history().len(), changes, "{milliseconds} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_continues_after_its_future_is_dropped() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(10 * SECOND)).await;
    world.set_latency(Duration::from_millis(100));
    let given_up = timeout(Duration::from_millis(50), guard.release()).await;
    assert!(given_up.is_err());
    sleep(SECOND).await;
    assert_eq!(world.value("lock"), None);
}

#[tokio::test(start_paused = true)]
async fn releasing_a_lease_is_bounded_by_its_timeout_and_duration() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let hold = async |held| {
        world.set_silent("one", false);
        let options = LockOptions::new().lease(lease_options(25 * SECOND));
        let guard = two.lock_with("lock", &options).await.unwrap();
        guard.release().await.unwrap();
        // It waits for the connection.
        let guard = one.lock_with("lock", &options).await.unwrap();
        sleep(held).await;
        world.set_silent("one", true);
        (guard, Instant::now())
    };
    let refused = |error: &Error| {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::TimedOut, Outcome::Unknown)
        );
        assert!(error.to_string().contains("in the background"), "{error}");
    };

    let (guard, began) = hold(3 * SECOND / 2).await;
    let until = guard.valid_until();
    refused(&guard.release().await.unwrap_err());
    assert!(
        Instant::now() <= until + Duration::from_millis(2),
        "{:?}",
        began.elapsed()
    );
    let (guard, began) = hold(Duration::ZERO).await;
    let limit = Duration::from_nanos(999_999_990);
    let error = guard.release_within(limit).await.unwrap_err();
    refused(&error);
    assert!(error.to_string().contains(" within 1s; "), "{error}");
    assert!(began.elapsed() < SECOND * 3 / 2);
    let (guard, began) = hold(Duration::ZERO).await;
    guard.finish_within(SECOND).await.unwrap();
    assert!(began.elapsed() < SECOND * 3 / 2);
    let (guard, began) = hold(Duration::ZERO).await;
    let error = guard.release_within(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains(" at once; "), "{error}");
    assert!(began.elapsed() < SECOND / 2);

    // A release does not wait for a lease that has expired.
    let (guard, _) = hold(Duration::ZERO).await;
    guard.lost().await;
    let began = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Release::NotHeld);
    assert!(began.elapsed() < Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn resigning_is_bounded_by_its_timeout_and_the_lease() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let options = LockOptions::new().lease(lease_options(25 * SECOND));
    let election = one.election_with("lock", &options).unwrap();
    let later = two.election_with("lock", &options).unwrap();
    for seconds in [Some(1), None] {
        let leadership = election.campaign("one").await.unwrap();
        world.set_silent("one", true);
        let (began, until) = (Instant::now(), leadership.guard().valid_until());
        let resigned = match seconds {
            Some(seconds) => leadership.resign_within(seconds * SECOND).await,
            None => leadership.resign().await,
        };
        assert_eq!(resigned.unwrap_err().kind(), ErrorKind::TimedOut);
        let most = seconds.map_or(until, |seconds| began + seconds * SECOND);
        assert!(Instant::now() <= most + Duration::from_millis(2));
        world.set_silent("one", false);
        later.campaign("two").await.unwrap().resign().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_released_and_no_longer_renewed() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(10 * SECOND)).await;
    let lost = guard.lost();
    let start = Instant::now();
    drop(guard);
    lost.await;
    sleep(60 * SECOND).await;
    let history = world.history();
    let end = history.last().unwrap();
    assert!(end.value.is_none() && end.at - start < SECOND);
    assert_eq!(history.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_releases_its_leases() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(30 * SECOND)).await;
    one.close().await;
    assert_eq!(world.value("lock"), None);
    assert!(!guard.is_valid());
    assert_eq!(guard.lost_reason(), Some(LostReason::Closed));
    assert_eq!(guard.reason().unwrap().kind(), ErrorKind::Closed);
    take(&two, &lease_options(30 * SECOND)).await;
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_releases_leases_of_pending_attempts() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let lease = one.lease_with("lock", &lease_options(30 * SECOND)).unwrap();
    world.set_latency(SECOND / 10);
    // The request is on its way.
    timeout(SECOND / 20, lease.acquire()).await.unwrap_err();
    one.close().await;
    sleep(SECOND).await;
    assert!(!world.history().is_empty(), "it was taken");
    assert_eq!(world.value("lock"), None);
    take(&two, &lease_options(30 * SECOND)).await;
}

#[tokio::test(start_paused = true)]
async fn closing_an_unresponsive_client_waits_a_second_for_its_leases() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(30 * SECOND)).await;
    world.set_silent("one", true);
    let start = Instant::now();
    one.close().await;
    assert!(start.elapsed() < 2 * SECOND + SECOND / 2);
    assert!(!guard.is_valid());
    let refused = one.lock("lock").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert_eq!(refused.outcome(), Outcome::NotDone);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_released_after_the_server_restarts() {
    let world = NetworkSimulation::start();
    let settings = Machine::new(&world, "one", 1).settings();
    let one = Client::connect(settings.reconnect_delay(SECOND / 10, SECOND));
    let guard = take(&one.await.unwrap(), &lease_options(30 * SECOND)).await;
    world.shut_down();
    drop(guard);
    // Longer than one request may take.
    sleep(8 * SECOND).await;
    world.start_up(true);
    sleep(5 * SECOND).await;
    assert_eq!(world.value("lock"), None);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_delivered_after_the_lease_expired_is_undone() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let guard = take(&one, &lease_options(3 * SECOND)).await;
    world.set_silent("one", true);
    // Without it the session would end, and the renewal with it.
    let other = tokio::spawn(async move {
        let options = DelOptions::new().timeout(300 * SECOND);
        one.del_with("other", &options).await.unwrap();
    });
    // The first renewal is on its way. The later ones find no connection: they certainly were not sent.
    sleep(SECOND * 3 / 2).await;
    world.cut("one");
    assert_eq!(guard.lost().await, LostReason::Expired);
    sleep(20 * SECOND).await;
    let before = world.history().len();
    world.set_silent("one", false);
    other.await.unwrap();
    sleep(SECOND / 10).await;
    assert_eq!(world.value("lock"), None);
    assert_eq!(world.history().len(), before + 2, "it was delivered");
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_of_a_dropped_guard_is_logged() {
    let world = NetworkSimulation::start();
    let (one, _) = one_and_two(&world).await;
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone());
    let _subscriber = tracing::subscriber::set_default(subscriber.finish());
    let guard = take(&one, &lease_options(SECOND)).await;
    drop(guard);
    sleep(60 * SECOND).await;
    assert_eq!(log.text(), "");
    let guard = take(&one, &lease_options(SECOND)).await;
    world.set_silent("one", true);
    drop(guard);
    sleep(60 * SECOND).await;
    let text = log.text();
    assert!(
        text.contains("WARN") && text.contains("could not be given back"),
        "{text}"
    );
}

/// The text that was written to the log.
#[derive(Debug, Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
