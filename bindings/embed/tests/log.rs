//! The log is forwarded. One test in a program of its own: it is one for the whole process.
#![allow(clippy::unwrap_used)]

use statestore::Settings;
use statestore_embed::log::{self, Level};
use statestore_embed::{Client, Mailbox, Wait};
use statestored::RunningServer;
use statestored::config::Config;
use std::sync::mpsc::channel;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects and takes the server away, which is logged as a warning.
fn lose_a_connection() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let client = Client::new(Settings::from_url(&server.url()).unwrap()).unwrap();
    client
        .wait("connecting", client.connect(), Wait::default())
        .unwrap();
    let states = client.states().unwrap();
    server.stop().unwrap();
    while client
        .wait("following", states.next(), Wait::default())
        .unwrap()
        .is_some_and(|state| state.is_connected())
    {}
    client.close(Wait::default()).unwrap();
}

#[test]
fn records_go_to_a_callback_or_a_mailbox_or_nowhere() {
    let (sender, records) = channel();
    let thread = std::thread::current().id();
    log::to_callback(Level::WARN, move |record| {
        assert_ne!(std::thread::current().id(), thread);
        // The test may be over.
        drop(sender.send(record));
    })
    .unwrap();
    lose_a_connection();
    let record = records.recv_timeout(PATIENCE).unwrap();
    assert_eq!(record.level, Level::WARN);
    assert!(record.target.starts_with("statestore"), "{record:?}");
    assert!(record.message.contains("lost"), "{record:?}");
    assert!(record.message.contains(" reason="), "{record:?}");

    let (wake, woken) = channel();
    let mailbox = Mailbox::new(move || wake.send(()).unwrap_or_default());
    log::to_mailbox(Level::WARN, mailbox.clone()).unwrap();
    // The callback is called with what was logged before, and dropped.
    while records.recv_timeout(PATIENCE).is_ok() {}
    lose_a_connection();
    woken.recv_timeout(PATIENCE).unwrap();
    let mut count = 0;
    mailbox.drain(usize::MAX, |_| count += 1);
    assert!(count > 0);

    log::to_mailbox(Level::ERROR, mailbox.clone()).unwrap();
    lose_a_connection();
    assert!(mailbox.is_empty(), "a lost connection is no error");
    log::off();
}
