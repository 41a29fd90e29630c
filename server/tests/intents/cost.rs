//! How many requests a transaction takes.
use crate::faults::Fault;
use crate::history::KEYS;
use crate::store::StoreSimulation;
use statestore::{DelOptions, SetOptions, Transaction};
use statestore_intents::{self as intents, Store as _};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Plays alone, and gives the number of requests.
fn requests(world: &StoreSimulation, task: impl Future<Output = ()>) -> u64 {
    let before = world.inner().sent[0];
    let mut task = pin!(task);
    let mut context = Context::from_waker(Waker::noop());
    while task.as_mut().poll(&mut context).is_pending() {
        let mut inner = world.inner();
        let answer = match inner.awaited(0).unwrap().clone() {
            crate::store::AwaitedEvent::Request(sent) => inner.execute(&sent),
            crate::store::AwaitedEvent::Pause { .. } => panic!("nobody is in the way"),
        };
        inner.answer(0, answer);
    }
    world.inner().sent[0] - before
}

fn world() -> StoreSimulation {
    let world = StoreSimulation::new(&[0], Fault::None);
    world.inner().pass(60_000);
    world
}

fn transact(world: &StoreSimulation, transaction: &Transaction) -> u64 {
    let port = world.port(0);
    requests(world, async move {
        let outcome = intents::transact(&port, transaction, MINUTE).await;
        assert!(outcome.unwrap().is_applied());
    })
}

/// The figures of `docs/intents.md`.
#[test]
fn a_transaction_takes_two_requests_and_three_or_four_for_each_key() {
    for existing in 0..=3 {
        let world = world();
        for key in &KEYS[..existing] {
            world.inner().store(key.as_bytes(), "old");
        }
        let set = |transaction: Transaction, key: &&str| {
            transaction.set(key, "new", &SetOptions::default())
        };
        let transaction = KEYS.iter().fold(Transaction::new(), set);
        let (absent, existing) = (3 - existing as u64, existing as u64);
        assert_eq!(
            transact(&world, &transaction),
            2 + 4 * existing + 3 * absent
        );
        // A key that was deleted is there for as long as its fence.
        let delete =
            |transaction: Transaction, key: &&str| transaction.del(key, &DelOptions::default());
        let transaction = KEYS.iter().fold(Transaction::new(), delete);
        assert_eq!(transact(&world, &transaction), 2 + 4 * 3);
        assert_eq!(transact(&world, &transaction), 2 + 4 * 3);
    }
}

#[test]
fn reading_a_value_takes_one_request_and_an_intent_one_or_two_more() {
    let world = world();
    world.inner().store(b"a", "old");
    let read = |world: &StoreSimulation| {
        let port = world.port(0);
        requests(world, async move {
            let stored = port.get(b"a", MINUTE).await.unwrap();
            let found = intents::read(&port, b"a", stored, MINUTE).await.unwrap();
            assert!(found.is_some());
        })
    };
    assert_eq!(read(&world), 1);
    // A transaction that ends after its intent: a read, the fence, the intent.
    let transaction = Transaction::new().set("a", "new", &SetOptions::default());
    let stop = |after: u64| {
        let port = world.port(0);
        let mut task = Box::pin(async move {
            let _ = intents::transact(&port, &transaction, MINUTE).await;
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(task.as_mut().poll(&mut context).is_pending());
        for _ in 0..after {
            let mut inner = world.inner();
            let Some(crate::store::AwaitedEvent::Request(sent)) = inner.awaited(0).cloned() else {
                panic!("it asks");
            };
            let answer = inner.execute(&sent);
            inner.answer(0, answer);
            drop(inner);
            assert!(task.as_mut().poll(&mut context).is_pending());
        }
        world.inner().crashed(0);
        task
    };
    drop(stop(3));
    // The key, the register, and the key again, since nothing is decided.
    assert_eq!(read(&world), 3);
}
