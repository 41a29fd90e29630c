//! Clients that say nothing, too little, too slowly, or something else.
use crate::tls_fixture::{TlsFixture, connect_packet, encrypt, is_served, open, until_closed};
use statestored::RunningServer;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(300);

/// All kinds of doors, in this order, and little time for each client.
const LISTENERS: [&str; 4] = [
    "tcp://127.0.0.1:0",
    "tls://127.0.0.1:0",
    "ws://127.0.0.1:0",
    "wss://127.0.0.1:0",
];

fn impatient(files: &TlsFixture) -> RunningServer {
    let mut config = files.config(&LISTENERS);
    config.limits.connect_timeout_ms = u64::try_from(DEADLINE.as_millis()).unwrap();
    RunningServer::start(config).unwrap()
}

/// Returns the first bytes of a TLS client.
fn client_hello(files: &TlsFixture) -> Vec<u8> {
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let config = Arc::new(files.client(None, &[]));
    let mut connection = rustls::ClientConnection::new(config, name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

/// Sends one byte after the other until the server closes; how long that took.
fn dribble(mut stream: TcpStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    for byte in bytes.iter().cycle() {
        let _ = stream.write_all(&[*byte]);
        match stream.read(&mut [0; 64]) {
            Ok(1..) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return begun.elapsed(),
        }
        assert!(begun.elapsed() < crate::tls_fixture::TIMEOUT);
    }
    unreachable!("there are bytes");
}

#[test]
fn slow_handshakes_time_out() {
    let files = TlsFixture::new();
    let server = impatient(&files);
    let hello = client_hello(&files);
    let request =
        b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n";
    for (door, bytes) in [(1, &hello[..40]), (2, &request[..]), (3, &hello[..40])] {
        // As slowly as this lasts longer than the time that there is.
        let lasted = dribble(open(server.addresses()[door]), &bytes[..40]);
        assert!(lasted >= DEADLINE, "{}: {lasted:?}", LISTENERS[door]);
    }
    for (door, address) in server.addresses().iter().enumerate() {
        let begun = Instant::now();
        assert!(until_closed(&mut open(*address)).is_empty());
        assert!(begun.elapsed() >= DEADLINE, "{}", LISTENERS[door]);
    }
}

#[test]
fn an_incomplete_connect_after_a_handshake_times_out() {
    let files = TlsFixture::new();
    let server = impatient(&files);
    let config = Arc::new(files.client(None, &[]));
    let mut stream = encrypt(server.addresses()[1], &config);
    let connect = connect_packet();
    stream.write_all(&connect[..connect.len() / 2]).unwrap();
    stream.flush().unwrap();
    let begun = Instant::now();
    until_closed(&mut stream);
    assert!(begun.elapsed() >= DEADLINE / 2);
}

#[test]
fn garbage_closes_only_its_own_connection() {
    let files = TlsFixture::new();
    let server = files.start(&LISTENERS);
    let mqtt = connect_packet().to_vec();
    let hello = client_hello(&files);
    let zeros = vec![0; 70_000];
    let ones = vec![0xFF; 70_000];
    let http = b"GET / HTTP/1.0\r\n\r\n".to_vec();
    let speaks = |door: usize, bytes: &Vec<u8>| {
        (door == 0 && *bytes == mqtt) || (matches!(door, 1 | 3) && *bytes == hello)
    };
    for (door, address) in server.addresses().iter().enumerate() {
        for bytes in [&mqtt, &hello, &zeros, &ones, &http] {
            if speaks(door, bytes) {
                continue;
            }
            let mut stream = open(*address);
            // The server may have seen enough before the end.
            let _ = stream.write_all(bytes);
            until_closed(&mut stream);
        }
    }
    assert_everything_is_served(&files, server.addresses());
}

fn assert_everything_is_served(files: &TlsFixture, addresses: &[SocketAddr]) {
    assert!(is_served(&mut open(addresses[0])));
    let config = Arc::new(files.client(None, &[]));
    assert!(is_served(&mut encrypt(addresses[1], &config)));
}
