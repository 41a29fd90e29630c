//! Sockets of the file system.
use crate::daemon::{Daemon, run};
use crate::tls_fixture::is_served;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

#[test]
fn only_a_stale_socket_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sock");
    let url = format!("unix://{}", path.display());
    let listen = ["--listen", url.as_str()];
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;

    let first = Daemon::start(&listen, 1);
    assert_eq!(first.listening[0], url);
    assert_eq!(mode(), 0o660);
    let output = run(&listen);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains(&url), "{text}");
    assert!(is_served(&mut UnixStream::connect(&path).unwrap()));
    first.signal("-KILL");
    first.wait();
    assert!(path.exists());

    let second = Daemon::start(&[&listen[..], &["--unix-mode", "0600"]].concat(), 1);
    assert_eq!(mode(), 0o600);
    assert!(is_served(&mut UnixStream::connect(&path).unwrap()));
    second.signal("-TERM");
    assert!(second.wait());
    assert!(!path.exists());
}
