//! After `kill -9` under load, every acknowledged write is there.
use crate::peer::{Daemon, Peer, encode_request};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Packet, ReasonCode};
use std::collections::BTreeMap;
use std::io::Write;

const ROUNDS: u64 = 20;
const KEYS: u64 = 50;
/// Requests in flight.
const WINDOW: u64 = 64;

/// The client's knowledge about a key.
#[derive(Debug, Clone, Copy, Default)]
struct KeyHistory {
    /// The number of the last write that was answered; 0 for none.
    answered: u64,
    /// The number of the last write that was sent.
    sent: u64,
}

/// A write sets the key to its number, and every seventh deletes it.
fn is_deletion(number: u64) -> bool {
    number.is_multiple_of(7)
}

/// Writes without pause until `answers` are there, then kills the server, and takes in what had left it before.
fn write_until_killed(
    daemon: Daemon,
    known: &mut BTreeMap<u64, KeyHistory>,
    next: &mut u64,
    answers: u64,
) {
    let mut peer = daemon.connect("writer");
    let mut sent = 0;
    let mut answered = 0;
    let mut daemon = Some(daemon);
    loop {
        let mut batch = BytesMut::new();
        while daemon.is_some() && sent - answered < WINDOW {
            *next += 1;
            let key = *next % KEYS;
            let name = format!("key-{key}");
            let value = next.to_string();
            let parts: &[&[u8]] = if is_deletion(*next) {
                &[b"DEL", name.as_bytes()]
            } else {
                &[b"SET", name.as_bytes(), value.as_bytes()]
            };
            encode_request(*next, parts, &mut batch).unwrap();
            known.entry(key).or_default().sent = *next;
            sent += 1;
        }
        if peer.stream.write_all(&batch).is_err() {
            assert!(daemon.is_none(), "the server closed the connection");
        }
        match peer.receive() {
            Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
            Some(Packet::Publish(response)) => {
                let correlation = response.correlation_data().unwrap().try_into().unwrap();
                let number = u64::from_be_bytes(correlation);
                assert!(!response.payload_bytes().starts_with(b"-"), "{response:?}");
                known.get_mut(&(number % KEYS)).unwrap().answered = number;
                answered += 1;
                if daemon.is_some() {
                    peer.acknowledge(response.packet_id().unwrap());
                }
            }
            None => {
                assert!(daemon.is_none(), "the server closed the connection");
                return;
            }
            other => panic!("{other:?}"),
        }
        if answered >= answers
            && let Some(daemon) = daemon.take()
        {
            daemon.signal("-KILL");
            assert_eq!(daemon.wait().status.code(), None);
        }
    }
}

/// Compares the store with what the client knows; a write that was not answered may be there or not.
fn verify(peer: &mut Peer, known: &mut BTreeMap<u64, KeyHistory>, round: u64) {
    for (key, known) in known {
        let name = format!("key-{key}");
        let reply = peer.request(u64::MAX - key - round * KEYS, &[b"GET", name.as_bytes()]);
        let stored = match reply.as_slice() {
            b"$-1\r\n" => None,
            reply => {
                let text = std::str::from_utf8(reply).unwrap();
                let number: u64 = text.split("\r\n").nth(1).unwrap().parse().unwrap();
                Some(number)
            }
        };
        let outcomes = (known.answered..=known.sent)
            .filter(|number| number % KEYS == *key || *number == known.answered);
        let mut possible =
            outcomes.map(|number| (number != 0 && !is_deletion(number)).then_some(number));
        assert!(
            possible.any(|outcome| outcome == stored),
            "round {round}, {name}: {stored:?} is stored, {known:?}"
        );
        // From here on, what is stored is what counts.
        known.answered = stored.unwrap_or_else(|| latest_deletion(*known, *key));
        known.sent = known.answered;
    }
}

/// The last write that may have left the key absent.
fn latest_deletion(known: KeyHistory, key: u64) -> u64 {
    (known.answered..=known.sent)
        .rev()
        .find(|number| number % KEYS == key && is_deletion(*number))
        .unwrap_or(known.answered)
}

#[test]
fn every_acknowledged_write_survives_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let mut known = BTreeMap::new();
    let mut next = 0;
    for round in 0..ROUNDS {
        let daemon = Daemon::start(&arguments);
        verify(&mut daemon.connect("reader"), &mut known, round);
        // A different moment in each round: between commits, in the first one, after many.
        write_until_killed(daemon, &mut known, &mut next, 1 + round * 37 % 400);
    }
    let daemon = Daemon::start(&arguments);
    verify(&mut daemon.connect("reader"), &mut known, ROUNDS);
    assert!(known.values().any(|known| known.answered > 0));
}
