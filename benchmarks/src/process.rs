//! A server process under measurement: started on a free port, killed when dropped.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long `redis-server` may take until it serves.
const REDIS_START: Duration = Duration::from_secs(10);

/// A running `statestored` or `redis-server`.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its port on loopback.
    pub port: u16,
}

impl Server {
    /// Starts `statestored`; `data_dir` none means memory storage.
    pub fn statestored(binary: &Path, data_dir: Option<&Path>, more: &[&str]) -> Self {
        let mut command = Command::new(binary);
        command.args(["--listen", "tcp://127.0.0.1:0", "--log", "warn"]);
        match data_dir {
            Some(dir) => command.arg("--data-dir").arg(dir),
            None => command.args(["--storage", "memory"]),
        };
        let mut child = command
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", binary.display()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("statestored says where it listens");
        let port = line
            .trim()
            .rsplit(':')
            .next()
            .and_then(|p| p.parse().ok())
            .unwrap_or_else(|| panic!("no port in {line:?}"));
        Self { child, port }
    }

    /// Starts `redis-server` without persistence.
    pub fn redis() -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a free port")
            .port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (apt-get install redis-server)");
        let mut server = Self { child, port };
        let deadline = Instant::now() + REDIS_START;
        while let Err(error) = TcpStream::connect(("127.0.0.1", port)) {
            if let Some(status) = server.child.try_wait().expect("its own child") {
                panic!("redis-server ended instead of serving port {port}: {status}");
            }
            assert!(
                Instant::now() < deadline,
                "redis-server does not serve port {port} after {REDIS_START:?}: {error}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Resident set in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("the server lives");
        let kib: u64 = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:"))
            .and_then(|l| l.trim().trim_end_matches(" kB").trim().parse().ok())
            .expect("VmRSS");
        kib * 1024
    }

    /// CPU time used so far by all its threads, user and system.
    pub fn cpu(&self) -> Duration {
        cpu_of(&format!("/proc/{}/task", self.child.id()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time that the threads of this process used so far.
pub fn own_cpu() -> Duration {
    cpu_of("/proc/self/task")
}

/// What the scheduler has counted for the threads listed in a folder, to the nanosecond. One that has ended is missing.
fn cpu_of(tasks: &str) -> Duration {
    let nanoseconds = |thread: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let threads = std::fs::read_dir(tasks).expect("procfs");
    Duration::from_nanos(threads.flatten().filter_map(nanoseconds).sum())
}

/// Where `statestored` is: `STATESTORED`, or the release build of this checkout.
pub fn statestored_binary() -> PathBuf {
    std::env::var_os("STATESTORED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/statestored"),
        PathBuf::from,
    )
}
