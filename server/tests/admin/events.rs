//! The figures of every second.
use crate::http::{TOKEN, bearer, client, open, parse_response, raw, server, stop};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

fn subscribe(address: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = open(address);
    let request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).unwrap();
    BufReader::new(stream)
}

fn next_event(viewer: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(
            viewer.read_line(&mut line).unwrap() > 0,
            "the events have ended"
        );
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[tokio::test]
async fn subscribers_receive_status_events() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut viewers = [subscribe(address), subscribe(address)];
    let before: Vec<Value> = viewers.iter_mut().map(next_event).collect();
    assert_eq!(before[0]["counts"]["keys"], 0);
    assert_eq!(before[0]["clock"]["timestamps_behind"], 0);
    assert!(before[0]["engine"].is_null());
    let client = client(&server, "writer").await;
    client.set("key", "v").await.unwrap();
    for viewer in &mut viewers {
        let mut last = Value::Null;
        while last["counts"]["keys"] != 1 {
            last = next_event(viewer);
        }
        assert_eq!(last["requests"]["set"]["ok"], 1);
        assert!(last["now_ms"].as_u64() > before[0]["now_ms"].as_u64());
    }
    stop(server).await;
}

#[test]
fn a_subscriber_with_the_token_replaces_one_without() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut viewers: Vec<_> = (0..16).map(|_| subscribe(address)).collect();
    for viewer in &mut viewers {
        next_event(viewer);
    }
    let mut stream = open(address);
    let request = format!(
        "GET /events HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        bearer(TOKEN)
    );
    stream.write_all(request.as_bytes()).unwrap();
    next_event(&mut BufReader::new(stream));
    // All of the others but the first go on.
    viewers.remove(0);
    for viewer in &mut viewers {
        next_event(viewer);
    }
    server.stop().unwrap();
}

#[test]
fn the_number_of_subscribers_is_limited() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut viewers: Vec<_> = (0..16).map(|_| subscribe(address)).collect();
    for viewer in &mut viewers {
        next_event(viewer);
    }
    let request = b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(parse_response(&raw(address, request)).status, 503);
    let head = b"HEAD /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(parse_response(&raw(address, head)).status, 404);
    server.stop().unwrap();
}
