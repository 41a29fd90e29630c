//! Transactions through intents by whole clients, on a store that has none.
use crate::lease::SECOND;
use crate::machine::{Machine, one_and_two};
use crate::network_simulation::NetworkSimulation;
use bytes::Bytes;
use statestore::{
    Client, Condition, DelOptions, Entry, Error, ErrorKind, GetOptions, Outcome, SetOptions,
    SetOutcome, TransactOptions, Transaction, TransactionOutcome, TransactionRecord, UpdateOptions,
    UpdateOutcome,
};
use statestore_intents::{Intent, IntentsClient, Record, TransactionId};
use std::time::Duration;
use tokio::time::sleep;

async fn connect(machine: &Machine) -> IntentsClient {
    IntentsClient::new(machine.connect().await).unwrap()
}

async fn transact(
    client: &IntentsClient,
    transaction: &Transaction,
) -> Result<TransactionOutcome, Error> {
    let options = TransactOptions::new().timeout(20 * SECOND);
    client.transact_with(transaction, &options).await
}

async fn assert_applied(client: &IntentsClient, transaction: &Transaction) {
    assert!(transact(client, transaction).await.unwrap().is_applied());
}

fn plain() -> NetworkSimulation {
    let world = NetworkSimulation::start();
    world.lose_extensions();
    world
}

fn both(value: &str) -> Transaction {
    Transaction::new()
        .set("a", value, &SetOptions::default())
        .set("b", value, &SetOptions::default())
}

async fn get(client: &IntentsClient, key: &str) -> Option<Entry> {
    client.get_with(key, &GetOptions::new()).await.unwrap()
}

async fn value(client: &IntentsClient, key: &str) -> Option<Bytes> {
    get(client, key).await.map(|entry| entry.value)
}

async fn update(
    client: &IntentsClient,
    change: impl FnMut(Option<&Entry>) -> Option<&'static str>,
) -> UpdateOutcome {
    let options = UpdateOptions::new();
    client.update_with("a", &options, change).await.unwrap()
}

fn assert_names_the_client(error: &Error) {
    let known = (error.kind(), error.outcome());
    assert_eq!(known, (ErrorKind::Unsupported, Outcome::NotDone), "{error}");
    let text = error.to_string();
    assert!(text.contains("statestore-intents"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_plain_transaction_is_refused_naming_the_client() {
    let world = plain();
    let client = Machine::new(&world, "one", 1).connect().await;
    let error = client.transact(&both("1")).await.unwrap_err();
    assert_names_the_client(&error);
    assert!(world.history().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_plain_client_never_takes_a_record_for_a_value() {
    let world = plain();
    let (client, other) = one_and_two(&world).await;
    put_intent(&client, "a", None).await;
    let version = statestore::Hlc::store_version((1, 1));
    let unmet = SetOptions::new().condition(Condition::IfVersion((&version).into()));
    for error in [
        other.get("a").await.unwrap_err(),
        other.get_many(["b", "a"]).await.unwrap_err(),
        other.update("a", |_| Some("1")).await.unwrap_err(),
        other.set_with("a", "1", &unmet).await.unwrap_err(),
    ] {
        assert_names_the_client(&error);
        assert!(error.to_string().contains("\"a\""), "{error}");
        assert!(TransactionRecord::of(&error).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_with_native_transactions_uses_them() {
    let world = NetworkSimulation::start();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    assert_applied(&client, &both("1")).await;
    assert_eq!(world.history().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_operations_are_executed_and_return_versions() {
    let world = plain();
    let (plain, other) = one_and_two(&world).await;
    plain.set("old", "1").await.unwrap();
    plain.set("gone", "1").await.unwrap();
    let SetOutcome::Applied { version } = plain.set("known", "1").await.unwrap() else {
        panic!("it is applied");
    };
    let [client, other] = [plain, other].map(|it| IntentsClient::new(it).unwrap());
    let expiring = SetOptions::new().expires_in(60 * SECOND);
    let known = SetOptions::new().condition(Condition::IfVersion((&version).into()));
    let absent = SetOptions::new().condition(Condition::IfAbsent);
    let transaction = Transaction::new()
        .set("old", "2", &SetOptions::default())
        .del("gone", &DelOptions::default())
        .set("known", "2", &known)
        .del("never", &DelOptions::default())
        .set("new", "2", &absent)
        .set("short", "2", &expiring);
    let outcome = transact(&client, &transaction).await;
    let TransactionOutcome::Applied(versions) = outcome.unwrap() else {
        panic!("it is applied");
    };
    let is_there: Vec<_> = versions.iter().map(Option::is_some).collect();
    assert_eq!(is_there, [true, true, true, false, true, true]);
    for client in [&client, &other] {
        for (key, index) in [("old", 0), ("known", 2), ("new", 4), ("short", 5)] {
            let entry = get(client, key).await.unwrap();
            assert_eq!(entry.value, "2");
            assert_eq!(Some(entry.version), versions[index], "{key}");
        }
        assert_eq!(value(client, "gone").await, None);
        assert_eq!(value(client, "never").await, None);
    }
    sleep(61 * SECOND).await;
    assert_eq!(value(&client, "short").await, None);
    // The records that a transaction leaves behind expire by themselves.
    let left = ["gone", "never"].map(|key| world.value(key));
    assert_eq!(left, [None, None]);
    let mut keys = client.client().scan("statestore/transactions/*");
    assert_eq!(keys.next().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn an_unmet_condition_changes_nothing_and_names_the_operation() {
    let world = plain();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    client.client().set("a", "0").await.unwrap();
    let SetOutcome::Applied { version } = client.client().set("b", "0").await.unwrap() else {
        panic!("it is applied");
    };
    let absent = SetOptions::new().condition(Condition::IfAbsent);
    let transaction =
        Transaction::new()
            .set("b", "1", &absent)
            .set("a", "1", &SetOptions::default());
    let outcome = transact(&client, &transaction).await;
    let expected = TransactionOutcome::NotApplied {
        operation: 0,
        version: Some(version),
    };
    assert_eq!(outcome.unwrap(), expected);
    assert_eq!(value(&client, "a").await.unwrap(), "0");
    assert_eq!(value(&client, "b").await.unwrap(), "0");
    assert_eq!(world.value("a").unwrap(), "0");
    assert_eq!(world.value("b").unwrap(), "0");
}

#[tokio::test(start_paused = true)]
async fn operations_on_one_key_see_earlier_operations() {
    let world = plain();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    let absent = SetOptions::new().condition(Condition::IfAbsent);
    let none = DelOptions::default();
    let remade = Transaction::new()
        .del("a", &none)
        .set("a", "1", &absent)
        .set("b", "1", &SetOptions::default())
        .del("b", &none)
        .del("b", &none);
    let outcome = transact(&client, &remade).await;
    let TransactionOutcome::Applied(versions) = outcome.unwrap() else {
        panic!("it is applied");
    };
    let is_there: Vec<_> = versions.iter().map(Option::is_some).collect();
    assert_eq!(is_there, [false, true, true, true, false]);
    assert_eq!(versions[2], versions[3]);
    let entry = get(&client, "a").await.unwrap();
    assert_eq!(
        (entry.value, Some(entry.version)),
        ("1".into(), versions[1].clone())
    );
    assert_eq!(value(&client, "b").await, None);

    let twice = Transaction::new()
        .set("b", "2", &SetOptions::default())
        .set("a", "2", &SetOptions::default())
        .set("b", "3", &absent);
    let outcome = transact(&client, &twice).await;
    let expected = TransactionOutcome::NotApplied {
        operation: 2,
        version: None,
    };
    assert_eq!(outcome.unwrap(), expected);
    assert_eq!(value(&client, "a").await.unwrap(), "1");
    assert_eq!(value(&client, "b").await, None);
}

#[tokio::test(start_paused = true)]
async fn unsupported_transactions_are_refused_before_sending() {
    let world = plain();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    let set = SetOptions::default();
    let token = SetOptions::new().fencing_token(statestore::Hlc::new(1, 1, "me").unwrap());
    let short = SetOptions::new().expires_in(29 * SECOND);
    let first = Transaction::new().set("a", "1", &set);
    let cases = [
        (first.clone().set("b", "2", &token), ErrorKind::Unsupported),
        (
            first.clone().set("b", "2", &short),
            ErrorKind::InvalidArgument,
        ),
        (
            first.clone().set("statestore/transactions/x", "2", &set),
            ErrorKind::InvalidArgument,
        ),
    ];
    for (transaction, kind) in cases {
        let error = transact(&client, &transaction).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
        assert_eq!(error.operation(), Some(1), "{error}");
    }
    let long = TransactOptions::new().timeout(601 * SECOND);
    let error = client.transact_with(&first, &long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(world.history().is_empty());
}

/// Each client moves one from a to b or back, and reads both in between.
#[tokio::test(start_paused = true)]
async fn a_sum_is_the_same_after_every_transaction_of_several_clients() {
    let world = plain();
    let setup = connect(&Machine::new(&world, "setup", 9)).await;
    for key in ["a", "b", "c"] {
        setup.client().set(key, "10").await.unwrap();
    }
    world.set_latency_range(Duration::from_millis(1), Duration::from_millis(4));
    let mut tasks = Vec::new();
    for (seed, name) in [(1, "one"), (2, "two"), (3, "three")] {
        let client = connect(&Machine::new(&world, name, seed)).await;
        tasks.push(tokio::spawn(async move {
            let pairs = [["a", "b"], ["b", "c"], ["c", "a"]];
            let mut moved = 0;
            for round in 0..12 {
                let [from, to] = pairs[(round + usize::try_from(seed).unwrap()) % 3];
                let mut transaction = Transaction::new();
                for (key, by) in [(from, -1), (to, 1)] {
                    let entry = get(&client, key).await.unwrap();
                    let number: i64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let same = Condition::IfVersion((&entry.version).into());
                    let options = SetOptions::new().condition(same);
                    transaction = transaction.set(key, (number + by).to_string(), &options);
                }
                let outcome = transact(&client, &transaction).await.unwrap();
                moved += i32::from(outcome.is_applied());
            }
            moved
        }));
    }
    let mut moved = 0;
    for task in tasks {
        moved += task.await.unwrap();
    }
    assert!(moved > 5, "{moved}");
    let mut sum = 0;
    for key in ["a", "b", "c"] {
        let value = value(&setup, key).await.unwrap();
        sum += std::str::from_utf8(&value).unwrap().parse::<i64>().unwrap();
    }
    assert_eq!(sum, 30);
}

/// A client that is cut off for good in the middle, at every point of it.
#[tokio::test(start_paused = true)]
async fn a_later_client_finishes_or_aborts_an_abandoned_transaction() {
    let (mut before, mut after) = (0, 0);
    for requests in 0..12 {
        let world = plain();
        let machine = Machine::new(&world, "one", 1);
        let (client, other) = (
            connect(&machine).await,
            connect(&Machine::new(&world, "two", 2)).await,
        );
        other.client().set("a", "0").await.unwrap();
        client.client().capabilities().await.unwrap();
        let at = world.history().len() + requests;
        let ends = world.clone();
        let silent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = silent.clone();
        world.witness(move |_| {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let task = machine.run(async move {
            let _ = transact(&client, &both("1")).await;
        });
        world.set_latency(Duration::from_millis(1));
        while !task.is_finished() {
            if silent.load(std::sync::atomic::Ordering::Relaxed) + 1 >= at {
                ends.set_silent("one", true);
                machine.stop();
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        let first = [value(&other, "a").await, value(&other, "b").await];
        let is_new = first == [Some("1".into()), Some("1".into())];
        let is_old = first == [Some("0".into()), None];
        assert!(is_new || is_old, "{requests} {first:?}");
        before += usize::from(is_old);
        after += usize::from(is_new);
        assert_applied(&other, &both("2")).await;
        assert_eq!(world.value("a").unwrap(), "2");
        assert_eq!(world.value("b").unwrap(), "2");
    }
    assert!(before > 0 && after > 0, "{before} {after}");
}

/// Stores an intent of a client that has decided nothing.
async fn put_intent(client: &Client, key: &str, old: Option<Entry>) {
    let intent = Intent {
        id: TransactionId(7),
        old: old.map(|entry| (entry.value, entry.version)),
        new: Some(("new".into(), None)),
    };
    let record = Record::Intent(intent).encode();
    client.set(key, record).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn updates_and_conditional_sets_wait_for_and_then_abort_a_transaction() {
    let world = plain();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    let plain = client.client();
    plain.set("a", "old").await.unwrap();
    let old = plain.get("a").await.unwrap().unwrap();
    put_intent(plain, "a", Some(old.clone())).await;
    let read = get(&client, "a").await.unwrap();
    assert_eq!(read, old);
    let seen = update(&client, |old| {
        assert_eq!(old.unwrap().value, "old");
        Some("updated")
    });
    seen.await;
    assert_eq!(world.value("a").unwrap(), "updated");

    plain.set("b", "old").await.unwrap();
    let old = plain.get("b").await.unwrap().unwrap();
    put_intent(plain, "b", Some(old.clone())).await;
    let condition = Condition::IfVersion((&old.version).into());
    let set = client
        .set_with("b", "updated", &SetOptions::new().condition(condition))
        .await;
    // The old value was put back, under a new version.
    assert!(matches!(set.unwrap(), SetOutcome::NotApplied { .. }));
    assert_eq!(world.value("b").unwrap(), "old");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_key_is_absent_and_can_be_created_again() {
    let world = plain();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    client.client().set("a", "1").await.unwrap();
    let old = get(&client, "a").await.unwrap().version;
    let delete = Transaction::new().del("a", &DelOptions::default());
    assert_applied(&client, &delete).await;
    assert_eq!(value(&client, "a").await, None);
    // The fence keeps out clients that do not support transactions.
    let error = client.client().set("a", "2").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FencingTokenRequired);
    let same = SetOptions::new().condition(Condition::IfVersion((&old).into()));
    let set = client.set_with("a", "2", &same).await.unwrap();
    assert_eq!(set, SetOutcome::NotApplied { version: None });
    let unchanged = update(&client, |_| None);
    assert_eq!(unchanged.await, UpdateOutcome::Unchanged);
    let created = update(&client, |old| {
        assert_eq!(old, None);
        Some("2")
    });
    created.await;
    assert_eq!(value(&client, "a").await.unwrap(), "2");
    sleep(120 * SECOND).await;
    assert_eq!(value(&client, "a").await.unwrap(), "2");
    let absent = SetOptions::new().condition(Condition::IfAbsent);
    let again = Transaction::new().set("a", "3", &absent);
    assert!(!transact(&client, &again).await.unwrap().is_applied());
}

#[tokio::test(start_paused = true)]
async fn a_key_protected_by_a_future_token_is_reported_with_its_operation() {
    let world = plain();
    let client = connect(&Machine::new(&world, "one", 1)).await;
    let forged = statestore::Hlc::new(world.true_wall_ms() + 50_000, u64::MAX, "z").unwrap();
    let ahead = SetOptions::new().fencing_token(forged);
    client.client().set_with("b", "1", &ahead).await.unwrap();
    let error = transact(&client, &both("2")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), error.operation()),
        (ErrorKind::FencingTokenLower, Outcome::NotDone, Some(1))
    );
    assert_eq!(value(&client, "a").await, None);
    assert_eq!(value(&client, "b").await.unwrap(), "1");
}
