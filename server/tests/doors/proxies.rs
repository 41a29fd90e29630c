//! Addresses that proxies pass on with the PROXY protocol.
use crate::daemon::{Daemon, run};
use crate::tls_fixture::{TIMEOUT, TlsFixture, connect_packet, is_served, open, until_closed};
use bytes::BytesMut;
use socket2::{Domain, Socket, Type};
use statestore::{Client, Settings};
use statestore_protocol::mqtt::Connect;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread::spawn;
use tempfile::TempDir;

/// Version 1, as it is in the specification.
const TEXT: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 1883\r\n";
/// The same in version 2.
const BINARY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\xc8\x22\x07\x5b";

/// Replaces the last byte of the client's address.
fn with_last_byte(header: &[u8], last: u8) -> Vec<u8> {
    if header == TEXT {
        let text = std::str::from_utf8(header).unwrap();
        return text
            .replace("192.0.2.7", &format!("192.0.2.{last}"))
            .into_bytes();
    }
    let mut header = header.to_vec();
    header[19] = last;
    header
}

/// A server with one user and all listeners of networks, which trusts a network of proxies.
struct ProxyFixture {
    files: TlsFixture,
    daemon: Daemon,
}

impl ProxyFixture {
    fn trusting(proxies: &[&str]) -> Self {
        let files = TlsFixture::new();
        let users = files.path("users");
        std::fs::write(&users, "ann:secret\n").unwrap();
        let mut arguments: Vec<String> = ["tcp", "tls", "ws", "wss"]
            .map(|scheme| format!("--listen={scheme}://127.0.0.1:0"))
            .into();
        for (name, path) in [
            ("tls-cert", &files.tls.certificate),
            ("tls-key", &files.tls.key),
            ("users-file", &users),
        ] {
            arguments.push(format!("--{name}={}", path.display()));
        }
        arguments.extend(proxies.iter().map(|it| format!("--trusted-proxy={it}")));
        let daemon = Daemon::start(&arguments, 4);
        Self { files, daemon }
    }

    fn address(&self, listener: usize) -> SocketAddr {
        let (_, address) = self.daemon.listening[listener].split_once("://").unwrap();
        address.parse().unwrap()
    }

    /// Settings of a client that comes to a listener at this address.
    fn settings(&self, listener: usize, address: SocketAddr) -> Settings {
        let scheme = ["mqtt", "mqtts", "ws", "wss"][listener];
        self.files
            .settings(&format!("{scheme}://{address}"))
            .user_name("ann")
    }

    /// The line of the log about a wrong password.
    async fn refused(&mut self, settings: Settings) -> String {
        let refused = Client::connect(settings.password("wrong")).await;
        assert!(refused.is_err());
        self.daemon.log_line("a login was refused")
    }
}

/// Begins one connection to the server with a header, and passes on what comes.
fn proxy(header: Vec<u8>, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let mut server = open(server);
        server.write_all(&header).unwrap();
        let [from, to] = [&client, &server].map(|stream| stream.try_clone().unwrap());
        spawn(move || copy(from, to));
        copy(server, client);
    });
    address
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // Either side may end it.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

#[tokio::test]
async fn the_proxy_header_address_applies_on_every_listener() {
    let mut world = ProxyFixture::trusting(&["10.0.0.0/8", "127.0.0.0/24"]);
    for (version, header) in [TEXT, BINARY].into_iter().enumerate() {
        for listener in 0..4 {
            let last = u8::try_from(10 + version * 4 + listener).unwrap();
            let server = world.address(listener);
            let wrong = world.settings(listener, proxy(with_last_byte(header, last), server));
            let line = world.refused(wrong).await;
            assert!(line.contains(&format!("192.0.2.{last}")), "{line}");
            let right = world.settings(listener, proxy(with_last_byte(header, last), server));
            let client = Client::connect(right.password("secret")).await.unwrap();
            client.set("key", "value").await.unwrap();
            client.close().await;
        }
    }
    // A proxy that speaks for itself is the client.
    for header in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let settings = world.settings(0, proxy(header.to_vec(), world.address(0)));
        let right = Client::connect(settings.password("secret")).await.unwrap();
        right.close().await;
    }
}

#[test]
fn a_header_that_is_malformed_or_missing_is_refused_and_logged() {
    for (bytes, reason) in [
        (
            &b"PROXY TCP9 1.2.3.4 1.2.3.4 1 1\r\n"[..],
            "TCP4, TCP6 or UNKNOWN",
        ),
        (b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0", "its version is not 2"),
        (&connect_packet(), "no PROXY protocol header"),
    ] {
        let mut world = ProxyFixture::trusting(&["127.0.0.1"]);
        let mut stream = open(world.address(0));
        stream.write_all(bytes).unwrap();
        assert_eq!(until_closed(&mut stream), b"");
        let line = world
            .daemon
            .log_line("a connection ended before it had a client");
        assert!(
            line.contains(reason) && line.contains("127.0.0.1"),
            "{line}"
        );
    }
}

#[test]
fn a_header_from_an_address_that_is_not_trusted_is_refused_and_logged() {
    for proxies in [&[][..], &["192.0.2.0/24"]] {
        for (listener, header) in [(0, TEXT), (0, BINARY), (1, TEXT), (1, BINARY), (2, TEXT)] {
            let mut world = ProxyFixture::trusting(proxies);
            let mut stream = open(world.address(listener));
            stream.write_all(header).unwrap();
            until_closed(&mut stream);
            let line = world.daemon.log_line("a PROXY protocol header from");
            assert!(
                line.contains("WARN") && line.contains("--trusted-proxy"),
                "{line}"
            );
            assert!(!line.contains("192.0.2.7"), "{line}");
        }
        let world = ProxyFixture::trusting(proxies);
        assert!(world.daemon.listening.len() == 4);
    }
}

#[test]
fn invalid_proxy_networks_are_refused() {
    for text in ["proxy.example", "10.0.0.0/33", ""] {
        let output = run(&[&format!("--trusted-proxy={text}"), "--check"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("--trusted-proxy"),
            "{said}"
        );
    }
}

/// `HAProxy` with the configuration that is shipped; ends when it is dropped.
struct Haproxy {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Haproxy {
    fn start(server: SocketAddr, http: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/haproxy.cfg");
        let text = std::fs::read_to_string(shipped).unwrap();
        let way = format!("127.0.0.1:{} port {}", server.port(), http.port());
        let text = text
            // The listener above.
            .replace("bind :1883", "bind fd@0")
            .replace("maxconn 30000", "maxconn 100")
            .replace("node0:1883", &way);
        let lines = text.lines().filter(|line| !line.contains(":1883"));
        let lines: Vec<_> = lines.collect();
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        let process = Command::new("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            process,
            address,
            _folder: folder,
        }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection from another address of this machine.
fn from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

#[test]
fn behind_haproxy_each_client_has_its_own_address() {
    let arguments = [
        "--listen=tcp://127.0.0.1:0",
        "--http=http://127.0.0.1:0",
        "--trusted-proxy=127.0.0.1",
        "--log=debug",
    ];
    let daemon = Daemon::start(&arguments, 2);
    let address = |line: &str| line.rsplit_once("//").unwrap().1.parse().unwrap();
    let [server, http] = [0, 1].map(|line| address(&daemon.listening[line]));
    let haproxy = Haproxy::start(server, http);
    // The proxy closes connections until it has found the server ready.
    let mut first = loop {
        let mut stream = from([127, 0, 0, 5], haproxy.address);
        if is_served(&mut stream) {
            break stream;
        }
    };
    first.write_all(&[0xC0, 0]).unwrap();
    let mut pong = [0; 2];
    first.read_exact(&mut pong).unwrap();
    assert_eq!(pong, [0xD0, 0]);
    let mut refused = from([127, 0, 0, 6], haproxy.address);
    let mut out = BytesMut::new();
    let connect = Connect {
        client_id: "x".repeat(2000),
        ..Connect::default()
    };
    connect.encode(u32::MAX, &mut out).unwrap();
    refused.write_all(&out).unwrap();
    until_closed(&mut refused);
    let refusals = crate::daemon::get(http, "/api/refusals");
    assert!(refusals.contains("127.0.0.6"), "{refusals}");
    let connections = crate::daemon::get(http, "/api/connections");
    assert!(connections.contains("127.0.0.5"), "{connections}");
    drop(first);
    daemon.signal("-TERM");
    assert!(
        daemon
            .rest_of_log()
            .iter()
            .any(|line| line.contains("127.0.0.6"))
    );
}
