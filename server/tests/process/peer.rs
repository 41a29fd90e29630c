//! A `statestored` process, and a raw MQTT client of it.
use crate::disk::Disk;
use bytes::BytesMut;
use statestore_protocol::mqtt::{
    Connect, EncodeError, Packet, PacketId, PubAck, PublishHeader, ReasonCode, decode,
};
use statestore_protocol::topic;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

pub(crate) const MAX: u32 = u32::MAX;

/// How long a test waits for what must happen. Only a failing test waits that long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The program: the one that `STATESTORED_BIN` names, or that of this build.
fn binary() -> OsString {
    std::env::var_os("STATESTORED_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_statestored").into())
}

pub(crate) fn statestored(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("XDG_DATA_HOME");
    command
}

/// A process that is killed at the end of the test.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The server's HTTP port, if it was configured.
    pub(crate) http: Option<String>,
}

impl Daemon {
    /// Starts it on a free port, and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// The same with environment variables.
    pub(crate) fn start_with(arguments: &[&str], variables: &[(&str, &Path)]) -> Self {
        let mut command = statestored(arguments);
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// The same with a disk that has faults.
    pub(crate) fn start_on(disk: &Disk, arguments: &[&str]) -> Self {
        let mut command = statestored(arguments);
        command.envs(disk.variables());
        Self::spawn(command)
    }

    /// The same, but another program gets the path and the arguments to execute it.
    pub(crate) fn start_through(program: &[&str], arguments: &[&str]) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(binary()).args(arguments);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        if !command
            .get_args()
            .any(|it| it == "--log" || it == "--config")
        {
            command.args(["--log", "warn"]);
        }
        let mut child = command
            .args(["--listen", "tcp://127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
        stdout.read_line(&mut line).unwrap();
        let http = command.get_args().any(|it| it == "--http").then(|| {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim_end().strip_prefix("http on ").unwrap().to_owned()
        });
        let Some(address) = line.trim_end().strip_prefix("listening on tcp://") else {
            panic!("{line:?}: {:?}", child.wait_with_output().unwrap());
        };
        Self {
            address: address.parse().unwrap(),
            http,
            child,
        }
    }

    pub(crate) fn in_memory() -> Self {
        Self::start(&["--storage", "memory"])
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self, client_id: &str) -> Peer {
        Peer::connect(self.address, client_id)
    }

    /// The answer of the HTTP port to a GET, with its headers.
    pub(crate) fn get(&self, path: &str) -> String {
        let url = self.http.as_ref().unwrap();
        let address = url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a signal by its number.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for a line of its log with all of this in it; to be called once.
    pub(crate) fn until_logged(&mut self, texts: &[&str]) {
        let lines = self.log_lines();
        loop {
            let line = lines.next(&format!("{texts:?}"));
            if texts.iter().all(|text| line.contains(text)) {
                return;
            }
        }
    }

    /// The lines of its log; to be called once.
    pub(crate) fn log_lines(&mut self) -> LogLines {
        let stderr = BufReader::new(self.child.stderr.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The receiver may be gone.
                let _ = to.send(line);
            }
        });
        LogLines(lines)
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Output {
        let status = self.child.wait().unwrap();
        let mut output = Output {
            status,
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_end(&mut output.stdout)
            .unwrap();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_end(&mut output.stderr).unwrap();
        }
        output
    }
}

/// The lines of a process's log, as they come.
pub(crate) struct LogLines(Receiver<String>);

impl LogLines {
    /// The next line, while this is waited for.
    pub(crate) fn next(&self, awaited: &str) -> String {
        let line = self.0.recv_timeout(TIMEOUT);
        line.unwrap_or_else(|error| panic!("no {awaited} is logged: {error}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client on a blocking socket.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    input: BytesMut,
}

impl Peer {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self {
            stream,
            input: BytesMut::new(),
        }
    }

    pub(crate) fn connect(address: SocketAddr, client_id: &str) -> Self {
        let connect = Connect {
            client_id: client_id.into(),
            clean_start: true,
            ..Connect::default()
        };
        Self::join(address, &connect).unwrap()
    }

    /// Connects; the error is the reason of a refusal.
    pub(crate) fn join(address: SocketAddr, connect: &Connect) -> Result<Self, ReasonCode> {
        let mut peer = Self::open(address);
        peer.send(|out| connect.encode(MAX, out));
        match peer.receive() {
            Some(Packet::ConnAck(connack)) if connack.reason == ReasonCode::SUCCESS => Ok(peer),
            Some(Packet::ConnAck(connack)) => Err(connack.reason),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn send(&mut self, encode: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>) {
        let mut out = BytesMut::new();
        encode(&mut out).unwrap();
        self.stream.write_all(&out).unwrap();
    }

    /// The next packet; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = decode(&mut self.input, MAX).unwrap() {
                return Some(packet);
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The reason of the DISCONNECT that ends the connection.
    pub(crate) fn disconnected(&mut self) -> ReasonCode {
        loop {
            match self.receive() {
                Some(Packet::Disconnect(disconnect)) => {
                    assert_eq!(self.receive(), None);
                    return disconnect.reason;
                }
                Some(_) => {}
                None => panic!("closed without DISCONNECT"),
            }
        }
    }

    /// Sends a command and returns the payload of its response.
    pub(crate) fn request(&mut self, correlation: u64, parts: &[&[u8]]) -> Vec<u8> {
        self.send(|out| encode_request(correlation, parts, out));
        loop {
            match self.receive() {
                Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
                Some(Packet::Publish(response)) => {
                    let expected = correlation.to_be_bytes();
                    assert_eq!(response.correlation_data(), Some(&expected[..]));
                    self.acknowledge(response.packet_id().unwrap());
                    return response.payload_bytes().to_vec();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The payload of the next response; `None` if none comes in the time of the socket.
    pub(crate) fn try_answer(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(packet) = decode(&mut self.input, MAX).unwrap() {
                match packet {
                    Packet::PubAck(puback) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
                    Packet::Publish(response) => {
                        self.acknowledge(response.packet_id().unwrap());
                        return Some(response.payload_bytes().to_vec());
                    }
                    other => panic!("{other:?}"),
                }
                continue;
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => panic!("closed"),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, packet_id: PacketId) {
        self.send(|out| PubAck::success(packet_id).encode(MAX, out));
    }

    pub(crate) fn assert_alive(&mut self) {
        self.stream.write_all(&[0xC0, 0]).unwrap();
        assert_eq!(self.receive(), Some(Packet::PingResp));
    }
}

/// Appends a request; packet identifier and correlation data come from `correlation`.
pub(crate) fn encode_request(
    correlation: u64,
    parts: &[&[u8]],
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let mut payload = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        payload.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        payload.extend_from_slice(part);
        payload.extend_from_slice(b"\r\n");
    }
    let id = u16::try_from(correlation % 60_000 + 1).unwrap();
    let header = PublishHeader {
        topic: topic::REQUEST,
        packet_id: PacketId::new(id),
        response_topic: Some("clients/peer/services/statestore/_any_/command/invoke/response"),
        correlation_data: Some(&correlation.to_be_bytes()),
        user_properties: &[("__ts", "1700000000000:0:peer")],
        ..PublishHeader::default()
    };
    header.encode(MAX, out, payload.len(), |out| {
        out.extend_from_slice(&payload);
    })
}
