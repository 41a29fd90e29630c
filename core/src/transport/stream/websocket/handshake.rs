//! The HTTP request and response of the WebSocket handshake (RFC 6455, section 4).
use crate::error::ErrorKind;
use crate::transport::Stream;
use crate::transport::error::TransportError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Header, Response, Status};
use sha1::{Digest, Sha1};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Constant that every server appends to a key.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const PROTOCOL: &str = "mqtt";
/// Maximum size of a response, in bytes; a longer one is rejected.
const MAX_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// Performs the handshake over `stream`. Returns the bytes after the response, which belong to the WebSocket.
pub(super) async fn perform(
    stream: &mut Stream,
    host: &str,
    path: &str,
) -> Result<BytesMut, TransportError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| connection_error(&io::Error::other(error)))?;
    let key = STANDARD.encode(random);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    );
    let write = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await
    };
    write.await.map_err(|error| explained(stream, &error))?;
    let mut input = BytesMut::with_capacity(1024);
    loop {
        let read = stream.read_buf(&mut input).await;
        if read.map_err(|error| explained(stream, &error))? == 0 {
            let reason = "the broker closed the connection during the WebSocket handshake; it may not speak WebSocket on this port";
            return Err(TransportError::new(ErrorKind::Unreachable, reason));
        }
        let mut headers = [EMPTY_HEADER; MAX_HEADERS];
        let mut response = Response::new(&mut headers);
        match response.parse(&input) {
            Ok(Status::Complete(length)) => {
                check(&response, &key)?;
                input.advance(length);
                return Ok(input);
            }
            Ok(Status::Partial) if input.len() < MAX_BYTES => {}
            Ok(Status::Partial) => return Err(refused("its HTTP response is too long")),
            Err(error) => {
                return Err(refused(&format!(
                    "it does not speak HTTP on this port ({error})"
                )));
            }
        }
    }
}

fn check(response: &Response<'_, '_>, key: &str) -> Result<(), TransportError> {
    match response.code {
        Some(101) => {}
        Some(401 | 403) => {
            let reason = "the broker refused the WebSocket handshake: it may demand credentials of HTTP, or allow this host too little";
            return Err(TransportError::new(ErrorKind::NotAuthenticated, reason));
        }
        code => {
            let code = code.unwrap_or_default();
            return Err(refused(&format!(
                "HTTP status {code} instead of 101; the path of the URL may be wrong"
            )));
        }
    }
    let value = |name: &str| single(response.headers, name);
    if !value("Upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket")) {
        return Err(refused("it did not change to WebSocket"));
    }
    let accept = STANDARD.encode(Sha1::digest(format!("{key}{GUID}")));
    if value("Sec-WebSocket-Accept") != Some(&accept) {
        return Err(refused("its answer belongs to another request"));
    }
    if value("Sec-WebSocket-Protocol") != Some(PROTOCOL) {
        return Err(refused("it does not speak MQTT over WebSocket"));
    }
    if value("Sec-WebSocket-Extensions").is_some() {
        return Err(refused("it uses an extension that was not offered"));
    }
    Ok(())
}

/// Returns the value of a header that occurs exactly once, without surrounding spaces.
fn single<'a>(headers: &[Header<'a>], name: &str) -> Option<&'a str> {
    let mut found = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(name));
    let header = found.next().filter(|_| found.next().is_none())?;
    std::str::from_utf8(header.value).ok().map(str::trim)
}

fn refused(problem: &str) -> TransportError {
    let reason = format!("the broker refused the WebSocket handshake: {problem}");
    TransportError::new(ErrorKind::ConnectionRefused, reason)
}

/// Explains an error of the connection itself.
fn explained(stream: &Stream, error: &io::Error) -> TransportError {
    stream
        .explain(error)
        .unwrap_or_else(|| connection_error(error))
}

fn connection_error(error: &io::Error) -> TransportError {
    let reason = format!("the connection broke during the WebSocket handshake: {error}");
    TransportError::new(ErrorKind::Unreachable, reason)
}
