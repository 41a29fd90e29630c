//! Order of notifications: about the changes of one transaction, and to watches of patterns.
use super::keeping::ask;
use super::world::{Peer, Store};
use super::{Engine, block_on};
use statestore::{Client, SetOptions, Settings, Transaction, TransactionOutcome};

/// Not the order of the keys.
const KEYS: [&str; 5] = ["order-d", "order-a", "order-e", "order-b", "order-c"];

pub(crate) fn notifications_of_a_transaction_follow_its_operation_order<E: Engine>() {
    let engine = E::start();
    let storage = &engine.url("order");
    let [one, other] =
        [(), ()].map(|()| Store::launch(&["--storage", storage, "--listen", "tcp://127.0.0.1:0"]));
    let listeners = [&one, &other].map(|server| server.listener.unwrap());
    let mut watching = listeners.map(|listener| Peer::connect(listener, "watching"));
    for watching in &mut watching {
        for key in KEYS {
            let answer = ask(watching, &["KEYNOTIFY", key], &mut Vec::new());
            assert_eq!(answer, "+OK\r\n");
        }
    }
    block_on(async {
        let settings = format!("mqtt://{}", listeners[0]);
        let settings = settings.parse::<Settings>().unwrap();
        let client = Client::connect(settings).await.unwrap();
        let sets = KEYS.iter().fold(Transaction::new(), |transaction, key| {
            transaction.set(*key, "v", &SetOptions::new())
        });
        let outcome = client.transact(&sets).await.unwrap();
        assert!(matches!(outcome, TransactionOutcome::Applied(_)));
    });
    for watching in &mut watching {
        assert_notified(watching);
    }
}

/// Asserts that the next notifications are about the keys, in their order.
fn assert_notified(watching: &mut Peer) {
    let told = KEYS.map(|_| watching.message().topic().to_owned());
    let expected = KEYS.map(|key| {
        key.bytes()
            .fold(String::new(), |digits, byte| format!("{digits}{byte:02X}"))
    });
    for (topic, key) in told.iter().zip(&expected) {
        assert!(topic.to_uppercase().ends_with(key), "{told:?}");
    }
}

pub(crate) fn watches_of_patterns_see_the_changes_of_every_server_once<E: Engine>() {
    let engine = E::start();
    let storage = &engine.url("order");
    let servers =
        [(), ()].map(|()| Store::launch(&["--storage", storage, "--listen", "tcp://127.0.0.1:0"]));
    let listeners = servers.each_ref().map(|server| server.listener.unwrap());
    let mut watching = listeners.map(|listener| Peer::connect(listener, "watching"));
    for watching in &mut watching {
        for parts in [
            &["KEYNOTIFY", "order-*", "MATCH"][..],
            &["KEYNOTIFY", "*-[a-e]", "MATCH"],
            &["KEYNOTIFY", KEYS[0]],
        ] {
            assert_eq!(ask(watching, parts, &mut Vec::new()), "+OK\r\n");
        }
    }
    let mut writing = listeners.map(|listener| Peer::connect(listener, "writing"));
    for (number, key) in KEYS.into_iter().enumerate() {
        let writing = &mut writing[number % 2];
        assert_eq!(
            ask(writing, &["SET", "other", "v"], &mut Vec::new()),
            "+OK\r\n"
        );
        assert_eq!(ask(writing, &["SET", key, "v"], &mut Vec::new()), "+OK\r\n");
    }
    for watching in &mut watching {
        assert_notified(watching);
        for pattern in ["order-*", "*-[a-e]"] {
            let mut told = Vec::new();
            let answer = ask(
                watching,
                &["KEYNOTIFY", pattern, "MATCH", "STOP"],
                &mut told,
            );
            assert_eq!((answer.as_str(), told.len()), ("+OK\r\n", 0));
        }
    }
}
