//! `ttlInSeconds` and `ttlExpireTime`.
use crate::harness::{Fixture, PATIENCE, map, set, set_for};
use statestore_dapr::proto::{BulkGetRequest, GetRequest};
use std::time::{Duration, Instant, SystemTime};
use tonic::Code;

const EXPIRY: &str = "ttlExpireTime";

/// In how many seconds from now a time is.
fn until(text: &str) -> f64 {
    let at = humantime::parse_rfc3339(text).unwrap();
    match at.duration_since(SystemTime::now()) {
        Ok(after) => after.as_secs_f64(),
        Err(error) => -error.duration().as_secs_f64(),
    }
}

#[tokio::test]
async fn a_get_returns_the_expiry_time() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    sidecar.set(set_for("short", "value", "100")).await.unwrap();
    sidecar.set(set("long", "value")).await.unwrap();
    let short = sidecar.get("short").await.metadata;
    assert!((90.0..101.0).contains(&until(&short[EXPIRY])), "{short:?}");
    assert!(sidecar.get("long").await.metadata.is_empty());
    let item = |key: &str| GetRequest {
        key: key.to_owned(),
        ..GetRequest::default()
    };
    let items = ["short", "long", "absent"].map(item).to_vec();
    let request = BulkGetRequest {
        items,
        options: None,
    };
    let items = sidecar
        .state
        .bulk_get(request)
        .await
        .unwrap()
        .into_inner()
        .items;
    assert!((90.0..101.0).contains(&until(&items[0].metadata[EXPIRY])));
    assert!(items[1].metadata.is_empty() && items[1].etag.is_some());
    assert!(items[2].etag.is_none() && items[2].data.is_empty() && items[2].error.is_empty());
}

#[tokio::test]
async fn each_write_sets_its_own_expiry() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    for forever in ["0", "-1", ""] {
        sidecar.set(set_for("key", "value", "100")).await.unwrap();
        assert!(sidecar.get("key").await.metadata.contains_key(EXPIRY));
        sidecar.set(set_for("key", "value", forever)).await.unwrap();
        assert!(sidecar.get("key").await.metadata.is_empty(), "{forever}");
    }
    sidecar.set(set_for("key", "value", "100")).await.unwrap();
    sidecar.set(set("key", "value")).await.unwrap();
    assert!(sidecar.get("key").await.metadata.is_empty());
    sidecar.set(set_for("key", "value", "100")).await.unwrap();
    sidecar.set(set_for("key", "value", "1000")).await.unwrap();
    assert!(until(&sidecar.get("key").await.metadata[EXPIRY]) > 900.0);
}

#[tokio::test]
async fn a_value_expires() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    // Before the store counts, however late its answer comes.
    let began = Instant::now();
    sidecar.set(set_for("key", "value", "1")).await.unwrap();
    while sidecar.value("key").await.is_some() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() > Duration::from_millis(900));
}

#[tokio::test]
async fn an_invalid_ttl_is_rejected_without_a_write() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    for ttl in ["foo", "1.5", "10s", "9223372036854775808"] {
        let status = sidecar.set(set_for("key", "value", ttl)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{ttl}");
        assert!(status.message().contains("ttlInSeconds"), "{status:?}");
        assert!(status.details().is_empty(), "{status:?}");
    }
    assert_eq!(sidecar.value("key").await, None);
}

#[tokio::test]
async fn the_longest_ttl_never_expires() {
    let mut fixture = Fixture::start().await;
    let sidecar = &mut fixture.sidecar;
    for ttl in ["9223372036854775807", "1000000000000"] {
        sidecar.set(set_for("key", "value", ttl)).await.unwrap();
        let entry = sidecar.get("key").await;
        assert_eq!(entry.data, "value");
        // No year of four digits says when.
        assert_eq!(entry.metadata, map(&[]));
    }
}
