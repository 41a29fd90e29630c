//! What clients see of a disk that takes its time.
use crate::disk::Disk;
use crate::peer::{Daemon, encode_request};
use statestore::mqtt::Packet;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// How long a sync takes.
const DELAY: Duration = Duration::from_secs(2);

#[test]
fn only_what_tells_of_a_write_waits_for_the_disk() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let daemon = Daemon::start_on(&disk, &["--data-dir", folder.path().to_str().unwrap()]);
    let mut writer = daemon.connect("writer");
    let mut reader = daemon.connect("reader");
    assert_eq!(writer.request(1, &[b"SET", b"durable", b"1"]), b"+OK\r\n");

    let delay_ms = u64::try_from(DELAY.as_millis()).unwrap();
    disk.set(&[("sync_delay_ms", delay_ms)]);
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
