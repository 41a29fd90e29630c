//! PROXY protocol headers: required from trusted proxies, and refused from other peers.
use statestored_connection::proxy_header;
use std::io;
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Number of bytes peeked at a time.
const PEEK_BYTES: usize = 1024;

/// Reads the header of a connection from a trusted proxy. Returns the client's address, if the header has one.
///
/// # Errors
/// The bytes are not a header, or the connection failed.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut input = Vec::new();
    loop {
        let taken = input.len();
        input.resize(taken + PEEK_BYTES, 0);
        // Bytes behind the header stay where they are.
        let count = stream.peek(&mut input[taken..]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        input.truncate(taken + count);
        let header = proxy_header::decode(&input)?;
        let end = header.map_or(input.len(), |header| header.length);
        stream.read_exact(&mut input[taken..end]).await?;
        if let Some(header) = header {
            return Ok(header.source);
        }
    }
}

/// Refuses a connection that begins with a header although its address is not trusted.
///
/// # Errors
/// The connection begins with a header, or has failed.
pub(super) async fn refuse(stream: &TcpStream) -> io::Result<()> {
    let mut input = [0; 16];
    let count = stream.peek(&mut input).await?;
    if proxy_header::is_header(&input[..count]) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            proxy_header::UNTRUSTED,
        ));
    }
    Ok(())
}
