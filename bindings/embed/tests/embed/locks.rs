//! Leases, locks and elections.
use crate::server::{Inbox, PATIENCE, close, connect, start, wait};
use statestore::{
    DelOptions, LeaseOptions, LockOptions, LostReason, Outcome, Release, Renewal, SetOptions,
    UpdateOptions,
};
use statestore_embed::{Acquisition, Client, Error, ErrorKind, Mailbox, WaitOptions, WorkOutcome};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

#[test]
fn a_guard_writes_and_releases_its_lease() {
    let server = start();
    let client = connect(&server);
    let guard = wait(&client, client.lock("lock".into(), LockOptions::default())).unwrap();
    assert!(guard.is_valid().unwrap());
    assert_eq!(guard.name().unwrap(), "lock");
    let lost = guard.lost();
    let set = guard.set("key".into(), "value".into(), SetOptions::default());
    assert!(wait(&client, set).unwrap().is_applied());
    let refused = client.set("key".into(), "other".into(), SetOptions::default());
    let refused = wait(&client, refused).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FencingTokenRequired);
    wait(&client, guard.del("key".into(), DelOptions::default())).unwrap();
    wait(&client, guard.renew()).unwrap();
    assert_eq!(
        wait(&client, guard.release(None)).unwrap(),
        Release::Released
    );
    wait(&client, lost).unwrap();
    assert!(!guard.is_valid().unwrap());
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::LockLost);
    let late = guard.set("key".into(), "value".into(), SetOptions::default());
    assert_eq!(wait(&client, late).unwrap_err().kind(), ErrorKind::LockLost);
    assert_eq!(
        wait(&client, guard.release(None)).unwrap(),
        Release::NotHeld
    );
    close(&client);
}

#[test]
fn a_dropped_guard_releases_its_lease() {
    let server = start();
    let client = connect(&server);
    let lease = client.lease(b"lease", &LeaseOptions::default()).unwrap();
    let Acquisition::Acquired(guard) = wait(&client, lease.acquire()).unwrap() else {
        panic!("nobody else is there");
    };
    let again = wait(&client, lease.acquire()).unwrap();
    assert!(matches!(again, Acquisition::Held(Some(_))), "{again:?}");
    drop(guard);
    // The call waits until the lease is free, long before its time-out.
    let options = LockOptions::new().wait(Duration::from_secs(5));
    wait(&client, client.lock("lease".into(), options)).unwrap();
    close(&client);
}

#[test]
fn a_lock_acquired_after_its_wait_ended_is_released() {
    let server = start();
    let client = connect(&server);
    let nobody = Mailbox::new(|| {});
    nobody.close();
    let lock = client.lock("lock".into(), LockOptions::default());
    client
        .submit("locking", lock, &nobody, |result| result.map(drop))
        .unwrap();
    wait(&client, client.lock("lock".into(), LockOptions::default())).unwrap();
    close(&client);
}

#[test]
fn a_cancelled_wait_for_a_lock_leaves_nothing_behind() {
    let server = start();
    let client = connect(&server);
    let guard = wait(&client, client.lock("lock".into(), LockOptions::default())).unwrap();
    let lock = client.lock("lock".into(), LockOptions::default());
    let stopped = WaitOptions {
        deadline: Some(Instant::now() + Duration::from_millis(20)),
        ..WaitOptions::default()
    };
    client.wait("locking", lock, stopped).unwrap_err();
    wait(&client, guard.release(None)).unwrap();
    wait(&client, client.lock("lock".into(), LockOptions::default())).unwrap();
    close(&client);
}

#[test]
fn a_leader_proclaims_and_is_observed() {
    let server = start();
    let (one, other) = (connect(&server), connect(&server));
    let options = LockOptions::default();
    let election = one.election(b"election", &options).unwrap();
    let seen = other.election(b"election", &options).unwrap();
    let leaders = wait(&other, seen.observe()).unwrap();
    assert_eq!(
        wait(&other, leaders.next()).unwrap().unwrap().unwrap(),
        None
    );
    let lead = wait(&one, election.campaign("first".into())).unwrap();
    loop {
        let leader = wait(&other, leaders.next()).unwrap().unwrap().unwrap();
        if leader.is_some_and(|leader| leader.value.as_deref() == Some(b"first")) {
            break;
        }
    }
    assert!(
        wait(&one, lead.proclaim("second".into()))
            .unwrap()
            .is_applied()
    );
    let leader = wait(&other, seen.leader()).unwrap().unwrap();
    assert_eq!(leader.value.as_deref(), Some(&b"second"[..]));
    assert_eq!(leader.holder, *lead.holder().unwrap());
    assert_eq!(wait(&one, lead.release(None)).unwrap(), Release::Released);
    assert_eq!(wait(&other, seen.leader()).unwrap(), None);
    close(&one);
    close(&other);
}

#[test]
fn an_update_waits_for_an_asynchronously_computed_value() {
    let server = start();
    let client = connect(&server);
    for _ in 0..3 {
        let callbacks = client.callbacks().unwrap();
        let update = client.update("count".into(), UpdateOptions::default(), move |old| {
            let (answer, answered) = tokio::sync::oneshot::channel();
            let job = move || {
                let count = old.map_or(0, |old| {
                    std::str::from_utf8(&old.value).unwrap().parse().unwrap()
                });
                answer
                    .send(Some((count + 1_u32).to_string().into()))
                    .unwrap();
            };
            callbacks.post(Box::new(job)).ok().unwrap();
            async move { answered.await.unwrap() }
        });
        wait(&client, update).unwrap();
    }
    let get = client.get("count".into(), statestore::GetOptions::default());
    assert_eq!(wait(&client, get).unwrap().unwrap().value, "3");
    close(&client);
}

#[test]
fn a_release_dropped_before_its_first_poll_still_releases() {
    let server = start();
    let (client, other) = (connect(&server), connect(&server));
    let lease = LeaseOptions::new().duration(Duration::from_secs(3600));
    let options = LockOptions::new().lease(lease).wait(PATIENCE);
    let lock = |client| wait(client, Client::lock(client, "lock".into(), options.clone()));
    for _ in 0..3 {
        let guard = lock(&client).unwrap();
        drop(guard.release(None));
        assert_eq!(guard.lost_reason().unwrap(), Some(LostReason::Released));
        let finished = lock(&other).unwrap();
        drop(finished.finish(WorkOutcome::SucceededUnderLease, None));
        let left = lock(&client).unwrap();
        drop(left.leave());
        wait(&other, lock(&other).unwrap().release(None)).unwrap();
        assert_eq!(
            wait(&client, guard.release(None)).unwrap(),
            Release::NotHeld
        );
    }
    close(&client);
    close(&other);
}

#[test]
fn a_cancelled_release_has_an_unknown_outcome() {
    let server = start();
    let (client, other) = (connect(&server), connect(&server));
    let inbox = Inbox::new();
    let mut cancelled = 0;
    for _ in 0..50 {
        let options = LockOptions::new().wait(PATIENCE);
        let guard = wait(&client, client.lock("lock".into(), options.clone())).unwrap();
        let release = guard.release(None);
        let begun = client.submit_return("releasing", release, &inbox.mailbox, |result| result);
        begun.unwrap().cancel().unwrap();
        if let Err(error) = inbox.next() {
            assert_eq!(error.kind(), ErrorKind::Cancelled);
            assert_eq!(error.outcome(), Outcome::Unknown);
            cancelled += 1;
        }
        let taken = wait(&other, other.lock("lock".into(), options)).unwrap();
        wait(&other, taken.release(None)).unwrap();
    }
    assert!(cancelled > 0);
    close(&client);
    close(&other);
}

#[test]
fn a_release_waits_for_earlier_writes() {
    let server = start();
    let client = connect(&server);
    for _ in 0..50 {
        let guard = wait(&client, client.lock("lock".into(), LockOptions::default())).unwrap();
        let inbox = Inbox::new();
        let set = guard.set("key".into(), "value".into(), SetOptions::default());
        let set = client.submit("setting", set, &inbox.mailbox, |result| {
            result.map(|set| set.is_applied())
        });
        let release = guard.release(None);
        let release = client.submit_return("releasing", release, &inbox.mailbox, |result| {
            result.map(|release| release == Release::Released)
        });
        drop((set.unwrap(), release.unwrap()));
        assert!(inbox.next().unwrap() && inbox.next().unwrap());
    }
    close(&client);
}

#[test]
fn a_release_waits_for_a_write_until_its_timeout() {
    let server = start();
    let (client, other) = (connect(&server), connect(&server));
    let options = LockOptions::new().wait(PATIENCE);
    let guard = wait(&client, client.lock("lock".into(), options.clone())).unwrap();
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let endless = move |_| {
        asked.send(()).unwrap();
        std::future::pending()
    };
    let update = guard.update("key".into(), UpdateOptions::default(), endless);
    let inbox = Inbox::new();
    let update = client.submit("updating", update, &inbox.mailbox, |result| result);
    let was_asked = async { Ok::<_, Error>(is_asked.recv().await) };
    wait(&client, was_asked).unwrap().unwrap();
    let error = wait(&client, guard.release(Some(Duration::from_millis(20)))).unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    update.unwrap().cancel().unwrap();
    assert_eq!(inbox.next().unwrap_err().kind(), ErrorKind::Cancelled);
    wait(&other, other.lock("lock".into(), options)).unwrap();
    close(&client);
    close(&other);
}

#[test]
fn an_abandoned_release_completes_in_the_background() {
    let server = start();
    let client = connect(&server);
    let lock = |wait_for| {
        let options = LockOptions::new().wait(wait_for);
        wait(&client, client.lock("lock".into(), options))
    };
    let guard = lock(Duration::ZERO).unwrap();
    let given_up = async {
        let write = guard.set("key".into(), "value".into(), SetOptions::default());
        let mut write = std::pin::pin!(write);
        let mut release = Box::pin(guard.release(None));
        let noop = || Context::from_waker(Waker::noop());
        // The release waits for the write, which began before it, and is given up meanwhile.
        assert!(write.as_mut().poll(&mut noop()).is_pending());
        assert!(release.as_mut().poll(&mut noop()).is_pending());
        assert!(!guard.is_valid().unwrap());
        drop(release);
        assert!(!guard.is_valid().unwrap(), "it stays so");
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::LockLost);
        guard.lost().await?;
        let late = guard.set("key".into(), "late".into(), SetOptions::default());
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::LockLost);
        write.await
    };
    assert!(wait(&client, given_up).unwrap().is_applied());
    // The lock is free long before the time-out, although the guard still exists.
    lock(Duration::from_secs(5)).unwrap();
    assert_eq!(
        wait(&client, guard.release(None)).unwrap(),
        Release::NotHeld
    );
    close(&client);
}

#[test]
fn finishing_the_work_reports_a_lost_lease() {
    let server = start();
    let client = connect(&server);
    let lock = |name: &'static str, duration| {
        let options = LockOptions::new().lease(
            LeaseOptions::new()
                .duration(Duration::from_millis(duration))
                .renewal(Renewal::Manual),
        );
        wait(&client, client.lock(name.into(), options)).unwrap()
    };
    let lost = lock("lost", 200);
    assert_eq!(wait(&client, lost.lost()).unwrap(), LostReason::Expired);
    assert_eq!(lost.loss().unwrap().unwrap().outcome(), Outcome::Unknown);
    let error = wait(&client, lost.finish(WorkOutcome::Succeeded, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    assert_eq!(error.outcome(), Outcome::Unknown);
    // The reason does not change.
    assert_eq!(lost.lost_reason().unwrap(), Some(LostReason::Expired));
    assert!(wait(&client, lost.finish(WorkOutcome::Succeeded, None)).is_err());
    wait(&client, lost.finish(WorkOutcome::Failed, None)).unwrap();

    let taken = lock("taken", 10_000);
    wait(&client, client.del("taken".into(), DelOptions::default())).unwrap();
    assert!(taken.loss().unwrap().is_none(), "nobody can know yet");
    let error = wait(&client, taken.finish(WorkOutcome::Succeeded, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);

    let held = lock("held", 10_000);
    assert_eq!(held.lost_reason().unwrap(), None);
    wait(&client, held.finish(WorkOutcome::Succeeded, None)).unwrap();
    assert_eq!(held.lost_reason().unwrap(), Some(LostReason::Released));
    wait(&client, held.finish(WorkOutcome::Succeeded, None)).unwrap();
    // Work whose lock is released before its end was not covered as a whole.
    let error = wait(&client, held.finish(WorkOutcome::SucceededUnderLease, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockLost);
    assert_eq!(error.outcome(), Outcome::Unknown);
    wait(&client, held.finish(WorkOutcome::Failed, None)).unwrap();

    let whole = lock("whole", 10_000);
    wait(
        &client,
        whole.finish(WorkOutcome::SucceededUnderLease, None),
    )
    .unwrap();
    let election = client.election(b"election", &LockOptions::default());
    let lead = wait(&client, election.unwrap().campaign("value".into())).unwrap();
    wait(&client, lead.finish(WorkOutcome::SucceededUnderLease, None)).unwrap();
    assert_eq!(lead.lost_reason().unwrap(), Some(LostReason::Released));
    close(&client);
}
