//! Which keys are still there after a restart.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use statestore::{Client, SetOptions, Settings};
use statestored::RunningServer;
use statestored::admin::{AdminConfig, Token};
use statestored::config::Config;
use statestored_access::policy::{KeyPatterns, KeyType};
use statestored_store::service::Retention;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn custom(on_request: bool) -> Retention {
    let mut keys = KeyPatterns::default();
    keys.add(KeyType::Pattern, "kept/*").unwrap();
    Retention::Custom { keys, on_request }
}

/// Starts a server on a folder, and a client of it; stops both afterwards.
fn serve(
    folder: &Path,
    retention: &Retention,
    property: Option<(&str, &str)>,
    work: impl AsyncFnOnce(&Client),
) {
    let mut config = Config::durable(folder);
    config.service.retention = retention.clone();
    config.persist_property = property.map(|(name, value)| (name.into(), value.into()));
    let server = RunningServer::start(config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let settings: Settings = server.url().parse().unwrap();
        let client = Client::connect(settings).await.unwrap();
        work(&client).await;
        client.close().await;
    });
    server.stop().unwrap();
}

async fn set(client: &Client, key: &str, value: &str, is_asked_for: bool) {
    let options = SetOptions::default().persist(is_asked_for);
    client.set_with(key, value, &options).await.unwrap();
}

async fn get(client: &Client, key: &str) -> Option<String> {
    let entry = client.get(key).await.unwrap()?;
    Some(String::from_utf8(entry.value.to_vec()).unwrap())
}

#[test]
fn only_chosen_keys_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    serve(folder.path(), &custom(true), None, async |client| {
        set(client, "kept/a", "1", false).await;
        set(client, "asked", "1", true).await;
        set(client, "other", "1", false).await;
        set(client, "no longer", "old", true).await;
        set(client, "no longer", "new", false).await;
        set(client, "gone", "1", true).await;
        client.del("gone").await.unwrap();
    });
    serve(folder.path(), &custom(true), None, async |client| {
        for (key, value) in [
            ("kept/a", Some("1")),
            ("asked", Some("1")),
            ("other", None),
            ("no longer", None),
            ("gone", None),
        ] {
            assert_eq!(get(client, key).await.as_deref(), value, "{key}");
        }
        // It is known of a former run that it is kept.
        set(client, "asked", "2", false).await;
    });
    serve(folder.path(), &custom(true), None, async |client| {
        assert_eq!(get(client, "asked").await, None);
        assert_eq!(get(client, "kept/a").await.as_deref(), Some("1"));
    });
}

#[test]
fn an_operator_keeps_what_its_client_asked_to_keep() {
    let folder = tempfile::tempdir().unwrap();
    serve(folder.path(), &custom(true), None, async |client| {
        set(client, "asked", "1", true).await;
    });
    let token = Token::new("a-token-that-nobody-guesses").unwrap();
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), Some(token)).unwrap();
    let mut config = Config::durable(folder.path());
    config.service.retention = custom(true);
    config.admin = Some(admin);
    let server = RunningServer::start(config).unwrap();
    for body in [
        r#"{"key": "asked", "value": "2"}"#,
        r#"{"key": "other", "value": "2"}"#,
    ] {
        let mut stream = TcpStream::connect(server.http_address().unwrap()).unwrap();
        let request = format!(
            "POST /api/set HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer a-token-that-nobody-guesses\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    server.stop().unwrap();
    serve(folder.path(), &custom(true), None, async |client| {
        assert_eq!(get(client, "asked").await.as_deref(), Some("2"));
        assert_eq!(get(client, "other").await, None);
    });
}

#[test]
fn keys_excluded_by_a_new_retention_are_deleted_permanently() {
    let folder = tempfile::tempdir().unwrap();
    let mut version = None;
    serve(folder.path(), &Retention::All, None, async |client| {
        set(client, "kept/a", "1", false).await;
        set(client, "other", "1", false).await;
        version = client
            .get("other")
            .await
            .unwrap()
            .map(|entry| entry.version);
    });
    serve(folder.path(), &custom(false), None, async |client| {
        assert_eq!(get(client, "other").await, None);
        set(client, "asked", "1", true).await;
    });
    serve(folder.path(), &Retention::All, None, async |client| {
        assert_eq!(get(client, "other").await, None, "it does not come back");
        assert_eq!(get(client, "asked").await, None, "asking was not allowed");
        assert_eq!(get(client, "kept/a").await.as_deref(), Some("1"));
        set(client, "other", "2", false).await;
        let entry = client.get("other").await.unwrap().unwrap();
        assert!(Some(entry.version) > version, "versions go on rising");
    });
    serve(folder.path(), &Retention::Nothing, None, async |client| {
        assert_eq!(get(client, "kept/a").await, None);
        set(client, "kept/a", "2", true).await;
    });
    serve(folder.path(), &Retention::All, None, async |client| {
        assert_eq!(get(client, "kept/a").await, None);
    });
}

#[test]
fn the_persist_property_is_configurable() {
    let folder = tempfile::tempdir().unwrap();
    let other = Some(("keep", "yes"));
    serve(folder.path(), &custom(true), other, async |client| {
        set(client, "asked", "1", true).await;
    });
    serve(folder.path(), &custom(true), None, async |client| {
        assert_eq!(
            get(client, "asked").await,
            None,
            "the usual name says nothing"
        );
    });
}
