//! Plain TCP.
use std::io;
use tokio::net::TcpStream;

/// Connects to the first address of `host` that accepts. Small packets are not held back for larger ones.
pub(super) async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
