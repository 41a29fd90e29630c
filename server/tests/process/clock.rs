//! A wall clock that was wrong for a time.
use crate::disk::Disk;
use crate::peer::{Daemon, MAX, Peer};
use statestore_protocol::mqtt::{Packet, PacketId, Publish, PublishHeader};
use statestore_protocol::topic;
use tempfile::tempdir;

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
fn locks_work_when_the_clock_was_an_hour_ahead_and_was_set_back() {
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
