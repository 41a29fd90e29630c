//! A server process.
use crate::disk::Disk;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Time limit for the start and for the end of a server.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Certificate and key of a server. The certificate is its own authority.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate, which is its own authority.
    pub cert: PathBuf,
    key: PathBuf,
}

impl Certificate {
    /// Creates a certificate for the loopback address in this folder.
    pub fn new(folder: &Path) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Self { cert, key }
    }
}

/// A server that can be killed and restarted with the content of its disk.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    storage: String,
    options: Vec<String>,
    certificate: Certificate,
    log: PathBuf,
    /// Disk and clock of the server.
    pub disk: Disk,
    child: Option<Child>,
    addresses: [SocketAddr; 2],
}

impl Server {
    /// Starts a server. `storage` is the option of that name; `options` are further ones.
    pub async fn start(
        program: &Path,
        storage: &str,
        options: &[String],
        certificate: Certificate,
        log: PathBuf,
        disk: Disk,
    ) -> Self {
        let mut server = Self {
            program: program.to_path_buf(),
            storage: storage.to_owned(),
            options: options.to_vec(),
            certificate,
            log,
            disk,
            child: None,
            addresses: [([127, 0, 0, 1], 0).into(); 2],
        };
        server.spawn().await;
        server
    }

    /// Returns the addresses of the listeners, without TLS and with.
    pub fn addresses(&self) -> [SocketAddr; 2] {
        self.addresses
    }

    /// Returns the process id while the server runs.
    pub fn pid(&self) -> Option<Pid> {
        let id = self.child.as_ref()?.id()?;
        Pid::from_raw(i32::try_from(id).ok()?)
    }

    /// Starts the process, and waits until it listens. Its ports are new at each start.
    pub async fn spawn(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        let mut command = Command::new(&self.program);
        command.arg("--storage").arg(&self.storage);
        command.args(&self.options);
        // A server with a shared backend stores no data on this machine.
        if self.storage == "durable" {
            command.arg("--data-dir").arg(self.disk.folder());
        }
        let mut child = command
            .args([
                "--listen",
                "tcp://127.0.0.1:0",
                "--listen",
                "tls://127.0.0.1:0",
            ])
            .arg("--tls-cert")
            .arg(&self.certificate.cert)
            .arg("--tls-key")
            .arg(&self.certificate.key)
            .envs(self.disk.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = async {
            for (number, prefix) in ["listening on tcp://", "listening on tls://"]
                .iter()
                .enumerate()
            {
                let line = lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| {
                    let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                    panic!("it ended instead of listening:\n{said}")
                });
                let address = line.strip_prefix(prefix).expect("a line for each address");
                self.addresses[number] = address.parse().unwrap();
            }
        };
        let ready = tokio::time::timeout(PROCESS_TIMEOUT, ready).await;
        ready.unwrap_or_else(|_| panic!("it does not listen; see {}", self.log.display()));
        self.child = Some(child);
    }

    /// Kills the process with SIGKILL, and waits for its end.
    pub async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The process may have ended by itself.
            let _ = child.start_kill();
            let _ = child.wait().await;
        }
    }

    /// Waits until the server ends by itself. Returns whether it did.
    pub async fn wait_for_end(&mut self) -> bool {
        let Some(child) = &mut self.child else {
            return true;
        };
        let ended = tokio::time::timeout(PROCESS_TIMEOUT, child.wait())
            .await
            .is_ok();
        if ended {
            self.child = None;
        }
        ended
    }

    /// Returns how the server has ended, if the run did not end it.
    pub fn unexpected_end(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().unwrap()?;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let mut last: Vec<_> = log.lines().rev().take(20).collect();
        last.reverse();
        Some(format!(
            "the server ended by itself, {status}:\n{}",
            last.join("\n")
        ))
    }

    /// Stops the process until it is continued.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the process.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks the server to end in good order. Returns whether it did.
    pub async fn terminate(&mut self) -> bool {
        self.signal(Signal::TERM);
        self.wait_for_end().await
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // The process may have ended.
            let _ = kill_process(pid, signal);
        }
    }
}
