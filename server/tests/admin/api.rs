//! Lists and changes.
use crate::http::{
    TOKEN, bearer, client, get, json, post, post_with, server, start, stop, with_users_file,
};
use serde_json::Value;
use statestore::{LockOptions, Observation, SetOptions};
use statestored::admin::{AdminConfig, HttpAddress};
use statestored::config::Config;
use statestored::{RunningServer, ServerHandle};
use statestored_access::{Authenticator, Users};
use std::collections::BTreeSet;
use std::time::Duration;

/// Collects a value of each item of a list, over all pages.
pub(crate) fn collect_pages(
    server: &RunningServer,
    path: &str,
    pick: impl Fn(&Value) -> String,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = json(server, &format!("{path}{cursor}"));
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 200, "{}", items.len());
        found.extend(items.iter().map(&pick));
        cursor = match &page["next"] {
            Value::Null => return found,
            Value::String(next) => format!("cursor={next}"),
            next => format!("cursor={next}"),
        };
    }
}

#[tokio::test]
async fn keys_are_paginated_without_gaps_or_duplicates() {
    let server = server();
    let client = client(&server, "writer").await;
    let names: BTreeSet<String> = (0..1500).map(|number| format!("k/{number}")).collect();
    let writes = names.iter().map(|name| (name.as_bytes(), b"v"));
    for (name, value) in writes {
        client.set(name, value).await.unwrap();
    }
    client.set("other", "v").await.unwrap();
    let text = |item: &Value| item["text"].as_str().unwrap().to_owned();
    let found = collect_pages(&server, "/api/keys?match=k/*&", text);
    assert_eq!(found.len(), names.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), names);
    let bad = crate::http::get(&server, "/api/keys?cursor=zz");
    assert_eq!(bad.status, 400);
    stop(server).await;
}

#[tokio::test]
async fn an_entry_is_returned_with_its_metadata_and_watchers() {
    let server = server();
    let client = client(&server, "watcher").await;
    let ttl = Duration::from_secs(1000);
    let options = SetOptions::default().expires_in(ttl);
    client
        .set_with(b"\xff\0", "wert ä", &options)
        .await
        .unwrap();
    let _observer = client.observe(b"\xff\0").await.unwrap();
    let shown = json(&server, "/api/key?key=%ff%00");
    assert_eq!(shown["key"]["hex"], "ff00");
    assert_eq!(shown["key"]["text"], Value::Null);
    assert_eq!(shown["entry"]["value"]["text"], "wert ä");
    assert_eq!(shown["entry"]["is_truncated"], false);
    assert_eq!(shown["watchers"], serde_json::json!(["watcher"]));
    let left = shown["entry"]["expires_in_ms"].as_u64().unwrap();
    assert!((900_000..=1_000_000).contains(&left), "{left}");
    client.set("large", vec![b'x'; 100_000]).await.unwrap();
    let large = json(&server, "/api/key?key=large");
    assert_eq!(large["entry"]["value_bytes"], 100_000);
    assert_eq!(large["entry"]["is_truncated"], true);
    assert_eq!(
        large["entry"]["value"]["text"].as_str().unwrap().len(),
        65_536
    );
    let absent = json(&server, "/api/key?key=none");
    assert_eq!(absent.get("entry"), None);
    stop(server).await;
}

#[tokio::test]
async fn locks_connections_and_sessions_are_listed() {
    let server = server();
    let holder = client(&server, "holder/1").await;
    let options = LockOptions::default();
    let guard = holder.lock_with("the lock", &options).await.unwrap();
    holder.set("no lock", "a/b/1/2").await.unwrap();
    let locks = json(&server, "/api/locks");
    assert_eq!(locks["items"].as_array().unwrap().len(), 1, "{locks}");
    let lock = &locks["items"][0];
    assert_eq!(
        (&lock["key"]["text"], &lock["client"]),
        (&"the lock".into(), &"holder/1".into())
    );
    assert_eq!(lock["has_session"], true);
    for list in ["connections", "sessions"] {
        let clients = collect_pages(&server, &format!("/api/{list}?"), |it| {
            it["client"].as_str().unwrap().to_owned()
        });
        assert_eq!(clients, ["holder/1"], "{list}");
    }
    guard.release().await.unwrap();
    assert_eq!(json(&server, "/api/locks")["items"], serde_json::json!([]));
    stop(server).await;
}

#[tokio::test]
async fn a_renewal_keeps_the_acquisition_time_of_a_lock() {
    let server = server();
    let (ann, bob) = (client(&server, "ann").await, client(&server, "bob").await);
    let lease = SetOptions::new().expires_in(Duration::from_secs(60));
    let times = || {
        let lock = &json(&server, "/api/locks")["items"][0];
        let number = |name: &str| lock[name].as_u64().unwrap();
        (number("since_ms"), number("renewed_ms"))
    };
    ann.set_with("lease", "ann", &lease).await.unwrap();
    let (taken, _) = times();
    while times().1 <= taken {
        ann.set_with("lease", "ann", &lease).await.unwrap();
    }
    assert_eq!(times().0, taken);
    bob.set_with("lease", "bob", &lease).await.unwrap();
    assert!(times().0 > taken);
    stop(server).await;
}

#[tokio::test]
async fn a_deletion_over_http_notifies_watchers() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    let client = client(&server, "writer").await;
    client.set("plain", "v").await.unwrap();
    let mut observer = client.observe("plain").await.unwrap();
    let done = post(&server, "/api/delete", r#"{"key": "plain"}"#);
    assert_eq!((done.status, done.body.as_str()), (200, r#"{"deleted":1}"#));
    while !matches!(observer.next().await, Some(Observation::Deleted { .. })) {}
    let again = post(&server, "/api/delete", r#"{"hex": "706c61696e"}"#);
    assert_eq!(again.body, r#"{"deleted":0}"#);

    let guard = client.lock("lock").await.unwrap();
    guard.set("fenced", "v").await.unwrap();
    let refused = post(&server, "/api/delete", r#"{"key": "fenced"}"#);
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("fencing token"), "{}", refused.body);
    let fence = &json(&server, "/api/key?key=fenced")["entry"]["fence"];
    let body = serde_json::json!({ "key": "fenced", "fence": fence }).to_string();
    assert_eq!(post(&server, "/api/delete", &body).body, r#"{"deleted":1}"#);
    for bad in [
        "",
        "{}",
        r#"{"key": "a", "hex": "00"}"#,
        r#"{"hex": "0"}"#,
        r#"{"keys": "a"}"#,
    ] {
        assert_eq!(post(&server, "/api/delete", bad).status, 400, "{bad}");
    }
    stop(server).await;
}

#[tokio::test]
async fn a_client_is_disconnected() {
    let server = server();
    let client = client(&server, "somebody").await;
    let done = post(&server, "/api/disconnect", r#"{"client": "somebody"}"#);
    assert_eq!(done.status, 200, "{}", done.body);
    // It comes back by itself, and its request is answered.
    client.set("key", "v").await.unwrap();
    let opened = server.handle();
    assert_eq!(connections_opened(&opened).await, 2);
    let nobody = post(&server, "/api/disconnect", r#"{"client": "nobody"}"#);
    assert_eq!(nobody.status, 404);
    stop(server).await;
}

async fn connections_opened(control: &ServerHandle) -> u64 {
    control.metrics().await.unwrap().connections_opened
}

#[test]
fn mutations_require_the_token_and_the_same_origin() {
    let server = server();
    for path in [
        "/api/set",
        "/api/expire",
        "/api/delete",
        "/api/unlock",
        "/api/disconnect",
        "/api/reload",
        "/api/backup",
        "/api/drain",
    ] {
        assert_eq!(post_with(&server, path, "", "{}").status, 401, "{path}");
        assert_eq!(
            post_with(&server, path, &bearer("0123456789abcdef"), "{}").status,
            401
        );
        let cookie = format!("Cookie: token={TOKEN}; Authorization=Bearer {TOKEN}\r\n");
        assert_eq!(
            post_with(&server, path, &cookie, "{}").status,
            401,
            "{path}"
        );
        for elsewhere in [
            "Origin: http://evil.example\r\n",
            "Origin: null\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: none\r\n",
        ] {
            let lines = bearer(TOKEN) + elsewhere;
            assert_eq!(post_with(&server, path, &lines, "{}").status, 403, "{path}");
        }
        assert_eq!(get(&server, path).status, 405, "{path}");
    }
    let large = "x".repeat(300_000);
    assert_eq!(post(&server, "/api/delete", &large).status, 413);
    let none = AdminConfig::new("http://127.0.0.1:0".parse::<HttpAddress>().unwrap(), None);
    let without = start(Config {
        admin: Some(none.unwrap()),
        ..Config::in_memory()
    });
    let refused = post(&without, "/api/reload", "");
    assert_eq!(refused.status, 401);
}

#[test]
fn keys_require_the_token_when_users_are_configured() {
    let mut users = Users::default();
    users.add("ann", b"secret");
    let server = start(Config {
        authenticator: Authenticator::from(users),
        ..Config::in_memory()
    });
    for path in [
        "/api/keys",
        "/api/keys?details=1",
        "/api/prefixes",
        "/api/bigkeys",
        "/api/ttl",
        "/api/key?key=k",
        "/api/locks",
        "/api/connections",
        "/api/sessions",
        "/api/refusals",
        "/api/slowlog",
        "/api/hotkeys",
        "/api/limits",
        "/api/config",
    ] {
        let refused = get(&server, path);
        assert_eq!(refused.status, 401, "{path}: {}", refused.body);
        json(&server, path);
    }
    for path in ["/api/status", "/api/history", "/metrics"] {
        assert_eq!(get(&server, path).status, 200, "{path}");
    }
}

#[test]
fn a_reload_reports_its_result_or_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:secret-of-ann\n").unwrap();
    let server = start(with_users_file(file.clone()));
    std::fs::write(&file, "ann:secret-of-ann\nbob:secret-of-bob\n").unwrap();
    let done = post(&server, "/api/reload", "");
    assert_eq!(
        done.body,
        r#"{"disconnected":0,"needs_restart":[],"users":2}"#
    );
    std::fs::write(&file, "ann\n").unwrap();
    let refused = post(&server, "/api/reload", "");
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("stay"), "{}", refused.body);
    for path in ["/metrics", "/api/status", "/api/sessions"] {
        let shown = get(&server, path).body;
        assert!(
            !shown.contains("secret-of") && !shown.contains(TOKEN),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_backup_is_downloaded_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(Config::durable(folder.path().join("data")));
    let client = client(&server, "writer").await;
    client.set("key", "in the backup").await.unwrap();
    let address = server.http_address().unwrap();
    let request = format!(
        "POST /api/backup HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n{}\r\n",
        bearer(TOKEN)
    );
    let bytes = crate::http::raw_bytes(address, request.as_bytes());
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("in the backup"), "{text}");
    assert!(text.ends_with("0\r\n\r\n"), "it is whole");
    stop(server).await;
    let in_memory = crate::http::server();
    assert_eq!(post(&in_memory, "/api/backup", "").status, 409);
    stop(in_memory).await;
}
