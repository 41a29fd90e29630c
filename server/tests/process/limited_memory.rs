//! A store whose control group may have little memory.
use crate::memory::{MIB, fill, thin_out};
use crate::peer::{Daemon, TIMEOUT};
use std::path::PathBuf;
use std::time::Instant;

/// Quota of the store: more than the process gets.
const QUOTA_BYTES: u64 = 1024 * MIB;
/// Memory of a control group, in MiB.
const GROUP_MIB: u64 = 128;

/// A control group of the memory of one process, removed at the end of the test.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes one, in version 2 or 1 of control groups; `None` if that is not possible here.
    fn new() -> Option<Self> {
        let mounts = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        let name = tempfile::Builder::new().prefix("statestored-").tempdir();
        let name = name.unwrap().path().file_name().unwrap().to_owned();
        for (mount, limit) in mounts {
            let group = Self(PathBuf::from(mount).join(&name));
            if std::fs::create_dir(&group.0).is_err() {
                continue;
            }
            let limit = group.0.join(limit);
            // A folder that is no control group, or one without the controller, has no such file.
            if limit.exists() && std::fs::write(limit, (GROUP_MIB * MIB).to_string()).is_ok() {
                return Some(group);
            }
        }
        println!(
            "skipped: no control group with a limit of memory can be made here (as root, where the controller is on)"
        );
        None
    }

    fn script(&self) -> String {
        let tasks = self.0.join("cgroup.procs");
        format!("echo $$ > {} && exec \"$0\" \"$@\"", tasks.display())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The folder may be no group, or its last process may not be gone yet.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Fills the store until the process has no more memory, which refuses writes and goes on, and makes room again.
fn assert_survives_full_memory(script: &str, options: &[&str]) {
    let quota = QUOTA_BYTES.to_string();
    let options = [options, &["--max-bytes", &quota]].concat();
    let daemon = Daemon::start_through(&["sh", "-c", script], &options);
    let mut peer = daemon.connect("peer");
    for value_bytes in [1_000, 30_000, 1_500_000] {
        let count = fill(&mut peer, 0, value_bytes);
        assert_eq!(peer.request(1, &[b"GET", b"none"]), b"$-1\r\n");
        daemon.connect("another").assert_alive();
        thin_out(&mut peer, 0, count, usize::MAX);
        // A pass over the entries gives their memory back.
        let begun = Instant::now();
        while peer.request(2, &[b"SET", b"large", &vec![b'v'; 1_500_000]]) != b"+OK\r\n" {
            assert!(begun.elapsed() < TIMEOUT, "still refused");
        }
        peer.request(3, &[b"DEL", b"large"]);
    }
    daemon.signal("-TERM");
    let output = daemon.wait();
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("the process has no memory left"), "{log}");
}

fn by_group(options: &[&str]) {
    if let Some(group) = ControlGroup::new() {
        assert_survives_full_memory(&group.script(), options);
    }
}

#[test]
fn a_store_in_memory_outlives_the_limit_of_its_control_group() {
    by_group(&["--storage", "memory"]);
}

#[test]
fn a_store_on_disk_outlives_the_limit_of_its_control_group() {
    let data_dir = tempfile::tempdir().unwrap();
    by_group(&["--data-dir", data_dir.path().to_str().unwrap()]);
}
