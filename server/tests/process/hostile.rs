//! Clients that do what they must not.
use crate::peer::{Daemon, MAX, Peer, encode_request};
use bytes::BytesMut;
use statestore_protocol::mqtt::{PublishHeader, ReasonCode};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// Bytes that look random and are the same in each run.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..count).map(step).collect()
}

#[test]
fn random_bytes_do_not_affect_other_clients() {
    let daemon = Daemon::in_memory();
    let mut good = daemon.connect("good");
    for seed in 1..100 {
        let mut bad = Peer::open(daemon.address);
        // The server may close while this is written.
        let _ = bad.stream.write_all(&noise(seed, 4096));
        let _ = bad.stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        if let Err(error) = bad.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let mut connected = daemon.connect("bad");
        let _ = connected.stream.write_all(&noise(seed, 4096));
        let _ = connected.stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        if let Err(error) = connected.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        good.assert_alive();
    }
    assert_eq!(good.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
}

#[test]
fn the_maximum_packet_size_is_exact() {
    let daemon = Daemon::start(&["--storage", "memory", "--max-packet-bytes", "100000"]);
    let mut good = daemon.connect("good");
    let mut value = vec![b'v'; 99_000];
    let mut packet = BytesMut::new();
    encode_request(1, &[b"SET", b"k", &value], &mut packet).unwrap();
    value.resize(value.len() + 100_000 - packet.len(), b'v');
    assert_eq!(good.request(1, &[b"SET", b"k", &value]), b"+OK\r\n");

    value.push(b'v');
    let mut bad = daemon.connect("bad");
    let mut packet = BytesMut::new();
    encode_request(1, &[b"SET", b"k", &value], &mut packet).unwrap();
    assert_eq!(packet.len(), 100_001);
    // More than fits the socket's buffers, so that the refusal comes in the middle of writing.
    packet.extend_from_slice(&noise(1, 1_000_000));
    let _ = bad.stream.write_all(&packet);
    assert_eq!(bad.disconnected(), ReasonCode::PACKET_TOO_LARGE);
    good.assert_alive();
}

#[test]
fn a_client_that_never_reads_does_not_block_others() {
    let daemon = Daemon::in_memory();
    let mut good = daemon.connect("good");
    let value = vec![b'v'; 1_000_000];
    assert_eq!(good.request(1, &[b"SET", b"k", &value]), b"+OK\r\n");
    let mut slow = daemon.connect("slow");
    slow.stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // Asks for far more than the buffers hold, until the server stops reading or all is sent.
    let mut requests = BytesMut::new();
    for correlation in 0..1000 {
        encode_request(correlation, &[b"GET", b"k"], &mut requests).unwrap();
    }
    let _ = slow.stream.write_all(&requests);
    for correlation in 2..50 {
        assert_eq!(good.request(correlation, &[b"GET", b"x"]), b"$-1\r\n");
    }
    // The responses arrive once the client reads.
    for _ in 0..20 {
        assert!(slow.receive().is_some());
    }
    good.assert_alive();
}

#[test]
fn an_mqtt_3_client_is_refused_with_an_mqtt_3_connack() {
    let daemon = Daemon::in_memory();
    let mut peer = Peer::open(daemon.address);
    peer.stream
        .write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a")
        .unwrap();
    let mut answer = Vec::new();
    peer.stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [0x20, 2, 0, 1]);
}

#[test]
fn a_forbidden_response_topic_closes_the_connection() {
    let daemon = Daemon::in_memory();
    let mut peer = daemon.connect("peer");
    let request = statestore_protocol::topic::REQUEST;
    let header = PublishHeader {
        topic: request,
        packet_id: std::num::NonZeroU16::new(1),
        response_topic: Some(request),
        correlation_data: Some(b"1"),
        ..PublishHeader::default()
    };
    peer.send(|out| header.encode(MAX, out, 0, |_| ()));
    assert_eq!(peer.disconnected(), ReasonCode::TOPIC_NAME_INVALID);
}
