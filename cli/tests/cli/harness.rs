//! Runs `statestore` as a process, and a store for it to talk to.
use serde_json::Value;
use statestored::{RunningServer, config::Config};
use std::{
    ffi::{OsStr, OsString},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Child, ChildStdout, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

/// A store in memory, on a port of its own, for one test.
pub(crate) struct Store {
    server: RunningServer,
}

impl Store {
    pub(crate) fn start() -> Self {
        Self::with(Config::in_memory())
    }

    /// A store that holds no more keys than this.
    pub(crate) fn with_max_keys(max_keys: u64) -> Self {
        let mut config = Config::in_memory();
        config.service.max_keys = max_keys;
        Self::with(config)
    }

    /// A store that listens at this address of the loopback interface.
    pub(crate) fn at(host: &str) -> Self {
        let mut config = Config::in_memory();
        config.listeners = vec![format!("tcp://{host}:0").parse().unwrap()];
        Self::with(config)
    }

    pub(crate) fn with(config: Config) -> Self {
        Self {
            server: RunningServer::start(config).unwrap(),
        }
    }

    /// Ends the store as an operator does; its clients are notified.
    pub(crate) fn stop(self) {
        self.server.stop().unwrap();
    }

    /// Runs `statestore` to its end.
    pub(crate) fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Run {
        run(self.command(arguments), b"")
    }

    /// Runs `statestore` with this standard input.
    pub(crate) fn run_with_input<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
        input: &[u8],
    ) -> Run {
        run(self.command(arguments), input)
    }

    /// Runs `statestore`, which must succeed, and gives what it printed.
    #[track_caller]
    pub(crate) fn ok<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> String {
        let run = self.run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        String::from_utf8(run.stdout).unwrap()
    }

    /// Where the store is.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Where the store is looked after.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.server.http_address().unwrap())
    }

    /// The port of the store.
    pub(crate) fn port(&self) -> u16 {
        self.server.addresses()[0].port()
    }

    /// `statestore`, to be started.
    pub(crate) fn command<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Command {
        let mut command = statestore(arguments);
        command.env("STATESTORE_URL", self.server.url());
        command
    }
}

/// A broker that lets one client connect and subscribe, and answers nothing else.
pub(crate) struct SilentBroker {
    pub(crate) url: String,
    /// The type of each packet that came after the client subscribed; at an end when the client is gone.
    packets: Receiver<u8>,
}

impl SilentBroker {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mqtt://{}", listener.local_addr().unwrap());
        let (came, packets) = mpsc::channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut packet = [0; 4096];
            assert_eq!(
                (stream.read(&mut packet).unwrap() > 0, packet[0]),
                (true, 0x10)
            );
            // CONNACK, success
            stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap();
            assert_eq!(
                (stream.read(&mut packet).unwrap() > 0, packet[0]),
                (true, 0x82)
            );
            // the packet id follows the length, of one byte or of two
            let id = if packet[1] < 0x80 {
                &packet[2..4]
            } else {
                &packet[3..5]
            };
            // SUBACK, QoS 1 twice
            stream.write_all(&[0x90, 5, id[0], id[1], 0, 1, 1]).unwrap();
            while stream.read(&mut packet).unwrap_or(0) > 0 {
                // the test may not care any more
                let _ = came.send(packet[0]);
            }
        });
        Self { url, packets }
    }

    /// Waits until the client has sent something after it subscribed.
    pub(crate) fn await_request(&self) {
        self.packets.recv().unwrap();
    }

    /// The type of the last packet of a client that has ended.
    pub(crate) fn last_packet(&self) -> u8 {
        self.packets.iter().last().unwrap()
    }
}

/// A running `statestore`, of which lines are read one by one.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(store: &Store, arguments: &[&str]) -> Self {
        Self::spawn(store.command(arguments))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    pub(crate) fn end(mut self) -> Run {
        let mut stdout = Vec::new();
        self.stdout.read_to_end(&mut stdout).unwrap();
        let run = Run::from(self.child.wait_with_output().unwrap());
        Run { stdout, ..run }
    }
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    /// The one JSON object that was printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert!(
            self.stdout.ends_with(
                b"
"
            ),
            "{self:?}"
        );
        serde_json::from_slice(&self.stdout).unwrap()
    }

    /// Checks that the run failed as an error does: nothing but one line, on standard error, that names the program.
    #[track_caller]
    pub(crate) fn assert_error(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, b"", "{self:?}");
        assert!(self.stderr.starts_with("statestore: "), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(
            self.stderr.contains(words),
            "{self:?} does not say '{words}'"
        );
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The path of `statestore`: the program that `STATESTORE_BIN` names, or the one that was compiled with these tests.
pub(crate) fn program() -> OsString {
    std::env::var_os("STATESTORE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_statestore").into())
}

/// `statestore` without a store. `STATESTORE_RUNNER` names a program that runs it, such as Wine.
pub(crate) fn statestore<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = match std::env::var_os("STATESTORE_RUNNER") {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(program());
            command
        }
        None => Command::new(program()),
    };
    command
        .args(arguments)
        .env_remove("STATESTORE_URL")
        .env_remove("STATESTORE_ADMIN")
        .env_remove("STATESTORE_ADMIN_TOKEN_FILE")
        .env_remove("STATESTORE_ADMIN_CA_FILE")
        .env_remove("STATESTORE_ADMIN_CERT_FILE")
        .env_remove("STATESTORE_ADMIN_KEY_FILE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Run {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // written by a thread: the child may print more than a pipe holds before it has read everything
    let writer = thread::spawn(move || {
        // a child that does not want its input closes it
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output.into()
}

/// Sends Ctrl-C.
pub(crate) fn interrupt(child: &Child) {
    signal(child, rustix::process::Signal::INT);
}

/// Sends SIGTERM.
pub(crate) fn terminate(child: &Child) {
    signal(child, rustix::process::Signal::TERM);
}

/// Stops a process, and no child of it.
pub(crate) fn stop(child: &Child) {
    signal(child, rustix::process::Signal::STOP);
}

/// Lets it go on.
pub(crate) fn resume(child: &Child) {
    signal(child, rustix::process::Signal::CONT);
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, signal).unwrap();
}
