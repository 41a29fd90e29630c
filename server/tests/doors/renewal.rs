//! Certificates that change while the server runs.
use crate::authority::Identity;
use crate::daemon::{Daemon, get};
use crate::tls_fixture::{TIMEOUT, TlsFixture, encrypt, is_served};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

fn start(files: &TlsFixture) -> (Daemon, SocketAddr) {
    let arguments = [
        "--listen".as_ref(),
        "tls://127.0.0.1:0".as_ref(),
        "--tls-cert".as_ref(),
        files.tls.certificate.as_os_str(),
        "--tls-key".as_ref(),
        files.tls.key.as_os_str(),
    ];
    let daemon = Daemon::start(&arguments, 1);
    let address = daemon.listening[0].strip_prefix("tls://").unwrap();
    let address = address.parse().unwrap();
    (daemon, address)
}

/// Whether a new connection gets this certificate.
fn serves(files: &TlsFixture, address: SocketAddr, identity: &Identity) -> bool {
    let mut stream = encrypt(address, &Arc::new(files.client(None, &[])));
    assert!(is_served(&mut stream));
    stream.conn.peer_certificates() == Some(&identity.der().0)
}

fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_valid_certificate_is_reloaded_and_an_invalid_one_is_ignored() {
    let files = TlsFixture::new();
    let (mut daemon, address) = start(&files);
    assert!(serves(&files, address, &files.server_identity));
    let config = Arc::new(files.client(None, &[]));
    let mut open = encrypt(address, &config);
    assert!(is_served(&mut open));

    std::fs::write(&files.tls.certificate, "rubbish").unwrap();
    let line = daemon.log_line("former certificates stay in force");
    assert!(
        line.contains("ERROR") && line.contains("server.crt"),
        "{line}"
    );
    assert!(serves(&files, address, &files.server_identity));

    let next = files.authority.issue("server");
    replace(&files.tls.certificate, &next.certificate);
    replace(&files.tls.key, &next.key);
    daemon.log_line("certificates were read again");
    assert!(serves(&files, address, &next));

    // The same by a signal, which says more if it goes wrong.
    replace(&files.tls.key, &files.server_identity.key);
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(
        line.contains("is not the key of the first certificate"),
        "{line}"
    );
    assert!(serves(&files, address, &next));
    replace(&files.tls.certificate, &files.server_identity.certificate);
    daemon.signal("-HUP");
    daemon.log_line("read again");
    assert!(serves(&files, address, &files.server_identity));

    // Connections from before the renewal are not affected.
    open.write_all(&[0xC0, 0]).unwrap();
    let mut pong = [0; 2];
    open.read_exact(&mut pong).unwrap();
    assert_eq!(pong, [0xD0, 0]);
    daemon.signal("-TERM");
    assert!(daemon.wait());
}

#[test]
fn an_expiring_certificate_is_reported() {
    let mut files = TlsFixture::new();
    let ended = files.authority.issue_with("server", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 1);
    });
    (files.tls.certificate, files.tls.key) = ended.write(files.folder.path(), "ended");
    let (mut daemon, _) = start(&files);
    let line = daemon.log_line("has expired");
    assert!(
        line.contains("ERROR") && line.contains("ended.crt"),
        "{line}"
    );
}

/// A certificate that expires after this time.
fn issue_for(files: &TlsFixture, time: Duration) -> Identity {
    let expiry = UNIX_EPOCH.elapsed().unwrap() + time;
    files.authority.issue_with("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(expiry.as_secs());
    })
}

#[test]
fn certificates_that_expire_while_the_server_runs_are_logged_at_once() {
    let files = TlsFixture::new();
    let broker = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("mqtts://{}", broker.local_addr().unwrap());
    let ca = files.path("ca.crt");
    let [listener, http, client] = ["listener", "http", "client"].map(|name| {
        let ending = issue_for(&files, Duration::from_secs(4));
        let (certificate, key) = ending.write(files.folder.path(), name);
        [certificate, key].map(|path| path.to_str().unwrap().to_owned())
    });
    let arguments = [
        "--listen",
        "tls://127.0.0.1:0",
        "--tls-cert",
        &listener[0],
        "--tls-key",
        &listener[1],
        "--http",
        "https://127.0.0.1:0",
        "--http-tls-cert",
        &http[0],
        "--http-tls-key",
        &http[1],
        "--attach",
        &url,
        "--attach-ca",
        ca.to_str().unwrap(),
        "--attach-cert",
        &client[0],
        "--attach-key",
        &client[1],
    ];
    let mut daemon = Daemon::start(&arguments, 3);
    let mut awaited = vec!["listener.crt", "http.crt", "client.crt"];
    while !awaited.is_empty() {
        let line = daemon.log_line("has expired");
        assert!(line.contains("ERROR"), "{line}");
        awaited.retain(|name| !line.contains(name));
    }
}

#[test]
fn the_certificate_for_a_broker_gives_a_warning_until_it_is_renewed() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let files = TlsFixture::new();
    let broker = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("mqtts://{}", broker.local_addr().unwrap());
    let ca = files.path("ca.crt");
    let ending = issue_for(&files, 13 * DAY);
    let (certificate, key) = ending.write(files.folder.path(), "client");
    let arguments = [
        "--listen",
        "tcp://127.0.0.1:0",
        "--http",
        "http://127.0.0.1:0",
        "--attach",
        &url,
        "--attach-ca",
        ca.to_str().unwrap(),
        "--attach-cert",
        certificate.to_str().unwrap(),
        "--attach-key",
        key.to_str().unwrap(),
    ];
    let daemon = Daemon::start(&arguments, 3);
    let http = daemon.listening[2].strip_prefix("http://").unwrap();
    let http: SocketAddr = http.parse().unwrap();
    let until_ready_has = |warning: Option<&str>| {
        let begin = Instant::now();
        loop {
            let ready = get(http, "/readyz");
            let is_there = match warning {
                Some(warning) => ready.contains(warning),
                None => !ready.contains("certificate_"),
            };
            if is_there {
                return;
            }
            assert!(begin.elapsed() < TIMEOUT, "{warning:?}: {ready}");
        }
    };
    until_ready_has(Some(
        "\ncertificate_expires: the certificate of this server",
    ));
    let expired = files.authority.issue_with("localhost", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 1);
    });
    replace(&certificate, &expired.certificate);
    until_ready_has(Some(
        "\ncertificate_expired: the certificate of this server",
    ));
    replace(&certificate, &issue_for(&files, 90 * DAY).certificate);
    until_ready_has(None);
}

#[test]
fn a_key_readable_by_others_is_a_warning() {
    let files = TlsFixture::new();
    let set_mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&files.tls.key, permissions).unwrap();
    };
    set_mode(0o644);
    let (mut daemon, _) = start(&files);
    let line = daemon.log_line("private key");
    assert!(
        line.contains("WARN") && line.contains("chmod o-rw"),
        "{line}"
    );
}
