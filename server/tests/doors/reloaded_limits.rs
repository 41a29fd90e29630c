//! Limits of handshakes and of the audit trail that a reload changes.
use crate::daemon::Daemon;
use crate::tls_fixture::{TlsFixture, open, until_closed};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// A server with a configuration file, which has these lines besides those about its listener.
fn start(files: &TlsFixture, path: &Path, lines: &str) -> (Daemon, SocketAddr) {
    configure(files, path, lines);
    let daemon = Daemon::start(&["--config".as_ref(), path.as_os_str()], 1);
    let address = daemon.listening[0].strip_prefix("tls://").unwrap();
    let address = address.parse().unwrap();
    (daemon, address)
}

fn configure(files: &TlsFixture, path: &Path, lines: &str) {
    let config = format!(
        "listen = \"tls://127.0.0.1:0\"\ntls-cert = \"{}\"\ntls-key = \"{}\"\n{lines}",
        files.tls.certificate.display(),
        files.tls.key.display(),
    );
    std::fs::write(path, config).unwrap();
}

fn reload(daemon: &mut Daemon) {
    daemon.signal("-HUP");
    let line = daemon.log_line("the configuration was read again");
    assert!(!line.contains("needs_restart"), "{line}");
}

/// Ends a connection by what is no handshake.
fn fail(address: SocketAddr) {
    let mut stream = open(address);
    // The server may have closed it.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    until_closed(&mut stream);
}

#[test]
fn the_rate_of_the_audit_trail_about_handshakes_is_reloaded() {
    const FAILURES: usize = 50;
    let files = TlsFixture::new();
    let path = files.path("statestored.toml");
    let (mut daemon, address) = start(&files, &path, "audit-rate = 1\n");
    configure(&files, &path, "audit-rate = 0\n");
    reload(&mut daemon);
    // The line of the last one may be left out, since the server ends.
    for _ in 0..=FAILURES {
        fail(address);
    }
    daemon.signal("-TERM");
    let log = daemon.rest_of_log();
    let lines = log
        .iter()
        .filter(|line| line.contains("before it had a client"));
    assert!(lines.count() >= FAILURES, "{log:?}");
}

#[test]
fn the_number_of_handshakes_is_reloaded() {
    const FLOOD: usize = 150;
    const FEWEST: usize = 64;
    let files = TlsFixture::new();
    let path = files.path("statestored.toml");
    // A quarter of it is room for 204 handshakes.
    let (mut daemon, address) = start(
        &files,
        &path,
        "audit-rate = 0\nmax-session-bytes = 67108864\n",
    );
    let mut flood: Vec<_> = (0..FLOOD).map(|_| open(address)).collect();
    configure(
        &files,
        &path,
        "audit-rate = 0\nmax-session-bytes = 1048576\n",
    );
    reload(&mut daemon);
    // The newest connection gets a slot once enough of the others were closed, the oldest first.
    let newest = open(address);
    for stream in &mut flood[..=FLOOD - FEWEST] {
        until_closed(stream);
    }
    drop(newest);
    daemon.signal("-TERM");
    // The connections did not end by their deadline.
    let log = daemon.rest_of_log();
    assert!(
        log.iter().any(|line| line.contains("handshake_evicted")),
        "{log:?}"
    );
}
