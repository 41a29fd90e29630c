//! MQTT over WebSocket, with an independent implementation of WebSocket on the other side.
use crate::Files;
use crate::authority::Authority;
use crate::broker::Tls;
use crate::support::within;
use futures_util::{SinkExt, StreamExt};
use statestore::platform::Duplex;
use statestore::{Client, ConnectionState, Error, ErrorKind, Observation, Settings};
use statestored::{RunningServer, config::Config};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame, coding::CloseCode};

type Socket = WebSocketStream<Box<dyn Duplex>>;

/// Paths and `Host` headers that clients requested.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    requests: Requests,
}

impl Listener {
    async fn start(tls: Option<TlsAcceptor>) -> Self {
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            tls,
            requests: Requests::default(),
        }
    }

    fn port(&self) -> u16 {
        self.tcp.local_addr().unwrap().port()
    }

    fn url(&self, rest: &str) -> String {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        format!("{scheme}://127.0.0.1:{}{rest}", self.port())
    }

    fn settings(&self) -> Settings {
        let settings: Settings = self.url("").parse().unwrap();
        settings.reconnect_delay(Duration::from_millis(1), Duration::from_millis(1))
    }

    async fn stream(&self) -> Box<dyn Duplex> {
        let (tcp, _) = within(self.tcp.accept()).await.unwrap();
        match &self.tls {
            Some(tls) => Box::new(within(tls.accept(tcp)).await.unwrap()),
            None => Box::new(tcp),
        }
    }

    async fn accept(&self) -> Socket {
        let stream = self.stream().await;
        let asked = self.requests.clone();
        // The type of the error is the library's.
        #[allow(clippy::result_large_err)]
        let answer = move |request: &Request, mut response: Response| {
            let header = |name| request.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header("sec-websocket-protocol"), "mqtt");
            assert!(!request.headers().contains_key("authorization"));
            let path = request.uri().to_string();
            asked.lock().unwrap().push((path, header("host")));
            let headers = response.headers_mut();
            headers.insert("sec-websocket-protocol", HeaderValue::from_static("mqtt"));
            Ok(response)
        };
        within(tokio_tungstenite::accept_hdr_async(stream, answer))
            .await
            .unwrap()
    }
}

/// Carries bytes between a WebSocket and a server, in frames and messages of all lengths, with pings in between.
async fn bridge(socket: Socket, server: TcpStream) {
    let (mut to_client, mut from_client) = socket.split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        while let Some(Ok(message)) = from_client.next().await {
            match message {
                Message::Binary(bytes) => to_server.write_all(&bytes).await.unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                _ => break,
            }
        }
    };
    let down = async {
        let mut bytes = vec![0; 100_000];
        let mut round = 0_usize;
        loop {
            let length = from_server.read(&mut bytes).await.unwrap_or(0);
            if length == 0 {
                break;
            }
            // An empty frame, some short ones, and the rest.
            let cuts = [0, 1.min(length), (2 + round % 7).min(length), length];
            let mut begin = 0;
            for (number, end) in cuts.into_iter().enumerate() {
                let kind = if number == 0 {
                    Data::Binary
                } else {
                    Data::Continue
                };
                let part = bytes[begin..end].to_vec();
                let frame = Frame::message(part, OpCode::Data(kind), number == 3);
                to_client.feed(Message::Frame(frame)).await.unwrap();
                let ping = Message::Ping(vec![7; round % 126].into());
                if to_client.feed(ping).await.is_err() {
                    return;
                }
                begin = end;
                round += 1;
            }
            if to_client.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = up => {}, () = down => {} }
}

async fn assert_values_round_trip(listener: Listener, settings: Settings) {
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let address = store.addresses()[0];
    let asked = listener.requests.clone();
    let bridges = tokio::spawn(async move {
        loop {
            let socket = listener.accept().await;
            let server = TcpStream::connect(address).await.unwrap();
            tokio::spawn(bridge(socket, server));
        }
    });
    let client = within(Client::connect(settings)).await.unwrap();
    let mut observer = client.observe("key-70000").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for length in [0, 1, 125, 126, 1000, 65_535, 65_536, 70_000, 3_000_000] {
        let client = client.clone();
        tasks.spawn(async move {
            let key = format!("key-{length}");
            let value: Vec<u8> = (0..length).map(|at: usize| at.to_le_bytes()[0]).collect();
            client.set(&key, &value).await.unwrap();
            assert!(client.get(&key).await.unwrap().unwrap().value == value);
        });
    }
    while let Some(ended) = within(tasks.join_next()).await {
        ended.unwrap();
    }
    let told = within(observer.next()).await;
    assert!(matches!(told, Some(Observation::Set { value, .. }) if value.len() == 70_000));
    within(client.close()).await;
    assert_eq!(client.counters().reconnects, 0);
    assert_eq!(asked.lock().unwrap().len(), 1);
    bridges.abort();
}

#[tokio::test]
async fn values_of_all_sizes_pass_in_frames_of_all_sizes() {
    let listener = Listener::start(None).await;
    let settings = listener.settings();
    assert_values_round_trip(listener, settings).await;
}

#[tokio::test]
async fn values_pass_over_tls() {
    let authority = Authority::new("authority");
    let files = Files::new();
    let tls = Tls::new(&authority.issue(["127.0.0.1"])).acceptor();
    let listener = Listener::start(Some(tls)).await;
    let settings = listener
        .settings()
        .ca_file(files.write("ca", authority.pem()));
    assert_values_round_trip(listener, settings).await;

    let listener = Listener::start(Some(Tls::new(&authority.issue(["other"])).acceptor())).await;
    let settings = listener.settings().ca_file(files.path("ca"));
    let accept = async {
        let (tcp, _) = listener.tcp.accept().await.unwrap();
        listener.tls.as_ref().unwrap().accept(tcp).await.is_ok()
    };
    let (client, _) = tokio::join!(within(Client::connect(settings)), accept);
    assert_eq!(client.unwrap_err().kind(), ErrorKind::Untrusted);
}

#[tokio::test]
async fn the_path_and_the_host_are_those_of_the_url() {
    let listener = Listener::start(None).await;
    for (rest, path) in [("", "/mqtt"), ("/", "/"), ("/a%20b?client_id=a", "/a%20b")] {
        let url = listener.url(rest).replace("//", "//user:secret@");
        let settings: Settings = url.parse().unwrap();
        let accept = async {
            let mut socket = listener.accept().await;
            // User and password are MQTT's.
            let connect = socket.next().await.unwrap().unwrap().into_data();
            assert!(connect.windows(6).any(|part| part == b"secret"));
        };
        let (client, ()) = tokio::join!(Client::connect(settings), accept);
        assert_eq!(client.unwrap_err().kind(), ErrorKind::Unreachable);
        let asked = listener.requests.lock().unwrap().pop().unwrap();
        assert_eq!(
            asked,
            (path.to_owned(), format!("127.0.0.1:{}", listener.port()))
        );
    }
}

/// Returns the error of a client whose server sends `answer` in place of CONNACK.
async fn after(listener: &Listener, answer: impl AsyncFnOnce(&mut Socket)) -> Error {
    let serve = async {
        let mut socket = listener.accept().await;
        let connect = socket.next().await.unwrap().unwrap();
        assert!(connect.is_binary(), "{connect:?}");
        answer(&mut socket).await;
        // The client leaves.
        while let Some(Ok(_)) = within(socket.next()).await {}
    };
    let connecting = within(Client::connect(listener.settings()));
    let (client, ()) = tokio::join!(connecting, serve);
    client.unwrap_err()
}

#[tokio::test]
async fn invalid_websocket_or_mqtt_data_ends_the_connection() {
    let listener = Listener::start(None).await;
    let error = after(&listener, async |socket| {
        socket.send(Message::text("hello")).await.unwrap();
    })
    .await;
    assert!(
        error.to_string().contains("text instead of binary"),
        "{error}"
    );

    let close = CloseFrame {
        code: CloseCode::Size,
        reason: "too\nmuch".into(),
    };
    let error = after(&listener, async |socket| {
        let _ = socket.close(Some(close)).await;
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().ends_with("1009 too\\nmuch"), "{error}");

    let error = after(&listener, async |socket| {
        let _ = socket.close(None).await;
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(
        error
            .to_string()
            .ends_with("the broker closed the connection"),
        "{error}"
    );

    for hostile in [
        // A frame of 2^63 - 1 bytes, which begins with a packet of 256 MiB: no room is made for either.
        &[
            0x82, 127, 0x7F, 255, 255, 255, 255, 255, 255, 255, 0x30, 0xFF, 0xFF, 0xFF, 0x7F,
        ][..],
        &[0x82, 127, 0xFF, 0, 0, 0, 0, 0, 0, 0],
        &[0x82, 0x81, 1, 2, 3, 4, 5],
        &[0x80, 1, 0],
        &[0x02, 0, 0x82, 0],
        &[0x09, 0],
        &[0x89, 126, 0, 126],
        &[0xF2, 0],
        &[0x83, 0],
    ] {
        let error = after(&listener, async |socket| {
            socket.get_mut().write_all(hostile).await.unwrap();
        })
        .await;
        let kinds = [ErrorKind::Unreachable, ErrorKind::ConnectionRefused];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

#[tokio::test]
async fn pings_are_answered_with_their_payload() {
    let listener = Listener::start(None).await;
    let error = after(&listener, async |socket| {
        for payload in ["", "some"] {
            socket.send(Message::Ping(payload.into())).await.unwrap();
            let pong = within(socket.next()).await.unwrap().unwrap();
            assert_eq!(pong, Message::Pong(payload.into()));
        }
        let _ = socket.close(None).await;
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_server_without_the_mqtt_subprotocol_is_reported() {
    let listener = Listener::start(None).await;
    let accept = "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n";
    let switching =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(20_000));
    for (response, kind, phrase) in [
        ("", ErrorKind::Unreachable, "may not speak WebSocket"),
        (
            "HTTP/1.1 404 Not Found\r\n\r\n",
            ErrorKind::ConnectionRefused,
            "HTTP status 404",
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\n\r\n",
            ErrorKind::NotAuthenticated,
            "HTTP",
        ),
        (
            "\x20\x02\0\0",
            ErrorKind::ConnectionRefused,
            "does not speak HTTP",
        ),
        (&long, ErrorKind::ConnectionRefused, "too long"),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            ErrorKind::ConnectionRefused,
            "did not change",
        ),
        (
            &format!("{switching}{accept}\r\n"),
            ErrorKind::ConnectionRefused,
            "another request",
        ),
    ] {
        let serve = async {
            let mut stream = listener.stream().await;
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            let _ = stream.write_all(response.as_bytes()).await;
            let _ = stream.shutdown().await;
            let _ = stream.read(&mut request).await;
        };
        let (client, ()) = tokio::join!(within(Client::connect(listener.settings())), serve);
        let error = client.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(phrase), "{error}");
    }
    // A server that speaks WebSocket, but another protocol over it.
    let serve = async {
        let stream = listener.stream().await;
        let _ = tokio_tungstenite::accept_async(stream).await;
    };
    let (client, ()) = tokio::join!(within(Client::connect(listener.settings())), serve);
    let error = client.unwrap_err();
    assert!(
        error.to_string().contains("does not speak MQTT over"),
        "{error}"
    );
}

#[tokio::test]
async fn a_lost_connection_is_restored() {
    let listener = Listener::start(None).await;
    let store = RunningServer::start(Config::in_memory()).unwrap();
    let connecting = tokio::spawn(Client::connect(listener.settings()));
    let server = TcpStream::connect(store.addresses()[0]).await.unwrap();
    let first = tokio::spawn(bridge(listener.accept().await, server));
    let client = within(connecting).await.unwrap().unwrap();
    client.set("key", "value").await.unwrap();
    first.abort();
    let mut state = client.state();
    within(state.wait_for(|it| matches!(it, ConnectionState::Reconnecting(_))))
        .await
        .unwrap();
    let server = TcpStream::connect(store.addresses()[0]).await.unwrap();
    tokio::spawn(bridge(listener.accept().await, server));
    let entry = within(client.get("key")).await.unwrap();
    assert_eq!(entry.unwrap().value, "value");
}
