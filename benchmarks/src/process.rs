//! A server process under measurement: started on a free port, killed when dropped.

use std::{
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Time limit for the start of `redis-server`, `etcd` or `nats-server`.
const PEER_START: Duration = Duration::from_secs(10);

/// A running `statestored`, `redis-server`, `etcd` or `nats-server`.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Port on loopback.
    pub port: u16,
}

impl Server {
    /// Starts `statestored`; without a `data_dir` with memory storage.
    pub fn statestored(binary: &Path, data_dir: Option<&Path>, more: &[&str]) -> Self {
        let mut command = Command::new(binary);
        match data_dir {
            Some(dir) => command.arg("--data-dir").arg(dir),
            None => command.args(["--storage", "memory"]),
        };
        command.args(more);
        Self::start_listening(command)
    }

    /// Starts `statestored` with its entries in an engine: `etcd` or `redis`.
    #[cfg(feature = "engines")]
    pub fn with_engine(binary: &Path, kind: &str, engine: &Server, below: &str) -> Self {
        let mut command = Command::new(binary);
        let storage = format!("{kind}://127.0.0.1:{}{below}", engine.port);
        command.args(["--storage", &storage]);
        Self::start_listening(command)
    }

    /// Starts `statestored` and waits until it listens.
    fn start_listening(mut command: Command) -> Self {
        command.args(["--listen", "tcp://127.0.0.1:0", "--log", "warn"]);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
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

    /// Starts `statestored` behind a broker, and waits until it is attached.
    pub fn attached(binary: &Path, broker: &Mosquitto) -> Self {
        let port = broker.port();
        let mut child = Command::new(binary)
            .args(["--storage", "memory", "--log", "info"])
            .args(["--attach", &format!("mqtt://127.0.0.1:{port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", binary.display()));
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let is_attached = log
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.ends_with(" attached to the broker"));
        assert!(is_attached, "statestored is not attached");
        // The server would block if its log were not read.
        std::thread::spawn(move || log.map_while(Result::ok).for_each(drop));
        Self { child, port }
    }

    /// Starts `redis-server` without persistence.
    pub fn redis() -> Self {
        let port = free_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .args(["--maxclients", "19000"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (apt-get install redis-server)");
        Self { child, port }.wait_until_serving("redis-server")
    }

    /// Starts `etcd` with one member and its data in this folder.
    #[cfg(feature = "engines")]
    pub fn etcd(folder: &Path) -> Self {
        let port = free_port();
        let (own, peers) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{}", free_port()),
        );
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder)
            .args([
                "--listen-client-urls",
                &own,
                "--advertise-client-urls",
                &own,
            ])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args([
                "--initial-cluster",
                &format!("default={peers}"),
                "--log-level",
                "error",
            ])
            // Each round writes new revisions of the same keys, which would fill the store.
            .args([
                "--auto-compaction-mode",
                "revision",
                "--auto-compaction-retention",
                "100000",
            ])
            .args(["--quota-backend-bytes", "8000000000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd is installed (apt-get install etcd-server)");
        Self { child, port }.wait_until_serving("etcd")
    }

    /// Starts `nats-server` with JetStream and its data in this folder. Returns `None` if it is not in PATH.
    #[cfg(feature = "engines")]
    pub fn nats(folder: &Path) -> Option<Self> {
        let port = free_port();
        let child = Command::new("nats-server")
            .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
            .args(["--jetstream", "--store_dir"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Self { child, port }.wait_until_serving("nats-server")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => panic!("cannot start nats-server: {error}"),
        }
    }

    /// Waits until the server accepts connections.
    fn wait_until_serving(mut self, name: &str) -> Self {
        let port = self.port;
        let deadline = Instant::now() + PEER_START;
        while let Err(error) = TcpStream::connect(("127.0.0.1", port)) {
            if let Some(status) = self.child.try_wait().expect("its own child") {
                panic!("{name} ended instead of serving port {port}: {status}");
            }
            assert!(
                Instant::now() < deadline,
                "{name} does not serve port {port} after {PEER_START:?}: {error}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Returns the resident set in bytes.
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

    /// Returns the CPU time of all its threads so far, user and system.
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

/// A Mosquitto with the lines of docs/attached.md about windows and delays.
#[derive(Debug)]
pub struct Mosquitto {
    server: Server,
    _folder: DataFolder,
}

impl Mosquitto {
    /// Starts a broker.
    pub fn start() -> Self {
        let port = free_port();
        let folder = DataFolder::new(&format!("mosquitto-{port}"));
        std::fs::create_dir(folder.path()).expect("a folder");
        let config = folder.path().join("mosquitto.conf");
        let lines = format!(
            "persistence false\nlog_type none\nallow_anonymous true\nmax_inflight_messages 1000\n\
             set_tcp_nodelay true\nlistener {port} 127.0.0.1\n"
        );
        std::fs::write(&config, lines).expect("its configuration");
        // Debian installs it in a folder that only root's PATH has.
        let path = std::env::var("PATH").unwrap_or_default();
        let child = Command::new("mosquitto")
            .env("PATH", format!("{path}:/usr/sbin:/usr/local/sbin"))
            .arg("-c")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mosquitto is installed (apt-get install mosquitto)");
        Self {
            server: Server { child, port }.wait_until_serving("mosquitto"),
            _folder: folder,
        }
    }

    /// Port on loopback.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// The process of the server.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

/// A folder for the data of a server; removed when dropped.
#[derive(Debug)]
pub struct DataFolder(PathBuf);

impl DataFolder {
    /// Chooses a folder that no other run has; the folder is not created yet.
    pub fn new(name: &str) -> Self {
        let name = format!("statestore-bench-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|it| it.local_addr())
        .expect("a free port")
        .port()
}

/// Returns the CPU time of the threads of this process so far.
pub fn own_cpu() -> Duration {
    cpu_of("/proc/self/task")
}

/// Returns the CPU time that the scheduler has counted for the threads listed in a folder, to the nanosecond. Threads that have
/// ended are missing.
fn cpu_of(tasks: &str) -> Duration {
    let nanoseconds = |thread: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let threads = std::fs::read_dir(tasks).expect("procfs");
    Duration::from_nanos(threads.flatten().filter_map(nanoseconds).sum())
}

/// Returns the number of files that this process may open.
pub fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("procfs");
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .expect("a limit of open files");
    let soft = line.split_whitespace().next();
    // The only other value is "unlimited".
    soft.and_then(|number| number.parse().ok())
        .unwrap_or(usize::MAX)
}

/// Returns the path of `statestored`: `STATESTORED`, or the release build of this checkout.
pub fn statestored_binary() -> PathBuf {
    std::env::var_os("STATESTORED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/statestored"),
        PathBuf::from,
    )
}
