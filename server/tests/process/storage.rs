//! What clients see of a disk with faults.
use crate::disk::Disk;
use crate::peer::Daemon;
use tempfile::tempdir;

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_the_process_ends() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(1, &[b"SET", b"before", b"1"]), b"+OK\r\n");
    disk.set(&[("sync_error", 1)]);
    peer.send(|out| crate::peer::encode_request(2, &[b"SET", b"after", b"1"], out));
    peer.disconnected();
    let output = daemon.wait();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("log-1") && text.contains("Input/output error"),
        "{text}"
    );

    disk.set(&[]);
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(3, &[b"GET", b"before"]), b"$1\r\n1\r\n");
}
