//! The file of users, as the server reads it.
use crate::peer::{Daemon, Peer, statestored};
use bytes::Bytes;
use statestore_protocol::mqtt::{Connect, ReasonCode};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a server with this file of users.
pub(crate) fn start(users: &Path) -> Daemon {
    let file = users.to_str().unwrap();
    Daemon::start(&["--storage", "memory", "--users-file", file])
}

/// Sets the password `secret`.
pub(crate) fn passwd(arguments: &[&str], file: &Path, name: &str) {
    let mut child = statestored(&["passwd", "--stdin"])
        .args(arguments)
        .arg(file)
        .arg(name)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    assert!(child.wait().unwrap().success());
}

pub(crate) fn log_in(daemon: &Daemon, user: &str, password: &str) -> Result<Peer, ReasonCode> {
    let connect = Connect {
        client_id: "client".into(),
        user_name: Some(user.into()),
        password: Some(Bytes::copy_from_slice(password.as_bytes())),
        ..Connect::default()
    };
    Peer::join(daemon.address, &connect)
}

#[test]
fn a_byte_order_mark_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "\u{feff}ann:secret\nbob:secret\n").unwrap();
    let daemon = start(&file);
    log_in(&daemon, "ann", "secret").unwrap().assert_alive();
    passwd(&[], &file, "ann");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("ann:$argon2id$") && text.lines().count() == 2,
        "{text}"
    );
    let password = folder.path().join("password");
    std::fs::write(&password, "\u{feff}secret\r\n").unwrap();
    let file = password.to_str().unwrap();
    let daemon = Daemon::start(&[
        "--storage",
        "memory",
        "--user",
        "ann",
        "--password-file",
        file,
    ]);
    log_in(&daemon, "ann", "secret").unwrap().assert_alive();
}

/// In a namespace of its own, where a test may mount.
#[test]
fn a_bind_mounted_file_is_reported() {
    let allowed = Command::new("unshare").args(["-Urm", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        println!("this machine has no namespaces for users");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [outside, mounted] = ["outside", "mounted"].map(|name| folder.path().join(name));
    for path in [&outside, &mounted] {
        std::fs::write(path, "bob:secret\n").unwrap();
    }
    let script = r#"mount --bind "$1" "$2" && echo secret | exec "$0" passwd --stdin "$2" ann"#;
    let output = Command::new("unshare")
        .args(["-Urm", "sh", "-c", script])
        .arg(statestored(&[]).get_program())
        .args([&outside, &mounted])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("mounted by itself") && text.contains("mount its folder"),
        "{text}"
    );
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "bob:secret\n");
}
