//! Threads that wait drive the runtime, and leave it to its own thread.
use crate::server::{Inbox, PATIENCE, close, connect, start, wait};
use statestore::{Error, ErrorKind, GetOptions, ObserveOptions, SetOptions};
use statestore_embed::{Client, Stopped, Wait};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

fn get(client: &Client) {
    let get = client.get("key".into(), GetOptions::default());
    assert_eq!(wait(client, get).unwrap(), None);
}

/// The thread that ran the runtime while this one waited.
fn driver(client: &Client) -> ThreadId {
    let on_the_runtime = async {
        let id = tokio::spawn(async { thread::current().id() }).await;
        Ok(id.unwrap())
    };
    wait(client, on_the_runtime).unwrap()
}

fn inject() -> Error {
    panic!("injected")
}

#[test]
fn a_thread_that_waits_alone_drives_the_runtime() {
    let server = start();
    let client = connect(&server);
    // Whether it comes back in time for the runtime to be still free is up to the system.
    let deadline = Instant::now() + PATIENCE;
    while driver(&client) != thread::current().id() {
        assert!(Instant::now() < deadline, "it never drives");
    }
    close(&client);
}

#[test]
fn what_is_under_way_goes_on_when_nobody_waits() {
    let server = start();
    let client = connect(&server);
    for _ in 0..20 {
        let inbox = Inbox::new();
        let later = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(())
        };
        client
            .submit("sleeping", later, &inbox.mailbox, |result| result)
            .unwrap();
        // This thread drives, and leaves before the operation ends.
        get(&client);
        inbox.next().unwrap();
    }
    close(&client);
}

#[test]
fn a_thread_that_waits_for_long_serves_the_others() {
    let server = start();
    let client = connect(&server);
    let feed = wait(
        &client,
        client.observe("key".into(), ObserveOptions::default()),
    )
    .unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&client, feed.next()).unwrap());
        for _ in 0..200 {
            get(&client);
        }
        let inbox = Inbox::new();
        let set = client.set("key".into(), "value".into(), SetOptions::default());
        client
            .submit("setting", set, &inbox.mailbox, |result| result)
            .unwrap();
        inbox.next().unwrap();
        assert!(waiting.join().unwrap().is_some());
    });
    close(&client);
}

#[test]
fn threads_that_come_and_go_all_get_their_results() {
    let server = start();
    let (one, other) = (connect(&server), connect(&server));
    thread::scope(|scope| {
        for number in 0..8_u64 {
            let client = if number % 2 == 0 { &one } else { &other };
            scope.spawn(move || {
                for turn in 0..300_u64 {
                    match (number + turn) % 3 {
                        0 => get(client),
                        1 => {
                            let deadline = Instant::now() + Duration::from_micros(turn * 7);
                            let never = std::future::pending::<Result<(), Error>>();
                            let wait = Wait {
                                deadline: Some(deadline),
                                ..Wait::default()
                            };
                            let stopped = client.wait("waiting", never, wait).unwrap_err();
                            assert!(matches!(stopped, Stopped::TimedOut), "{stopped:?}");
                            assert!(Instant::now() >= deadline);
                        }
                        _ => {
                            let inbox = Inbox::new();
                            let get = client.get("key".into(), GetOptions::default());
                            client
                                .submit("getting", get, &inbox.mailbox, |result| result)
                                .unwrap();
                            assert_eq!(inbox.next().unwrap(), None);
                        }
                    }
                }
            });
        }
    });
    close(&one);
    close(&other);
}

#[test]
fn a_panic_of_a_thread_that_drives_leaves_the_runtime_to_others() {
    let server = start();
    let (one, other) = (connect(&server), connect(&server));
    let panics = async {
        // By now it is this thread that drives.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Err::<(), _>(inject())
    };
    let stopped = one.wait("panicking", panics, Wait::default()).unwrap_err();
    assert!(
        matches!(&stopped, Stopped::Failed(error) if error.kind() == ErrorKind::Internal),
        "{stopped:?}"
    );
    get(&other);
    close(&one);
    get(&other);
    close(&other);
}

#[test]
fn closing_reaches_a_thread_that_drives() {
    let server = start();
    for _ in 0..20 {
        let client = connect(&server);
        let feed = wait(
            &client,
            client.observe("key".into(), ObserveOptions::default()),
        )
        .unwrap();
        let (begun, has_begun) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                begun.send(()).unwrap();
                wait(&client, feed.next())
            });
            has_begun.recv().unwrap();
            close(&client);
            assert!(waiting.join().unwrap().unwrap().is_none());
        });
    }
}
