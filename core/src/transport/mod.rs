//! Byte streams to the broker.
mod tcp;

use crate::Settings;
use std::io;
use tokio::net::TcpStream;

/// Connects to the broker; the caller limits the time.
pub(crate) async fn connect(settings: &Settings) -> io::Result<TcpStream> {
    tcp::connect(&settings.host, settings.port).await
}
