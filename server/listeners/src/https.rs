//! TLS handshakes of the HTTP port.
use super::handshake_thread::linger;
use super::tls::{Tls, identity, with_advice};
use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// First byte of a TLS connection: the type of a record with a part of the handshake (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 0x16;

/// Response to a request without TLS.
const PLAIN_REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 32\r\n\
Connection: close\r\n\r\nthis port has TLS: use https://\n";

/// Completes the TLS handshake of an HTTP connection. A client that is refused receives the reason, if possible.
///
/// # Errors
/// The client closed the connection, does not use TLS, or has no certificate that these settings accept.
///
/// # Cancel safety
/// The connection is closed if the future is dropped.
pub async fn accept_https(tls: &Tls, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first != [HANDSHAKE_RECORD] {
        stream.write_all(PLAIN_REFUSAL).await?;
        linger(&mut stream).await;
        let problem = "the client does not use TLS";
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let acceptor = TlsAcceptor::from(tls.config(true));
    let mut stream = match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => stream,
        Err((error, mut stream)) => {
            linger(&mut stream).await;
            return Err(with_advice(error, "--http-tls-client-ca"));
        }
    };
    let certificates = stream.get_ref().1.peer_certificates();
    // A resumed session may have a certificate that has expired.
    let checked = certificates.and_then(|chain| chain.first()).map(identity);
    if let Some(Err(problem)) = checked {
        linger(&mut stream).await;
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(stream)
}
