//! The lists, entries and deletions of operators, over an engine that servers share.
use super::{Engine, block_on, connect_to, until, value};
use serde_json::{Value, json};
use statestore::{Client, Hlc, SetOptions};
use statestored::RunningServer;
use statestored::admin::{AdminConfig, Token};
use statestored::config::Config;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TOKEN: &str = "a-token-that-nobody-guesses";

/// More than one part of a list.
const KEYS: usize = 450;

fn request(server: &RunningServer, head: &str, body: &str) -> (String, Value) {
    let address = server.http_address().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let value = serde_json::from_str(body).unwrap_or(Value::Null);
    (head.to_owned(), value)
}

/// All items of a list that comes in parts.
fn list_all(server: &RunningServer, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut next = Some(String::new());
    while let Some(cursor) = next {
        let (head, mut part) = request(server, &format!("GET {path}&cursor={cursor}"), "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}: {part}");
        items.append(part["items"].as_array_mut().unwrap());
        next = part["next"].as_str().map(str::to_owned);
    }
    items
}

/// Sends a change, and returns the status and the document of the answer.
fn change(server: &RunningServer, path: &str, body: &Value) -> (String, Value) {
    let (head, answer) = request(server, &format!("POST {path}"), &body.to_string());
    (head.split(' ').nth(1).unwrap().to_owned(), answer)
}

/// Checks the lists of the keys `key-0` to `key-449`, whose values have five bytes.
fn check_metadata_and_tree(server: &RunningServer) {
    let detailed = list_all(server, "/api/keys?details=1&match=key-*");
    let names = detailed.iter().map(|item| item["key"]["text"].as_str());
    assert_eq!(names.collect::<BTreeSet<_>>().len(), KEYS);
    for item in &detailed {
        assert_eq!(item["value_bytes"], 5, "{item}");
        assert!(item["version"].is_string(), "{item}");
    }
    let level = list_all(server, "/api/prefixes?delimiter=-");
    let folders = level.iter().filter(|item| item["prefix"]["text"] == "key-");
    let keys: u64 = folders.map(|item| item["keys"].as_u64().unwrap()).sum();
    assert_eq!(keys, KEYS as u64);
    assert!(level.iter().any(|item| item["key"]["text"] == "ends"));
    let largest = list_all(server, "/api/bigkeys?match=key-*");
    assert!(largest.len() >= 20, "{}", largest.len());
    assert!(largest.iter().all(|item| item["value_bytes"] == 5));
    let soonest = list_all(server, "/api/ttl?match=ends");
    assert_eq!(soonest.len(), 1);
    assert!(soonest[0]["expires_in_ms"].is_u64(), "{}", soonest[0]);
    let (head, error) = request(server, "GET /api/prefixes?cursor=zz.", "");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}: {error}");
}

async fn check_changes(server: &RunningServer, client: &Client) {
    let creation = json!({ "key": "edited", "value": "1", "if_version": "absent" });
    let (status, first) = change(server, "/api/set", &creation);
    assert_eq!(status, "200", "{first}");
    let refused = change(server, "/api/set", &creation);
    assert_eq!(
        (refused.0.as_str(), &refused.1["version"]),
        ("409", &first["version"])
    );
    let version = &first["version"];
    let lease = json!({ "key": "edited", "expires_in_ms": 600_000, "if_version": version });
    let (status, second) = change(server, "/api/expire", &lease);
    assert_eq!(status, "200", "{second}");
    let refused = change(server, "/api/expire", &lease);
    assert_eq!(
        (refused.0.as_str(), &refused.1["version"]),
        ("409", &second["version"])
    );
    assert_eq!(value(client, "edited").await.as_deref(), Some("1"));
    let kept = json!({ "key": "edited", "value": "2", "keep_expiry": true });
    let (status, third) = change(server, "/api/set", &kept);
    assert_eq!(status, "200", "{third}");
    let (_, edited) = request(server, "GET /api/key?key=edited", "");
    assert_eq!(edited["entry"]["version"], third["version"]);
    assert_eq!(edited["entry"]["value"]["text"], "2");
    assert!(edited["entry"]["expires_in_ms"].is_u64(), "{edited}");
    let deletion = json!({ "key": "edited", "if_version": second["version"] });
    let refused = change(server, "/api/delete", &deletion);
    assert_eq!(
        (refused.0.as_str(), &refused.1["version"]),
        ("409", &third["version"])
    );
}

fn check_unlock(server: &RunningServer, lock: &Value) {
    let (_, door) = request(server, "GET /api/key?key=door", "");
    assert_eq!(door["holder"], lock["holder"]);
    let other = json!({ "key": "door", "holder": "another" });
    assert_eq!(change(server, "/api/unlock", &other).0, "409");
    for released in [true, false] {
        let held = json!({ "key": "door", "holder": lock["holder"] });
        let done = change(server, "/api/unlock", &held);
        assert_eq!(done, ("200".to_owned(), json!({ "released": released })));
    }
}

pub(crate) fn operators_list_and_delete_entries<E: Engine>() {
    let engine = E::start();
    let token = Token::new(TOKEN).unwrap();
    let admin = AdminConfig::new("http://127.0.0.1:0".parse().unwrap(), Some(token)).unwrap();
    let server = RunningServer::start(Config {
        admin: Some(admin),
        ..engine.config("test")
    });
    let server = server.unwrap();
    block_on(async {
        let client = connect_to(&server).await;
        let keys: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
        for key in &keys {
            client.set(key, "value").await.unwrap();
        }
        let ends = SetOptions::new().expires_in(Duration::from_secs(600));
        client.set_with("ends", "soon", &ends).await.unwrap();
        let guard = client.lock("door").await.unwrap();

        let found = list_all(&server, "/api/keys?match=key-*");
        let found: BTreeSet<_> = found
            .iter()
            .map(|key| key["text"].as_str().unwrap())
            .collect();
        assert_eq!(found.len(), KEYS);
        let (head, error) = request(&server, "GET /api/keys?cursor=zz.", "");
        assert!(head.starts_with("HTTP/1.1 400"), "{head}: {error}");

        let (_, ends) = request(&server, "GET /api/key?key=ends", "");
        assert_eq!(ends["entry"]["value"]["text"], "soon", "{ends}");
        assert!(ends["entry"]["expires_in_ms"].as_u64() > Some(0), "{ends}");
        let fence = Hlc::new(1, 2, "holder").unwrap();
        let fenced = SetOptions::new().fencing_token(fence.clone());
        client.set_with("fenced", "value", &fenced).await.unwrap();
        let shown = || request(&server, "GET /api/key?key=fenced", "").1["entry"]["fence"].clone();
        until("the token is known", || {
            shown() == fence.to_string().as_str()
        })
        .await;
        let body = format!("{{\"key\": \"fenced\", \"fence\": {}}}", shown());
        assert_eq!(request(&server, "POST /api/delete", &body).1["deleted"], 1);

        let (_, absent) = request(&server, "GET /api/key?key=absent", "");
        assert!(absent["entry"].is_null(), "{absent}");

        let locks = list_all(&server, "/api/locks?match=*");
        let names: Vec<_> = locks.iter().map(|lock| &lock["key"]["text"]).collect();
        assert_eq!(names, ["door"]);
        assert!(locks[0]["waiters"].is_u64(), "{}", locks[0]);
        check_metadata_and_tree(&server);
        check_changes(&server, &client).await;
        check_unlock(&server, &locks[0]);
        drop(guard);

        let delete = |key: &str| {
            let body = format!("{{\"key\": {key:?}}}");
            request(&server, "POST /api/delete", &body).1["deleted"].clone()
        };
        assert_eq!(delete("ends"), 1);
        assert_eq!(delete("ends"), 0);
        assert_eq!(client.get("ends").await.unwrap(), None);

        let (_, status) = request(&server, "GET /api/status?", "");
        assert!(status["counts"]["keys"].is_null(), "{status}");
        assert!(status["counts"]["sessions"].is_u64(), "{status}");
        assert_eq!(status["engine"]["reversions"], 0, "{status}");
        assert!(status["engine"]["requests"]["done"].is_u64(), "{status}");
    });
    server.stop().unwrap();
}
