//! A broker with TLS and the ACLs of the documentation.
use super::authority::{Authority, write};
use super::world::{Peer, Store, command, now};
use harness::Mosquitto;
use statestore_protocol::mqtt::{Packet, PublishHeader, ReasonCode};
use statestore_protocol::topic;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

const DOCUMENTATION: &str = include_str!("../../../docs/attached.md");

/// The file of ACLs in the documentation.
fn acls() -> &'static str {
    let blocks = DOCUMENTATION.split("```");
    let mut acls = blocks.filter_map(|block| block.strip_prefix("text\nuser statestored"));
    let acls = acls.next().unwrap();
    assert!(acls.contains("pattern write"));
    acls
}

#[test]
fn the_documented_tls_and_acl_configuration_works() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("plant");
    let ca = write(folder.path(), "ca.pem", &authority.pem());
    let (certificate, key) = authority.issue("broker").write(folder.path(), "broker");
    let (own, own_key) = authority.issue("statestored").write(folder.path(), "own");
    let acl = write(folder.path(), "acl", &format!("user statestored{}", acls()));
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let encrypted: SocketAddr = port.local_addr().unwrap();
    drop(port);
    // Files that only the user of the test can read are read by Mosquitto as that user, even if that is root.
    let broker = Mosquitto::start_with(&format!(
        "user root\nallow_anonymous true\nacl_file {}\nlistener {} 127.0.0.1\ncafile {}\ncertfile {}\n\
         keyfile {}\nrequire_certificate true\nuse_identity_as_username true\n",
        acl.display(),
        encrypted.port(),
        ca.display(),
        certificate.display(),
        key.display(),
    ));
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let store = Store::start_with(&[
        "--storage",
        "memory",
        "--attach",
        &format!("mqtts://localhost:{}", encrypted.port()),
        "--attach-ca",
        &text(&ca),
        "--attach-cert",
        &text(&own),
        "--attach-key",
        &text(&own_key),
    ]);
    let now = now();
    let stamped: &[(&str, &str)] = &[("__ts", &now)];
    let mut me = Peer::connect(broker.address(), "me");
    assert_eq!(
        me.request(&["KEYNOTIFY", "k"], stamped).payload_bytes(),
        b"+OK\r\n"
    );
    let mut other = Peer::connect(broker.address(), "other");
    assert_eq!(
        other.request(&["SET", "k", "v"], stamped).payload_bytes(),
        b"+OK\r\n"
    );
    assert_eq!(me.message().topic(), topic::notification("me", b"k"));
    assert_eq!(
        me.request(&["GET", "k"], &[]).payload_bytes(),
        b"$1\r\nv\r\n"
    );
    // In the name of another client: the response goes there.
    let response_topic = topic::response("me");
    let header = PublishHeader {
        response_topic: Some(&response_topic),
        correlation_data: Some(b"forged"),
        ..PublishHeader::default()
    };
    other.send_request(&command(&["GET", "k"]), &header);
    assert_eq!(me.message().correlation_data(), Some(&b"forged"[..]));
    // A forged response does not go anywhere.
    other.publish(&response_topic);
    loop {
        match other.receive() {
            Some(Packet::PubAck(puback)) if puback.reason == ReasonCode::NOT_AUTHORIZED => break,
            Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
            packet => panic!("{packet:?}"),
        }
    }
    store.wait_for_metric("statestored_attached_refused_total", 0);
}

#[test]
fn a_corrected_password_file_is_used_by_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let users = users.to_str().unwrap();
    let made = Command::new("mosquitto_passwd")
        .args(["-b", "-c", users, "statestored", "right"])
        .status();
    assert!(made.unwrap().success());
    let broker = Mosquitto::start_with(&format!(
        "user root\nallow_anonymous true\npassword_file {users}\n"
    ));
    let password = write(folder.path(), "password", "wrong\n");
    let store = Store::launch(&[
        "--storage",
        "memory",
        "--attach",
        &format!("mqtt://{}", broker.address()),
        "--attach-user",
        "statestored",
        "--attach-password-file",
        password.to_str().unwrap(),
    ]);
    // The broker decides which clients may use it; a local user without a password there sees no keys here either.
    let keys = store.get("/api/keys");
    assert!(keys.starts_with("HTTP/1.0 401 "), "{keys}");
    store.wait_for_log("the broker refused the connection");
    store.wait_until_response_contains("/readyz", "not_attached");
    write(folder.path(), "password", "right\n");
    store.wait_for_log("attached to the broker");
    store.wait_until_response_contains("/readyz", "\r\n\r\nready");
}
