//! Updates by several clients at a time.
use crate::lease::SECOND;
use crate::machine::{Machine, one_and_two};
use crate::network_simulation::NetworkSimulation;
use statestore::{
    Client, Condition, DelOutcome, Entry, ErrorKind, Expiry, GetOptions, Hlc, Outcome, SetOptions,
    UpdateOptions, UpdateOutcome,
};
use std::time::Duration;
use tokio::time::sleep;

fn number(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, |entry| {
        std::str::from_utf8(&entry.value).unwrap().parse().unwrap()
    })
}

/// A store with all extensions, and one with none.
fn both_kinds() -> [NetworkSimulation; 2] {
    [NetworkSimulation::start(), plain()]
}

fn plain() -> NetworkSimulation {
    let world = NetworkSimulation::start();
    world.lose_extensions();
    world
}

#[expect(clippy::unnecessary_wraps, reason = "as updates want it")]
fn one_more(old: Option<&Entry>) -> Option<String> {
    Some((number(old) + 1).to_string())
}

async fn expires_in(client: &Client) -> Expiry {
    let remaining = GetOptions::new().remaining(true);
    let entry = client.get_with("count", &remaining).await.unwrap();
    entry.unwrap().expires_in
}

async fn increment(client: &Client, options: &UpdateOptions) -> UpdateOutcome {
    let updated = client.update_with("count", options, one_more).await;
    updated.unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_increment_is_lost_between_clients_and_tasks() {
    for world in both_kinds() {
        let options = UpdateOptions::new().timeout(600 * SECOND);
        let mut tasks = Vec::new();
        for (seed, name) in [(1, "one"), (2, "two"), (3, "three")] {
            let client = Machine::new(&world, name, seed).connect().await;
            for _ in 0..2 {
                let (client, options) = (client.clone(), options.clone());
                tasks.push(tokio::spawn(async move {
                    for _ in 0..10 {
                        let updated = increment(&client, &options).await;
                        assert!(matches!(updated, UpdateOutcome::Applied { .. }));
                    }
                }));
            }
        }
        world.set_latency(Duration::from_millis(2));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(world.value("count").unwrap(), "60");
    }
}

#[tokio::test(start_paused = true)]
async fn no_change_changes_nothing() {
    for world in both_kinds() {
        let client = Machine::new(&world, "one", 1).connect().await;
        let unchanged = client.update("count", |old| {
            assert_eq!(old, None);
            None::<&str>
        });
        assert_eq!(unchanged.await.unwrap(), UpdateOutcome::Unchanged);
        assert!(world.history().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_with_version_conditions_raises_no_fence() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    for _ in 0..2 {
        for expected in ["1", "2"] {
            let updated = increment(&client, &UpdateOptions::default()).await;
            let UpdateOutcome::Applied { version } = updated else {
                panic!("it is applied");
            };
            let entry = client.get("count").await.unwrap().unwrap();
            assert_eq!((entry.value, entry.version), (expected.into(), version));
        }
        assert!(client.set("count", "0").await.unwrap().is_applied());
        let deleted = client.del("count").await.unwrap();
        assert!(matches!(deleted, DelOutcome::Deleted { .. }));
    }
    assert!(world.history().iter().all(|change| change.fence.is_none()));
}

#[tokio::test(start_paused = true)]
async fn without_version_conditions_an_update_fences_out_plain_writes_with_a_reason() {
    let world = plain();
    let client = Machine::new(&world, "one", 1).connect().await;
    for expected in ["1", "2"] {
        let updated = increment(&client, &UpdateOptions::default()).await;
        let UpdateOutcome::Applied { version } = updated else {
            panic!("it is applied");
        };
        let entry = client.get("count").await.unwrap().unwrap();
        assert_eq!((entry.value, entry.version), (expected.into(), version));
        let error = client.set("count", "0").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FencingTokenRequired);
        let text = error.to_string();
        assert!(text.contains("an update on a store without"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_keeps_the_remaining_time_by_default() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    let expiring = SetOptions::new().expires_in(10 * SECOND);
    client.set_with("count", "0", &expiring).await.unwrap();
    world.set_latency(Duration::from_millis(20));
    // Each takes 80 ms, which must not be added to the life of the key.
    for _ in 0..50 {
        increment(&client, &UpdateOptions::default()).await;
    }
    world.set_latency(Duration::ZERO);
    let Expiry::After(left) = expires_in(&client).await else {
        panic!("it does not expire");
    };
    let difference = left.abs_diff(6 * SECOND);
    assert!(difference < Duration::from_millis(150), "{left:?}");

    increment(&client, &UpdateOptions::new().expires_in(30 * SECOND)).await;
    assert_eq!(expires_in(&client).await, Expiry::After(30 * SECOND));
    increment(&client, &UpdateOptions::default()).await;
    assert_eq!(expires_in(&client).await, Expiry::After(30 * SECOND));
    increment(&client, &UpdateOptions::new().expires_in(Duration::MAX)).await;
    assert_eq!(expires_in(&client).await, Expiry::Never);
    increment(&client, &UpdateOptions::default()).await;
    assert_eq!(expires_in(&client).await, Expiry::Never);
    assert_eq!(world.value("count").unwrap(), "54");
}

#[tokio::test(start_paused = true)]
async fn an_update_by_a_guard_uses_its_token() {
    for world in both_kinds() {
        let (one, two) = one_and_two(&world).await;
        let old = one.lock("lock").await.unwrap();
        old.set("count", "0").await.unwrap();
        // Two at a time have the same token.
        let (first, second) =
            tokio::join!(old.update("count", one_more), old.update("count", one_more));
        first.unwrap();
        second.unwrap();
        old.set("count", "12").await.unwrap();
        old.update("other", one_more).await.unwrap();
        world.set_silent("one", true);
        let new = two.lock("lock").await.unwrap();
        world.set_silent("one", false);
        new.update("count", one_more).await.unwrap();
        let error = old.update("count", one_more).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::LockLost, Outcome::NotDone)
        );
        let stale = SetOptions::new().fencing_token(old.token().clone());
        let error = two.set_with("count", "late", &stale).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FencingTokenLower);
        new.set("count", "14").await.unwrap();
        assert_eq!(world.value("count").unwrap(), "14");
        assert_eq!(world.value("other").unwrap(), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_without_the_guard_of_a_locked_key_is_refused() {
    let world = NetworkSimulation::start();
    let (one, two) = one_and_two(&world).await;
    let guard = one.lock("lock").await.unwrap();
    guard.set("count", "1").await.unwrap();
    let error = two.update("count", one_more).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::FencingTokenRequired, Outcome::NotDone)
    );
    assert!(
        error.to_string().contains("by the guard of a lock"),
        "{error}"
    );
    guard.set("count", "2").await.unwrap();
    guard.update("count", one_more).await.unwrap();
    assert_eq!(world.value("count").unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn an_update_with_an_expiry_restarts_it() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    let options = UpdateOptions::new().expires_in(SECOND);
    for _ in 0..3 {
        increment(&client, &options).await;
        sleep(SECOND * 3 / 4).await;
    }
    assert_eq!(world.value("count").unwrap(), "3");
    sleep(SECOND).await;
    assert_eq!(world.value("count"), None);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_of_an_update_is_at_least_100_ms() {
    let short = Duration::from_millis(99);
    for world in both_kinds() {
        let client = Machine::new(&world, "one", 1).connect().await;
        let options = UpdateOptions::new().expires_in(short);
        let error = client.update_with("count", &options, one_more).await;
        let error = error.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidArgument, Outcome::NotDone)
        );
        let text = error.to_string();
        assert!(text.contains("99ms") && text.contains("100ms"), "{text}");
        assert!(world.history().is_empty());
        increment(&client, &UpdateOptions::new().expires_in(SECOND / 10)).await;
        assert_eq!(world.value("count").unwrap(), "1");
    }
    let world = plain();
    let client = Machine::new(&world, "one", 1).connect().await;
    client.set("count", "1").await.unwrap();
    let version = client.get("count").await.unwrap().unwrap().version;
    let options = SetOptions::new()
        .condition(Condition::IfVersion((&version).into()))
        .expires_in(short);
    let error = client.set_with("count", "2", &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn an_update_does_not_write_when_the_fence_that_it_raised_may_have_expired() {
    let world = plain();
    let client = Machine::new(&world, "one", 1).connect().await;
    let options = UpdateOptions::new().expires_in(SECOND).timeout(5 * SECOND);
    increment(&client, &options).await;
    // The answer that the fence is raised comes 990 ms after the request was sent, and 505 ms before the key expires.
    world.set_latency(Duration::from_millis(495));
    let change = |_: Option<&Entry>| Some("2");
    let error = client.update_with("count", &options, change).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::NotDone)
    );
    let mut values = world.history().into_iter().map(|change| change.value);
    assert!(values.all(|value| value.is_none_or(|value| value == "1")));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_update_reports_its_possible_outcome() {
    let world = NetworkSimulation::start();
    let client = Machine::new(&world, "one", 1).connect().await;
    world.set_silent("one", true);
    let error = client.update("count", |_| Some("1")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::NotDone)
    );
    world.set_silent("one", false);
    sleep(30 * SECOND).await;

    let silent = world.clone();
    let error = client
        .update("count", move |_| {
            silent.set_silent("one", true);
            Some("1")
        })
        .await
        .unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_future_token_blocks_updates_only_until_its_time() {
    let world = plain();
    let client = Machine::new(&world, "one", 1).connect().await;
    let forged = Hlc::new(world.true_wall_ms() + 50_000, u64::MAX, "z").unwrap();
    let ahead = SetOptions::new().fencing_token(forged);
    client.set_with("count", "1", &ahead).await.unwrap();
    let options = UpdateOptions::new().timeout(10 * SECOND);
    let error = client.update_with("count", &options, one_more).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::FencingTokenLower, Outcome::NotDone)
    );
    assert!(error.to_string().contains("ahead of the clock"), "{error}");
    let patient = UpdateOptions::new().timeout(60 * SECOND);
    increment(&client, &patient).await;
    assert_eq!(world.value("count").unwrap(), "2");
    // From then on its version is higher than every token.
    increment(&client, &options).await;
    assert_eq!(world.value("count").unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn an_update_without_any_response_reports_a_timeout_not_a_conflict() {
    // With conditions on versions, a write without an answer has an unknown outcome.
    let world = plain();
    let client = Machine::new(&world, "one", 1).connect().await;
    client.set("count", "1").await.unwrap();
    // Each request has a second; each answer is lost.
    let silent = world.clone();
    let options = UpdateOptions::new().timeout(20 * SECOND);
    let mut looks = 0;
    let error = client.update_with("count", &options, |old| {
        looks += 1;
        silent.set_silent("one", true);
        Some((number(old) + 1).to_string())
    });
    let error = error.await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotDone);
    assert!(!error.to_string().contains("others changed"), "{error}");
    assert!(looks >= 1);
}
