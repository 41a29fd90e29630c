//! The vendor's client and our own on the same keys.
use azure_iot_operations_services::state_store::{
    ErrorKind, Operation, ServiceError as VendorServiceError, SetCondition,
    SetOptions as VendorSetOptions,
};
use interop::{GUARD, Server, Vendor, next, within};
use statestore::{
    Client, Condition, DelOptions, DelOutcome, Hlc, Observation, Observer, ServiceError,
    SetOptions, SetOutcome, Settings, VdelOutcome,
};
use std::{collections::BTreeSet, time::Duration};

async fn ours(server: &Server) -> Client {
    let settings = Settings::new("127.0.0.1", server.port()).client_id("ours");
    let client = within("connecting", Client::connect(settings)).await;
    client.expect("the server accepts us")
}

/// The next change, whatever is said about gaps before it.
async fn next_change(observer: &mut Observer) -> Observation {
    loop {
        let observation = within("an observation", observer.next()).await;
        let observation = observation.expect("the observation is still open");
        if !matches!(observation, Observation::Resync) {
            return observation;
        }
    }
}

/// Our version of a version.
fn hlc(version: Option<impl ToString>) -> Hlc {
    let version = version.expect("a version").to_string();
    version.parse().expect("the vendor writes it correctly")
}

#[tokio::test]
async fn each_reads_what_the_other_wrote() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();

    let version = vendor.put(&every_byte, &every_byte).await;
    let entry = ours
        .get(&every_byte)
        .await
        .expect("GET")
        .expect("it is there");
    assert_eq!(entry.value, every_byte);
    assert_eq!(entry.version, hlc(Some(version)));

    let set = ours.set(&every_byte, "ours").await.expect("SET");
    assert!(set.is_applied() && *set.version().unwrap() > entry.version);
    let got = vendor.get(&every_byte).await;
    assert_eq!(got.response, Some(b"ours".to_vec()));
    assert_eq!(hlc(got.version), *set.version().unwrap());

    assert_eq!(
        vendor.del(&every_byte, None).await.expect("DEL").response,
        1
    );
    assert_eq!(ours.get(&every_byte).await.expect("GET"), None);
    assert_eq!(
        ours.del(&every_byte).await.expect("DEL"),
        DelOutcome::Absent
    );
    assert_eq!(
        ours.vdel(&every_byte, "").await.expect("VDEL"),
        VdelOutcome::Absent
    );
}

#[tokio::test]
async fn conditions_hold_between_them() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let version = hlc(Some(vendor.put(b"key", b"value").await));
    let only = |condition| SetOptions::new().condition(condition);

    let nx = ours
        .set_with("key", "other", &only(Condition::IfAbsent))
        .await;
    let kept = SetOutcome::NotApplied {
        version: Some(version),
    };
    assert_eq!(nx.expect("SET NX"), kept);
    let nex = ours
        .set_with("key", "other", &only(Condition::IfAbsentOrEqual))
        .await;
    assert_eq!(nex.expect("SET NEX"), kept);
    assert_eq!(
        ours.vdel("key", "other").await.expect("VDEL"),
        VdelOutcome::Mismatch { version: None }
    );
    let nex = ours
        .set_with("key", "value", &only(Condition::IfAbsentOrEqual))
        .await;
    assert!(nex.expect("SET NEX").is_applied());

    let options = VendorSetOptions {
        set_condition: SetCondition::OnlyIfDoesNotExist,
        ..VendorSetOptions::default()
    };
    let nx = vendor.set(b"key", b"other", None, options.clone()).await;
    assert!(!nx.expect("SET NX").response);
    let deleted = ours.vdel("key", "value").await.expect("VDEL");
    assert!(matches!(deleted, VdelOutcome::Deleted { .. }));
    let nx = vendor.set(b"key", b"other", None, options).await;
    assert!(nx.expect("SET NX").response);
}

#[tokio::test]
async fn tokens_of_one_fence_off_the_other() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let low = vendor.put(b"lease", b"1").await;
    let high = vendor.put(b"lease", b"2").await;
    let fenced = |token| SetOptions::new().fencing_token(hlc(Some(token)));
    let set = ours.set_with("key", "ours", &fenced(&high)).await;
    assert!(set.expect("SET").is_applied());

    let options = VendorSetOptions::default();
    let refused = vendor.set(b"key", b"-", Some(&low), options.clone()).await;
    assert!(matches!(
        refused.expect_err("too low").kind(),
        ErrorKind::ServiceError(VendorServiceError::FencingTokenLowerVersion)
    ));
    assert!(
        vendor
            .set(b"key", b"vendor", Some(&high), options)
            .await
            .expect("SET")
            .response
    );

    let refused = ours.set_with("key", "-", &fenced(&low)).await;
    let refused = refused.expect_err("too low");
    let expected = ServiceError::FencingTokenLower;
    assert_eq!(refused.service_error(), Some(&expected));
    let refused = ours.del("key").await.expect_err("a token is required");
    let expected = ServiceError::FencingTokenRequired;
    assert_eq!(refused.service_error(), Some(&expected));
    let options = DelOptions::new().fencing_token(hlc(Some(&high)));
    let deleted = ours.del_with("key", &options).await.expect("DEL");
    assert!(matches!(deleted, DelOutcome::Deleted { .. }));
}

#[tokio::test]
async fn we_observe_the_vendors_changes() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let mut observer = ours.observe("key").await.expect("KEYNOTIFY");

    let version = hlc(Some(vendor.put(b"key", b"value").await));
    let value = "value".into();
    assert_eq!(
        next_change(&mut observer).await,
        Observation::Set { value, version }
    );
    let version = Some(hlc(vendor.del(b"key", None).await.expect("DEL").version));
    assert_eq!(
        next_change(&mut observer).await,
        Observation::Deleted { version }
    );

    let options = VendorSetOptions {
        expires: Some(Duration::from_millis(100)),
        ..VendorSetOptions::default()
    };
    vendor
        .set(b"key", b"short", None, options)
        .await
        .expect("SET PX");
    assert!(matches!(
        next_change(&mut observer).await,
        Observation::Set { .. }
    ));
    assert!(matches!(
        next_change(&mut observer).await,
        Observation::Deleted { .. }
    ));
}

#[tokio::test]
async fn the_vendor_observes_our_changes() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let mut changes = vendor.observe(b"key").await;

    let set = ours.set("key", "value").await.expect("SET");
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Set(b"value".to_vec()));
    assert_eq!(hlc(Some(change.version)), *set.version().unwrap());
    let deleted = ours.del("key").await.expect("DEL");
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Del);
    let version = hlc(Some(change.version));
    assert_eq!(
        deleted,
        DelOutcome::Deleted {
            version: Some(version)
        }
    );

    let options = SetOptions::new().expires_in(Duration::from_millis(100));
    ours.set_with("key", "short", &options)
        .await
        .expect("SET PX");
    assert_eq!(
        next(&mut changes).await.operation,
        Operation::Set(b"short".to_vec())
    );
    assert_eq!(next(&mut changes).await.operation, Operation::Del);
}

#[tokio::test]
async fn both_scan_the_same_keys() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    for number in 0..100 {
        let key = format!("key/{number}");
        if number % 2 == 0 {
            vendor.put(key.as_bytes(), b"").await;
        } else {
            ours.set(key, "").await.expect("SET");
        }
    }
    let mut by_us = BTreeSet::new();
    let mut scan = ours.scan("key/[0-9]?");
    while let Some(key) = within("a key", scan.next()).await.expect("SCAN") {
        assert!(by_us.insert(key.to_vec()), "{key:?} twice");
    }
    assert_eq!(by_us.len(), 90);

    let mut by_vendor = BTreeSet::new();
    let scan = vendor.store.list_keys(b"key/[0-9]?".to_vec(), GUARD);
    let mut scan = scan.expect("the pattern is not empty");
    while let Some(page) = within("a page", scan.next()).await.expect("SCAN") {
        by_vendor.extend(page);
    }
    assert_eq!(by_us, by_vendor);
}

#[tokio::test]
async fn a_lease_of_one_keeps_the_other_out() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let ours = ours(&server).await;
    let acquire = SetOptions::new()
        .condition(Condition::IfAbsentOrEqual)
        .expires_in(Duration::from_millis(400));
    let held = ours
        .set_with("lock", "ours", &acquire)
        .await
        .expect("SET NEX PX");
    assert!(held.is_applied());
    // The vendor's lock waits for the delete notification of our lease's end.
    let lock = vendor.lock(b"lock");
    let token = within("the lock", lock.lock(Duration::from_mins(1), GUARD, None)).await;
    let token = token.expect("our lease has ended");
    assert!(hlc(Some(token)) > *held.version().unwrap());

    let refused = ours
        .set_with("lock", "ours", &acquire)
        .await
        .expect("SET NEX PX");
    assert!(!refused.is_applied());
    let mut observer = ours.observe("lock").await.expect("KEYNOTIFY");
    lock.unlock(GUARD).await.expect("it is the vendor's");
    assert!(matches!(
        next_change(&mut observer).await,
        Observation::Deleted { .. }
    ));
    let again = ours
        .set_with("lock", "ours", &acquire)
        .await
        .expect("SET NEX PX");
    assert!(again.is_applied());
}
