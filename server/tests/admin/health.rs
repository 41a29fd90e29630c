//! Alive, and ready.
use crate::http::{TOKEN, admin, bearer, get, get_with, parse_response, raw, server, start};
use statestored::Server;
use statestored::admin::{AdminConfig, Token};
use statestored::config::Config;
use std::net::ToSocketAddrs;

#[test]
fn a_serving_server_is_alive_and_ready() {
    let server = server();
    let alive = get(&server, "/healthz");
    assert_eq!((alive.status, alive.body.as_str()), (200, "alive\n"));
    let ready = get_with(
        server.http_address().unwrap(),
        "/readyz",
        "Accept: application/json\r\n",
    );
    assert_eq!(ready.status, 200);
    assert_eq!(ready.header("content-type"), Some("application/json"));
    assert_eq!(ready.body, r#"{"status":"ready","reasons":[]}"#);
}

#[tokio::test]
async fn a_blocked_thread_is_reported_as_not_alive() {
    let server = Server::start(Config {
        admin: Some(admin()),
        ..Config::in_memory()
    })
    .await
    .unwrap();
    // The server does not run, so it does not respond.
    let address = server.http_address().unwrap();
    let ask = move |path| tokio::task::spawn_blocking(move || get_with(address, path, ""));
    let (alive, ready) = tokio::join!(ask("/healthz"), ask("/readyz"));
    let (alive, ready) = (alive.unwrap(), ready.unwrap());
    assert_eq!((alive.status, ready.status), (503, 503));
    assert!(alive.body.starts_with("not alive\nstuck: "), "{alive:?}");
    assert!(ready.body.starts_with("not ready\nstuck: "), "{ready:?}");
}

#[tokio::test]
async fn a_dropped_server_frees_its_port() {
    let server = Server::start(Config {
        admin: Some(admin()),
        ..Config::in_memory()
    })
    .await
    .unwrap();
    let address = server.http_address().unwrap();
    drop(server);
    std::net::TcpListener::bind(address).unwrap();
}

#[test]
fn a_check_in_http_1_0_without_host_is_answered() {
    let server = server();
    let address = server.http_address().unwrap();
    let ask = |request: &str| parse_response(&raw(address, request.as_bytes()));
    for path in ["/healthz", "/readyz"] {
        for method in ["OPTIONS", "GET", "HEAD"] {
            let request = format!("{method} {path} HTTP/1.0\r\n\r\n");
            assert_eq!(ask(&request).status, 200, "{request}");
        }
        let modern = ask(&format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n"));
        assert_eq!(modern.status, 400, "HTTP/1.1 has a Host");
        let foreign = ask(&format!(
            "GET {path} HTTP/1.0\r\nHost: evil.example\r\n\r\n"
        ));
        assert_eq!(foreign.status, 421);
    }
    for path in ["/metrics", "/api/keys", "/"] {
        assert_eq!(
            ask(&format!("GET {path} HTTP/1.0\r\n\r\n")).status,
            400,
            "{path}"
        );
    }
}

#[test]
fn a_host_name_is_bound_at_all_of_its_addresses() {
    let admin = AdminConfig::new("http://localhost:0".parse().unwrap(), None).unwrap();
    let server = start(Config {
        admin: Some(admin),
        ..Config::in_memory()
    });
    let port = server.http_address().unwrap().port();
    for address in ("localhost", port).to_socket_addrs().unwrap() {
        assert_eq!(get_with(address, "/healthz", "").status, 200, "{address}");
    }
}

#[test]
fn remote_clients_without_the_token_see_only_the_health_status() {
    let token = Some(Token::new(TOKEN).unwrap());
    let admin = AdminConfig::new("http://0.0.0.0:0".parse().unwrap(), token).unwrap();
    let server = start(Config {
        admin: Some(admin),
        ..Config::in_memory()
    });
    let port = server.http_address().unwrap().port();
    let address = ([127, 0, 0, 1], port).into();
    assert_eq!(get_with(address, "/healthz", "").status, 200);
    assert_eq!(get_with(address, "/readyz", "").status, 200);
    let refused = get_with(address, "/metrics", "");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(get_with(address, "/metrics", &bearer(TOKEN)).status, 200);
}
