//! Expiry of an entry is reported once, and soon, even if the server that made the entry is gone.
use super::Engine;
use super::keeping::ask;
use super::world::{Peer, Store};
use std::time::{Duration, Instant};

/// How long an entry lasts.
const LIFETIME: Duration = Duration::from_millis(700);

/// Maximum delay of the notification after the expiry: each server may start it, within half a second.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// How often it is tried: a machine that has much to do may be late now and then.
const ROUNDS: u32 = 4;

const DELETED: &str = "*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n";

fn launch(storage: &str) -> Store {
    Store::launch(&["--storage", storage, "--listen", "tcp://127.0.0.1:0"])
}

pub(crate) fn an_expiry_is_notified_once_although_its_server_was_killed<E: Engine>() {
    let engine = E::start();
    let storage = &engine.url("ends");
    let goes_on = launch(storage);
    let mut watching = Peer::connect(goes_on.listener.unwrap(), "watching");
    let mut soonest = Duration::MAX;
    for round in 0..ROUNDS {
        let key = format!("ends-{round}");
        let mut told = Vec::new();
        let watched = ask(&mut watching, &["KEYNOTIFY", &key], &mut told);
        assert_eq!(watched, "+OK\r\n");
        let killed = launch(storage);
        let mut setting = Peer::connect(killed.listener.unwrap(), "setting");
        let lasts = LIFETIME.as_millis().to_string();
        let begun = Instant::now();
        let set = ask(
            &mut setting,
            &["SET", &key, "v", "PX", &lasts],
            &mut Vec::new(),
        );
        assert_eq!(set, "+OK\r\n");
        // With SIGKILL.
        drop(killed);
        let first = watching.message();
        assert!(first.payload_bytes().starts_with(b"*4\r\n$6\r\nNOTIFY"));
        let second = watching.message();
        assert_eq!(second.payload_bytes(), DELETED.as_bytes());
        let took = begun.elapsed();
        let late = took.checked_sub(LIFETIME).expect("ended too early");
        soonest = soonest.min(late);
        // The next notification is about a new entry, not about the expiry again.
        ask(&mut watching, &["SET", &key, "w"], &mut told);
        ask(&mut watching, &["KEYNOTIFY", &key, "STOP"], &mut told);
        assert_eq!(told.len(), 1, "{told:?}");
    }
    assert!(soonest <= MAX_DELAY, "{soonest:?} after the end");
}
