//! A thread that waits while no other thread of the process does. The only test of its program, since others would drive the
//! runtime.
#![allow(clippy::unwrap_used)]

use statestore::{GetOptions, Settings};
use statestore_embed::{Client, Error, ErrorKind, Mailbox, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn wait<T: Send>(
    client: &Client,
    future: impl Future<Output = Result<T, Error>> + Send,
) -> Result<T, Error> {
    let waited = client.wait("a test", future, WaitOptions::default());
    waited.map_err(|stopped| stopped.into_error("a test"))
}

fn get(client: &Client) -> Result<(), Error> {
    let get = client.get("key".into(), GetOptions::default());
    wait(client, get).map(|entry| assert_eq!(entry, None))
}

/// Checks that an operation ends although no thread waits when it can proceed.
fn operations_under_way_continue(client: &Client) {
    let (wake, woken) = channel();
    let mailbox = Mailbox::new(move || wake.send(()).unwrap());
    let later = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    };
    client
        .submit("sleeping", later, &mailbox, |result| result)
        .unwrap();
    get(client).unwrap();
    woken.recv_timeout(PATIENCE).unwrap();
}

/// Checks that an operation proceeds which begins when no thread drives the runtime.
fn new_operations_continue(client: &Client) {
    let (wake, woken) = channel();
    let mailbox = Mailbox::new(move || wake.send(()).unwrap());
    get(client).unwrap();
    let get = client.get("key".into(), GetOptions::default());
    client
        .submit("getting", get, &mailbox, |result| result)
        .unwrap();
    woken.recv_timeout(PATIENCE).unwrap();
}

/// Returns the result of `attempt` once this thread drives. If the machine suspends the thread for a moment, the runtime's
/// own thread drives; then the attempt is repeated.
fn while_driving<T>(attempt: impl Fn() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(driven) = attempt() {
            return driven;
        }
        assert!(Instant::now() < until, "this thread never drives");
    }
}

/// The thread that drives cannot wait once more for what it drives.
fn a_nested_wait_is_rejected(client: &Client) {
    let error = while_driving(|| {
        let within = async {
            // From here on it is this thread that drives.
            tokio::time::sleep(Duration::from_millis(20)).await;
            get(client)
        };
        wait(client, within).err()
    });
    assert_eq!(error.kind(), ErrorKind::WrongThread);
    assert_eq!(get(client).ok(), Some(()), "that is over afterwards");
}

#[test]
fn a_single_waiting_thread_drives_the_runtime_and_releases_it() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings = Settings::from_url(&server.url()).unwrap();
    let client = Client::new(settings).unwrap();
    wait(&client, client.connect()).unwrap();
    let here = thread::current().id();
    while_driving(|| {
        let driver = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let driver = tokio::spawn(async { thread::current().id() });
            Ok(driver.await.unwrap())
        };
        (wait(&client, driver).unwrap() == here).then_some(())
    });
    for _ in 0..10 {
        operations_under_way_continue(&client);
        new_operations_continue(&client);
        a_nested_wait_is_rejected(&client);
    }
    client.close(WaitOptions::default()).unwrap();
}
