//! Leases and locks of the vendor's clients, handed over through the store.
use azure_iot_operations_services::{
    leased_lock,
    state_store::{ErrorKind, Operation, ServiceError, SetOptions},
};
use interop::{GUARD, Server, Vendor, next, order, within};
use std::time::Duration;

/// Longer than any test.
const LONG: Duration = Duration::from_mins(1);

fn is_held_by_another(error: &leased_lock::Error) -> bool {
    matches!(error.kind(), leased_lock::ErrorKind::LeaseAlreadyHeld)
}

#[tokio::test]
async fn a_lease_has_one_holder_until_it_is_released() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two").await;
    let (first, second) = (one.lease(b"lease"), two.lease(b"lease"));

    let token = first.acquire(LONG, GUARD, None).await.expect("it is free");
    let held = second.acquire(LONG, GUARD, None).await;
    assert!(is_held_by_another(&held.expect_err("it is held")));
    let renewed = first.acquire(LONG, GUARD, None).await.expect("it is ours");
    assert!(order(&token) < order(&renewed));

    second
        .release(GUARD)
        .await
        .expect("releasing another's lease does nothing");
    let held = second.acquire(LONG, GUARD, None).await;
    assert!(is_held_by_another(&held.expect_err("it is still held")));

    first.release(GUARD).await.expect("it is ours");
    let next = second.acquire(LONG, GUARD, None).await.expect("it is free");
    assert!(order(&renewed) < order(&next));
}

#[tokio::test]
async fn a_waiting_lock_is_taken_over_when_it_is_released() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two").await;
    let (first, second) = (one.lock(b"lock"), two.lock(b"lock"));
    let token = first.lock(LONG, GUARD, None).await.expect("it is free");

    let mut changes = one.observe(b"lock").await;
    let waiter = tokio::spawn(async move { second.lock(LONG, GUARD, None).await });
    // On this one thread the waiter runs until its first request is on its way; a request after that one is answered
    // after that one.
    tokio::task::yield_now().await;
    two.get(b"lock").await;
    assert!(!waiter.is_finished());
    first.unlock(GUARD).await.expect("it is ours");
    let next_token = within("the lock", waiter).await.expect("no panic");
    let next_token = next_token.expect("it is free");
    assert!(order(&token) < order(&next_token));

    assert_eq!(next(&mut changes).await.operation, Operation::Del);
    let taken_over = next(&mut changes).await;
    assert_eq!(taken_over.operation, Operation::Set(b"two".to_vec()));
    assert_eq!(taken_over.version, next_token);
}

#[tokio::test]
async fn a_waiting_lock_is_taken_over_when_its_lease_ends() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two").await;
    let (first, second) = (one.lock(b"lock"), two.lock(b"lock"));
    let lease = Duration::from_millis(300);
    let token = first.lock(lease, GUARD, None).await.expect("it is free");
    let next_token = within("the lock", second.lock(LONG, GUARD, None)).await;
    let next_token = next_token.expect("the lease of the first has ended");
    assert!(order(&token) < order(&next_token));
    assert_eq!(one.get(b"lock").await.response, Some(b"two".to_vec()));
}

#[tokio::test]
async fn renewal_keeps_a_lease_beyond_its_end() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two").await;
    let (first, second) = (one.lease(b"lease"), two.lease(b"lease"));
    let mut changes = second.observe(GUARD).await.expect("KEYNOTIFY");
    let lease = Duration::from_secs(3);
    let every = Duration::from_millis(600);
    let acquired = first.acquire(lease, GUARD, Some(every)).await;
    let mut last = acquired.expect("it is free");
    assert_eq!(next(&mut changes).await.version, last);

    // Six renewals take longer than the first acquisition lasts.
    for _ in 0..6 {
        let renewal = next(&mut changes).await;
        assert_eq!(renewal.operation, Operation::Set(b"one".to_vec()));
        assert!(order(&last) < order(&renewal.version));
        last = renewal.version;
    }
    let held = second.acquire(LONG, GUARD, None).await;
    assert!(is_held_by_another(&held.expect_err("it is held")));
    first.release(GUARD).await.expect("it is ours");
    while next(&mut changes).await.operation != Operation::Del {}
    second.acquire(LONG, GUARD, None).await.expect("it is free");
}

#[tokio::test]
async fn the_token_of_a_lost_lock_no_longer_writes() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two").await;
    let lease = Duration::from_millis(300);
    let first = one.lock(b"lock").lock(lease, GUARD, None).await;
    let first = first.expect("it is free");
    let write = async |vendor: &Vendor, token| {
        let value = b"guarded";
        vendor
            .set(b"key", value, Some(token), SetOptions::default())
            .await
    };
    assert!(write(&one, &first).await.expect("SET").response);

    let second = two.lock(b"lock");
    let second = within("the lock", second.lock(LONG, GUARD, None)).await;
    let second = second.expect("the lease of the first has ended");
    assert!(write(&two, &second).await.expect("SET").response);
    let late = write(&one, &first).await.expect_err("the lock is lost");
    assert!(matches!(
        late.kind(),
        ErrorKind::ServiceError(ServiceError::FencingTokenLowerVersion)
    ));
}
