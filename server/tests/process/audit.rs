//! The audit trail: lines of the log, numbers of ended connections, and the list of refusals.
use crate::peer::{Daemon, LogLines, MAX, Peer, TIMEOUT};
use serde_json::Value;
use statestore_protocol::mqtt::{Connect, Disconnect, ReasonCode};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "a-token-that-nobody-guesses";

/// A server with an HTTP port, whose log is read as JSON.
pub(crate) struct AuditedServer {
    pub(crate) daemon: Daemon,
    lines: LogLines,
    folder: TempDir,
}

impl AuditedServer {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments)
    }

    fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        let token = folder.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
        let mut all = vec!["--log-format", "json", "--http", "http://127.0.0.1:0"];
        if !arguments.contains(&"--log") && !arguments.contains(&"--config") {
            all.extend(["--log", "info"]);
        }
        if !arguments.contains(&"--data-dir") {
            all.extend(["--storage", "memory"]);
        }
        all.extend(["--http-token-file", token.to_str().unwrap()]);
        all.extend(arguments);
        let mut daemon = Daemon::start(&all);
        let lines = daemon.log_lines();
        Self {
            daemon,
            lines,
            folder,
        }
    }

    /// Waits for an event whose fields have these values.
    pub(crate) fn event(&self, expected: &[(&str, &str)]) -> Value {
        loop {
            let line = self.lines.next(&format!("{expected:?}"));
            let Ok(event) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            let has = |(name, value): &(&str, &str)| match &event[*name] {
                Value::String(text) => text == value,
                Value::Null => false,
                other => serde_json::from_str(value).is_ok_and(|it: Value| it == *other),
            };
            if expected.iter().all(has) {
                return event;
            }
        }
    }

    /// Sends a request to the HTTP port, and returns the status and the body of the answer.
    fn send_http(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        let url = self.daemon.http.as_ref().unwrap();
        let address = url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.send_http("POST", path, TOKEN, body)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.send_http("GET", path, TOKEN, "")
    }

    /// The value of a metric with its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, metrics) = self.get("/metrics");
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name}"));
        value.parse().unwrap()
    }

    /// The number of connections that ended for this reason.
    fn ended(&self, reason: &str) -> f64 {
        self.metric(&format!(
            "statestored_connections_closed_total{{reason=\"{reason}\"}}"
        ))
    }
}

fn address_of(peer: &Peer) -> String {
    peer.stream.local_addr().unwrap().to_string()
}

#[test]
fn a_take_over_is_counted_and_logged_with_both_addresses() {
    let server = AuditedServer::start(&[]);
    let listener = format!("tcp://{}", server.daemon.address);
    let mut first = server.daemon.connect("gateway");
    let connected = server.event(&[("event", "connected"), ("client", "gateway")]);
    assert_eq!(connected["target"], "statestored::audit::connection");
    assert_eq!(connected["peer"], address_of(&first));
    assert_eq!(connected["listener"], listener);
    let second = server.daemon.connect("gateway");
    assert_eq!(first.disconnected(), ReasonCode::SESSION_TAKEN_OVER);
    let ended = server.event(&[("event", "disconnected"), ("client", "gateway")]);
    assert_eq!(ended["reason"], "taken_over");
    assert_eq!(ended["peer"], address_of(&first));
    assert_eq!(ended["by_peer"], address_of(&second));
    assert_eq!(ended["by_listener"], listener);
    assert_eq!(ended["connection"], connected["connection"]);
    assert_eq!(server.ended("taken_over"), 1.0);
}

#[test]
fn the_end_of_a_connection_has_a_reason() {
    let server = AuditedServer::start(&["--max-connections", "3"]);
    let mut orderly = server.daemon.connect("orderly");
    orderly.send(|out| Disconnect::new(ReasonCode::SUCCESS).encode(MAX, out));
    server.event(&[("client", "orderly"), ("reason", "client_disconnect")]);
    let mut with_will = server.daemon.connect("with will");
    with_will.send(|out| Disconnect::new(ReasonCode::DISCONNECT_WITH_WILL).encode(MAX, out));
    let reason = "client_disconnect_with_will";
    server.event(&[("client", "with will"), ("reason", reason)]);
    drop(server.daemon.connect("gone"));
    server.event(&[("client", "gone"), ("reason", "client_closed")]);
    let mut rude = server.daemon.connect("rude");
    rude.stream.write_all(&[0, 0]).unwrap();
    assert_eq!(rude.disconnected(), ReasonCode::MALFORMED_PACKET);
    server.event(&[("client", "rude"), ("reason", "protocol_error")]);
    let silent = Connect {
        client_id: "silent".into(),
        keep_alive_s: 1,
        ..Connect::default()
    };
    let mut silent = Peer::join(server.daemon.address, &silent).unwrap();
    assert_eq!(silent.disconnected(), ReasonCode::KEEP_ALIVE_TIMEOUT);
    server.event(&[("client", "silent"), ("reason", "keep_alive_timeout")]);
    let mut kicked = server.daemon.connect("kicked");
    assert_eq!(
        server.post("/api/disconnect", r#"{"client": "kicked"}"#).0,
        200
    );
    assert_eq!(kicked.disconnected(), ReasonCode::ADMINISTRATIVE_ACTION);
    server.event(&[("client", "kicked"), ("reason", "administrator")]);
    drop((orderly, with_will, rude, silent, kicked));
    let _all = ["a", "b", "c"].map(|name| {
        // Connections of before may still be there.
        loop {
            let connect = Connect {
                client_id: name.into(),
                ..Connect::default()
            };
            let mut peer = Peer::open(server.daemon.address);
            peer.send(|out| connect.encode(MAX, out));
            if peer.receive().is_some() {
                break peer;
            }
        }
    });
    let mut further = Peer::open(server.daemon.address);
    assert!(further.receive().is_none());
    server.event(&[("event", "refused"), ("cause", "connections")]);
    for reason in [
        "client_disconnect",
        "client_disconnect_with_will",
        "client_closed",
        "protocol_error",
        "keep_alive_timeout",
        "administrator",
        "too_many_connections",
    ] {
        assert!(server.ended(reason) > 0.0, "{reason}");
    }
}

#[test]
fn refusals_are_logged_with_user_client_reason_and_optional_key() {
    for shows_keys in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        std::fs::write(&users, "ann:secret\n").unwrap();
        let mut arguments = vec!["--users-file", users.to_str().unwrap()];
        arguments.extend(["--limit-prefix", "machines/ keys=1"]);
        if shows_keys {
            arguments.push("--audit-keys");
        }
        let server = AuditedServer::start(&arguments);
        let ann = |password: &'static str| Connect {
            client_id: "panel".into(),
            user_name: Some("ann".into()),
            password: Some(password.into()),
            ..Connect::default()
        };
        assert!(Peer::join(server.daemon.address, &ann("guess")).is_err());
        let refused = server.event(&[("event", "refused"), ("cause", "login")]);
        assert_eq!(
            (&refused["user"], &refused["client"]),
            (&"ann".into(), &"panel".into())
        );
        assert_eq!(refused["target"], "statestored::audit::refusal");

        let mut peer = Peer::join(server.daemon.address, &ann("secret")).unwrap();
        peer.request(1, &[b"SET", b"machines/1", b"v"]);
        let full = b"-ERR the quota has been exceeded\r\n";
        assert_eq!(peer.request(2, &[b"SET", b"machines/2", b"v"]), full);
        let refused = server.event(&[("event", "refused"), ("cause", "quota")]);
        let why = refused["why"].as_str().unwrap();
        assert!(why.contains("prefix \"machines/\""), "{why}");
        assert_eq!(
            (&refused["user"], &refused["client"]),
            (&"ann".into(), &"panel".into())
        );
        assert_eq!(refused["peer"], address_of(&peer));
        let key = if shows_keys {
            "machines/2".into()
        } else {
            Value::Null
        };
        assert_eq!(refused["key"], key);

        let (_, list) = server.get("/api/refusals");
        let list: Value = serde_json::from_str(&list).unwrap();
        let first = &list["items"][0];
        assert_eq!(
            (&first["user"], &first["cause"]),
            (&"ann".into(), &"quota".into())
        );
        assert_eq!(first["key"]["text"], key);
        let list = server.daemon.get("/api/refusals");
        assert!(list.starts_with("HTTP/1.1 401"), "{list}");
    }
}

#[test]
fn a_looping_client_does_not_evict_refusals_of_others() {
    let server = AuditedServer::start(&["--limit-prefix", "full/ keys=0"]);
    let mut other = server.daemon.connect("other");
    other.request(1, &[b"SET", b"full/1", b"v"]);
    let mut looping = server.daemon.connect("loop");
    for number in 0..300 {
        looping.request(number, &[b"SET", b"full/2", b"v"]);
    }
    let (_, list) = server.get("/api/refusals");
    let list: Value = serde_json::from_str(&list).unwrap();
    let items = list["items"].as_array().unwrap();
    let of = |client: &str| items.iter().find(|it| it["client"] == client).unwrap();
    assert_eq!(of("other")["count"], 1);
    assert_eq!(of("loop")["count"], 300);
    let left_out = server.event(&[("event", "left_out"), ("source", "loop")]);
    assert!(left_out["lines"].as_u64().unwrap() > 200, "{left_out}");
}

#[test]
fn administrator_actions_are_logged_with_the_address() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let server = AuditedServer::start(&["--data-dir", &data]);
    server
        .daemon
        .connect("writer")
        .request(1, &[b"SET", b"k", b"v"]);
    let target = ("target", "statestored::audit::admin");
    assert_eq!(server.post("/api/delete", r#"{"key": "k"}"#).0, 200);
    let deleted = server.event(&[target, ("action", "delete"), ("status", "200")]);
    assert_eq!(
        (&deleted["deleted"], &deleted["key"]),
        (&1.into(), &Value::Null)
    );
    assert!(
        deleted["peer"].as_str().unwrap().starts_with("127.0.0.1:"),
        "{deleted}"
    );
    assert_eq!(server.post("/api/disconnect", r#"{"client": "c"}"#).0, 404);
    server.event(&[
        target,
        ("action", "disconnect"),
        ("client", "c"),
        ("status", "404"),
    ]);
    assert_eq!(server.post("/api/reload", "").0, 200);
    server.event(&[
        target,
        ("action", "reload"),
        ("origin", "http"),
        ("status", "200"),
    ]);
    assert_eq!(server.post("/api/backup", "").0, 200);
    server.event(&[target, ("action", "backup"), ("status", "200")]);
    let ended = server.event(&[target, ("event", "backup_ended"), ("origin", "http")]);
    assert!(ended["bytes"].as_u64().unwrap() > 0, "{ended}");
    assert!(
        ended["seconds"].is_number() && ended["error"].is_null(),
        "{ended}"
    );
    let wrong = server.send_http("POST", "/api/delete", "wrong", r#"{"key": "k"}"#);
    assert_eq!(wrong.0, 401);
    let denied = server.event(&[target, ("event", "denied"), ("path", "/api/delete")]);
    assert_eq!(denied["level"], "WARN");
    server.daemon.signal("-HUP");
    server.event(&[target, ("action", "reload"), ("origin", "signal")]);
    assert_eq!(server.post("/api/log", r#"{"filter": "off"}"#).0, 200);
    let change = server.event(&[target, ("event", "log_filter")]);
    assert_eq!(change["filter"], "off");
}

#[test]
fn changes_of_entries_are_logged_without_values_and_keys_on_request() {
    for shows_keys in [false, true] {
        let arguments: &[&str] = if shows_keys { &["--audit-keys"] } else { &[] };
        let server = AuditedServer::start(arguments);
        for (action, status, body) in [
            (
                "set",
                "200",
                r#"{"key": "k", "value": "secret", "if_version": "absent"}"#,
            ),
            (
                "set",
                "409",
                r#"{"key": "k", "value": "secret", "if_version": "absent"}"#,
            ),
            ("expire", "200", r#"{"key": "k", "expires_in_ms": 600000}"#),
            ("unlock", "200", r#"{"key": "k", "holder": "secret"}"#),
        ] {
            let answer = server.post(&format!("/api/{action}"), body);
            assert_eq!(answer.0.to_string(), status, "{answer:?}");
            let event = server.event(&[("action", action), ("status", status)]);
            assert_eq!(event["target"], "statestored::audit::admin");
            let key = if shows_keys { "k".into() } else { Value::Null };
            assert_eq!(event["key"], key, "{event}");
            assert_eq!(event["error"].is_string(), status == "409", "{event}");
            assert!(!event.to_string().contains("secret"), "{event}");
        }
    }
}

#[test]
fn no_filter_hides_the_actions_of_administrators() {
    let server = AuditedServer::start(&[]);
    for filter in [
        "off",
        "error",
        "statestored::audit::admin=off,statestored::audit=off",
    ] {
        let change = format!(r#"{{"filter": "{filter}"}}"#);
        assert_eq!(server.post("/api/log", &change).0, 200);
        server.event(&[("action", "log"), ("filter", filter)]);
        assert_eq!(server.post("/api/disconnect", r#"{"client": "c"}"#).0, 404);
        server.event(&[("action", "disconnect"), ("client", "c")]);
    }
    // A filter can show more.
    let change = r#"{"filter": "off,statestored::audit::admin=debug"}"#;
    assert_eq!(server.post("/api/log", change).0, 200);
    server.get("/api/status");
    server.event(&[("event", "request"), ("path", "/api/status")]);
}

#[test]
fn the_log_filter_can_be_changed_at_run_time() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("statestored.toml");
    let write = |path: &Path, filter: &str| {
        std::fs::write(path, format!("log = \"{filter}\"\n")).unwrap();
    };
    write(&config, "info,statestored::audit::connection=off");
    let path = config.to_str().unwrap().to_owned();
    let server = AuditedServer::start_in(folder, &["--config", &path]);
    let filter = |server: &AuditedServer| server.get("/api/log").1;
    assert!(filter(&server).contains("statestored::audit::connection=off"));
    drop(server.daemon.connect("unseen"));
    let asked = r#"{"filter": "info,statestored::audit::admin=debug"}"#;
    assert_eq!(server.post("/api/log", asked).0, 200);
    let changed = server.event(&[("action", "log")]);
    assert_eq!(changed["filter"], "info,statestored::audit::admin=debug");
    drop(server.daemon.connect("seen"));
    loop {
        let connected = server.event(&[("event", "connected")]);
        assert_ne!(connected["client"], "unseen");
        if connected["client"] == "seen" {
            break;
        }
    }
    let (status, text) = server.post("/api/log", r#"{"filter": "verbose"}"#);
    assert_eq!(status, 400);
    assert!(text.contains("LEVEL or TARGET=LEVEL"), "{text}");
    let without = server.send_http("POST", "/api/log", "wrong", asked);
    assert_eq!(without.0, 401);

    write(
        &server.folder.path().join("statestored.toml"),
        "warn,statestored::audit::admin=info",
    );
    server.daemon.signal("-HUP");
    server.event(&[("action", "reload"), ("origin", "signal")]);
    assert!(filter(&server).contains("warn"), "{}", filter(&server));
}

#[test]
fn a_delayed_refusal_is_logged_once_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "ann:secret\n").unwrap();
    let server = AuditedServer::start(&["--users-file", users.to_str().unwrap()]);
    // More than 20 from one address: further refusals are held back.
    for number in 0..22 {
        let connect = Connect {
            client_id: format!("client {number}"),
            user_name: Some(format!("nobody {number}")),
            password: Some("wrong".into()),
            ..Connect::default()
        };
        let refused = Peer::join(server.daemon.address, &connect).err();
        assert_eq!(refused, Some(ReasonCode::BAD_USER_NAME_OR_PASSWORD));
    }
    let reasons: Vec<_> = ["client 0", "client 21"]
        .map(|client| server.event(&[("event", "refused"), ("client", client)])["why"].clone())
        .into();
    assert_eq!(reasons[0], reasons[1]);
    let (_, refusals) = server.get("/api/refusals");
    let refusals: Value = serde_json::from_str(&refusals).unwrap();
    let items = refusals["items"].as_array().unwrap();
    let of_last = items.iter().filter(|item| item["client"] == "client 21");
    let counts: Vec<_> = of_last.map(|item| &item["count"]).collect();
    assert_eq!(counts, [1]);
    assert_eq!(server.ended("connect_refused"), 22.0);
}

#[test]
fn log_lines_have_the_address_from_a_trusted_proxy() {
    let server = AuditedServer::start(&["--trusted-proxy", "127.0.0.1"]);
    let mut peer = Peer::open(server.daemon.address);
    let header = b"PROXY TCP4 198.51.100.7 127.0.0.1 50000 1883\r\n";
    peer.stream.write_all(header).unwrap();
    let connect = Connect {
        client_id: "far".into(),
        ..Connect::default()
    };
    peer.send(|out| connect.encode(MAX, out));
    let connected = server.event(&[("event", "connected"), ("client", "far")]);
    assert_eq!(connected["peer"], "198.51.100.7:50000");
    let listener = format!("tcp://{}", server.daemon.address);
    assert_eq!(connected["listener"], listener);
    let mut broken = Peer::open(server.daemon.address);
    broken.stream.write_all(b"PROXY TCP9\r\n").unwrap();
    let ended = server.event(&[("event", "disconnected"), ("reason", "handshake_failed")]);
    assert_eq!(ended["peer"], address_of(&broken));
    assert_eq!(server.ended("handshake_failed"), 1.0);
}
