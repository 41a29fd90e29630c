//! A system that refuses threads.
use crate::peer::Daemon;
use std::process::Command;

/// Address space that the process still gets: less than the stack of a thread takes.
const SPARE_KIB: u64 = 1_024;

/// Lets the process have no further thread.
fn refuse_threads(daemon: &Daemon) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    let bytes = (kib.parse::<u64>().unwrap() + SPARE_KIB) * 1_024;
    let limit = format!("--as={bytes}:{bytes}");
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &daemon.id().to_string(), &limit]);
    assert!(prlimit.status().unwrap().success());
}

#[test]
fn the_http_port_responds_when_no_thread_can_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let daemon = Daemon::start(&["--data-dir", data, "--http", "http://127.0.0.1:0"]);
    refuse_threads(&daemon);
    for _ in 0..2 {
        let metrics = daemon.get("/metrics");
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics:?}");
        assert!(
            metrics.contains("\nstatestored_disk_free_bytes "),
            "{metrics}"
        );
    }
    daemon.connect("peer").assert_alive();
}
