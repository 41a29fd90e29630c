//! Behaviour towards clients while the disk has faults.
use crate::disk::Disk;
use crate::peer::{Daemon, Peer, TIMEOUT, encode_request};
use statestore_protocol::mqtt::ReasonCode;
use std::time::{Duration, Instant};
use tempfile::tempdir;

const OK: &[u8] = b"+OK\r\n";

#[test]
fn unsynced_data_of_a_failed_sync_is_not_acknowledged_after_a_restart() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(1, &[b"SET", b"before", b"1"]), OK);
    disk.set(&[("sync_error", 1)]);
    peer.send(|out| encode_request(2, &[b"SET", b"failed", b"1"], out));
    // Neither acknowledged nor answered.
    let reason = peer.disconnected();
    assert_eq!(reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    let output = daemon.wait();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("log-1") && text.contains("Input/output error"),
        "{text}"
    );

    disk.set(&[]);
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(3, &[b"GET", b"before"]), b"$1\r\n1\r\n");
    let told = peer.request(4, &[b"GET", b"failed"]);
    assert_eq!(peer.request(5, &[b"SET", b"after", b"1"]), OK);
    daemon.signal("-KILL");
    daemon.wait();

    let left = disk.after_power_failure();
    let daemon = Daemon::start(&["--data-dir", left.path().to_str().unwrap()]);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(6, &[b"GET", b"before"]), b"$1\r\n1\r\n");
    assert_eq!(peer.request(7, &[b"GET", b"failed"]), told);
    assert_eq!(peer.request(8, &[b"GET", b"after"]), b"$1\r\n1\r\n");
}

/// Sets the key until the answer is as wanted.
fn set_until(peer: &mut Peer, correlation: &mut u64, is_wanted: impl Fn(&[u8]) -> bool) {
    let begin = Instant::now();
    loop {
        *correlation += 1;
        let reply = peer.request(*correlation, &[b"SET", b"probe", b"1"]);
        if is_wanted(&reply) {
            return;
        }
        let text = String::from_utf8_lossy(&reply).into_owned();
        assert!(begin.elapsed() < TIMEOUT, "still {text}");
    }
}

fn value(number: u64) -> Vec<u8> {
    let mut value = number.to_string().into_bytes();
    value.resize(1 << 20, b'.');
    value
}

/// Fills the disk with a megabyte a time, and makes room again.
fn fill_and_free(faults: &[(&str, u64)]) {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    disk.set(faults);
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut writer = daemon.connect("writer");
    let mut reader = daemon.connect("reader");
    assert_eq!(reader.request(1, &[b"SET", b"old", b"1"]), OK);

    let mut full = faults.to_vec();
    full.push(("capacity", disk.used_bytes() + (20 << 20)));
    disk.set(&full);
    // Requests one behind the other, so that some are under way when the disk is full.
    let mut acknowledged = Vec::new();
    let mut refusal = Vec::new();
    let patience = Duration::from_secs(2);
    writer.stream.set_read_timeout(Some(patience)).unwrap();
    for number in 0..60 {
        let key = format!("key-{number}");
        writer.send(|out| encode_request(number, &[b"SET", key.as_bytes(), &value(number)], out));
        match writer.try_answer() {
            Some(reply) if reply == OK => acknowledged.push(number),
            Some(reply) => {
                refusal = reply;
                break;
            }
            // The first write waits for space; those after it are refused.
            None => {}
        }
    }
    let text = String::from_utf8_lossy(&refusal).into_owned();
    assert!(
        text.starts_with("-ERR ") && text.contains("disk is full"),
        "{text:?} with {} bytes, after {acknowledged:?}",
        disk.used_bytes()
    );
    assert!(acknowledged.len() > 10, "{acknowledged:?}");

    // Reading goes on.
    assert_eq!(reader.request(4, &[b"GET", b"old"]), b"$1\r\n1\r\n");
    if faults.is_empty() {
        // Otherwise a write waits for space, and a page could show it.
        let page = reader.request(5, &[b"SCAN", b"old"]);
        assert_eq!(page, b"*1\r\n*1\r\n$3\r\nold\r\n");
    }
    reader.assert_alive();
    for refused in [
        &[&b"SET"[..], b"new", b"1"][..],
        &[b"DEL", b"old"],
        &[b"VDEL", b"old", b"1"],
    ] {
        let reply = reader.request(6, refused);
        assert_eq!(reply, refusal, "{refused:?}");
    }

    disk.set(faults);
    let mut correlation = 1000;
    set_until(&mut reader, &mut correlation, |reply| reply == OK);
    assert_eq!(reader.request(7, &[b"SET", b"new", b"1"]), OK);
    daemon.signal("-KILL");
    let output = daemon.wait();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(log.contains("read-only until there is room"), "{log}");

    let daemon = Daemon::start(&arguments);
    let mut reader = daemon.connect("reader");
    for number in acknowledged {
        let reply = reader.request(
            10_000 + number,
            &[b"GET", format!("key-{number}").as_bytes()],
        );
        let expected = [b"$1048576\r\n", &value(number)[..], b"\r\n"].concat();
        assert!(
            reply == expected,
            "key-{number} was acknowledged and is lost"
        );
    }
    assert_eq!(reader.request(8, &[b"GET", b"new"]), b"$1\r\n1\r\n");
    assert_eq!(reader.request(9, &[b"GET", b"old"]), b"$1\r\n1\r\n");
}

#[test]
fn a_full_disk_remains_readable() {
    fill_and_free(&[]);
}

#[test]
fn a_full_disk_remains_readable_without_space_reservation() {
    fill_and_free(&[("no_fallocate", 1)]);
}

#[test]
fn a_start_with_a_full_disk_is_read_only_and_becomes_writable() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start_on(&disk, &arguments);
    assert_eq!(
        daemon.connect("writer").request(1, &[b"SET", b"k", b"1"]),
        OK
    );
    daemon.signal("-KILL");
    daemon.wait();

    disk.set(&[("capacity", 0)]);
    let daemon = Daemon::start_on(&disk, &arguments);
    let mut peer = daemon.connect("writer");
    assert_eq!(peer.request(2, &[b"GET", b"k"]), b"$1\r\n1\r\n");
    assert!(
        peer.request(3, &[b"SET", b"k", b"2"])
            .starts_with(b"-ERR the store is read-only")
    );
    disk.set(&[]);
    set_until(&mut peer, &mut 10, |reply| reply == OK);
}

#[test]
fn files_are_private_even_in_an_open_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let set_mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(folder.path(), 0o755);
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start(&arguments);
    assert_eq!(
        daemon.connect("writer").request(1, &[b"SET", b"k", b"1"]),
        OK
    );
    let check = || {
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    };
    check();
    daemon.signal("-TERM");
    let output = daemon.wait();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        log.contains("other users") && log.contains("chmod 700"),
        "{log}"
    );

    // As an older program left them.
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        set_mode(&entry.unwrap().path(), 0o644);
    }
    set_mode(folder.path(), 0o700);
    let daemon = Daemon::start(&arguments);
    check();
    daemon.signal("-TERM");
    let output = daemon.wait();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!log.contains("other users"), "{log}");
}

/// Returns the last bulk string of a reply: of a page that has a token, the token.
fn last_bulk_string(reply: &[u8]) -> Vec<u8> {
    let mut rest = reply;
    let mut last = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let (header, tail) = (&rest[..end], &rest[end + 2..]);
        rest = tail;
        if let Some(length) = header.strip_prefix(b"$") {
            let length: usize = str::from_utf8(length).unwrap().parse().unwrap();
            last = tail[..length].to_vec();
            rest = &tail[length + 2..];
        }
    }
    last
}

#[test]
fn a_scan_continues_after_a_kill() {
    let folder = tempdir().unwrap();
    let arguments = ["--data-dir", folder.path().to_str().unwrap()];
    let daemon = Daemon::start(&arguments);
    let mut peer = daemon.connect("writer");
    for number in 0..3_000 {
        assert_eq!(
            peer.request(number, &[b"SET", format!("key-{number}").as_bytes(), b"1"]),
            OK
        );
    }
    let page = peer.request(10_000, &[b"SCAN", b"*"]);
    let token = last_bulk_string(&page);
    let first = page.windows(4).filter(|bytes| bytes == b"key-").count();
    daemon.signal("-KILL");
    daemon.wait();

    let daemon = Daemon::start(&arguments);
    let mut peer = daemon.connect("writer");
    let mut found = first;
    let mut token = Some(token);
    for correlation in 20_000.. {
        let Some(from) = token.take() else { break };
        let page = peer.request(correlation, &[b"SCAN", b"*", &from]);
        found += page.windows(4).filter(|bytes| bytes == b"key-").count();
        if page.starts_with(b"*2") {
            token = Some(last_bulk_string(&page));
        }
    }
    assert_eq!(found, 3_000);
}
