//! Byte streams to the broker.
mod stream;
mod tcp;

pub(crate) use stream::Stream;

use crate::Settings;
use std::io;

/// Connects to the broker; the caller limits the time.
pub(crate) async fn connect(settings: &Settings) -> io::Result<Stream> {
    if let Some(connecting) = settings.platform.connect() {
        return connecting.await.map(Stream::Other);
    }
    tcp::connect(&settings.host, settings.port)
        .await
        .map(Stream::Tcp)
}
