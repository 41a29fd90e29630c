//! Closing, and what comes after it.
use crate::server::{Inbox, PATIENCE, close, connect, settings, start, wait};
use statestore::{GetOptions, LockOptions, LostReason, Outcome, SetOptions, Settings};
use statestore_embed::{Client, Error, ErrorKind, WaitOptions};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn a_closed_client_answers_with_an_error() {
    let server = start();
    let client = connect(&server);
    let clone = client.clone();
    close(&client);
    close(&client);
    let inbox = Inbox::new();
    let get = clone.get("key".into(), GetOptions::default());
    assert_eq!(wait(&clone, get).unwrap_err().kind(), ErrorKind::Closed);
    let get = clone.get("key".into(), GetOptions::default());
    let refused = clone.submit("getting", get, &inbox.mailbox, |result| result);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(clone.counters().unwrap_err().kind(), ErrorKind::Closed);
    // The last known state can still be queried.
    let known = clone.connected_core().unwrap();
    assert_eq!(known.counters().sent, 0);
    assert!(known.state().borrow().is_closed());
    assert_eq!(clone.callbacks().unwrap_err().kind(), ErrorKind::Closed);
    assert!(inbox.is_empty());
}

#[test]
fn a_close_dropped_before_its_first_poll_still_closes() {
    let server = start();
    let (client, other) = (connect(&server), connect(&server));
    let options = LockOptions::new().wait(PATIENCE);
    let guard = wait(&client, client.lock("lock".into(), options.clone())).unwrap();
    drop(client.close_async());
    wait(&other, other.lock("lock".into(), options)).unwrap();
    assert_eq!(guard.lost_reason().unwrap(), Some(LostReason::Closed));
    assert!(client.is_closed().unwrap());
    close(&client);
    close(&other);
}

#[test]
fn a_blocking_close_is_rejected_in_a_callback_and_an_async_one_succeeds() {
    let server = start();
    let client = connect(&server);
    let (done, result) = std::sync::mpsc::channel();
    let inner = client.clone();
    let mailbox = client.callbacks().unwrap();
    let job = move || {
        let refused = inner
            .close(WaitOptions::default())
            .map_err(|it| it.into_error("closing"));
        let is_closed = inner.is_closed().unwrap();
        let closed = done.clone();
        let complete = move |result| -> statestore_embed::Job {
            Box::new(move || {
                closed
                    .send((Err(refused.unwrap_err()), is_closed, Some(result)))
                    .unwrap();
            })
        };
        let callbacks = inner.callbacks().unwrap();
        inner
            .submit_close(Duration::ZERO, &callbacks, complete)
            .unwrap();
    };
    mailbox.post(Box::new(job)).ok().unwrap();
    let (refused, was_closed, closed): (
        Result<(), statestore_embed::Error>,
        _,
        Option<Result<(), _>>,
    ) = result.recv_timeout(PATIENCE).unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongThread);
    assert!(!was_closed, "a refused close does nothing");
    closed.unwrap().unwrap();
    close(&client);
}

#[test]
fn a_close_can_be_submitted_at_the_operation_limit_and_after_a_panic() {
    let server = start();
    let client = connect(&server);
    let (inbox, closed) = (Inbox::new(), Inbox::new());
    let refused = loop {
        let never = std::future::pending::<Result<(), Error>>();
        let begun = client.submit_event("waiting", never, &inbox.mailbox, |result| result);
        if let Err(refused) = begun {
            break refused;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    client
        .submit_close(Duration::ZERO, &closed.mailbox, |closed| closed)
        .unwrap();
    closed.next().unwrap();
    assert!(client.is_closed().unwrap());
    assert_eq!(inbox.next().unwrap_err().kind(), ErrorKind::Closed);

    let client = connect(&server);
    client.poison();
    client
        .submit_close(Duration::ZERO, &closed.mailbox, |closed| closed)
        .unwrap();
    closed.next().unwrap();
    assert!(client.is_closed().unwrap());
}

#[test]
fn a_client_that_cannot_connect_is_closed() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let settings = Settings::new("127.0.0.1", free.port());
    let client = Client::new(settings).unwrap();
    let error = wait(&client, client.connect()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(client.is_closed().unwrap());
    close(&client);
}

#[test]
fn a_client_that_is_not_connected_returns_an_error() {
    let server = start();
    let client = Client::new(settings(&server)).unwrap();
    let get = client.get("key".into(), GetOptions::default());
    let error = wait(&client, get).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.to_string().contains("not connected"), "{error}");
    wait(&client, client.connect()).unwrap();
    let again = wait(&client, client.connect()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidArgument);
    close(&client);
}

#[test]
fn connecting_can_be_submitted_and_cancelled_by_closing() {
    // The server accepts and sends nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings::new("127.0.0.1", mute.local_addr().unwrap().port());
    let client = Client::new(settings).unwrap();
    let inbox = Inbox::new();
    client
        .submit("connecting", client.connect(), &inbox.mailbox, |result| {
            result
        })
        .unwrap();
    close(&client);
    assert_eq!(inbox.next().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_dropped_client_closes_its_connection() {
    let server = start();
    let client = connect(&server);
    let mut state = client.core().unwrap().state();
    drop(client);
    let observer = connect(&server);
    let ended = wait(&observer, async move {
        let ended = state.wait_for(statestore::ConnectionState::is_closed).await;
        Ok(ended.is_ok())
    });
    assert!(ended.unwrap());
    close(&observer);
}

#[test]
fn a_client_can_be_closed_by_many_threads() {
    let server = start();
    let (client, other) = (connect(&server), connect(&server));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| close(&client));
        }
    });
    close(&other);
}

/// Returns the CPU time of this thread.
#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "the clock of a thread is read by a foreign function"
)]
pub(crate) fn thread_cpu_time() -> std::time::Duration {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists, and the struct has place for what it shows.
    let read = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    assert_eq!(read, 0);
    let [seconds, nanoseconds] =
        [used.tv_sec, used.tv_nsec].map(|part| u64::try_from(part).unwrap());
    std::time::Duration::from_secs(seconds) + std::time::Duration::from_nanos(nanoseconds)
}

#[cfg(unix)]
#[test]
fn closing_sleeps_until_the_last_operation_has_ended() {
    let server = start();
    // The client is not connected, so closing has nothing else to wait for.
    let client = Client::new(settings(&server)).unwrap();
    let (holding, is_held) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let inbox = Inbox::new();
    client
        .submit("holding up", async { Ok(()) }, &inbox.mailbox, move |_| {
            holding.send(()).unwrap();
            released.recv().unwrap();
        })
        .unwrap();
    is_held.recv_timeout(PATIENCE).unwrap();
    let held = std::time::Duration::from_millis(500);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(held);
            release.send(()).unwrap();
        });
        let before = thread_cpu_time();
        close(&client);
        let used = thread_cpu_time().saturating_sub(before);
        assert!(used < held / 4, "{used:?}");
    });
}

#[test]
fn an_unsent_request_is_not_done_after_a_cancel_or_a_close() {
    let server = start();
    let client = connect(&server);
    drop(server);
    let mut state = client.core().unwrap().state();
    let lost = async move {
        let lost = state.wait_for(|state| !state.is_connected()).await;
        Ok(lost.is_ok())
    };
    assert!(wait(&client, lost).unwrap());
    let inbox = Inbox::new();
    let mut operations = Vec::new();
    for _ in 0..20 {
        let set = client.set("key".into(), "value".into(), SetOptions::default());
        let set = async move { set.await.map(|_| ()) };
        operations.push(
            client
                .submit("setting", set, &inbox.mailbox, |it| it)
                .unwrap(),
        );
        let get = client.get("key".into(), GetOptions::default());
        let get = async move { get.await.map(|_| ()) };
        operations.push(
            client
                .submit("getting", get, &inbox.mailbox, |it| it)
                .unwrap(),
        );
    }
    let end_as = |kind| {
        for _ in 0..20 {
            let error = inbox.next().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
        }
    };
    for operation in operations.iter().take(20) {
        operation.cancel().unwrap();
    }
    // Before the client is closed: what is polled while it is cancelled may end with that as its result.
    end_as(ErrorKind::Cancelled);
    close(&client);
    end_as(ErrorKind::Closed);
}
