//! Notifications to the vendor's client.
use azure_iot_operations_services::state_store::{Operation, SetCondition, SetOptions};
use interop::{GUARD, Server, Vendor, next, order, within};
use std::time::Duration;

#[tokio::test]
async fn an_observer_sees_each_change_in_order_with_its_version() {
    let server = Server::start();
    let observer = Vendor::connect(&server, "observer").await;
    let writer = Vendor::connect(&server, "writer").await;
    let mut changes = observer.observe(b"key").await;

    let mut versions = Vec::new();
    for round in 0..50_u8 {
        versions.push(writer.put(b"key", &[round]).await);
    }
    let deleted = writer.del(b"key", None).await.expect("DEL");
    let again = writer.put(b"key", b"again").await;
    let by_value = writer.vdel(b"key", b"again", None).await.expect("VDEL");

    for (round, version) in (0..50_u8).zip(&versions) {
        let change = next(&mut changes).await;
        assert_eq!(change.key, b"key");
        assert_eq!(change.operation, Operation::Set(vec![round]));
        assert_eq!(&change.version, version);
    }
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Del);
    assert_eq!(Some(change.version), deleted.version);
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Set(b"again".to_vec()));
    assert_eq!(change.version, again);
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Del);
    assert_eq!(Some(change.version), by_value.version);
}

#[tokio::test]
async fn the_end_of_a_key_by_px_is_a_delete() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let mut changes = vendor.observe(b"key").await;
    let options = SetOptions {
        expires: Some(Duration::from_millis(100)),
        ..SetOptions::default()
    };
    let set = vendor.set(b"key", b"value", None, options).await;
    let set = set.expect("SET PX").version.expect("a version");
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Set(b"value".to_vec()));
    assert_eq!(change.version, set);
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Del);
    assert!(order(&set) < order(&change.version));
    assert_eq!(vendor.get(b"key").await.response, None);
}

#[tokio::test]
async fn what_is_not_applied_is_not_notified() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    vendor.put(b"key", b"old").await;
    let mut changes = vendor.observe(b"key").await;
    let options = SetOptions {
        set_condition: SetCondition::OnlyIfDoesNotExist,
        ..SetOptions::default()
    };
    let refused = vendor.set(b"key", b"refused", None, options).await;
    assert!(!refused.expect("SET NX").response);
    let mismatch = vendor.vdel(b"key", b"another", None).await;
    assert_eq!(mismatch.expect("VDEL").response, -1);
    vendor.put(b"another key", b"unwatched").await;
    vendor.put(b"key", b"new").await;
    let change = next(&mut changes).await;
    assert_eq!(change.operation, Operation::Set(b"new".to_vec()));
}

#[tokio::test]
async fn every_observer_of_a_key_is_told() {
    let server = Server::start();
    let one = Vendor::connect(&server, "one").await;
    let two = Vendor::connect(&server, "two-2").await;
    let binary_key: Vec<u8> = (0..=u8::MAX).collect();
    let mut seen_by_one = one.observe(&binary_key).await;
    let mut seen_by_two = two.observe(&binary_key).await;
    let value = vec![7; 100_000];
    let version = one.put(&binary_key, &value).await;
    for changes in [&mut seen_by_one, &mut seen_by_two] {
        let change = next(changes).await;
        assert_eq!(change.key, binary_key);
        assert_eq!(change.operation, Operation::Set(value.clone()));
        assert_eq!(change.version, version);
    }
}

#[tokio::test]
async fn stop_says_whether_there_was_a_watch() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let _changes = vendor.observe(b"key").await;
    for expected in [true, false] {
        let stopped = vendor.store.unobserve(b"key".to_vec(), GUARD).await;
        assert_eq!(stopped.expect("KEYNOTIFY STOP").response, expected);
    }
}

#[tokio::test]
async fn a_watch_ends_with_its_connection() {
    let server = Server::start();
    let vendor = Vendor::connect(&server, "vendor").await;
    let mut changes = vendor.observe(b"key").await;
    vendor.close().await;
    let end = within("the end of the observation", changes.recv_notification()).await;
    assert!(end.is_none());

    let vendor = Vendor::connect(&server, "vendor").await;
    let stopped = vendor.store.unobserve(b"key".to_vec(), GUARD).await;
    let is_left = interop::differs("a_watch_ends_with_its_connection");
    assert_eq!(stopped.expect("KEYNOTIFY STOP").response, is_left);
}
