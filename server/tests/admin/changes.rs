//! Changes of entries.
use crate::http::{client, json, post, server, start, stop};
use serde_json::Value;
use statestore::{Hlc, Observation, SetOptions};
use statestored::RunningServer;
use statestored::config::Config;
use std::time::Duration;

/// Sends a change, and returns the status and the document of the answer.
fn change(server: &RunningServer, path: &str, body: &Value) -> (u16, Value) {
    let answer = post(server, path, &body.to_string());
    let document = serde_json::from_str(&answer.body);
    (answer.status, document.unwrap_or(Value::Null))
}

/// Returns the present entry of a key.
fn entry(server: &RunningServer, key: &str) -> Value {
    json(server, &format!("/api/key?key={key}"))["entry"].clone()
}

#[tokio::test]
async fn a_set_is_durable_and_notifies_watchers() {
    let folder = tempfile::tempdir().unwrap();
    let config = || Config::durable(folder.path().join("data"));
    let server = start(config());
    let client = client(&server, "watcher").await;
    let mut observer = client.observe("key").await.unwrap();
    let body = serde_json::json!({ "key": "key", "value": "ä", "expires_in_ms": 600_000 });
    let (status, done) = change(&server, "/api/set", &body);
    assert_eq!(status, 200, "{done}");
    let version = loop {
        if let Some(Observation::Set { value, version }) = observer.next().await {
            assert_eq!(value, "ä");
            break version;
        }
    };
    assert_eq!(done["version"], version.to_string());
    let raw = serde_json::json!({ "hex": "ff00", "value_hex": "00ff" });
    assert_eq!(change(&server, "/api/set", &raw).0, 200);
    stop(server).await;
    let server = start(config());
    let stored = entry(&server, "key");
    assert_eq!(stored["version"], done["version"]);
    assert_eq!(stored["value"]["text"], "ä");
    assert!(stored["expires_in_ms"].as_u64() > Some(0), "{stored}");
    assert_eq!(entry(&server, "%ff%00")["value"]["hex"], "00ff");
    stop(server).await;
}

#[tokio::test]
async fn a_set_has_conditions() {
    let server = server();
    let set = |body: Value| change(&server, "/api/set", &body);
    let (status, first) =
        set(serde_json::json!({ "key": "k", "value": "1", "if_version": "absent" }));
    assert_eq!(status, 200, "{first}");
    let (status, refused) =
        set(serde_json::json!({ "key": "k", "value": "2", "if_version": "absent" }));
    assert_eq!((status, &refused["version"]), (409, &first["version"]));
    assert!(refused["error"].is_string());
    let version = &first["version"];
    let (status, second) =
        set(serde_json::json!({ "key": "k", "value": "2", "if_version": version }));
    assert_eq!(status, 200, "{second}");
    let (status, refused) =
        set(serde_json::json!({ "key": "k", "value": "3", "if_version": version }));
    assert_eq!((status, &refused["version"]), (409, &second["version"]));
    let (status, refused) =
        set(serde_json::json!({ "key": "none", "value": "3", "if_version": version }));
    assert_eq!((status, &refused["version"]), (409, &Value::Null));
    assert_eq!(entry(&server, "k")["value"]["text"], "2");
    for bad in [
        serde_json::json!({ "key": "k" }),
        serde_json::json!({ "value": "v" }),
        serde_json::json!({ "key": "k", "value": "v", "value_hex": "00" }),
        serde_json::json!({ "key": "k", "value_hex": "0" }),
        serde_json::json!({ "key": "k", "value": "v", "if_version": "newest" }),
        serde_json::json!({ "key": "k", "value": "v", "fence": "none" }),
        serde_json::json!({ "key": "k", "value": "v", "expires_in_ms": 0 }),
        serde_json::json!({ "key": "k", "value": "v", "expires_in_ms": 1, "keep_expiry": true }),
        serde_json::json!({ "key": "k", "value": "v", "other": 1 }),
    ] {
        let (status, answer) = set(bad.clone());
        assert_eq!(status, 400, "{bad}");
        assert!(answer["error"].is_string(), "{bad}");
    }
    assert_eq!(entry(&server, "k")["version"], second["version"]);
    let (status, empty) = set(serde_json::json!({ "key": "", "value": "v" }));
    assert_eq!(status, 409, "{empty}");
    stop(server).await;
}

#[tokio::test]
async fn a_set_keeps_or_replaces_the_expiry() {
    let server = server();
    let client = client(&server, "writer").await;
    let lease = SetOptions::new().expires_in(Duration::from_secs(600));
    client.set_with("k", "1", &lease).await.unwrap();
    let set = |body: Value| change(&server, "/api/set", &body);
    let (status, kept) = set(serde_json::json!({ "key": "k", "value": "2", "keep_expiry": true }));
    assert_eq!(status, 200, "{kept}");
    let left = entry(&server, "k")["expires_in_ms"].as_u64().unwrap();
    assert!((500_000..=600_000).contains(&left), "{left}");
    let (status, _) = set(
        serde_json::json!({ "key": "k", "value": "3", "keep_expiry": true, "if_version": kept["version"] }),
    );
    assert_eq!(status, 200);
    let (status, _) = set(
        serde_json::json!({ "key": "k", "value": "4", "keep_expiry": true, "if_version": kept["version"] }),
    );
    assert_eq!(status, 409);
    let now = entry(&server, "k");
    assert_eq!(now["value"]["text"], "3");
    assert!(now["expires_in_ms"].is_u64());
    assert_eq!(set(serde_json::json!({ "key": "k", "value": "5" })).0, 200);
    assert_eq!(entry(&server, "k")["expires_in_ms"], Value::Null);
    assert_eq!(
        set(serde_json::json!({ "key": "new", "value": "1", "keep_expiry": true })).0,
        200
    );
    assert_eq!(entry(&server, "new")["expires_in_ms"], Value::Null);
    stop(server).await;
}

#[tokio::test]
async fn the_expiry_of_an_entry_changes_without_its_value() {
    let server = server();
    let client = client(&server, "writer").await;
    let value = vec![0xff_u8; 100_000];
    client.set("k", value.clone()).await.unwrap();
    let expire = |body: Value| change(&server, "/api/expire", &body);
    let (status, first) = expire(serde_json::json!({ "key": "k", "expires_in_ms": 600_000 }));
    assert_eq!(status, 200, "{first}");
    let shown = entry(&server, "k");
    assert_eq!(shown["version"], first["version"]);
    assert!(shown["expires_in_ms"].as_u64() > Some(500_000), "{shown}");
    let (status, second) = expire(
        serde_json::json!({ "hex": "6b", "expires_in_ms": null, "if_version": first["version"] }),
    );
    assert_eq!(status, 200, "{second}");
    assert_eq!(entry(&server, "k")["expires_in_ms"], Value::Null);
    let (status, refused) = expire(
        serde_json::json!({ "key": "k", "expires_in_ms": 1, "if_version": first["version"] }),
    );
    assert_eq!((status, &refused["version"]), (409, &second["version"]));
    let stored = client.get("k").await.unwrap().unwrap();
    assert_eq!(stored.value, value);

    let absent = serde_json::json!({ "key": "none", "expires_in_ms": 1 });
    assert_eq!(expire(absent).0, 404);
    let absent =
        serde_json::json!({ "key": "none", "expires_in_ms": 1, "if_version": first["version"] });
    assert_eq!(expire(absent).0, 409);
    for bad in [
        serde_json::json!({ "key": "k" }),
        serde_json::json!({ "key": "k", "expires_in_ms": 0 }),
        serde_json::json!({ "key": "k", "expires_in_ms": -1 }),
        serde_json::json!({ "key": "k", "expires_in_ms": 1, "if_version": "absent" }),
        serde_json::json!({ "expires_in_ms": 1 }),
    ] {
        assert_eq!(expire(bad.clone()).0, 400, "{bad}");
    }
    assert_eq!(entry(&server, "none"), Value::Null);
    stop(server).await;
}

#[tokio::test]
async fn a_fenced_entry_changes_with_its_token_only() {
    let server = server();
    let client = client(&server, "writer").await;
    let fence = Hlc::new(1, 2, "holder").unwrap();
    let fenced = SetOptions::new().fencing_token(fence.clone());
    client.set_with("k", "1", &fenced).await.unwrap();
    let fence = fence.to_string();
    for (path, mut body) in [
        ("/api/set", serde_json::json!({ "key": "k", "value": "2" })),
        (
            "/api/set",
            serde_json::json!({ "key": "k", "value": "3", "keep_expiry": true }),
        ),
        (
            "/api/expire",
            serde_json::json!({ "key": "k", "expires_in_ms": 600_000 }),
        ),
        ("/api/delete", serde_json::json!({ "key": "k" })),
    ] {
        let (status, refused) = change(&server, path, &body);
        assert_eq!(status, 409, "{path}: {refused}");
        let why = refused["error"].as_str().unwrap();
        assert!(why.contains("fencing token"), "{path}: {why}");
        body["fence"] = fence.as_str().into();
        assert_eq!(change(&server, path, &body).0, 200, "{path}");
        let left = entry(&server, "k");
        assert!(left.is_null() || left["fence"] == fence.as_str(), "{left}");
    }
    assert_eq!(entry(&server, "k"), Value::Null);
    stop(server).await;
}

#[tokio::test]
async fn a_deletion_has_a_condition() {
    let server = server();
    let client = client(&server, "writer").await;
    client.set("k", "1").await.unwrap();
    let first = entry(&server, "k")["version"].clone();
    client.set("k", "2").await.unwrap();
    let delete = |version: &Value| {
        let body = serde_json::json!({ "key": "k", "if_version": version });
        change(&server, "/api/delete", &body)
    };
    let second = entry(&server, "k")["version"].clone();
    let (status, refused) = delete(&first);
    assert_eq!((status, &refused["version"]), (409, &second));
    let (status, done) = delete(&second);
    assert_eq!((status, &done["deleted"]), (200, &1.into()));
    let (status, refused) = delete(&second);
    assert_eq!((status, &refused["version"]), (409, &Value::Null));
    assert_eq!(delete(&"absent".into()).0, 400);
    stop(server).await;
}

#[tokio::test]
async fn a_lock_is_released_for_its_holder_only() {
    let server = server();
    let client = client(&server, "ann").await;
    let guard = client.lock("door").await.unwrap();
    let holder = json(&server, "/api/locks")["items"][0]["holder"].clone();
    let fence = Hlc::new(1, 2, "ann").unwrap();
    let fenced = SetOptions::new()
        .expires_in(Duration::from_secs(600))
        .fencing_token(fence);
    client.set_with("fenced", "ann", &fenced).await.unwrap();
    let unlock = |key: &str, holder: &Value| {
        let body = serde_json::json!({ "key": key, "holder": holder });
        change(&server, "/api/unlock", &body)
    };
    for (key, holder) in [("door", &holder), ("fenced", &"ann".into())] {
        let (status, refused) = unlock(key, &"another".into());
        assert_eq!(status, 409, "{key}: {refused}");
        assert!(entry(&server, key).is_object(), "{key}");
        let (status, done) = unlock(key, holder);
        assert_eq!((status, &done["released"]), (200, &true.into()), "{key}");
        assert_eq!(entry(&server, key), Value::Null, "{key}");
        let (status, done) = unlock(key, holder);
        assert_eq!((status, &done["released"]), (200, &false.into()), "{key}");
    }
    for bad in [
        serde_json::json!({ "key": "door" }),
        serde_json::json!({ "holder": "ann" }),
    ] {
        assert_eq!(change(&server, "/api/unlock", &bad).0, 400, "{bad}");
    }
    drop(guard);
    stop(server).await;
}
