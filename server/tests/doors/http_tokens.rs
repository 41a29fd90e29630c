//! Tokens of the HTTP port in files, which a reload reads again.
use crate::authority::write;
use crate::daemon::{Daemon, run};
use crate::tls_fixture::{open, until_closed};
use std::io::Write;
use std::net::SocketAddr;

/// The status of a request with this token.
fn status(address: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = open(address);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let answer = String::from_utf8(until_closed(&mut stream)).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a_signal_makes_the_server_read_rotated_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, token: &str| {
        let path = write(folder.path(), name, &format!("{token}\n"));
        path.to_str().unwrap().to_owned()
    };
    let operate = file("operate", "operate-0123456789");
    let read = file("read", "read-0123456789-1");
    let metrics = file("metrics", "metrics-0123456789");
    let arguments = [
        "--listen",
        "tcp://127.0.0.1:0",
        "--http",
        "http://0.0.0.0:0",
        "--http-token-file",
        &operate,
        "--http-read-token-file",
        &read,
        "--http-metrics-token-file",
        &metrics,
    ];
    let mut daemon = Daemon::start(&arguments, 2);
    let (_, port) = daemon.listening[1].rsplit_once(':').unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    assert_eq!(status(address, "/api/keys", "read-0123456789-1"), "200");

    file("read", "read-0123456789-2");
    daemon.signal("-HUP");
    let line = daemon.log_line("tokens of the HTTP port have changed");
    assert!(
        line.trim_end().ends_with(": http-read-token-file"),
        "{line}"
    );
    let line = daemon.log_line("the configuration was read again");
    assert!(!line.contains("needs_restart"), "{line}");
    assert_eq!(status(address, "/api/keys", "read-0123456789-1"), "401");
    assert_eq!(status(address, "/api/keys", "read-0123456789-2"), "200");

    file("operate", "operate-9876543210");
    file("metrics", "metrics-9876543210");
    daemon.signal("-HUP");
    let line = daemon.log_line("tokens of the HTTP port have changed");
    assert!(
        line.contains("http-metrics-token-file, http-token-file"),
        "{line}"
    );
    daemon.log_line("the configuration was read again");
    assert_eq!(status(address, "/metrics", "metrics-0123456789"), "401");
    assert_eq!(status(address, "/metrics", "metrics-9876543210"), "200");
    assert_eq!(status(address, "/api/keys", "operate-0123456789"), "401");
    assert_eq!(status(address, "/api/keys", "operate-9876543210"), "200");

    // A file that cannot be used changes nothing.
    file("read", "short");
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(
        line.contains("fewer than 16 characters") && !line.contains("short"),
        "{line}"
    );
    file("read", "operate-9876543210");
    daemon.signal("-HUP");
    let line = daemon.log_line("cannot reload");
    assert!(line.contains("have the same token"), "{line}");
    assert_eq!(status(address, "/api/keys", "read-0123456789-2"), "200");
}

#[test]
fn files_of_tokens_need_the_http_port() {
    let folder = tempfile::tempdir().unwrap();
    let token = write(folder.path(), "token", "a-token-of-the-operator\n");
    for option in [
        "--http-token-file",
        "--http-read-token-file",
        "--http-metrics-token-file",
    ] {
        let output = run(&[
            "--listen".as_ref(),
            "tcp://127.0.0.1:0".as_ref(),
            option.as_ref(),
            token.as_os_str(),
        ]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains("need --http"),
            "{text}"
        );
    }
}
