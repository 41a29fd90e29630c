//! Clients that open many connections and do no more.
use crate::world::{Files, encrypt, is_served, open};
use socket2::{Domain, Socket, Type};
use statestored::RunningServer;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A connection that comes from another address of this machine.
fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn handshakes_that_do_not_end_keep_nobody_out() {
    let files = Files::new();
    let mut config = files.config(&["tls://127.0.0.1:0", "tcp://127.0.0.1:0"]);
    config.limits.max_connections = 100;
    let server = RunningServer::start(config).unwrap();
    let tls = server.addresses()[0];
    // More than there are connections; those from another network have come first.
    let from_elsewhere: Vec<_> = (0..8).map(|_| from([127, 0, 0, 9], tls)).collect();
    let flood: Vec<_> = (0..150).map(|_| from([127, 0, 0, 8], tls)).collect();
    let client = Arc::new(files.client(None, &[]));
    assert!(is_served(&mut open(server.addresses()[1])));
    let mut streams: Vec<_> = (0..5).map(|_| encrypt(tls, &client)).collect();
    for stream in &mut streams {
        assert!(is_served(stream));
    }
    let statistics = server.control().statistics_blocking().unwrap();
    assert_eq!(statistics.connections, 5);
    // Addresses with few connections lost none.
    for mut stream in from_elsewhere {
        stream.set_nonblocking(true).unwrap();
        let read = std::io::Read::read(&mut stream, &mut [0; 1]);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    drop(flood);
}

#[test]
fn handshakes_and_connections_together_are_bounded() {
    let files = Files::new();
    let mut config = files.config(&["tls://127.0.0.1:0", "tcp://127.0.0.1:0"]);
    config.limits.max_connections = 3;
    let server = RunningServer::start(config).unwrap();
    let client = Arc::new(files.client(None, &[]));
    let mut first = encrypt(server.addresses()[0], &client);
    let mut second = open(server.addresses()[1]);
    assert!(is_served(&mut first) && is_served(&mut second));
    // Which is in a handshake when the next one comes: it was accepted before.
    let half = open(server.addresses()[0]);
    let mut third = encrypt(server.addresses()[0], &client);
    assert!(!is_served(&mut third));
    drop(half);
    // Its slot is free as soon as the server notices.
    let is_free = (0..500).any(|_| is_served(&mut encrypt(server.addresses()[0], &client)));
    assert!(is_free);
}
