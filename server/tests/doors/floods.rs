//! Clients that open many connections and do no more.
use crate::daemon::Daemon;
use crate::tls_fixture::{TlsFixture, encrypt, is_served, open};
use socket2::{Domain, Socket, Type};
use statestored::RunningServer;
use std::io::Write;
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
fn incomplete_handshakes_do_not_block_other_clients() {
    let files = TlsFixture::new();
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
    let statistics = server.handle().metrics_blocking().unwrap();
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
    let files = TlsFixture::new();
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

/// All of a large `ClientHello` but its last byte.
fn incomplete_hello() -> Vec<u8> {
    const MESSAGE_BYTES: u16 = 60_000;
    const RECORD_BYTES: usize = 16_000;
    let [high, low] = MESSAGE_BYTES.to_be_bytes();
    let mut message = vec![1, 0, high, low];
    message.resize(message.len() + usize::from(MESSAGE_BYTES), 0);
    let mut hello = Vec::new();
    for part in message.chunks(RECORD_BYTES) {
        let [high, low] = u16::try_from(part.len()).unwrap().to_be_bytes();
        hello.extend_from_slice(&[22, 3, 1, high, low]);
        hello.extend_from_slice(part);
    }
    hello.pop();
    hello
}

#[test]
fn handshakes_with_large_messages_take_bounded_memory() {
    const FLOOD: usize = 400;
    const MIB: u64 = 1 << 20;
    let files = TlsFixture::new();
    let arguments = [
        "--listen".as_ref(),
        "tls://127.0.0.1:0".as_ref(),
        "--tls-cert".as_ref(),
        files.tls.certificate.as_os_str(),
        "--tls-key".as_ref(),
        files.tls.key.as_os_str(),
        // A quarter of it is less than the least number of handshakes, which is 64.
        "--max-session-bytes".as_ref(),
        "1048576".as_ref(),
        "--log".as_ref(),
        "error".as_ref(),
    ];
    let daemon = Daemon::start(&arguments, 1);
    let address = daemon.listening[0].strip_prefix("tls://").unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let client = Arc::new(files.client(None, &[]));
    assert!(is_served(&mut encrypt(address, &client)));
    let before = daemon.most_resident_bytes();
    let hello = incomplete_hello();
    let flood: Vec<_> = (0..FLOOD)
        .map(|_| {
            let mut stream = open(address);
            // The server may have closed the connection.
            let _ = stream.write_all(&hello);
            stream
        })
        .collect();
    // Its handshake begins after all others.
    assert!(is_served(&mut encrypt(address, &client)));
    let after = daemon.most_resident_bytes();
    println!("{} MiB, then {} MiB at most", before / MIB, after / MIB);
    assert!(after <= before + 12 * MIB, "{before} bytes, then {after}");
    drop(flood);
}
