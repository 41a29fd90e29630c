//! The HTTP request that upgrades a connection to WebSocket, and its response (RFC 6455, section 4).
use super::origin;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Header, Request, Status};
use sha1::{Digest, Sha1};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Suffix that every server appends to a key.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const SUBPROTOCOL: &str = "mqtt";
/// Maximum length of a request.
const MAX_REQUEST_BYTES: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;

/// HTTP status and reason of a refused request.
type HttpRejection = (&'static str, &'static str);

/// Answers the upgrade request of a client. Returns the bytes that follow it, which belong to the WebSocket. Before an
/// error is returned, a response with the reason is sent.
pub(crate) async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    has_tls: bool,
    web_origins: &[String],
) -> io::Result<BytesMut> {
    let mut input = BytesMut::with_capacity(1024);
    let answered = loop {
        if stream.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(answered) = parse_request(&input, has_tls, web_origins) {
            break answered;
        }
    };
    match answered {
        Ok((length, accept)) => {
            let response = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
            );
            stream.write_all(response.as_bytes()).await?;
            stream.flush().await?;
            input.advance(length);
            Ok(input)
        }
        Err((status, problem)) => {
            let response = format!(
                "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nSec-WebSocket-Version: 13\r\n\
                 Content-Length: {}\r\n\r\n{problem}\n",
                problem.len() + 1
            );
            stream.write_all(response.as_bytes()).await?;
            stream.flush().await?;
            Err(io::Error::new(io::ErrorKind::InvalidData, problem))
        }
    }
}

/// Returns the length of the request, and the key of the response; `None` if the request is incomplete.
fn parse_request(
    input: &[u8],
    has_tls: bool,
    web_origins: &[String],
) -> Option<Result<(usize, String), HttpRejection>> {
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(input) {
        Ok(Status::Complete(length)) if length <= MAX_REQUEST_BYTES => {
            let accept = check(&request, has_tls, web_origins);
            Some(accept.map(|accept| (length, accept)))
        }
        Ok(Status::Partial) if input.len() < MAX_REQUEST_BYTES => None,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Some(Err((
            "431 Request Header Fields Too Large",
            "the request is too long",
        ))),
        Err(_) => Some(Err(("400 Bad Request", "this is not HTTP"))),
    }
}

fn check(
    request: &Request<'_, '_>,
    has_tls: bool,
    web_origins: &[String],
) -> Result<String, HttpRejection> {
    const BAD: &str = "400 Bad Request";
    let headers = &*request.headers;
    if request.method != Some("GET") {
        return Err(("405 Method Not Allowed", "a WebSocket begins with GET"));
    }
    let is_upgrade = header_tokens(headers, "Upgrade")
        .any(|word| word.eq_ignore_ascii_case("websocket"))
        && header_tokens(headers, "Connection").any(|word| word.eq_ignore_ascii_case("upgrade"));
    if request.version != Some(1) || !is_upgrade {
        return Err(("426 Upgrade Required", "here is MQTT over WebSocket"));
    }
    if single_value(headers, "Sec-WebSocket-Version") != Some("13") {
        return Err(("426 Upgrade Required", "the version of WebSocket is 13"));
    }
    let Some(host) = single_value(headers, "Host") else {
        return Err((BAD, "there is no host"));
    };
    if has_header(headers, "Origin") {
        let origin = single_value(headers, "Origin").unwrap_or_default();
        if !origin::is_allowed(origin, host, has_tls, web_origins) {
            let problem = "pages of this origin may not connect (--ws-allow-origin)";
            return Err(("403 Forbidden", problem));
        }
    }
    let Some(key) = single_value(headers, "Sec-WebSocket-Key")
        .filter(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16))
    else {
        return Err((BAD, "the key of the WebSocket is none"));
    };
    if !header_tokens(headers, "Sec-WebSocket-Protocol").any(|word| word == SUBPROTOCOL) {
        return Err((BAD, "the subprotocol has to be mqtt"));
    }
    Ok(STANDARD.encode(Sha1::digest(format!("{key}{GUID}"))))
}

fn headers_named<'a, 'h>(
    headers: &'a [Header<'h>],
    name: &'a str,
) -> impl Iterator<Item = &'a Header<'h>> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
}

fn has_header(headers: &[Header<'_>], name: &str) -> bool {
    headers_named(headers, name).next().is_some()
}

/// Returns the trimmed value of a header that occurs once.
fn single_value<'a>(headers: &'a [Header<'_>], name: &'a str) -> Option<&'a str> {
    let mut found = headers_named(headers, name);
    let header = found.next().filter(|_| found.next().is_none())?;
    std::str::from_utf8(header.value).ok().map(str::trim)
}

/// Returns the words in all headers of this name.
fn header_tokens<'a>(headers: &'a [Header<'_>], name: &'a str) -> impl Iterator<Item = &'a str> {
    headers_named(headers, name)
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the request of section 1.3, with some lines replaced.
    fn request(replaced: &[(&str, &str)]) -> Vec<u8> {
        let mut lines = vec![
            ("Host", "server.example.com"),
            ("Upgrade", "websocket"),
            ("Connection", "keep-alive, Upgrade"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", "mqttv3.1, mqtt"),
            ("Sec-WebSocket-Version", "13"),
        ];
        lines.retain(|(name, _)| replaced.iter().all(|(other, _)| name != other));
        lines.extend(replaced.iter().filter(|(_, value)| !value.is_empty()));
        let lines = lines
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        format!("GET /mqtt HTTP/1.1\r\n{}\r\n", lines.collect::<String>()).into_bytes()
    }

    fn status(request: &[u8]) -> Option<&'static str> {
        parse_request(request, false, &[]).map(|answer| match answer {
            Ok(_) => "101",
            Err((status, _)) => &status[..3],
        })
    }

    #[test]
    fn the_response_key_matches_rfc_6455() {
        let whole = request(&[]);
        for length in 0..whole.len() {
            assert_eq!(status(&whole[..length]), None, "{length}");
        }
        let more = [&whole[..], b"\x82"].concat();
        let (length, accept) = parse_request(&more, false, &[]).unwrap().unwrap();
        assert_eq!(length, whole.len());
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn invalid_upgrade_requests_are_rejected() {
        for (replaced, expected) in [
            (("Sec-WebSocket-Protocol", "mqttv3.1"), "400"),
            (("Sec-WebSocket-Protocol", ""), "400"),
            (("Sec-WebSocket-Key", "short"), "400"),
            (("Sec-WebSocket-Version", "8"), "426"),
            (("Upgrade", "h2c"), "426"),
            (("Connection", "close"), "426"),
            (("Host", ""), "400"),
            (("Origin", "https://stranger.example"), "403"),
            (("Origin", "null"), "403"),
        ] {
            assert_eq!(
                status(&request(&[replaced])),
                Some(expected),
                "{replaced:?}"
            );
        }
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"), Some("405"));
        assert_eq!(status(b"\x10\x0d\x00\x04MQTT"), Some("400"));
        assert_eq!(status(&[b'a'; MAX_REQUEST_BYTES + 1]), Some("431"));
        let many = "x: y\r\n".repeat(100);
        assert_eq!(
            status(format!("GET / HTTP/1.1\r\n{many}").as_bytes()),
            Some("431")
        );
    }
}
