//! The salts that SCRAM shows do not reveal which users exist.
use crate::peer::{Daemon, MAX, Peer};
use crate::users_file::{passwd, start};
use statestore_protocol::mqtt::{Connect, Packet};

/// Returns the data that SCRAM shows for a user after the nonce: salt and iterations.
fn shown(daemon: &Daemon, user: &str) -> String {
    let first = format!("n,,n={user},r=nonce");
    let connect = Connect {
        authentication: Some(("SCRAM-SHA-256".into(), first.into())),
        ..Connect::default()
    };
    let mut peer = Peer::open(daemon.address);
    peer.send(|out| connect.encode(MAX, out));
    match peer.receive() {
        Some(Packet::Auth(auth)) => {
            let data = String::from_utf8(auth.data.unwrap().to_vec()).unwrap();
            data.split_once(",s=").unwrap().1.to_owned()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn scram_shows_the_same_for_an_unknown_user_after_a_restart_and_on_another_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    for user in ["ann", "bob", "carl"] {
        passwd(&["--scram"], &file, user);
    }
    let users = ["ann", "bob", "nobody", "somebody"];
    let server = start(&file);
    let first = users.map(|user| shown(&server, user));
    drop(server);
    let [restarted, other] = [start(&file), start(&file)];
    assert_eq!(users.map(|user| shown(&restarted, user)), first);
    // Further users change nothing.
    passwd(&["--scram"], &file, "dora");
    assert_eq!(users.map(|user| shown(&other, user)), first);
    assert_eq!(users.map(|user| shown(&start(&file), user)), first);
    assert_ne!(first[2], first[3]);
    // Nor does the salt of one file say anything of another one's.
    let another = folder.path().join("another");
    passwd(&["--scram"], &another, "ann");
    assert_ne!(shown(&start(&another), "nobody"), first[2]);
}

#[test]
fn scram_shows_the_same_for_an_unknown_user_when_passwords_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    for user in ["ann", "bob"] {
        passwd(&["--scram"], &file, user);
    }
    let users = ["nobody", "somebody"];
    let first = users.map(|user| shown(&start(&file), user));
    for user in ["ann", "bob"] {
        let before = shown(&start(&file), user);
        passwd(&["--scram"], &file, user);
        let server = start(&file);
        assert_ne!(shown(&server, user), before);
        assert_eq!(users.map(|user| shown(&server, user)), first);
    }
}
