//! The log is forwarded. In a program of its own, since it is one for the whole process.
#![allow(clippy::unwrap_used)]

use statestore::Settings;
use statestore_embed::log::{self, Level};
use statestore_embed::{Client, Mailbox, WaitOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Connects and takes the server away, which is logged as a warning.
fn lose_a_connection() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let client = Client::new(Settings::from_url(&server.url()).unwrap()).unwrap();
    client
        .wait("connecting", client.connect(), WaitOptions::default())
        .unwrap();
    let states = client.states().unwrap();
    server.stop().unwrap();
    while client
        .wait("following", states.next(), WaitOptions::default())
        .unwrap()
        .is_some_and(|state| state.is_connected())
    {}
    client.close(WaitOptions::default()).unwrap();
}

/// The log is one for the whole process.
static SERIAL: Mutex<()> = Mutex::new(());

#[test]
fn records_are_sent_to_a_callback_or_a_mailbox_or_discarded() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Checks that exactly one callback receives a record after several were set at the same time.
#[test]
fn concurrently_set_callbacks_leave_exactly_one_active() {
    let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    for turn in 0..500 {
        let (sender, records) = channel();
        let together = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (sender, together) = (sender.clone(), &together);
                scope.spawn(move || {
                    together.wait();
                    let tell = move |_| sender.send(()).unwrap_or_default();
                    log::to_callback(Level::WARN, tell).unwrap();
                });
            }
        });
        tracing::warn!(target: "statestore_test", "something");
        records
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("nobody was told in turn {turn}"));
        assert!(records.try_recv().is_err(), "both were told");
    }
    log::off();
}
