//! Health checks of a container.
use crate::disk::Disk;
use crate::peer::{Daemon, TIMEOUT};
use crate::tools::{fail, run};
use std::net::TcpListener;
use std::time::Instant;
use tempfile::tempdir;

#[test]
fn a_full_disk_is_alive_and_not_ready_until_there_is_room() {
    let folder = tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let data = folder.path().to_str().unwrap();
    let arguments = ["--data-dir", data, "--http", "http://127.0.0.1:0"];
    let daemon = Daemon::start_on(&disk, &arguments);
    let url = daemon.http.clone().unwrap();
    assert_eq!(run(&["health", &url]), "");
    assert_eq!(run(&["health", "--ready", &url]), "");
    assert_eq!(
        daemon.connect("writer").request(1, &[b"SET", b"k", b"1"]),
        b"+OK\r\n"
    );
    daemon.signal("-KILL");
    daemon.wait();
    let (_, text) = fail(&["health", &url]);
    assert!(text.contains("cannot ask"), "{text}");

    disk.set(&[("capacity", 0)]);
    let daemon = Daemon::start_on(&disk, &arguments);
    let url = daemon.http.clone().unwrap();
    assert_eq!(run(&["health", &url]), "");
    let (code, text) = fail(&["health", "--ready", &url]);
    assert!(
        text.contains("not ready; disk_full: the disk is full"),
        "{text}"
    );
    assert_eq!(code, 1);

    disk.set(&[]);
    let mut peer = daemon.connect("writer");
    let until = Instant::now() + TIMEOUT;
    for correlation in 2.. {
        if peer.request(correlation, &[b"SET", b"k", b"2"]) == b"+OK\r\n" {
            break;
        }
        assert!(Instant::now() < until, "it stays read-only");
    }
    assert_eq!(run(&["health", "--ready", &url]), "");
}

#[test]
fn the_status_shows_whether_the_previous_run_crashed() {
    let folder = tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let arguments = ["--data-dir", data, "--http", "http://127.0.0.1:0"];
    for (signal, has_crashed) in [("-KILL", false), ("-TERM", true), ("-TERM", false)] {
        let daemon = Daemon::start(&arguments);
        let mut peer = daemon.connect("writer");
        assert_eq!(peer.request(1, &[b"SET", b"k", b"v"]), b"+OK\r\n");
        let answer = daemon.get("/api/status");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(status["storage"]["previous_run_crashed"], has_crashed);
        daemon.signal(signal);
        daemon.wait();
    }
}

#[test]
fn an_unresponsive_server_is_not_alive() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (_, text) = fail(&["health", &url]);
    assert!(text.contains("cannot ask"), "{text}");
}
