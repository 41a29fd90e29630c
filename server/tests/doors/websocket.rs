//! MQTT over WebSocket, said by hand, and by another implementation.
use crate::tls_fixture::{TlsFixture, connect_packet, encrypt, open, packet, until_closed};
use bytes::BytesMut;
use futures_util::{SinkExt, StreamExt};
use statestore_protocol::mqtt::{Packet, decode};
use statestore_protocol::websocket::{Opcode, put_frame};
use statestored::RunningServer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const MASK: Option<[u8; 4]> = Some([0x12, 0x34, 0x56, 0x78]);

fn server(files: &TlsFixture) -> RunningServer {
    let mut config = files.config(&["ws://127.0.0.1:0", "wss://127.0.0.1:0"]);
    config.listener_config.web_origins = vec!["https://page.example".into()];
    RunningServer::start(config).unwrap()
}

fn request(host: &str, more: &str) -> String {
    format!(
        "GET /mqtt HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

/// The answer's head.
fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

/// The status that a request gets.
fn status(stream: &mut (impl Read + Write), request: &str) -> u16 {
    // The server may have seen enough before the end.
    let _ = stream.write_all(request.as_bytes());
    let head = head(stream);
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// A WebSocket behind its handshake.
fn upgraded(server: &RunningServer) -> TcpStream {
    let mut stream = open(server.addresses()[0]);
    let request = request("x", "Sec-WebSocket-Protocol: mqtt\r\n");
    assert_eq!(status(&mut stream, &request), 101);
    stream
}

/// The next frame of the server, of less than 126 bytes: its first byte and its payload.
fn frame(stream: &mut impl Read) -> (u8, Vec<u8>) {
    let mut begin = [0; 2];
    stream.read_exact(&mut begin).unwrap();
    assert!(begin[1] < 126, "{begin:?}");
    let mut payload = vec![0; begin[1].into()];
    stream.read_exact(&mut payload).unwrap();
    (begin[0], payload)
}

fn is_connack(mut payload: &[u8]) -> bool {
    matches!(packet(&mut payload), Some(Packet::ConnAck(_)))
}

#[test]
fn handshakes_are_checked() {
    let files = TlsFixture::new();
    let server = server(&files);
    let host = server.addresses()[0].to_string();
    let protocol = "Sec-WebSocket-Protocol: mqtt\r\n";
    let with = |origin: &str| format!("{protocol}Origin: {origin}\r\n");
    let huge = format!("{protocol}X: {}\r\n", "y".repeat(20_000));
    for (more, expected) in [
        (protocol.to_owned(), 101),
        (
            "Sec-WebSocket-Protocol: mqttv3.1\r\nSec-WebSocket-Protocol: mqtt\r\n".into(),
            101,
        ),
        ("Sec-WebSocket-Protocol: mqttv3.1\r\n".into(), 400),
        (String::new(), 400),
        (with("https://page.example"), 101),
        (with("https://page.example.org"), 403),
        (with("null"), 403),
        (with(&format!("http://{host}")), 101),
        (huge, 431),
    ] {
        let mut stream = open(server.addresses()[0]);
        assert_eq!(
            status(&mut stream, &request(&host, &more)),
            expected,
            "{more:.60}"
        );
        if expected != 101 {
            until_closed(&mut stream);
        }
    }
    let more = with("http://store.example");
    let of_its_name = request("store.example", &more);
    assert_eq!(status(&mut open(server.addresses()[0]), &of_its_name), 403);
    // The certificate stands for the name.
    let config = Arc::new(files.client(None, &["http/1.1"]));
    let mut stream = encrypt(server.addresses()[1], &config);
    assert_eq!(status(&mut stream, &of_its_name), 101);
}

#[test]
fn packets_may_be_split_across_frames() {
    let files = TlsFixture::new();
    let server = server(&files);
    let connect = connect_packet();
    let mut stream = upgraded(&server);
    let mut out = BytesMut::new();
    for (index, byte) in connect.iter().enumerate() {
        let kind = if index == 0 {
            Opcode::Binary
        } else {
            Opcode::Continuation
        };
        let begin = out.len();
        put_frame(&mut out, kind, &[*byte], MASK);
        if index + 1 < connect.len() {
            // Not the last of its message.
            out[begin] &= 0x7F;
        }
        put_frame(&mut out, Opcode::Pong, b"", MASK);
    }
    stream.write_all(&out).unwrap();
    let (first, payload) = frame(&mut stream);
    assert_eq!(first, 0x82);
    assert!(is_connack(&payload));
    // Two packets in one frame.
    let mut out = BytesMut::new();
    put_frame(&mut out, Opcode::Binary, &[0xC0, 0, 0xC0, 0], MASK);
    stream.write_all(&out).unwrap();
    let mut pongs = Vec::new();
    while pongs.len() < 4 {
        pongs.extend(frame(&mut stream).1);
    }
    assert_eq!(pongs, [0xD0, 0, 0xD0, 0]);
}

#[test]
fn ping_and_close_frames_are_answered() {
    let files = TlsFixture::new();
    let server = server(&files);
    let mut stream = upgraded(&server);
    let mut out = BytesMut::new();
    put_frame(&mut out, Opcode::Ping, b"are you there", MASK);
    stream.write_all(&out).unwrap();
    assert_eq!(frame(&mut stream), (0x8A, b"are you there".to_vec()));
    out.clear();
    put_frame(&mut out, Opcode::Close, &1000_u16.to_be_bytes(), MASK);
    stream.write_all(&out).unwrap();
    assert_eq!(frame(&mut stream), (0x88, 1000_u16.to_be_bytes().to_vec()));
    assert!(until_closed(&mut stream).is_empty());
}

#[test]
fn invalid_frames_end_the_connection() {
    let files = TlsFixture::new();
    let server = server(&files);
    let mut unmasked = BytesMut::new();
    put_frame(&mut unmasked, Opcode::Binary, &connect_packet(), None);
    let mut text = BytesMut::new();
    put_frame(&mut text, Opcode::Binary, b"text", MASK);
    text[0] = 0x81;
    let mut compressed = BytesMut::new();
    put_frame(&mut compressed, Opcode::Binary, b"x", MASK);
    compressed[0] |= 0x40;
    let mut continued = BytesMut::new();
    put_frame(&mut continued, Opcode::Continuation, b"x", MASK);
    for bytes in [unmasked, text, compressed, continued] {
        let mut stream = upgraded(&server);
        stream.write_all(&bytes).unwrap();
        assert_eq!(frame(&mut stream), (0x88, 1002_u16.to_be_bytes().to_vec()));
        assert!(until_closed(&mut stream).is_empty());
    }
}

#[tokio::test]
async fn another_implementation_interoperates() {
    let files = TlsFixture::new();
    let server = server(&files);
    let stream = tokio::net::TcpStream::connect(server.addresses()[0])
        .await
        .unwrap();
    let mut request = "ws://127.0.0.1/mqtt".into_client_request().unwrap();
    let protocol = "mqtt".parse().unwrap();
    request
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", protocol);
    let (mut socket, response) = tokio_tungstenite::client_async(request, stream)
        .await
        .unwrap();
    assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "mqtt");
    let connect = connect_packet().freeze();
    socket.send(Message::Binary(connect)).await.unwrap();
    let Some(Ok(Message::Binary(payload))) = socket.next().await else {
        panic!("no answer");
    };
    let mut payload = BytesMut::from(&payload[..]);
    let answer = decode(&mut payload, u32::MAX).unwrap();
    assert!(matches!(answer, Some(Packet::ConnAck(_))), "{answer:?}");
    socket.send(Message::Ping("hello".into())).await.unwrap();
    assert_eq!(
        socket.next().await.unwrap().unwrap(),
        Message::Pong("hello".into())
    );
    socket.close(None).await.unwrap();
    while let Some(message) = socket.next().await {
        assert!(matches!(message.unwrap(), Message::Close(_)));
    }
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
}
