//! A `statestored` process whose log is read.
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// A process that is killed at the end of the test.
pub(crate) struct Daemon {
    child: Child,
    log: BufReader<ChildStderr>,
    pub(crate) listening: Vec<String>,
}

pub(crate) fn statestored() -> Command {
    let binary = std::env::var_os("STATESTORED_BIN");
    let mut command =
        Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_statestored").into()));
    command.args(["--storage", "memory"]);
    command
}

/// Runs a server that ends by itself, and returns its output.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    statestored().args(arguments).output().unwrap()
}

impl Daemon {
    /// Starts a server, and waits until it listens at this number of addresses, including that of HTTP.
    pub(crate) fn start<S: AsRef<OsStr>>(arguments: &[S], doors: usize) -> Self {
        let mut command = statestored();
        command.args(arguments);
        Self::spawn(command, doors)
    }

    /// The same with more than arguments.
    pub(crate) fn spawn(mut command: Command, doors: usize) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let log = BufReader::new(child.stderr.take().unwrap());
        let lines: Vec<_> = stdout.lines().take(doors).map(Result::unwrap).collect();
        if lines.len() < doors {
            let rest: Vec<_> = log.lines().map(Result::unwrap).collect();
            panic!("{lines:?} {rest:?}");
        }
        let address = |line: &String| {
            let line = line.strip_prefix("listening on ").unwrap_or(line);
            line.strip_prefix("http on ").unwrap_or(line).to_owned()
        };
        Self {
            listening: lines.iter().map(address).collect(),
            child,
            log,
        }
    }

    /// Waits until the log has a line with this in it, and gives the line.
    pub(crate) fn log_line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.log.read_line(&mut line).unwrap() > 0,
                "no line with {text}"
            );
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the largest resident memory that the process had.
    pub(crate) fn most_resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, as in `-HUP`.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(status.success());
    }

    /// The lines that the log still has, up to the end of the process.
    pub(crate) fn rest_of_log(mut self) -> Vec<String> {
        let lines = self.log.by_ref().lines();
        lines.map(Result::unwrap).collect()
    }

    /// Waits for its end; whether that was one in order.
    pub(crate) fn wait(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the response of the server's HTTP port.
pub(crate) fn get(http: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(http).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
