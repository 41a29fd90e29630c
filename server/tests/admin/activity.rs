//! Live and slow requests, and keys that stand out.
use crate::http::{TOKEN, bearer, client, json, open, server, start, stop};
use statestored::RunningServer;
use statestored::config::Config;
use statestored_broker::hub::HubLimits;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Opens a stream of requests, and waits until it has begun.
fn monitor(server: &RunningServer, query: &str) -> TcpStream {
    let address = server.http_address().unwrap();
    let mut stream = open(address);
    let request = format!(
        "GET /api/monitor?{query} HTTP/1.1\r\nHost: {address}\r\n{}\r\n",
        bearer(TOKEN)
    );
    stream.write_all(request.as_bytes()).unwrap();
    read_until(&mut stream, ":\n\n");
    stream
}

/// Reads until a text arrives. Returns everything that was read.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = String::new();
    let mut chunk = [0; 4096];
    while !read.contains(end) {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "the stream ended: {read}");
        read.push_str(std::str::from_utf8(&chunk[..count]).unwrap());
    }
    read
}

#[tokio::test]
async fn executed_requests_are_streamed() {
    let server = server();
    let client = client(&server, "pump").await;
    let mut stream = monitor(&server, "verb=set&key=line1/*&values=1");
    client.get("line1/a").await.unwrap();
    client.set("line2/a", "other").await.unwrap();
    client.set("line1/a", "value").await.unwrap();
    let read = read_until(&mut stream, "}\n\n");
    assert!(read.contains(r#""client":"pump""#), "{read}");
    assert!(read.contains(r#""text":"line1/a""#), "{read}");
    assert!(read.contains(r#""text":"value""#), "{read}");
    assert!(!read.contains("line2"), "{read}");
    let wrong = crate::http::get_with(
        server.http_address().unwrap(),
        "/api/monitor?sample=2",
        &bearer(TOKEN),
    );
    assert_eq!(wrong.status, 400);
    drop(stream);
    stop(server).await;
}

#[test]
fn a_closed_stream_makes_room_for_another_one() {
    let server = server();
    let address = server.http_address().unwrap();
    let streams: Vec<_> = (0..4).map(|_| monitor(&server, "")).collect();
    let refused = crate::http::get_with(address, "/api/monitor", &bearer(TOKEN));
    assert_eq!(refused.status, 503, "{}", refused.body);
    drop(streams);
    let request = format!(
        "GET /api/monitor HTTP/1.1\r\nHost: {address}\r\n{}\r\n",
        bearer(TOKEN)
    );
    loop {
        let mut stream = open(address);
        stream.write_all(request.as_bytes()).unwrap();
        if read_until(&mut stream, "\r\n").starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn slow_requests_are_listed() {
    let server = start(Config {
        limits: HubLimits {
            slow_request_ms: 0,
            ..HubLimits::default()
        },
        ..Config::in_memory()
    });
    let client = client(&server, "pump").await;
    client.set("key", "value").await.unwrap();
    let list = json(&server, "/api/slowlog");
    let newest = &list["items"][0];
    assert_eq!(
        (&newest["client"], &newest["verb"]),
        (&"pump".into(), &"set".into())
    );
    assert_eq!(newest["key"]["text"], "key");
    assert_eq!(newest["value_bytes"], 5);
    assert_eq!(newest.get("value"), None);
    assert!(newest["duration_us"].is_u64());
    stop(server).await;
}

#[tokio::test]
async fn frequent_keys_are_listed() {
    let server = server();
    let client = client(&server, "pump").await;
    // Two sampled requests are at most 127 apart.
    for _ in 0..200 {
        client.get("hot").await.unwrap();
    }
    let list = json(&server, "/api/hotkeys");
    let hottest = &list["items"][0];
    assert_eq!(hottest["key"]["text"], "hot", "{list}");
    assert!(hottest["requests"].as_u64().unwrap() >= 64, "{list}");
    stop(server).await;
}
