//! An etcd that does not go on with what it held: a server must not take one history for another.
use crate::cluster::Etcd;
use crate::elsewhere::{Engine, LONG, block_on, connect_to, get, refuses_all, start, until, value};
use statestore::{ErrorKind, ObserveOptions, Outcome};
use statestored::RunningServer;
use std::time::Instant;

#[test]
fn a_removed_store_is_not_treated_as_empty() {
    let etcd = Etcd::start();
    let server = start(&etcd);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "1").await.unwrap();
        let told = ObserveOptions::new();
        let mut told = client.observe_with("k", &told).await.unwrap();
        etcd.remove("test/").await;
        refuses_all(&server, &client, "its manifest was removed").await;

        // Another server makes it anew; this one does not go on there.
        let other = start(&etcd);
        let of_other = connect_to(&other).await;
        assert_eq!(value(&of_other, "k").await, None);
        of_other.set("k", "anew").await.unwrap();
        refuses_all(&server, &client, "its manifest was removed").await;
        // An expiry that no server has decided is not reported.
        let nothing = tokio::time::timeout(std::time::Duration::from_millis(200), told.next());
        assert!(nothing.await.is_err());
        other.stop().unwrap();
    });
    server.stop().unwrap();
}

#[test]
fn a_restored_etcd_backup_is_detected() {
    let mut etcd = Etcd::start();
    let server = start(&etcd);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("k", "1").await.unwrap();
        etcd.kill();
        let backup = etcd.copy();
        etcd.restart();
        let end = Instant::now() + LONG;
        while let Err(error) = client.set("k", "2").await {
            assert!(
                error.kind() == ErrorKind::NoStore && Instant::now() < end,
                "{error}"
            );
        }
        etcd.kill();
        etcd.restore(&backup);
        etcd.restart();
        refuses_all(&server, &client, "a backup was restored").await;
        server.stop().unwrap();

        let anew = start(&etcd);
        let client = connect_to(&anew).await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("1"));
        client.set("k", "3").await.unwrap();
        anew.stop().unwrap();
    });
}

#[test]
fn a_full_etcd_is_readable_and_recovers() {
    let etcd = Etcd::with(&["--quota-backend-bytes=4194304".into()]);
    let server = start(&etcd);
    block_on(async {
        let client = connect_to(&server).await;
        client.set("small", "kept").await.unwrap();
        let end = Instant::now() + LONG;
        let refused = loop {
            assert!(Instant::now() < end);
            if let Err(error) = client.set("large", vec![b'v'; 500_000]).await {
                break error;
            }
        };
        assert_eq!(refused.outcome(), Outcome::NotDone, "{refused}");
        assert!(refused.to_string().contains("quota"), "{refused}");
        let is_full = || get(&server, "/readyz").contains("storage_full");
        until("it says so", is_full).await;
        assert_eq!(value(&client, "small").await.as_deref(), Some("kept"));

        etcd.compact_and_disarm().await;
        client.set("small", "written").await.unwrap();
        let is_ready = || get(&server, "/readyz").starts_with("HTTP/1.1 200");
        until("it is ready again", is_ready).await;
    });
    server.stop().unwrap();
}

#[test]
fn a_newer_format_is_reported() {
    let etcd = Etcd::start();
    block_on(etcd.put("newer/m", "libstatestore 2"));
    let error = RunningServer::start(etcd.config("newer")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("its format is 2, and this statestored supports 1"),
        "{text}"
    );
}
