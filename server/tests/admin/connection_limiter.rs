//! Clients that take all connections of the HTTP port.
use crate::http::{TIMEOUT, TOKEN, bearer, get, open, raw, server};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// How many connections there may be.
const MAX_CONNECTIONS: usize = 64;

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST_HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A connection from another address of this machine.
fn open_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = SocketAddr::from((from, 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Asks whether the server is alive, and reads the whole answer.
fn request_health(stream: &mut TcpStream) {
    stream.write_all(HEALTH).unwrap();
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while !answer.ends_with(b"\r\n\r\nalive\n") {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "{:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&chunk[..count]);
    }
}

/// Whether the server has closed this connection to free its slot.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 1]);
    stream.set_nonblocking(false).unwrap();
    match read {
        Ok(0) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn silent_connections_do_not_block_probes() {
    let server = server();
    let address = server.http_address().unwrap();
    let silent: Vec<_> = (0..MAX_CONNECTIONS).map(|_| open(address)).collect();
    assert_eq!(get(&server, "/healthz").status, 200);
    drop(silent);
    let mut begun: Vec<_> = (0..MAX_CONNECTIONS).map(|_| open(address)).collect();
    for stream in &mut begun {
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            .unwrap();
    }
    assert_eq!(get(&server, "/readyz").status, 200);
}

#[test]
fn the_longest_idle_connection_is_evicted_at_the_limit() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut held: Vec<_> = (0..MAX_CONNECTIONS).map(|_| open(address)).collect();
    // All of them are accepted before it: each answers. The first one then moves last.
    for at in (0..MAX_CONNECTIONS).chain([0]) {
        request_health(&mut held[at]);
    }
    assert!(!raw(address, LAST_HEALTH).is_empty());
    let closed: Vec<_> = (0..MAX_CONNECTIONS)
        .filter(|&at| is_closed(&mut held[at]))
        .collect();
    assert_eq!(closed, [1]);
    // There is a place again, since that answer was the last one of its connection.
    request_health(&mut held[0]);
    let metrics = get(&server, "/metrics").body;
    let refused = "statestored_http_connections_refused_total 1\n";
    assert!(metrics.contains(refused), "{metrics}");
}

#[test]
fn one_network_cannot_exhaust_the_connection_limit() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut prometheus = open(address);
    request_health(&mut prometheus);
    let mut many = Vec::new();
    for _ in 0..3 * MAX_CONNECTIONS {
        let mut stream = open_from([127, 0, 0, 2], address);
        request_health(&mut stream);
        many.push(stream);
    }
    request_health(&mut prometheus);
}

#[test]
fn a_response_to_a_request_with_the_token_is_never_evicted() {
    let server = server();
    let address = server.http_address().unwrap();
    let body = r#"{"client": "nobody"}"#;
    let head = format!(
        "POST /api/disconnect HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n",
        body.len(),
        bearer(TOKEN)
    );
    let mut trusted = open(address);
    trusted.write_all(head.as_bytes()).unwrap();
    // From now on what is missing is awaited, by a request that is known to have the token.
    let mut go_on = [0; 25];
    trusted.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    let mut many = Vec::new();
    for _ in 0..2 * MAX_CONNECTIONS {
        let mut stream = open(address);
        request_health(&mut stream);
        many.push(stream);
    }
    trusted.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    trusted.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer:?}");
}
