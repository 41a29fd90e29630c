//! Clients that take all connections of the HTTP port.
use crate::http::{PATIENCE, TOKEN, bearer, get, open, raw, server};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// How many connections there may be.
const PLACES: usize = 64;

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST_HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A connection from another address of this machine.
fn open_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = SocketAddr::from((from, 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks whether the server is alive, and reads the whole answer.
fn ask(stream: &mut TcpStream) {
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
fn connections_that_say_nothing_keep_no_probe_out() {
    let server = server();
    let address = server.http_address().unwrap();
    let silent: Vec<_> = (0..PLACES).map(|_| open(address)).collect();
    assert_eq!(get(&server, "/healthz").status, 200);
    drop(silent);
    let mut begun: Vec<_> = (0..PLACES).map(|_| open(address)).collect();
    for stream in &mut begun {
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            .unwrap();
    }
    assert_eq!(get(&server, "/readyz").status, 200);
}

#[test]
fn connections_are_few_and_the_one_that_was_idle_for_longest_gives_way() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut held: Vec<_> = (0..PLACES).map(|_| open(address)).collect();
    // All of them are accepted before it: each answers. The first one then moves last.
    for at in (0..PLACES).chain([0]) {
        ask(&mut held[at]);
    }
    assert!(!raw(address, LAST_HEALTH).is_empty());
    let closed: Vec<_> = (0..PLACES).filter(|&at| is_closed(&mut held[at])).collect();
    assert_eq!(closed, [1]);
    // There is a place again, since that answer was the last one of its connection.
    ask(&mut held[0]);
    let metrics = get(&server, "/metrics").body;
    let refused = "statestored_http_connections_refused_total 1\n";
    assert!(metrics.contains(refused), "{metrics}");
}

#[test]
fn who_opens_many_connections_takes_no_place_from_others() {
    let server = server();
    let address = server.http_address().unwrap();
    let mut prometheus = open(address);
    ask(&mut prometheus);
    let mut many = Vec::new();
    for _ in 0..3 * PLACES {
        let mut stream = open_from([127, 0, 0, 2], address);
        ask(&mut stream);
        many.push(stream);
    }
    ask(&mut prometheus);
}

#[test]
fn who_has_the_token_and_is_answered_gives_way_to_nobody() {
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
    for _ in 0..2 * PLACES {
        let mut stream = open(address);
        ask(&mut stream);
        many.push(stream);
    }
    trusted.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    trusted.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer:?}");
}
