//! The vendor's lease and lock clients and our own on the same lock.
use azure_iot_operations_services::{leased_lock, state_store::SetOptions};
use interop::{GUARD, Server, Vendor, within};
use statestore::{Acquisition, Client, Guard, Hlc, LeaseOptions, LockOptions, Release, Settings};
use std::time::Duration;

/// Longer than any test.
const LONG: Duration = Duration::from_mins(1);

async fn ours(server: &Server) -> Client {
    let settings = Settings::new("127.0.0.1", server.port()).client_id("ours");
    let client = within("connecting", Client::connect(settings)).await;
    client.expect("the server accepts us")
}

fn lasting(duration: Duration) -> LeaseOptions {
    LeaseOptions::new().duration(duration)
}

async fn lock(client: &Client) -> Guard {
    let options = LockOptions::new().lease(lasting(LONG)).wait(GUARD);
    let guard = within("the lock", client.lock_with("lock", &options)).await;
    guard.expect("it becomes free")
}

/// Our version of a token.
fn hlc(token: &impl ToString) -> Hlc {
    token
        .to_string()
        .parse()
        .expect("the vendor writes it correctly")
}

#[tokio::test]
async fn each_finds_the_lease_of_the_other_held_and_leaves_it_alone() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let theirs = vendor.lease(b"lock");
    let lease = ours
        .lease_with("lock", &lasting(LONG))
        .expect("good options");

    let token = theirs.acquire(LONG, GUARD, None).await.expect("it is free");
    let Acquisition::Held(Some(holding)) = lease.acquire().await.expect("an answer") else {
        panic!("it is held");
    };
    assert_eq!(holding.holder.name(), "vendor");
    assert_eq!(holding.version, hlc(&token));
    theirs
        .acquire(LONG, GUARD, None)
        .await
        .expect("it is still theirs");
    theirs.release(GUARD).await.expect("it is theirs");

    let Acquisition::Acquired(guard) = lease.acquire().await.expect("an answer") else {
        panic!("it is free");
    };
    assert!(*guard.token() > hlc(&token));
    let held = theirs
        .acquire(LONG, GUARD, None)
        .await
        .expect_err("it is ours");
    assert!(matches!(
        held.kind(),
        leased_lock::ErrorKind::LeaseAlreadyHeld
    ));
    theirs
        .release(GUARD)
        .await
        .expect("releasing another's lease does nothing");
    guard.renew().await.expect("it is still ours");
    assert_eq!(guard.release().await.expect("an answer"), Release::Released);
    theirs.acquire(LONG, GUARD, None).await.expect("it is free");
}

#[tokio::test]
async fn each_takes_the_lock_over_when_the_other_releases_it() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let theirs = vendor.lock(b"lock");

    let first = theirs.lock(LONG, GUARD, None).await.expect("it is free");
    let waiter = {
        let ours = ours.clone();
        tokio::spawn(async move { lock(&ours).await })
    };
    // On this one thread the waiter runs until its first request is on its way; a request after that one is answered
    // after that one.
    tokio::task::yield_now().await;
    ours.get("lock").await.expect("GET");
    assert!(!waiter.is_finished());
    theirs.unlock(GUARD).await.expect("it is theirs");
    let guard = within("the lock", waiter).await.expect("no panic");
    assert!(*guard.token() > hlc(&first));

    let waiter = tokio::spawn(async move { theirs.lock(LONG, GUARD, None).await });
    tokio::task::yield_now().await;
    vendor.get(b"lock").await;
    assert!(!waiter.is_finished());
    let ours_was = guard.token().clone();
    guard.release().await.expect("it is ours");
    let second = within("the lock", waiter).await.expect("no panic");
    assert!(hlc(&second.expect("it is free")) > ours_was);
}

#[tokio::test]
async fn each_takes_the_lock_over_when_the_lease_of_the_other_ends() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let theirs = vendor.lock(b"lock");
    let short = Duration::from_millis(300);

    theirs.lock(short, GUARD, None).await.expect("it is free");
    lock(&ours).await.release().await.expect("it is ours");

    let lease = ours
        .lease_with("lock", &lasting(short))
        .expect("good options");
    let guard = lease.acquire().await.expect("an answer").guard();
    let guard = guard.expect("it is free");
    let token = guard.token().clone();
    guard.leave().await;
    let next = within("the lock", theirs.lock(LONG, GUARD, None)).await;
    assert!(hlc(&next.expect("our lease has ended")) > token);
}

#[tokio::test]
async fn a_write_of_the_holder_before_is_refused_whoever_that_was() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let theirs = vendor.lock(b"lock");

    let old = theirs.lock(LONG, GUARD, None).await.expect("it is free");
    theirs.unlock(GUARD).await.expect("it is theirs");
    let guard = lock(&ours).await;
    guard.set("protected", "ours").await.expect("SET");
    let late = vendor
        .set(b"protected", b"late", Some(&old), SetOptions::default())
        .await;
    late.expect_err("the token is an old one");

    guard.release().await.expect("it is ours");
    let new = theirs.lock(LONG, GUARD, None).await.expect("it is free");
    let written = vendor
        .set(b"protected", b"theirs", Some(&new), SetOptions::default())
        .await;
    assert!(written.expect("SET").response);
    let entry = ours.get("protected").await.expect("GET");
    assert_eq!(entry.expect("it is there").value, "theirs");
}
