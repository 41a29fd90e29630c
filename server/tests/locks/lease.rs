//! Taking, naming and giving back.
use crate::machine::{Machine, one_and_two};
use crate::network_simulation::NetworkSimulation;
use bytes::Bytes;
use statestore::{
    Acquisition, Client, ConnectionState, DelOptions, Error, ErrorKind, Guard, Hlc, LeaseOptions,
    LockOptions, LostReason, Outcome, Release, Renewal, SetOptions,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn lease_options(duration: Duration) -> LeaseOptions {
    LeaseOptions::new().duration(duration)
}

pub(crate) async fn try_take(client: &Client, options: &LeaseOptions) -> Option<Guard> {
    let lease = client.lease_with("lock", options).unwrap();
    lease.acquire().await.unwrap().guard()
}

pub(crate) async fn take(client: &Client, options: &LeaseOptions) -> Guard {
    try_take(client, options).await.expect("it is free")
}

fn assert_refused_unsent(client: &Client, error: &Error, words: &str) {
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::InvalidArgument, Outcome::NotDone)
    );
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(client.counters().sent, 0);
}

#[tokio::test(start_paused = true)]
async fn invalid_lease_options_are_refused_before_sending() {
    let client = Machine::new(&NetworkSimulation::start(), "one", 1)
        .connect()
        .await;
    let every = |interval| lease_options(SECOND).renewal(Renewal::Every(interval));
    let named =
        |holder: &'static str| LeaseOptions::new().holder(Bytes::from_static(holder.as_bytes()));
    for (options, words) in [
        (lease_options(Duration::from_millis(99)), "too short"),
        (lease_options(Duration::MAX), "at most a day"),
        (every(SECOND), "too late"),
        (every(Duration::from_millis(985)), "too late"),
        (every(Duration::ZERO), "too often"),
        (named(""), "the holder's name"),
        (LeaseOptions::new().resume(true), "there is none"),
        (named("a\nb"), "the holder's name"),
    ] {
        let error = client.lease_with("lock", &options).unwrap_err();
        assert_refused_unsent(&client, &error, words);
        let options = LockOptions::new().lease(options).wait(None);
        let error = client.lock_with("lock", &options).await.unwrap_err();
        assert_refused_unsent(&client, &error, words);
        let error = client.election_with("lock", &options).unwrap_err();
        assert_refused_unsent(&client, &error, words);
    }
    assert_refused_unsent(&client, &client.lease("").unwrap_err(), "the name is empty");
    let error = client.lock("").await.unwrap_err();
    assert_refused_unsent(&client, &error, "the name is empty");
    let error = client.update("", |_| Some("")).await.unwrap_err();
    assert_refused_unsent(&client, &error, "the key is empty");
}

#[tokio::test(start_paused = true)]
async fn two_leases_of_one_process_exclude_each_other() {
    let client = Machine::new(&NetworkSimulation::start(), "one", 1)
        .connect()
        .await;
    let first = take(&client, &LeaseOptions::default()).await;
    let lease = client.lease("lock").unwrap();
    let Acquisition::Held(Some(holding)) = lease.acquire().await.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(holding.holder, *first.holder());
    assert_eq!(holding.version, *first.token());
    assert_eq!(holding.holder.client_id(), Some("one"));
    assert_eq!(first.release().await.unwrap(), Release::Released);
    assert_eq!(lease.holder().await.unwrap(), None);

    let second = take(&client, &LeaseOptions::default()).await;
    assert_ne!(*second.holder(), holding.holder);
    assert!(*second.token() > holding.version);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_does_not_inherit_a_lease() {
    let world = NetworkSimulation::start();
    let before = Machine::new(&world, "one", 1);
    let guard = take(&before.connect().await, &lease_options(10 * SECOND)).await;
    before.stop();
    let client = Machine::new(&world, "one", 2).connect().await;
    assert!(
        try_take(&client, &lease_options(10 * SECOND))
            .await
            .is_none()
    );
    assert_eq!(world.value("lock").unwrap(), guard.holder().name());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lease_can_be_renewed_and_released_by_holder_name() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    let options = lease_options(SECOND)
        .holder(Bytes::from("shift 1"))
        .resume(true)
        .renewal(Renewal::Manual);
    let taken = take(&client, &options).await;
    let first = taken.token().clone();
    taken.leave().await;
    sleep(SECOND / 2).await;
    let renewed = take(&client, &options).await;
    assert!(*renewed.token() > first);
    renewed.leave().await;
    sleep(SECOND * 3 / 4).await;
    assert_eq!(world.value("lock").unwrap(), "shift 1");
    let lease = client.lease_with("lock", &options).unwrap();
    assert_eq!(lease.release().await.unwrap(), Release::Released);
    assert_eq!(lease.release().await.unwrap(), Release::NotHeld);
    for not_resumed in [LeaseOptions::new(), options.clone().resume(false)] {
        let lease = client.lease_with("lock", &not_resumed).unwrap();
        let error = lease.release().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_with_one_holder_name_share_a_lease_only_with_resume() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let named = lease_options(SECOND).holder(Bytes::from("gateway"));
    let guard = take(&one, &named).await;
    assert!(try_take(&two, &named).await.is_none());
    assert!(try_take(&one, &named).await.is_none());
    sleep(3 * SECOND).await;
    assert!(guard.is_valid() && try_take(&two, &named).await.is_none());
    assert_eq!(guard.holder().client_id(), Some("gateway"));
    assert!(guard.holder().to_string().starts_with("gateway/"));
    guard.release().await.unwrap();

    let campaign = async |client: &Client| {
        let options = LockOptions::new().lease(named.clone()).wait(2 * SECOND);
        let election = client.election_with("lock", &options).unwrap();
        election.campaign("me").await
    };
    let leader = campaign(&one).await.unwrap();
    assert_eq!(
        campaign(&two).await.unwrap_err().kind(),
        ErrorKind::LockHeld
    );
    assert!(leader.guard().is_valid());
    leader.resign().await.unwrap();

    let resumed = named.resume(true);
    let before = take(&one, &resumed).await;
    let after = take(&two, &resumed).await;
    assert!(after.token() > before.token());
    assert_eq!(after.holder().name(), "gateway");
}

#[tokio::test(start_paused = true)]
async fn ordinary_data_is_distinguished_from_a_lease() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    let lease = client.lease("lock").unwrap();
    for data in [&b""[..], b"{\n  \"setPoint\": 21\n}", b"\x00\x01", b"\xff"] {
        client.set("lock", data).await.unwrap();
        let error = lease.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotALock, "{error}");
        let error = client.lock("lock").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotALock, "{error}");
        assert_eq!(
            lease.holder().await.unwrap_err().kind(),
            ErrorKind::NotALock
        );
        assert_eq!(world.value("lock").unwrap(), data);
    }

    // A fenced value is data, whatever it looks like.
    let fenced = SetOptions::new().fencing_token(Hlc::new(1, 0, "token").unwrap());
    client.set_with("fenced", "pump", &fenced).await.unwrap();
    let error = client.lease("fenced").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotALock, "{error}");
    let error = client.lock("fenced").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotALock, "{error}");
    assert_eq!(world.value("fenced").unwrap(), "pump");

    // The value could be a client id, so a client may hold it; but no client holds a lease for so long without renewing
    // it.
    client.set("lock", "21.5").await.unwrap();
    let Acquisition::Held(Some(holding)) = lease.acquire().await.unwrap() else {
        panic!("it may be held");
    };
    assert_eq!(holding.holder.name(), "21.5");
    assert_eq!(holding.holder.client_id(), None);
    let started = Instant::now();
    let waiter = timeout(3600 * 2 * SECOND, client.lock("lock"));
    let error = waiter.await.expect("it gives up").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotALock);
    assert!(started.elapsed() >= LeaseOptions::default().foreign_lease_max);
    assert_eq!(
        lease.acquire().await.unwrap_err().kind(),
        ErrorKind::NotALock
    );
    assert_eq!(world.value("lock").unwrap(), "21.5");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_leaves_no_lease() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    world.set_latency(Duration::from_millis(20));
    let lease = client.lease("lock").unwrap();
    // Before, while and after the store takes the request.
    for milliseconds in [0, 10, 30, 39, 41, 50] {
        let attempt = timeout(Duration::from_millis(milliseconds), lease.acquire());
        drop(attempt.await);
        sleep(SECOND).await;
        assert_eq!(world.value("lock"), None, "{milliseconds} ms");
    }
    let changes = world.history().len();
    assert!(changes >= 2, "some of them were carried out");
    sleep(60 * SECOND).await;
    assert_eq!(world.history().len(), changes);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_attempt_is_not_delivered_late() {
    for is_cut in [false, true] {
        let (world, _client) = after_a_silent_attempt(is_cut, false).await;
        assert!(world.history().is_empty(), "{:?}", world.history());
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_delivered_late_is_undone() {
    // If the connection is cut, nothing that undoes the attempt can be sent behind it before there is another one.
    for is_cut in [false, true] {
        let (world, _client) = after_a_silent_attempt(is_cut, true).await;
        let history = world.history();
        let of_lock: Vec<_> = history.iter().filter(|c| c.key == "lock").collect();
        let [taken, given_back] = &of_lock[..] else {
            panic!("{history:?}");
        };
        assert!(taken.value.is_some() && given_back.value.is_none());
        assert!(given_back.at - taken.at < SECOND / 10);
    }
}

/// Attempts to take a lease of a second, while the server does not respond for twenty. If another request needs the
/// session, the session delivers the attempt again.
async fn after_a_silent_attempt(is_cut: bool, needs_session: bool) -> (NetworkSimulation, Client) {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    world.set_silent("one", true);
    let lease = client.lease_with("lock", &lease_options(SECOND)).unwrap();
    let attempt = tokio::spawn(async move { lease.acquire().await });
    let other = client.clone();
    let other = tokio::spawn(async move {
        if needs_session {
            let options = DelOptions::new().timeout(300 * SECOND);
            other.del_with("other", &options).await.unwrap();
        }
    });
    sleep(Duration::from_millis(1)).await;
    if is_cut {
        world.cut("one");
    }
    let error = attempt.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    // Longer than the lease.
    sleep(20 * SECOND).await;
    assert!(world.history().is_empty());
    world.set_silent("one", false);
    sleep(60 * SECOND).await;
    other.await.unwrap();
    (world, client)
}

#[tokio::test(start_paused = true)]
async fn a_pending_release_does_not_keep_a_dropped_client_open() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    let mut state = client.state();
    world.set_silent("one", true);
    let lease = client.lease_with("lock", &lease_options(SECOND)).unwrap();
    lease.acquire().await.unwrap_err();
    drop((lease, client));
    let closed = state.wait_for(ConnectionState::is_closed).await;
    closed.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_each_holder_once_despite_renewals() {
    let world = NetworkSimulation::start();
    let one = Machine::new(&world, "one", 1).connect().await;
    let two = Machine::new(&world, "two", 2).connect().await;
    let mut holders = two.lease("lock").unwrap().observe().await.unwrap();
    assert_eq!(holders.next().await.unwrap().unwrap(), None);
    let guard = take(&one, &lease_options(SECOND)).await;
    let seen = holders.next().await.unwrap().unwrap().unwrap();
    assert_eq!(seen.holder, *guard.holder());
    sleep(5 * SECOND).await;
    guard.release().await.unwrap();
    assert_eq!(holders.next().await.unwrap().unwrap(), None);
    one.set_with("lock", "\n", &SetOptions::default())
        .await
        .unwrap();
    let error = holders.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotALock);
    two.close().await;
    assert!(holders.next().await.is_none());
    assert_eq!(holders.lost_reason(), Some(LostReason::Closed));
}
