//! Threads that wait drive the runtime, and leave it to each other.
use crate::server::{Inbox, close, connect, start, wait};
use statestore::{GetOptions, ObserveOptions, SetOptions};
use statestore_embed::{Client, Error, ErrorKind, WaitError, WaitOptions};
use std::thread;
use std::time::{Duration, Instant};

fn get(client: &Client) {
    let get = client.get("key".into(), GetOptions::default());
    assert_eq!(wait(client, get).unwrap(), None);
}

fn inject() -> Error {
    panic!("injected")
}

#[test]
fn a_thread_in_a_long_wait_drives_the_runtime_for_other_threads() {
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
fn short_lived_threads_all_receive_their_results() {
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
                            let wait = WaitOptions {
                                deadline: Some(deadline),
                                ..WaitOptions::default()
                            };
                            let stopped = client.wait("waiting", never, wait).unwrap_err();
                            assert!(matches!(stopped, WaitError::TimedOut), "{stopped:?}");
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
fn a_panic_on_the_driving_thread_leaves_the_runtime_usable() {
    let server = start();
    let (one, other) = (connect(&server), connect(&server));
    let panics = async {
        // By now it is this thread that drives.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Err::<(), _>(inject())
    };
    let stopped = one
        .wait("panicking", panics, WaitOptions::default())
        .unwrap_err();
    assert!(
        matches!(&stopped, WaitError::Failed(error) if error.kind() == ErrorKind::Internal),
        "{stopped:?}"
    );
    get(&other);
    close(&one);
    get(&other);
    close(&other);
}

#[test]
fn a_close_wakes_the_driving_thread() {
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
