//! A `statestored` behind a Mosquitto, and a raw client of it.
use bytes::BytesMut;
use harness::WAIT_LIMIT;
use statestore_protocol::mqtt::{
    Connect, EncodeError, Packet, PacketId, PubAck, Publish, PublishHeader, ReasonCode, Subscribe,
    Subscription, decode,
};
use statestore_protocol::topic;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const MAX: u32 = u32::MAX;
/// Between two looks at something that is awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn statestored(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_statestored"));
    command.args(arguments).env_remove("XDG_DATA_HOME");
    command
}

/// A process that is attached to a broker; killed at the end of the test.
pub(crate) struct Store {
    child: Child,
    log: Receiver<String>,
    pub(crate) http: SocketAddr,
    /// Where it listens, if it does.
    pub(crate) listener: Option<SocketAddr>,
}

impl Store {
    /// Starts one in memory, and waits until it is attached.
    pub(crate) fn start(broker: SocketAddr, more: &[&str]) -> Self {
        Self::start_with(
            &[
                &[
                    "--storage",
                    "memory",
                    "--attach",
                    &format!("mqtt://{broker}"),
                ],
                more,
            ]
            .concat(),
        )
    }

    /// Starts one with all of these options, and waits until it is attached.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let store = Self::launch(arguments);
        store.wait_for_log("attached to the broker");
        store
    }

    /// Starts a server, whether or not it becomes attached.
    pub(crate) fn launch(arguments: &[&str]) -> Self {
        let mut child = statestored(arguments)
            .args(["--http", "http://127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The receiver may be gone.
                let _ = lines.send(line);
            }
        });
        let mut listener = None;
        let mut http = None;
        let stdout = BufReader::new(child.stdout.take().unwrap());
        for line in stdout.lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening on tcp://") {
                listener = Some(address.parse().unwrap());
            } else if let Some(address) = line.strip_prefix("http on http://") {
                http = Some(address.parse().unwrap());
                break;
            } else {
                assert!(line.starts_with("attaching to mqtt"), "{line}");
            }
        }
        let Some(http) = http else {
            panic!("{:?}", log.iter().collect::<Vec<_>>());
        };
        Self {
            child,
            log,
            http,
            listener,
        }
    }

    /// Waits for a line of its log with this in it.
    pub(crate) fn wait_for_log(&self, text: &str) {
        self.wait_for_any_log(&[text]);
    }

    /// Waits for a line of its log with one of these in it.
    pub(crate) fn wait_for_any_log(&self, texts: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let left = WAIT_LIMIT.saturating_sub(begun.elapsed());
            let line = self.log.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("none of {texts:?} is logged: {error}"));
            let is = |text: &&str| line.contains(text) && !line.contains(&format!("not {text}"));
            if texts.iter().any(is) {
                return line;
            }
        }
    }

    /// Returns the rest of the log. Blocks until the process has ended.
    #[allow(dead_code, reason = "not every test program looks at it")]
    pub(crate) fn rest_of_log(&self) -> Vec<String> {
        self.log.iter().collect()
    }

    /// Returns the response of the HTTP port.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.http);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Waits until a metric has this value.
    pub(crate) fn wait_for_metric(&self, name: &str, value: u64) {
        self.wait_until_response_contains("/metrics", &format!("\n{name} {value}\n"));
    }

    /// The value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics");
        let value = metrics
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect(name).parse().unwrap()
    }

    /// Waits until it says this over HTTP.
    pub(crate) fn wait_until_response_contains(&self, path: &str, text: &str) {
        let begun = Instant::now();
        while !self.get(path).contains(text) {
            assert!(begun.elapsed() < WAIT_LIMIT, "{}", self.get(path));
            // Each query takes CPU time from the servers under test.
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.send("-TERM");
    }

    /// Sends a signal.
    pub(crate) fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client on a blocking socket.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    client_id: String,
    input: BytesMut,
    next_id: u16,
}

impl Peer {
    /// Connects, and subscribes its responses and notifications.
    pub(crate) fn connect(address: SocketAddr, client_id: &str) -> Self {
        Self::connect_with(address, client_id, Connect::default())
    }

    /// The same, with more to be said of it.
    pub(crate) fn connect_with(address: SocketAddr, client_id: &str, connect: Connect) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        let mut peer = Self {
            stream,
            client_id: client_id.into(),
            input: BytesMut::new(),
            next_id: 1,
        };
        let connect = Connect {
            client_id: client_id.into(),
            clean_start: true,
            ..connect
        };
        peer.send(|out| connect.encode(MAX, out));
        let Some(Packet::ConnAck(connack)) = peer.receive() else {
            panic!();
        };
        assert_eq!(connack.reason, ReasonCode::SUCCESS);
        let subscribe = Subscribe {
            packet_id: PacketId::new(1).unwrap(),
            subscription_id: None,
            subscriptions: vec![
                Subscription::at_least_once(topic::response(client_id)),
                Subscription::at_least_once(topic::notification_filter(client_id)),
            ],
        };
        peer.send(|out| subscribe.encode(MAX, out));
        assert!(matches!(peer.receive(), Some(Packet::SubAck(_))));
        peer
    }

    /// Subscribes more.
    pub(crate) fn subscribe(&mut self, filter: &str) {
        let subscribe = Subscribe {
            packet_id: PacketId::new(u16::MAX).unwrap(),
            subscription_id: None,
            subscriptions: vec![Subscription::at_least_once(filter.to_owned())],
        };
        self.send(|out| subscribe.encode(MAX, out));
        assert!(matches!(self.receive(), Some(Packet::SubAck(_))));
    }

    fn send(&mut self, encode: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>) {
        let mut out = BytesMut::new();
        encode(&mut out).unwrap();
        self.stream.write_all(&out).unwrap();
    }

    /// The next packet; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = decode(&mut self.input, MAX).unwrap() {
                if let Packet::Publish(publish) = &packet
                    && let Some(packet_id) = publish.packet_id()
                {
                    self.send(|out| PubAck::success(packet_id).encode(MAX, out));
                }
                return Some(packet);
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk).unwrap() {
                0 => return None,
                count => self.input.extend_from_slice(&chunk[..count]),
            }
        }
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> Publish {
        loop {
            match self.receive() {
                Some(Packet::Publish(publish)) => return publish,
                Some(Packet::PubAck(puback)) => assert_eq!(puback.reason, ReasonCode::SUCCESS),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends a request. `header` says what differs from an ordinary one.
    pub(crate) fn send_request(&mut self, payload: &[u8], header: &PublishHeader<'_>) {
        let response_topic = topic::response(&self.client_id);
        let header = PublishHeader {
            topic: topic::REQUEST,
            response_topic: header.response_topic.or(Some(&response_topic)),
            ..*header
        };
        self.send_message(payload, &header);
    }

    /// Sends a message.
    pub(crate) fn send_message(&mut self, payload: &[u8], header: &PublishHeader<'_>) {
        self.next_id += 1;
        let header = PublishHeader {
            packet_id: PacketId::new(self.next_id),
            ..*header
        };
        self.send(|out| {
            header.encode(MAX, out, payload.len(), |out| {
                out.extend_from_slice(payload);
            })
        });
    }

    /// Returns the reason code of the broker's PUBACK for the last message that was sent.
    pub(crate) fn puback(&mut self) -> ReasonCode {
        loop {
            match self.receive() {
                Some(Packet::PubAck(puback)) if puback.packet_id.get() == self.next_id => {
                    return puback.reason;
                }
                Some(_) => {}
                None => panic!("the connection ended"),
            }
        }
    }

    /// Publishes nothing to a topic.
    pub(crate) fn publish(&mut self, topic: &str) {
        let header = PublishHeader {
            topic,
            ..PublishHeader::default()
        };
        self.send_message(b"", &header);
    }

    /// Sends a request, and waits for its response.
    pub(crate) fn request(&mut self, parts: &[&str], properties: &[(&str, &str)]) -> Publish {
        let correlation = self.next_id.to_be_bytes();
        let header = PublishHeader {
            correlation_data: Some(&correlation),
            user_properties: properties,
            ..PublishHeader::default()
        };
        self.send_request(&command(parts), &header);
        let response = self.message();
        assert_eq!(response.correlation_data(), Some(&correlation[..]));
        response
    }
}

/// The payload of a request.
pub(crate) fn command(parts: &[&str]) -> Vec<u8> {
    let parts_of = |part: &&str| format!("${}\r\n{part}\r\n", part.len());
    let all: String = parts.iter().map(parts_of).collect();
    format!("*{}\r\n{all}", parts.len()).into_bytes()
}

/// A `__ts` of now.
pub(crate) fn now() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{}:0:peer", now.unwrap().as_millis())
}
