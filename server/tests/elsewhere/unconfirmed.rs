//! Changes that an engine has not confirmed get no response, even if its responses are lost. Each response belongs to its request.
use super::world::{Peer, Store, command, now};
use super::{Engine, block_on, connect_to, start, until, value};
use harness::{AcceptMode, CutKind, Direction, Proxy};
use statestore::{Observation, ObserveOptions, Overflow};
use statestore_protocol::mqtt::{Packet, Publish, PublishHeader, ReasonCode};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use tokio::sync::oneshot;

const OK: &[u8] = b"+OK\r\n";

/// Keys that are asked for at a time.
const KEYS: u8 = 40;

/// A server whose connection to the engine the test breaks, and a client of it.
struct ProxiedServer {
    proxy: Proxy,
    /// Keeps the thread of the proxy alive.
    _lives: oneshot::Sender<()>,
    store: Store,
    peer: Peer,
}

impl ProxiedServer {
    fn with_engine(engine: &impl Engine) -> Self {
        let url = engine.url("test");
        let (head, rest) = url.split_once("127.0.0.1:").unwrap();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (port, tail) = rest.split_at(digits);
        let engine = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
        let (report, started) = channel();
        let (lives, ends) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            block_on(async {
                report.send(Proxy::start(engine).await).unwrap();
                // The proxy ends with the test.
                let _ = ends.await;
            });
        });
        let proxy = started.recv().unwrap();
        let storage = format!("{head}{}{tail}", proxy.address());
        let store = Store::launch(&["--storage", &storage, "--listen", "tcp://127.0.0.1:0"]);
        store.wait_until_response_contains("/readyz", "HTTP/1.0 200");
        let peer = Peer::connect(store.listener.unwrap(), "me");
        Self {
            proxy,
            _lives: lives,
            store,
            peer,
        }
    }

    /// Sends a request with this byte as its correlation data.
    fn send(&mut self, correlation: u8, parts: &[&str], expiry_s: Option<u32>) {
        let stamp = now();
        let header = PublishHeader {
            correlation_data: Some(&[correlation]),
            user_properties: &[("__ts", &stamp)],
            message_expiry: expiry_s,
            ..PublishHeader::default()
        };
        self.peer.send_request(&command(parts), &header);
    }

    /// Waits for the response and for the acknowledgement of the request.
    fn answer(&mut self) -> Publish {
        let (mut response, mut is_acknowledged) = (None, false);
        loop {
            match self.peer.receive() {
                Some(Packet::PubAck(puback)) => {
                    assert_eq!(puback.reason, ReasonCode::SUCCESS);
                    is_acknowledged = true;
                }
                Some(Packet::Publish(publish)) => response = Some(publish),
                other => panic!("{other:?}"),
            }
            if is_acknowledged && let Some(response) = response.take() {
                return response;
            }
        }
    }

    fn set(&mut self, correlation: u8, key: &str, value: &str) {
        self.send(correlation, &["SET", key, value], None);
        let answer = self.answer();
        assert_eq!(answer.correlation_data(), Some(&[correlation][..]));
        assert_eq!(answer.payload_bytes(), OK);
    }

    /// Waits until the server is ready and has the key cached: a change is then sent without a read before it.
    fn wait_until_cached(&mut self) {
        self.store
            .wait_until_response_contains("/readyz", "HTTP/1.0 200");
        self.send(0, &["GET", "k"], None);
        assert_eq!(self.answer().correlation_data(), Some(&[0][..]));
    }

    /// Checks that the client has received neither an acknowledgement nor a response.
    fn assert_no_response(&self) {
        let stream = &self.peer.stream;
        stream.set_nonblocking(true).unwrap();
        let found = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        assert_eq!(found.unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    /// How many commits had no answer.
    fn unanswered(&self) -> u64 {
        let metrics = self.store.get("/metrics");
        let name = "statestored_engine_requests_total{kind=\"commit\",result=\"unanswered\"} ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name));
        count.unwrap().parse().unwrap()
    }

    /// Asks for all keys at once, and looks whether each answer is that of its request. How many were answered; others were refused, as
    /// the engine was away for too long.
    fn count_matching_responses(&mut self, meanwhile: impl FnOnce(&Proxy)) -> usize {
        for key in 0..KEYS {
            self.send(key, &["GET", &format!("key {key}")], None);
        }
        meanwhile(&self.proxy);
        let (mut answered, mut refused) = (BTreeSet::new(), 0);
        while answered.len() + refused < usize::from(KEYS) {
            match self.peer.receive() {
                Some(Packet::PubAck(puback)) if puback.reason == ReasonCode::SUCCESS => {}
                Some(Packet::PubAck(puback)) => {
                    assert_eq!(puback.reason, ReasonCode::NO_MATCHING_SUBSCRIBERS);
                    refused += 1;
                }
                Some(Packet::Publish(publish)) => {
                    let Some(&[key]) = publish.correlation_data() else {
                        panic!("{publish:?}");
                    };
                    assert!(answered.insert(key), "{key} is answered twice");
                    let expected = format!("$8\r\nvalue {key:02}\r\n");
                    assert_eq!(publish.payload_bytes(), expected.as_bytes());
                }
                other => panic!("{other:?}"),
            }
        }
        answered.len()
    }
}

pub(crate) fn unconfirmed_commits_are_not_answered<E: Engine>() {
    let engine = E::start();
    let beside = start(&engine);
    let mut world = ProxiedServer::with_engine(&engine);
    world.set(1, "k", "1");
    block_on(async {
        let client = connect_to(&beside).await;
        let all = ObserveOptions::new().overflow(Overflow::All(10));
        let mut told = client.observe_with("k", &all).await.unwrap();
        let mut next_is = async |expected: &str| loop {
            if let Observation::Set { value, version } = super::next(&mut told).await
                && &value[..] != b"1"
            {
                assert_eq!(&value[..], expected.as_bytes());
                return version;
            }
        };
        // The commit is executed, but the engine's response does not arrive.
        world.wait_until_cached();
        world.proxy.stall(Direction::ToClient);
        world.send(2, &["SET", "k", "2"], None);
        let made = next_is("2").await;
        world.assert_no_response();
        // The response is lost for good: the server has to query the outcome instead of repeating the commit.
        world.proxy.cut(CutKind::Reset);
        let answer = world.answer();
        assert_eq!(answer.payload_bytes(), OK);
        let version = answer.user_properties().find(|(name, _)| *name == "__ts");
        assert_eq!(version.unwrap().1, made.to_string());

        // The commit does not reach the engine, which the server cannot distinguish from a lost response.
        world.wait_until_cached();
        let before = world.unanswered();
        world.proxy.stall(Direction::ToServer);
        world.send(3, &["SET", "k", "3"], None);
        until("it is not answered", || world.unanswered() > before).await;
        // The former copy comes late, the next one is on another connection: it is done once.
        world.proxy.resume(Direction::ToServer);
        let answer = world.answer();
        assert_eq!(answer.payload_bytes(), OK);
        let version = answer.user_properties().find(|(name, _)| *name == "__ts");
        assert_eq!(version.unwrap().1, next_is("3").await.to_string());

        // The request never reaches the engine, on this connection or a later one, and expires. The server cannot know that nothing was
        // done, so it acknowledges the request and sends no response.
        world.wait_until_cached();
        world.proxy.block(Direction::ToServer);
        world.send(4, &["SET", "k", "never"], Some(1));
        let said = world.peer.receive();
        assert!(
            matches!(&said, Some(Packet::PubAck(puback)) if puback.reason == ReasonCode::SUCCESS),
            "{said:?}"
        );
        world.assert_no_response();
        world.proxy.cut(CutKind::Reset);
        world.proxy.unblock();
        world.set(5, "k", "4");
        next_is("4").await;
        assert_eq!(value(&client, "k").await.as_deref(), Some("4"));
    });
    beside.stop().unwrap();
}

pub(crate) fn responses_match_their_requests_when_replies_are_torn_or_late<E: Engine>() {
    let engine = E::start();
    let mut world = ProxiedServer::with_engine(&engine);
    for key in 0..KEYS {
        world.set(key, &format!("key {key}"), &format!("value {key:02}"));
    }
    // Within an answer, and between two, on whichever connection it is.
    for bytes in [1, 40, 300, 900, 2_000] {
        world.count_matching_responses(|proxy| {
            proxy.cut_after(Direction::ToClient, bytes, CutKind::Reset);
        });
    }
    // Responses that arrive after their requests have timed out.
    world
        .store
        .wait_until_response_contains("/readyz", "HTTP/1.0 200");
    world.proxy.stall(Direction::ToClient);
    world.proxy.set_accept_mode(AcceptMode::Silence);
    world.send(0, &["GET", "key 0"], None);
    let refused = world.peer.puback();
    assert_eq!(refused, ReasonCode::NO_MATCHING_SUBSCRIBERS);
    world.proxy.set_accept_mode(AcceptMode::Forward);
    world.proxy.resume(Direction::ToClient);
    world
        .store
        .wait_until_response_contains("/readyz", "HTTP/1.0 200");
    assert_eq!(world.count_matching_responses(|_| {}), usize::from(KEYS));
}

/// A watch that ends before the engine has said what its key holds.
pub(crate) fn a_watch_that_ends_before_it_is_established_is_answered<E: Engine>() {
    let engine = E::start();
    let server = start(&engine);
    block_on(until("it is ready", || {
        super::get(&server, "/readyz").starts_with("HTTP/1.1 200")
    }));
    let mut peer = Peer::connect(server.addresses()[0], "me");
    engine.pause();
    for (correlation, parts) in [
        (b"1", &["KEYNOTIFY", "k"][..]),
        (b"2", &["KEYNOTIFY", "k", "STOP"]),
    ] {
        let header = PublishHeader {
            correlation_data: Some(correlation),
            ..PublishHeader::default()
        };
        peer.send_request(&command(parts), &header);
    }
    let (mut answers, mut acknowledged) = (BTreeSet::new(), 0);
    while answers.len() < 2 || acknowledged < 2 {
        match peer.receive() {
            Some(Packet::PubAck(puback)) => {
                assert_eq!(puback.reason, ReasonCode::SUCCESS);
                acknowledged += 1;
            }
            Some(Packet::Publish(publish)) => {
                assert_eq!(publish.payload_bytes(), OK);
                answers.insert(publish.correlation_data().unwrap().to_vec());
            }
            other => panic!("{other:?}"),
        }
    }
    engine.resume();
    server.stop().unwrap();
}
