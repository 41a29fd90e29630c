//! Order of the notifications about the changes of one transaction.
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
        let told = KEYS.map(|_| watching.message().topic().to_owned());
        let expected = KEYS.map(|key| {
            key.bytes()
                .fold(String::new(), |digits, byte| format!("{digits}{byte:02X}"))
        });
        for (topic, key) in told.iter().zip(&expected) {
            assert!(topic.to_uppercase().ends_with(key), "{told:?}");
        }
    }
}
