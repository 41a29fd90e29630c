//! TLS on the HTTP port.
use crate::authority::{Authority, Identity, write};
use crate::daemon::{Daemon, run};
use crate::tls_fixture::{TlsFixture, TlsStream, encrypt, open, until_closed};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Number of connections that the HTTP port serves at a time.
const MAX_CONNECTIONS: usize = 64;

fn start(files: &TlsFixture, more: &[&str]) -> (Daemon, SocketAddr) {
    let mut arguments = vec![
        "--listen",
        "tcp://127.0.0.1:0",
        "--http",
        "https://127.0.0.1:0",
        "--http-tls-cert",
        files.tls.certificate.to_str().unwrap(),
        "--http-tls-key",
        files.tls.key.to_str().unwrap(),
    ];
    arguments.extend(more);
    let daemon = Daemon::start(&arguments, 2);
    let address = https_address(&daemon);
    (daemon, address)
}

fn https_address(daemon: &Daemon) -> SocketAddr {
    let address = daemon.listening[1].strip_prefix("https://").unwrap();
    address.parse().unwrap()
}

/// The response to a request with these further lines; empty if the server refuses the connection.
fn ask(stream: &mut TlsStream, lines: &str) -> String {
    get(stream, "/healthz", lines)
}

fn get(stream: &mut TlsStream, path: &str, lines: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n");
    // A refused client may learn of it when it writes, or when it reads.
    let _ = stream.write_all(request.as_bytes());
    String::from_utf8(until_closed(stream)).unwrap()
}

fn is_served(files: &TlsFixture, address: SocketAddr, identity: Option<&Identity>) -> bool {
    let config = Arc::new(files.client(identity, &[]));
    let answer = ask(&mut encrypt(address, &config), "");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 200 "),
        "{answer}"
    );
    !answer.is_empty()
}

/// Whether a new connection gets this certificate.
fn serves(files: &TlsFixture, address: SocketAddr, identity: &Identity) -> bool {
    let mut stream = encrypt(address, &Arc::new(files.client(None, &[])));
    assert!(ask(&mut stream, "").starts_with("HTTP/1.1 200 "));
    stream.conn.peer_certificates() == Some(&identity.der().0)
}

fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn requests_are_served_over_tls() {
    let files = TlsFixture::new();
    let (_daemon, address) = start(&files, &[]);
    let config = Arc::new(files.client(None, &["h2", "http/1.1"]));
    let mut stream = encrypt(address, &config);
    let answer = ask(&mut stream, "Origin: https://localhost\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nalive\n"), "{answer}");
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut stream = encrypt(address, &config);
    let answer = ask(&mut stream, "Origin: https://evil.example\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[test]
fn a_request_without_tls_is_refused_with_the_reason() {
    let files = TlsFixture::new();
    let (mut daemon, address) = start(&files, &[]);
    let mut stream = open(address);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let answer = String::from_utf8(until_closed(&mut stream)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(
        answer.ends_with("\r\n\r\nthis port has TLS: use https://\n"),
        "{answer}"
    );
    let line = daemon.log_line("a TLS handshake of the HTTP port failed");
    assert!(line.contains("does not use TLS"), "{line}");
}

#[test]
fn with_authorities_of_clients_a_certificate_is_required() {
    let files = TlsFixture::new();
    let ca = files.path("ca.crt");
    let (mut daemon, address) = start(&files, &["--http-tls-client-ca", ca.to_str().unwrap()]);
    let client = files.authority.issue("client");
    assert!(is_served(&files, address, Some(&client)));
    assert!(!is_served(&files, address, None));
    daemon.log_line("a TLS handshake of the HTTP port failed");
    let stranger = Authority::new("stranger").issue("client");
    assert!(!is_served(&files, address, Some(&stranger)));
    let line = daemon.log_line("a TLS handshake of the HTTP port failed");
    assert!(
        line.contains("not signed by an authority of --http-tls-client-ca"),
        "{line}"
    );
}

#[test]
fn handshakes_that_do_not_end_block_no_other_client() {
    let files = TlsFixture::new();
    let (_daemon, address) = start(&files, &[]);
    let silent: Vec<_> = (0..MAX_CONNECTIONS).map(|_| open(address)).collect();
    assert!(is_served(&files, address, None));
    drop(silent);
    let mut begun: Vec<_> = (0..MAX_CONNECTIONS).map(|_| open(address)).collect();
    for stream in &mut begun {
        // The head of a record, and a part of its content.
        stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    }
    assert!(is_served(&files, address, None));
}

#[test]
fn renewed_certificates_are_served_without_a_signal() {
    let files = TlsFixture::new();
    let (mut daemon, address) = start(&files, &[]);
    assert!(serves(&files, address, &files.server_identity));
    std::fs::write(&files.tls.certificate, "rubbish").unwrap();
    daemon.log_line("former certificates stay in force");
    assert!(serves(&files, address, &files.server_identity));
    let next = files.authority.issue("server");
    replace(&files.tls.certificate, &next.certificate);
    replace(&files.tls.key, &next.key);
    daemon.log_line("certificates were read again");
    assert!(serves(&files, address, &next));
}

#[test]
fn a_reload_replaces_certificates_and_authorities() {
    let files = TlsFixture::new();
    let folder = files.folder.path();
    let next = files.authority.issue("server");
    next.write(folder, "next");
    let client = files.authority.issue("client");
    let options = |name: &str, more: &str| {
        format!(
            "listen = 'tcp://127.0.0.1:0'\nhttp = 'https://127.0.0.1:0'\nhttp-tls-cert = '{folder}/{name}.crt'\n\
             http-tls-key = '{folder}/{name}.key'\n{more}",
            folder = folder.display()
        )
    };
    let config = write(folder, "config.toml", &options("server", ""));
    let mut daemon = Daemon::start(&["--config", config.to_str().unwrap()], 2);
    let address = https_address(&daemon);
    assert!(serves(&files, address, &files.server_identity));

    let ca = format!(
        "http-tls-client-ca = '{}'\n",
        files.path("ca.crt").display()
    );
    write(folder, "config.toml", &options("next", &ca));
    daemon.signal("-HUP");
    let line = daemon.log_line("the configuration was read again");
    assert!(!line.contains("needs_restart"), "{line}");
    assert!(!is_served(&files, address, None));
    assert!(is_served(&files, address, Some(&client)));

    write(folder, "config.toml", &options("next", ""));
    daemon.signal("-HUP");
    daemon.log_line("the configuration was read again");
    assert!(serves(&files, address, &next));

    write(folder, "config.toml", &options("absent", ""));
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(line.contains("absent.crt"), "{line}");
    assert!(serves(&files, address, &next));
}

#[test]
fn an_expired_certificate_is_reported() {
    let mut files = TlsFixture::new();
    let ended = files.authority.issue_with("server", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 1);
    });
    (files.tls.certificate, files.tls.key) = ended.write(files.folder.path(), "ended");
    let (mut daemon, _) = start(&files, &[]);
    let line = daemon.log_line("has expired");
    assert!(line.contains("ended.crt"), "{line}");
}

#[test]
fn the_expiry_of_the_certificate_is_a_metric_and_a_warning() {
    let mut files = TlsFixture::new();
    let expiry = UNIX_EPOCH.elapsed().unwrap().as_secs() + 13 * 24 * 3600;
    let ending = files.authority.issue_with("server", |params| {
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(expiry);
    });
    (files.tls.certificate, files.tls.key) = ending.write(files.folder.path(), "ending");
    let (_daemon, address) = start(&files, &[]);
    let config = Arc::new(files.client(None, &[]));
    let ready = get(&mut encrypt(address, &config), "/readyz", "");
    assert!(
        ready.contains("\r\n\r\nready\ncertificate_expires: "),
        "{ready}"
    );
    let metrics = get(&mut encrypt(address, &config), "/metrics", "");
    let name = "statestored_certificate_expiry_timestamp_seconds";
    let sample = format!("{name}{{listener=\"https://{address}\"}} {expiry}\n");
    assert!(metrics.contains(&sample), "{metrics}");
}

#[test]
fn the_scheme_and_the_certificate_need_each_other() {
    let files = TlsFixture::new();
    let certificate = files.tls.certificate.to_str().unwrap();
    let key = files.tls.key.to_str().unwrap();
    let tls = ["--http-tls-cert", certificate, "--http-tls-key", key];
    for (arguments, expected) in [
        (
            vec!["--http", "https://127.0.0.1:0"],
            "needs a certificate: name files with --http-tls-cert",
        ),
        (
            [&["--http", "http://127.0.0.1:0"], &tls[..]].concat(),
            "use --http https://127.0.0.1:0",
        ),
        (tls.to_vec(), "need --http"),
    ] {
        let output = run(&[&["--listen", "tcp://127.0.0.1:0"], &arguments[..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn the_health_check_of_containers_uses_tls() {
    let files = TlsFixture::new();
    let ca = files.path("ca.crt");
    let ca = ca.to_str().unwrap();
    let (certificate, key) = files
        .authority
        .issue("probe")
        .write(files.folder.path(), "probe");
    let (_daemon, address) = start(&files, &["--http-tls-client-ca", ca]);
    let url = format!("https://{address}");
    let health = |more: &[&str]| {
        let binary = crate::daemon::statestored();
        let mut command = std::process::Command::new(binary.get_program());
        command.args(["health", &url]).args(more).output().unwrap()
    };
    let own = [
        "--ca-file",
        ca,
        "--cert-file",
        certificate.to_str().unwrap(),
        "--key-file",
        key.to_str().unwrap(),
    ];
    let answered = health(&own);
    assert!(answered.status.success(), "{answered:?}");
    assert!(!health(&own[..2]).status.success());
    let output = health(&[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("--ca-file"), "{text}");
}
