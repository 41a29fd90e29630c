//! Tokens with roles: what each may do.
use crate::http::{HttpResponse, bearer, get_with, open, parse_response, raw, start};
use statestored::Server;
use statestored::admin::{AdminConfig, HttpTokens, Token};
use statestored::config::{Config, ConfigError, ConfigSource};
use statestored_access::{Authenticator, Users};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

const METRICS: &str = "a-token-for-metrics";
const READ: &str = "a-token-for-reading";
const OPERATE: &str = "a-token-for-everything";

const NETWORK: &str = "http://0.0.0.0:0";
const LOOPBACK: &str = "http://127.0.0.1:0";

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}

fn tokens() -> HttpTokens {
    HttpTokens {
        metrics: Some(token(METRICS)),
        read: Some(token(READ)),
        operate: Some(token(OPERATE)),
    }
}

fn admin(address: &str, tokens: HttpTokens) -> AdminConfig {
    AdminConfig::with_tokens(address.parse().unwrap(), tokens).unwrap()
}

fn config(address: &str) -> Config {
    Config {
        admin: Some(admin(address, tokens())),
        ..Config::in_memory()
    }
}

/// The head of a request, with the token unless it is empty.
fn authorization(token: &str) -> String {
    if token.is_empty() {
        String::new()
    } else {
        bearer(token)
    }
}

fn get(address: SocketAddr, path: &str, token: &str) -> u16 {
    get_with(address, path, &authorization(token)).status
}

fn post(address: SocketAddr, path: &str, token: &str, body: &str) -> HttpResponse {
    let (lines, length) = (authorization(token), body.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    );
    parse_response(&raw(address, request.as_bytes()))
}

/// The first line of the response to a request whose response does not end.
fn first_line(address: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = open(address);
    let lines = authorization(token);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

fn loopback(address: SocketAddr) -> SocketAddr {
    ([127, 0, 0, 1], address.port()).into()
}

#[test]
fn each_role_may_use_its_paths() {
    let server = start(config(NETWORK));
    let address = loopback(server.http_address().unwrap());
    // The status without a token, and those with the tokens for metrics, for reading, and for everything.
    for (path, expected) in [
        ("/", [200, 200, 200, 200]),
        ("/page.js", [200, 200, 200, 200]),
        ("/healthz", [200, 200, 200, 200]),
        ("/readyz", [200, 200, 200, 200]),
        ("/metrics", [401, 200, 200, 200]),
        ("/api/status", [401, 200, 200, 200]),
        ("/api/keys", [401, 403, 200, 200]),
        ("/api/key?key=absent", [401, 403, 200, 200]),
        ("/api/locks", [401, 403, 200, 200]),
        ("/api/connections", [401, 403, 200, 200]),
        ("/api/sessions", [401, 403, 200, 200]),
        ("/api/refusals", [401, 403, 200, 200]),
        ("/api/client?client=absent", [401, 403, 404, 404]),
        ("/api/audit", [401, 403, 404, 404]),
        ("/api/config", [401, 403, 200, 200]),
        ("/api/limits", [401, 403, 200, 200]),
        ("/api/slowlog", [401, 403, 200, 200]),
        ("/api/hotkeys", [401, 403, 200, 200]),
        ("/api/openapi.json", [401, 403, 200, 200]),
        ("/nothing", [404, 404, 404, 404]),
    ] {
        let statuses = ["", METRICS, READ, OPERATE].map(|token| get(address, path, token));
        assert_eq!(statuses, expected, "{path}");
    }
    for (token, expected) in [
        ("", "401"),
        (METRICS, "403"),
        (READ, "200"),
        (OPERATE, "200"),
    ] {
        for path in ["/events", "/api/monitor"] {
            let line = first_line(address, path, token);
            assert!(line.starts_with(&format!("HTTP/1.1 {expected} ")), "{line}");
        }
        let question = r#"{"user": null, "action": "read", "key": "k"}"#;
        let answer = post(address, "/api/policy/check", token, question);
        assert_eq!(answer.status.to_string(), expected);
    }
    for path in [
        "/api/delete",
        "/api/disconnect",
        "/api/drain",
        "/api/reload",
        "/api/backup",
        "/api/log",
    ] {
        let refused = post(address, path, "", "{}");
        assert_eq!(refused.status, 401, "{path}");
        for token in [METRICS, READ] {
            let refused = post(address, path, token, "{}");
            assert_eq!(refused.status, 403, "{path}");
            assert!(refused.body.contains("--http-token-file"), "{refused:?}");
        }
        let status = post(address, path, OPERATE, "{}").status;
        assert!(![401, 403].contains(&status), "{path}: {status}");
    }
    assert_eq!(get(address, "/metrics", "a-token-of-another"), 401);
}

#[tokio::test]
async fn every_token_shows_the_reasons_of_health_checks() {
    let server = Server::start(config(NETWORK)).await.unwrap();
    // The server does not run, so it does not respond.
    let address = loopback(server.http_address().unwrap());
    for (token, is_shown) in [("", false), (METRICS, true), (READ, true), (OPERATE, true)] {
        let ask = move || get_with(address, "/healthz", &authorization(token));
        let answer = tokio::task::spawn_blocking(ask).await.unwrap();
        assert_eq!(answer.status, 503);
        assert_eq!(answer.body.contains("stuck"), is_shown, "{answer:?}");
    }
}

#[test]
fn a_token_takes_no_rights_from_a_local_user() {
    let server = start(config(LOOPBACK));
    let address = server.http_address().unwrap();
    for token in ["", METRICS, READ] {
        for path in ["/metrics", "/api/status", "/api/keys"] {
            assert_eq!(get(address, path, token), 200, "{path}");
        }
    }
    let mut users = Users::default();
    users.add("ann", b"secret");
    let server = start(Config {
        authenticator: Authenticator::from(users),
        ..config(LOOPBACK)
    });
    let address = server.http_address().unwrap();
    let statuses = ["", METRICS, READ, OPERATE].map(|token| get(address, "/api/keys", token));
    assert_eq!(statuses, [401, 401, 200, 200]);
}

#[test]
fn a_network_needs_at_least_one_token() {
    let bind = |tokens| AdminConfig::with_tokens(NETWORK.parse().unwrap(), tokens).is_ok();
    assert!(!bind(HttpTokens::default()));
    assert!(bind(HttpTokens {
        metrics: Some(token(METRICS)),
        ..HttpTokens::default()
    }));
    assert!(bind(HttpTokens {
        read: Some(token(READ)),
        ..HttpTokens::default()
    }));
}

#[test]
fn a_reload_replaces_the_token_of_each_role() {
    let in_file = Arc::new(Mutex::new(tokens()));
    let of_source = Arc::clone(&in_file);
    let source = ConfigSource::new(move || -> Result<Config, ConfigError> {
        let tokens = of_source.lock().unwrap().clone();
        Ok(Config {
            admin: Some(AdminConfig::with_tokens(NETWORK.parse().unwrap(), tokens)?),
            ..Config::in_memory()
        })
    });
    let server = start(Config {
        source: Some(source),
        ..config(NETWORK)
    });
    let address = loopback(server.http_address().unwrap());
    let rotated = HttpTokens {
        metrics: Some(token("another-token-for-metrics")),
        read: None,
        operate: Some(token("another-token-for-everything")),
    };
    *in_file.lock().unwrap() = rotated;
    let reloaded = post(address, "/api/reload", OPERATE, "");
    assert_eq!(reloaded.status, 200);
    assert!(
        reloaded.body.contains(r#""needs_restart":[]"#),
        "{reloaded:?}"
    );
    for former in [METRICS, READ, OPERATE] {
        assert_eq!(get(address, "/metrics", former), 401, "{former}");
    }
    assert_eq!(get(address, "/metrics", "another-token-for-metrics"), 200);
    assert_eq!(get(address, "/api/keys", "another-token-for-metrics"), 403);
    let operate = "another-token-for-everything";
    assert_eq!(get(address, "/api/keys", operate), 200);
    // Without a token, a server would not start at this address.
    *in_file.lock().unwrap() = HttpTokens::default();
    assert_eq!(post(address, "/api/reload", operate, "").status, 422);
    assert_eq!(get(address, "/api/keys", operate), 200);
}
