//! Presence and expiry of keys, counters, values as JSON, and pings.
use crate::capabilities::{answer_capabilities, play, reject_capabilities};
use crate::support::{Broker, value, version, within};
use serde::{Deserialize, Serialize};
use statestore::{
    Capabilities, Client, Entry, Error, ErrorKind, Expiry, GetOptions, Outcome, SetOptions,
    Settings, UpdateOptions,
};
use statestore_protocol::{Command, Reply, ServiceError};
use statestored::{RunningServer, config::Config};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A server in memory, and a client of it.
async fn store() -> (RunningServer, Client) {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let settings: Settings = server.url().parse().unwrap();
    let client = Client::connect(settings).await.unwrap();
    (server, client)
}

#[track_caller]
fn check_invalid<T: std::fmt::Debug>(result: Result<T, Error>, phrase: &str) {
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::InvalidArgument, Outcome::NotDone),
        "{error}"
    );
    assert!(error.to_string().contains(phrase), "{error}");
}

async fn text(client: &Client, key: &str) -> String {
    let entry = client.get(key).await.unwrap().unwrap();
    String::from_utf8(entry.value.to_vec()).unwrap()
}

#[tokio::test]
async fn exists_is_a_get() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let get = Command::Get {
        key: "k".into(),
        remaining: false,
        eventual: false,
    };
    let exists = play(client.exists("k"), &mut peer, async |peer| {
        let request = peer.answer(&value("v"), Some(&version(1))).await;
        assert_eq!(request.command, get);
    });
    assert!(exists.await.unwrap());
    let exists = play(client.exists("k"), &mut peer, async |peer| {
        peer.answer(&Reply::Nil, None).await;
    });
    assert!(!exists.await.unwrap());
    check_invalid(client.exists("").await, "the key is empty");
}

#[tokio::test]
async fn ttl_requires_a_store_that_reports_the_remaining_time() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let ttl = play(client.ttl("k"), &mut peer, async |peer| {
        reject_capabilities(peer).await;
    });
    let error = ttl.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn touch_sets_the_remaining_time_that_ttl_returns() {
    let (_server, client) = store().await;
    assert_eq!(client.ttl("k").await.unwrap(), None);
    assert!(!client.touch("k", MINUTE).await.unwrap());
    client.set("k", "v").await.unwrap();
    assert_eq!(client.ttl("k").await.unwrap(), Some(Expiry::Never));
    assert!(client.touch("k", MINUTE).await.unwrap());
    let eventual = GetOptions::new().eventual(true);
    for ttl in [client.ttl("k").await, client.ttl_with("k", &eventual).await] {
        let Some(Expiry::After(left)) = ttl.unwrap() else {
            panic!("the key expires");
        };
        assert!(left <= MINUTE, "{left:?}");
    }
    assert_eq!(text(&client, "k").await, "v");
    assert!(client.touch("k", Duration::MAX).await.unwrap());
    assert_eq!(client.ttl("k").await.unwrap(), Some(Expiry::Never));

    check_invalid(
        client.touch("k", Duration::from_millis(99)).await,
        "too short",
    );
    let twice = UpdateOptions::new().expires_in(MINUTE);
    check_invalid(
        client.touch_with("k", MINUTE, &twice).await,
        "touching \"k\": the options have an `expires_in`",
    );
}

#[tokio::test]
async fn incr_adds_to_the_number_of_a_key() {
    let (_server, client) = store().await;
    assert_eq!(client.incr("count", 0).await.unwrap(), 0);
    assert_eq!(client.incr("count", 7).await.unwrap(), 7);
    assert_eq!(client.incr("count", -9).await.unwrap(), -2);
    assert_eq!(text(&client, "count").await, "-2");
    let minute = SetOptions::new().expires_in(MINUTE);
    client.set_with("count", "41", &minute).await.unwrap();
    assert_eq!(client.incr("count", 1).await.unwrap(), 42);
    let ttl = client.ttl("count").await.unwrap();
    assert!(
        matches!(ttl, Some(Expiry::After(left)) if left <= MINUTE),
        "{ttl:?}"
    );
    let never = UpdateOptions::new().expires_in(Duration::MAX);
    assert_eq!(client.incr_with("count", 1, &never).await.unwrap(), 43);
    assert_eq!(client.ttl("count").await.unwrap(), Some(Expiry::Never));
}

#[tokio::test]
async fn concurrent_increments_are_all_counted() {
    let (server, first) = store().await;
    let settings: Settings = server.url().parse().unwrap();
    let second = Client::connect(settings).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for client in [&first, &second] {
        for _ in 0..4 {
            let client = client.clone();
            tasks.spawn(async move {
                for _ in 0..5 {
                    let patient = UpdateOptions::new().timeout(MINUTE);
                    client.incr_with("count", 1, &patient).await.unwrap();
                }
            });
        }
    }
    within(tasks.join_all()).await;
    assert_eq!(text(&first, "count").await, "40");
}

#[tokio::test]
async fn a_value_that_is_no_number_is_not_changed() {
    let (_server, client) = store().await;
    client.set("word", "+1").await.unwrap();
    check_invalid(
        client.incr("word", 1).await,
        "incrementing \"word\": its value is not a decimal number",
    );
    assert_eq!(text(&client, "word").await, "+1");
    let max = i64::MAX.to_string();
    client.set("max", &max).await.unwrap();
    check_invalid(client.incr("max", 1).await, "does not fit into 64 bits");
    assert_eq!(text(&client, "max").await, max);
}

#[tokio::test]
async fn a_ping_is_answered_by_every_store() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let answered = play(client.ping(), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
    });
    answered.await.unwrap();
    for refusal in [ServiceError::UnknownCommand, ServiceError::NotAuthorized] {
        let ping = play(client.ping(), &mut peer, async |peer| {
            peer.answer(&Reply::Error(refusal), None).await;
        });
        ping.await.unwrap();
    }
    let soon = Duration::from_millis(5);
    let error = within(client.ping_within(soon)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().starts_with("pinging the store: "));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Limits {
    low: f64,
    high: f64,
}

#[tokio::test]
async fn values_are_read_and_written_as_json() {
    let (_server, client) = store().await;
    let limits = Limits {
        low: -1.5,
        high: 23.0,
    };
    client.set_json("limits", &limits).await.unwrap();
    assert_eq!(text(&client, "limits").await, r#"{"low":-1.5,"high":23.0}"#);
    assert_eq!(client.get_json("limits").await.unwrap(), Some(limits));
    assert_eq!(client.get_json::<Limits>("none").await.unwrap(), None);
    let entry = client.get("limits").await.unwrap().unwrap();
    assert_eq!(entry.json::<serde_json::Value>().unwrap()["high"], 23.0);

    client.set("limits", r#"{"low": "secret"}"#).await.unwrap();
    let error = client.get_json::<Limits>("limits").await.unwrap_err();
    assert!(std::error::Error::source(&error).is_some());
    assert!(!error.to_string().contains("secret"), "{error}");
    check_invalid::<()>(Err(error), "decoding \"limits\": the value is not JSON");
    let broken = Entry::new("{", version(1));
    check_invalid(broken.json::<Limits>(), "decoding a value: ");
    let unnamed = std::collections::HashMap::from([((1, 2), 3)]);
    check_invalid(
        client.set_json("map", &unnamed).await,
        "encoding \"map\": the value has no form in JSON",
    );
}
