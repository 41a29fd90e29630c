//! Behaviour towards clients while the disk is slow.
use crate::disk::Disk;
use crate::peer::{Daemon, Peer, encode_request};
use statestore_protocol::mqtt::{Connect, Packet};
use std::io::Write;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// How long a sync takes.
const DELAY: Duration = Duration::from_secs(2);

fn delay_ms() -> u64 {
    u64::try_from(DELAY.as_millis()).unwrap()
}

#[test]
fn only_responses_that_reveal_a_write_wait_for_the_disk() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let daemon = Daemon::start_on(&disk, &["--data-dir", folder.path().to_str().unwrap()]);
    let mut writer = daemon.connect("writer");
    let mut reader = daemon.connect("reader");
    assert_eq!(writer.request(1, &[b"SET", b"durable", b"1"]), b"+OK\r\n");

    disk.set(&[("sync_delay_ms", delay_ms())]);
    let begin = Instant::now();
    writer.send(|out| encode_request(2, &[b"SET", b"k", b"2"], out));
    writer.assert_alive();
    writer.send(|out| encode_request(3, &[b"GET", b"durable"], out));
    match writer.receive() {
        Some(Packet::Publish(response)) => assert_eq!(response.payload_bytes(), b"$1\r\n1\r\n"),
        other => panic!("{other:?}"),
    }
    reader.assert_alive();
    assert_eq!(reader.request(4, &[b"GET", b"durable"]), b"$1\r\n1\r\n");
    assert!(begin.elapsed() < DELAY / 2, "{:?}", begin.elapsed());

    assert_eq!(reader.request(5, &[b"GET", b"k"]), b"$1\r\n2\r\n");
    assert!(begin.elapsed() >= DELAY, "{:?}", begin.elapsed());
    let rest: Vec<_> = (0..3).map(|_| writer.receive()).collect();
    assert!(
        matches!(
            rest.as_slice(),
            [
                Some(Packet::PubAck(_)),
                Some(Packet::Publish(_)),
                Some(Packet::PubAck(_))
            ]
        ),
        "{rest:?}"
    );
}

/// More than may wait for the disk at a time.
const FLOOD: usize = 5;

#[test]
fn a_client_waiting_for_disk_space_is_not_disconnected() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let daemon = Daemon::start_on(&disk, &["--data-dir", folder.path().to_str().unwrap()]);
    let mut reader = daemon.connect("reader");
    let asked = Connect {
        client_id: "writer".into(),
        keep_alive_s: 1,
        ..Connect::default()
    };
    let mut writer = Peer::join(daemon.address, &asked).unwrap();
    disk.set(&[("sync_delay_ms", 2 * delay_ms())]);
    let begin = Instant::now();
    let value = vec![b'v'; 15_000_000];
    for number in 0..FLOOD {
        let number = u64::try_from(number).unwrap();
        writer.send(|out| encode_request(number, &[b"SET", b"k", &value], out));
    }
    writer.send(|out| encode_request(9, &[b"SET", b"k", b"last"], out));
    // None of the client's requests is executed for longer than its keep-alive allows silence, but its pings are
    // answered.
    let mut answered = 0;
    while answered < FLOOD + 1 {
        let pinged = Instant::now();
        writer.stream.write_all(&[0xC0, 0]).unwrap();
        loop {
            match writer.receive() {
                Some(Packet::PingResp) => break,
                Some(Packet::PubAck(_)) => {}
                Some(Packet::Publish(response)) => {
                    assert_eq!(response.payload_bytes(), b"+OK\r\n");
                    answered += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(reader.request(1, &[b"GET", b"other"]), b"$-1\r\n");
        assert!(pinged.elapsed() < DELAY, "{:?}", pinged.elapsed());
        // The client pings as often as clients do, three times within its keep-alive.
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(begin.elapsed() >= 2 * DELAY, "{:?}", begin.elapsed());
    assert_eq!(reader.request(2, &[b"GET", b"k"]), b"$4\r\nlast\r\n");
}
