//! Views of clients, and actions on them.
use crate::http::{admin, bearer, client, get, json, post, post_with, server, start, stop};
use serde_json::{Value, json};
use statestore::{Client, Settings};
use statestored::RunningServer;
use statestored::config::Config;
use statestored_access::{Authenticator, Policy, UserLimits, Users};
use statestored_broker::hub::HubLimits;
use statestored_store::keyspace::PrefixLimit;
use statestored_store::service::ServiceConfig;
use std::sync::Arc;

const POLICY: &str = r#"
apiVersion: mqttbroker.iotoperations.azure.com/v1
kind: BrokerAuthorization
metadata: {name: policy, namespace: default}
spec:
  authorizationPolicies:
    rules:
      - principals: {usernames: [ann]}
        brokerResources:
          - {method: Connect}
          - {method: Subscribe, topics: ["news/+"]}
        stateStoreResources:
          - {method: Read, keys: ["line1/*"]}
      - principals: {usernames: [ann]}
        stateStoreResources:
          - {method: ReadWrite, keys: ["own/{principal.username}/*"]}
"#;

/// A server with the users `ann` and `bob`.
fn with_users(change: impl FnOnce(&mut Config)) -> RunningServer {
    let mut users = Users::default();
    users.add("ann", b"secret");
    users.add("bob", b"secret");
    let mut config = Config {
        authenticator: Authenticator::from(users),
        admin: Some(admin()),
        ..Config::in_memory()
    };
    change(&mut config);
    start(config)
}

async fn login(server: &RunningServer, user: &str, id: &str) -> Client {
    let settings = Settings::from_url(&server.url()).unwrap();
    let settings = settings.client_id(id).user_name(user).password("secret");
    Client::connect(settings).await.unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    let mut names: Vec<_> = items.map(|it| it["client"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn connections_are_filtered_and_sorted() {
    let server = with_users(|_| ());
    let _pump = login(&server, "ann", "pump/1").await;
    let _valve = login(&server, "ann", "valve/1").await;
    let busy = login(&server, "bob", "pump/2").await;
    for _ in 0..5 {
        busy.get("key").await.unwrap();
    }
    let list = |query: &str| json(&server, &format!("/api/connections?{query}"));
    assert_eq!(names(&list("client=pump")), ["pump/1", "pump/2"]);
    assert_eq!(names(&list("user=ann")), ["pump/1", "valve/1"]);
    assert_eq!(names(&list("user=ann&client=pump")), ["pump/1"]);
    assert_eq!(names(&list("address=127.0.")).len(), 3);
    assert_eq!(names(&list("address=192.0.2.")).len(), 0);
    assert_eq!(names(&list("user=")).len(), 3);
    let sorted = list("sort=rate");
    assert_eq!(sorted["next"], Value::Null);
    assert_eq!(sorted["is_complete"], true);
    let first = &sorted["items"][0];
    assert_eq!(first["client"], "pump/2");
    assert!(first["requests"].as_u64().unwrap() >= 5, "{first}");
    assert!(first["requests_per_s"].as_f64().unwrap() >= 1.0, "{first}");
    assert_eq!(first["protocol"], "tcp");
    assert!(first["listener"].as_str().unwrap().starts_with("tcp://"));
    assert!(first["since_ms"].as_u64().unwrap() > 1_600_000_000_000);
    for order in ["held", "outstanding"] {
        assert_eq!(names(&list(&format!("sort={order}"))).len(), 3);
    }
    let wrong = crate::http::get_with(
        server.http_address().unwrap(),
        "/api/connections?sort=age",
        &bearer(crate::http::TOKEN),
    );
    assert_eq!(wrong.status, 400);
    stop(server).await;
}

#[tokio::test]
async fn a_client_is_shown_with_its_watches_and_rejections() {
    let server = with_users(|config| {
        config.policy = Some(Arc::new(Policy::parse(POLICY).unwrap()));
    });
    let client = login(&server, "ann", "pump").await;
    let _observer = client.observe("line1/a").await.unwrap();
    client.set("line1/a", "v").await.unwrap_err();
    let shown = json(&server, "/api/client?client=pump");
    assert_eq!(shown["client"], "pump");
    assert_eq!(shown["connection"]["user"], "ann");
    assert_eq!(shown["session"]["is_connected"], true);
    assert_eq!(shown["certificate"], Value::Null);
    assert_eq!(shown["watch_count"], 1);
    assert_eq!(shown["watches"][0]["text"], "line1/a");
    assert_eq!(shown["patterns"], json!([]));
    assert_eq!(shown["refusals"][0]["cause"], "authorization");
    let with = |query: &str| json(&server, &format!("/api/refusals?{query}"))["items"].clone();
    for selected in ["", "client=pum", "user=ann", "cause=authorization"] {
        assert_eq!(with(selected).as_array().unwrap().len(), 1, "{selected}");
    }
    for none in ["client=valve", "user=an", "cause=quota", "key=line1"] {
        assert_eq!(with(none), json!([]), "{none}");
    }
    let address = server.http_address().unwrap();
    let asked = |path: &str| crate::http::get_with(address, path, &bearer(crate::http::TOKEN));
    assert_eq!(asked("/api/client?client=none").status, 404);
    assert_eq!(asked("/api/client").status, 400);
    assert_eq!(get(&server, "/api/client?client=pump").status, 401);
    stop(server).await;
}

#[tokio::test]
async fn all_clients_of_a_user_are_disconnected() {
    let server = with_users(|_| ());
    let first = login(&server, "ann", "first").await;
    let second = login(&server, "ann", "second").await;
    let _other = login(&server, "bob", "other").await;
    let done = post(&server, "/api/disconnect", r#"{"user": "ann"}"#);
    assert_eq!(done.body, r#"{"disconnected":2}"#);
    // They come back by themselves.
    first.get("key").await.unwrap();
    second.get("key").await.unwrap();
    let opened = server.handle().metrics().await.unwrap().connections_opened;
    assert_eq!(opened, 5);
    let none = post(&server, "/api/disconnect", r#"{"user": "eve"}"#);
    assert_eq!(none.body, r#"{"disconnected":0}"#);
    let one = post(&server, "/api/disconnect", r#"{"client": "other"}"#);
    assert_eq!(one.body, r#"{"disconnected":1}"#);
    for wrong in ["{}", r#"{"client": "a", "user": "b"}"#] {
        assert_eq!(post(&server, "/api/disconnect", wrong).status, 400);
    }
    stop(server).await;
}

#[tokio::test]
async fn a_drain_refuses_and_disconnects_clients() {
    let server = server();
    let _client = client(&server, "client").await;
    let ready = || get(&server, "/readyz");
    assert_eq!(ready().status, 200);
    let done = post(&server, "/api/drain", r#"{"on": true, "seconds": 3600}"#);
    assert_eq!(done.body, r#"{"connections":1,"draining":true}"#);
    assert_eq!(ready().status, 503);
    assert!(ready().body.contains("draining"), "{}", ready().body);
    let settings = Settings::from_url(&server.url()).unwrap();
    let settings = settings.client_id("other");
    assert!(Client::connect(settings).await.is_err());
    let done = post(&server, "/api/drain", r#"{"on": true, "seconds": 0}"#);
    assert_eq!(done.status, 200);
    let is_empty = || {
        let sessions = json(&server, "/api/sessions");
        let items = sessions["items"].as_array().unwrap();
        items.iter().all(|it| it["is_connected"] == false)
    };
    while !is_empty() {}
    let done = post(&server, "/api/drain", r#"{"on": false}"#);
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(ready().status, 200);
    for wrong in ["{}", r#"{"on": true, "seconds": 3601}"#] {
        assert_eq!(post(&server, "/api/drain", wrong).status, 400);
    }
    let denied = post_with(&server, "/api/drain", "", r#"{"on": true}"#);
    assert_eq!(denied.status, 401);
    stop(server).await;
}

#[tokio::test]
async fn limits_are_shown_with_their_use() {
    let mut limits = HubLimits::default();
    let of_ann = UserLimits::parse("connections=2 watches=10").unwrap();
    limits.users.named.insert("ann".into(), of_ann);
    let prefixes = vec![PrefixLimit::parse("line1/ keys=4").unwrap()];
    let server = with_users(|config| {
        config.service = ServiceConfig {
            max_keys: 1_000,
            prefixes,
            ..config.service.clone()
        };
        config.limits = limits;
    });
    let client = login(&server, "ann", "client").await;
    client.set("line1/a", "v").await.unwrap();
    let list = json(&server, "/api/limits");
    let items = list["items"].as_array().unwrap();
    let usage = |name: &str, subject: Value| {
        let mut items = items.iter();
        let item = items.find(|it| it["name"] == name && it["subject"] == subject);
        let item = item.unwrap_or_else(|| panic!("no {name}: {list}"));
        (
            item["used"].as_u64().unwrap(),
            item["limit"].as_u64().unwrap(),
        )
    };
    assert_eq!(usage("max-keys", Value::Null), (1, 1_000));
    assert_eq!(usage("max-connections", Value::Null), (1, 10_000));
    assert_eq!(usage("connections", json!({ "user": "ann" })), (1, 2));
    assert_eq!(usage("watches", json!({ "user": "ann" })), (0, 10));
    assert_eq!(usage("keys", json!({ "prefix": "line1/" })), (1, 4));
    let quotas = items.iter().filter(|it| !it["subject"].is_null());
    let quotas: Vec<_> = quotas.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(quotas, ["connections", "keys", "watches"], "nearest first");
    assert_eq!(get(&server, "/api/limits").status, 401);
    stop(server).await;
}

#[test]
fn the_policy_is_explained() {
    let server = with_users(|config| {
        config.policy = Some(Arc::new(Policy::parse(POLICY).unwrap()));
    });
    let check = |body: Value| {
        let answer = post(&server, "/api/policy/check", &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let rule = |number: u8| format!(r#"{{"allowed":true,"rule":"rule {number}"}}"#);
    let read = json!({ "user": "ann", "action": "read", "key": "line1/a" });
    assert_eq!(check(read), rule(1));
    let write = json!({ "user": "ann", "action": "write", "hex": "6f776e2f616e6e2f78" });
    assert_eq!(check(write), rule(2));
    let subscribe = json!({ "user": "ann", "action": "subscribe", "topic": "news/today" });
    assert_eq!(check(subscribe), rule(1));
    for denied in [
        json!({ "user": "ann", "action": "write", "key": "line1/a" }),
        json!({ "user": null, "action": "read", "key": "line1/a" }),
        json!({ "user": "ann", "action": "publish", "topic": "news/today" }),
    ] {
        assert_eq!(check(denied), r#"{"allowed":false,"rule":null}"#);
    }
    for wrong in [
        json!({ "user": "ann", "action": "read" }),
        json!({ "user": "ann", "action": "read", "topic": "t" }),
        json!({ "user": "ann", "action": "own", "key": "k" }),
    ] {
        let answer = post(&server, "/api/policy/check", &wrong.to_string());
        assert_eq!(answer.status, 400, "{wrong}");
    }
    assert_eq!(
        post_with(&server, "/api/policy/check", "", "{}").status,
        401
    );
    assert_eq!(get(&server, "/api/policy/check").status, 405);
    let open = crate::http::server();
    let question = r#"{"user": null, "action": "read", "key": "k"}"#;
    let answer = post_with(&open, "/api/policy/check", "", question);
    assert_eq!(answer.body, r#"{"allowed":true,"rule":null}"#);
}

#[test]
fn a_server_in_another_program_has_no_options_and_no_audit_trail() {
    let server = server();
    assert_eq!(json(&server, "/api/config"), json!({ "options": [] }));
    assert_eq!(get(&server, "/api/audit").status, 404);
    let description = json(&server, "/api/openapi.json");
    assert_eq!(description["openapi"], "3.1.0");
}
