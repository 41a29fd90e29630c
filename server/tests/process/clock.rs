//! A wall clock that was wrong for a time.
use crate::audit::AuditedServer;
use crate::disk::Disk;
use crate::peer::{Daemon, MAX, Peer};
use statestore_protocol::mqtt::{Connect, Packet, PacketId, Publish, PublishHeader};
use statestore_protocol::topic;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::{TempDir, tempdir};

const HOUR_MS: u64 = 3_600_000;

/// The response to a command that may have a fencing token.
fn request(peer: &mut Peer, parts: &[&str], token: Option<&str>) -> Publish {
    let strings = parts
        .iter()
        .map(|part| format!("${}\r\n{part}\r\n", part.len()));
    let payload = format!("*{}\r\n{}", parts.len(), strings.collect::<String>());
    let mut properties = vec![("__ts", "1700000000000:0:peer")];
    properties.extend(token.map(|token| ("__ft", token)));
    let header = PublishHeader {
        topic: topic::REQUEST,
        packet_id: PacketId::new(1),
        response_topic: Some("clients/peer/services/statestore/_any_/command/invoke/response"),
        correlation_data: Some(payload.as_bytes()),
        user_properties: &properties,
        ..PublishHeader::default()
    };
    peer.send(|out| {
        header.encode(MAX, out, payload.len(), |out| {
            out.extend_from_slice(payload.as_bytes());
        })
    });
    loop {
        if let Packet::Publish(message) = peer.receive().expect("an answer") {
            peer.acknowledge(message.packet_id().unwrap());
            if message.correlation_data() == Some(payload.as_bytes()) {
                return message;
            }
        }
    }
}

/// The version in a response or a notification.
fn version(message: &Publish) -> String {
    let mut properties = message.user_properties();
    let (_, version) = properties.find(|(name, _)| *name == "__ts").unwrap();
    version.to_owned()
}

#[test]
fn locks_work_after_a_clock_ahead_is_set_back() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    disk.set(&[("clock_ahead_ms", HOUR_MS)]);
    let mut daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("peer");
    request(&mut peer, &["KEYNOTIFY", "lease"], None);
    let expired = request(&mut peer, &["SET", "lease", "a", "PX", "20"], None);
    loop {
        if let Packet::Publish(event) = peer.receive().unwrap()
            && event.payload_bytes().ends_with(b"DELETE\r\n")
        {
            assert!(version(&event) > version(&expired));
            break;
        }
    }
    disk.set(&[]);
    for is_restarted in [false, true] {
        if is_restarted {
            daemon.signal("-TERM");
            assert!(daemon.wait().status.success());
            daemon = Daemon::start_on(&disk, &arguments);
            peer = daemon.connect("peer");
        }
        let acquired = request(&mut peer, &["SET", "lease", "b", "NX", "PX", "60000"], None);
        assert_eq!(acquired.payload_bytes(), b"+OK\r\n");
        let token = version(&acquired);
        assert!(token > version(&expired), "{token}");
        for parts in [
            &["SET", "protected", "v"][..],
            &["SET", "lease", "b", "NEX", "PX", "60000"],
        ] {
            let response = request(&mut peer, parts, Some(&token));
            assert_eq!(response.payload_bytes(), b"+OK\r\n", "{parts:?}");
        }
        let released = request(&mut peer, &["VDEL", "lease", "b"], Some(&token));
        assert_eq!(released.payload_bytes(), b":1\r\n");
    }
}

/// The milliseconds of the Unix epoch, as a timestamp of a client.
fn timestamp(offset_ms: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_ms = u64::try_from(now.as_millis()).unwrap();
    format!("{}:0:peer", now_ms.saturating_add_signed(offset_ms))
}

/// The response to a SET with this timestamp.
fn set(peer: &mut Peer, timestamp: &str) -> Vec<u8> {
    let payload = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    let header = PublishHeader {
        topic: topic::REQUEST,
        packet_id: PacketId::new(1),
        response_topic: Some("clients/peer/services/statestore/_any_/command/invoke/response"),
        correlation_data: Some(timestamp.as_bytes()),
        user_properties: &[("__ts", timestamp)],
        ..PublishHeader::default()
    };
    peer.send(|out| {
        header.encode(MAX, out, payload.len(), |out| {
            out.extend_from_slice(payload);
        })
    });
    loop {
        if let Packet::Publish(message) = peer.receive().expect("an answer") {
            peer.acknowledge(message.packet_id().unwrap());
            return message.payload_bytes().to_vec();
        }
    }
}

#[test]
fn a_slow_clock_is_reported() {
    // The timestamps of all clients are an hour ahead of the server: its clock is an hour behind.
    let (_folder, server) = start_with_users();
    for name in ["ann", "bob", "cid"] {
        let mut peer = join(&server, name, name);
        let answer = set(&mut peer, &timestamp(3_600_000));
        assert!(
            answer.starts_with(b"-ERR the request timestamp is too far"),
            "{answer:?}"
        );
    }
    server.event(&[("event", "refused"), ("cause", "clock"), ("client", "cid")]);
    let line = server.event(&[("level", "ERROR")]);
    assert!(
        line["message"]
            .as_str()
            .unwrap()
            .starts_with("SETs are refused"),
        "{line}"
    );
    let (status, text) = server.get("/readyz");
    assert_eq!(status, 503);
    assert!(text.contains("clock_behind: "), "{text}");
    let (_, status) = server.get("/api/status");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["counts"]["refused"], 3);
    assert_eq!(status["clock"]["suspected"], "behind");
    assert_eq!(status["clock"]["timestamps_ahead"], 3);
    assert_eq!(
        server.metric("statestored_clock_suspect{direction=\"behind\"}"),
        1.0
    );
    let name = "statestored_clock_skewed_timestamps_total{direction=\"ahead\"}";
    assert_eq!(server.metric(name), 3.0);
    // Once the clock is right, so are the timestamps.
    let mut peer = join(&server, "ann", "right");
    for number in 0..4 {
        assert_eq!(set(&mut peer, &timestamp(number)), b"+OK\r\n");
    }
    assert_eq!(server.get("/readyz").0, 200);
}

/// Connects as a user, whose password is the same for all.
fn join(server: &AuditedServer, user: &str, client_id: &str) -> Peer {
    let connect = Connect {
        client_id: client_id.into(),
        user_name: Some(user.into()),
        password: Some("secret".into()),
        ..Connect::default()
    };
    Peer::join(server.daemon.address, &connect).unwrap()
}

fn start_with_users() -> (TempDir, AuditedServer) {
    let folder = tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "ann:secret\nbob:secret\ncid:secret\n").unwrap();
    let server = AuditedServer::start(&["--users-file", users.to_str().unwrap()]);
    (folder, server)
}

/// Asserts that a server with a suspected clock accepts clients, and warns.
fn assert_warned(server: &AuditedServer) {
    let (status, text) = server.get("/readyz");
    assert_eq!(status, 200, "{text}");
    assert!(text.starts_with("ready\nclock_behind: "), "{text}");
    let line = server.event(&[
        ("level", "WARN"),
        ("target", "statestored_broker::hub::clock"),
    ]);
    let message = line["message"].as_str().unwrap();
    assert!(message.starts_with("SETs of one or two"), "{line}");
    let suspect = "statestored_clock_suspect{direction=\"behind\"}";
    assert_eq!(server.metric(suspect), 1.0);
}

#[test]
fn two_users_alone_do_not_make_the_server_unready() {
    let (_folder, server) = start_with_users();
    for client_id in ["a", "b", "c"] {
        set(&mut join(&server, "ann", client_id), &timestamp(3_600_000));
    }
    assert_warned(&server);
    set(&mut join(&server, "bob", "d"), &timestamp(3_600_000));
    assert_eq!(server.get("/readyz").0, 200);
}

#[test]
fn client_ids_of_one_address_do_not_make_the_server_unready() {
    let server = AuditedServer::start(&[]);
    for client_id in ["a", "b", "c", "d"] {
        let mut peer = server.daemon.connect(client_id);
        set(&mut peer, &timestamp(3_600_000));
    }
    assert_warned(&server);
}

#[test]
fn the_clients_of_one_user_do_not_outweigh_others() {
    let (_folder, server) = start_with_users();
    let mut right = join(&server, "bob", "right");
    assert_eq!(set(&mut right, &timestamp(0)), b"+OK\r\n");
    for client_id in ["peer", "another", "third"] {
        set(&mut join(&server, "ann", client_id), &timestamp(3_600_000));
    }
    let (status, text) = server.get("/readyz");
    assert_eq!((status, text.as_str()), (200, "ready\n"));
}

#[test]
fn an_idle_server_logs_that_its_clock_was_set() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = [
        "--data-dir",
        folder.path().to_str().unwrap(),
        "--http",
        "http://127.0.0.1:0",
    ];
    let mut daemon = Daemon::start_on(&disk, &arguments);
    let lines = daemon.log_lines();
    // The thread that serves the clients has seen its clock before it answers a second time.
    for _ in 0..2 {
        let ready = daemon.get("/readyz");
        assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    }
    disk.set(&[("clock_ahead_ms", HOUR_MS)]);
    let awaited = "the wall clock of this machine was set";
    while !lines.next(awaited).contains(awaited) {}
}

#[test]
fn a_former_fast_clock_is_reported_after_its_correction() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    disk.set(&[("clock_ahead_ms", HOUR_MS)]);
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("peer");
    request(&mut peer, &["SET", "k", "v"], None);
    daemon.signal("-TERM");
    assert!(daemon.wait().status.success());
    disk.set(&[]);
    let server = AuditedServer::start(&arguments);
    let line = server.event(&[
        ("level", "WARN"),
        ("target", "statestored_broker::hub::clock"),
    ]);
    assert!(
        line["message"]
            .as_str()
            .unwrap()
            .starts_with("versions of entries are ahead"),
        "{line}"
    );
    let (status, text) = server.get("/readyz");
    assert_eq!(status, 200);
    assert!(text.starts_with("ready\nversions_ahead: "), "{text}");
    let ahead = server.metric("statestored_version_ahead_seconds");
    assert!((3_000.0..=3_600.0).contains(&ahead), "{ahead}");
}
