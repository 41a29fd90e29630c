//! Processes that end with the test.
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Seek};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long one may take until it listens.
const START: Duration = Duration::from_secs(60);

/// Killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    /// Standard error, shown if the program ends instead of listening.
    log: File,
    is_stopped: bool,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let program = command.get_program().to_owned();
        let log = tempfile::tempfile().unwrap();
        let child = command
            .stdout(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .spawn();
        Self {
            log,
            child: child.unwrap_or_else(|error| panic!("{}: {error}", program.display())),
            is_stopped: false,
        }
    }

    /// Waits until it listens, which it does not say. The proxies go on meanwhile.
    pub(crate) async fn listens(&mut self, port: u16) {
        self.listens_at((Ipv4Addr::LOCALHOST, port).into()).await;
    }

    /// The same for any address.
    pub(crate) async fn listens_at(&mut self, address: SocketAddr) {
        let end = Instant::now() + START;
        while TcpStream::connect(address).is_err() {
            let ended = self.child.try_wait().unwrap();
            if let Some(status) = ended {
                let mut log = String::new();
                self.log.rewind().unwrap();
                self.log.read_to_string(&mut log).unwrap();
                panic!("it ended instead of listening: {status}\n{log}");
            }
            assert!(Instant::now() < end, "it does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Stops the process with SIGSTOP until [`go_on`](Self::go_on).
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::STOP);
        self.is_stopped = true;
    }

    pub(crate) fn go_on(&mut self) {
        if self.is_stopped {
            self.signal(Signal::CONT);
            self.is_stopped = false;
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
