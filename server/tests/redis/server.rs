//! A Redis of its own for a test.
use crate::disk::Disk;
use crate::elsewhere::{Engine, block_on, wait_until_listening};
use harness::free_port;
use redis::Connection;
use statestored::config::StorageConfig;
use statestored_link::ThreadLink;
use statestored_redis::{RedisConfig, connect};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A process with a folder of its own, whose log is on disk before it answers; killed when it is dropped.
pub(crate) struct Redis {
    folder: TempDir,
    child: Child,
    pub(crate) port: u16,
    arguments: Vec<String>,
    /// Controls the clock of the process, if a test sets it.
    clock: Option<Disk>,
}

impl Redis {
    /// Starts Redis with these additional arguments; over TLS if they name files for it.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::with_all(arguments, None)
    }

    /// Starts a Redis whose wall clock the test [sets](Self::set_clock).
    pub(crate) fn with_clock() -> Self {
        // No file of Redis lies there, but it has to be there.
        let nowhere = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        Self::with_all(&[], Some(Disk::under(nowhere)))
    }

    pub(crate) fn set_clock(&self, ahead_ms: u64) {
        let clock = self.clock.as_ref().unwrap();
        clock.set(&[("clock_ahead_ms", ahead_ms)]);
    }

    fn with_all(arguments: &[&str], clock: Option<Disk>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<_> = arguments.iter().map(|it| (*it).to_owned()).collect();
        for _ in 0..10 {
            let port = free_port();
            let mut child = spawn(&folder, port, &arguments, clock.as_ref());
            if wait_until_listening(&mut child, port) {
                return Self {
                    folder,
                    child,
                    port,
                    arguments,
                    clock,
                };
            }
        }
        panic!("redis-server does not start: is it installed (Debian: redis-server)?");
    }

    /// Starts a replica of the Redis at this port.
    pub(crate) fn replica_of(port: u16) -> Self {
        let replica = Self::with(&["--replicaof", "127.0.0.1", &port.to_string()]);
        replica.wait_until_info_contains("master_link_status:up");
        replica
    }

    /// Opens a direct connection to Redis.
    pub(crate) fn connection(&self) -> Connection {
        let url = format!("redis://127.0.0.1:{}", self.port);
        let client = redis::Client::open(url).unwrap();
        client.get_connection().unwrap()
    }

    pub(crate) fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut parts = command.split(' ');
        let mut command = redis::cmd(parts.next().unwrap());
        for part in parts {
            command.arg(part);
        }
        command.query(&mut self.connection()).unwrap()
    }

    /// Until it says this of itself.
    pub(crate) fn wait_until_info_contains(&self, fact: &str) {
        let end = std::time::Instant::now() + crate::elsewhere::LONG;
        while !self.run::<String>("INFO").contains(fact) {
            assert!(std::time::Instant::now() < end, "not in time: {fact}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    pub(crate) fn redis_config(&self, prefix: &str) -> RedisConfig {
        RedisConfig {
            addresses: vec![("127.0.0.1".into(), self.port)],
            master: None,
            database: 0,
            prefix: prefix.into(),
            tls: None,
            user: None,
            password: None,
            replicas: 0,
        }
    }
}

fn spawn(folder: &TempDir, port: u16, arguments: &[String], clock: Option<&Disk>) -> Child {
    let has_tls = arguments.iter().any(|it| it.starts_with("--tls"));
    let (plain, tls) = if has_tls { (0, port) } else { (port, 0) };
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &plain.to_string()])
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--repl-diskless-sync-delay", "0", "--save", "", "--dir"])
        .arg(folder.path());
    if has_tls {
        command.args(["--tls-port", &tls.to_string()]);
    }
    command
        .args(arguments)
        .envs(clock.into_iter().flat_map(Disk::variables))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server (Debian: redis-server)")
}

impl Engine for Redis {
    fn start() -> Self {
        Self::with(&[])
    }

    fn storage(&self, prefix: &str) -> StorageConfig {
        StorageConfig::Redis(self.redis_config(prefix))
    }

    fn url(&self, prefix: &str) -> String {
        format!("redis://127.0.0.1:{}?prefix={prefix}", self.port)
    }

    fn link(&self, prefix: &str) -> ThreadLink {
        block_on(connect(self.redis_config(prefix))).unwrap()
    }

    fn child(&self) -> &Child {
        &self.child
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = spawn(
            &self.folder,
            self.port,
            &self.arguments,
            self.clock.as_ref(),
        );
        assert!(wait_until_listening(&mut self.child, self.port));
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
