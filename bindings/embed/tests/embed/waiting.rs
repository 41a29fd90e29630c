//! Waiting on a thread.
use crate::server::{Inbox, PATIENCE, close, connect, start, wait};
use statestore::{GetOptions, ObserveOptions};
use statestore_embed::{Error, ErrorKind, WaitError, WaitOptions};
use std::time::{Duration, Instant};

fn never() -> impl Future<Output = Result<(), Error>> {
    std::future::pending()
}

#[test]
fn waiting_ends_at_its_deadline() {
    let server = start();
    let client = connect(&server);
    let time = Duration::from_millis(30);
    let began = Instant::now();
    let wait = WaitOptions {
        deadline: Some(began + time),
        ..WaitOptions::default()
    };
    let stopped = client.wait("waiting", never(), wait).unwrap_err();
    assert!(matches!(stopped, WaitError::TimedOut), "{stopped:?}");
    assert!(began.elapsed() >= time);
    close(&client);
}

#[test]
fn waiting_ends_when_the_hook_returns_true() {
    let server = start();
    let client = connect(&server);
    let mut calls = 0;
    let mut interrupt = || {
        calls += 1;
        calls == 3
    };
    let wait = WaitOptions {
        interrupt: Some(&mut interrupt),
        ..WaitOptions::default()
    };
    let stopped = client.wait("waiting", never(), wait).unwrap_err();
    assert!(matches!(stopped, WaitError::Interrupted), "{stopped:?}");
    assert_eq!(calls, 3);
    close(&client);
}

#[test]
fn waiting_on_the_runtime_thread_is_rejected() {
    let server = start();
    let client = connect(&server);
    let inbox = Inbox::new();
    let (inner, feed_client) = (client.clone(), client.clone());
    let submitted = client.submit(
        "waiting within",
        async move {
            // Only from here on it runs on the runtime's thread.
            feed_client
                .observe("key".into(), ObserveOptions::default())
                .await?;
            let get = inner.get("key".into(), GetOptions::default());
            Ok(inner
                .wait("getting", get, WaitOptions::default())
                .map_err(|it| it.into_error("getting")))
        },
        &inbox.mailbox,
        |result| result,
    );
    submitted.unwrap();
    let error = inbox.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongThread);
    close(&client);
}

#[test]
fn waiting_is_possible_in_a_callback() {
    let server = start();
    let client = connect(&server);
    let (done, result) = std::sync::mpsc::channel();
    let inner = client.clone();
    let job = move || {
        let get = inner.get("key".into(), GetOptions::default());
        done.send((inner.is_in_callback(), wait(&inner, get)))
            .unwrap();
    };
    client
        .callbacks()
        .unwrap()
        .post(Box::new(job))
        .ok()
        .unwrap();
    let (is_in_callback, entry) = result.recv_timeout(PATIENCE).unwrap();
    assert!(is_in_callback && !client.is_in_callback());
    assert_eq!(entry.unwrap(), None);
    close(&client);
}
