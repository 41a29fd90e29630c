//! A connection, whatever it runs over.
use super::error::TransportError;
use crate::platform::Duplex;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A byte stream to the broker. What was written must be flushed: TLS may hold it back. It is not written to with `writev`,
/// which could send SIGPIPE to the program. After an error of writing, the broker has got nothing of what was to be written.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<super::tls::TlsStream>),
    #[cfg(feature = "ws")]
    WebSocket(Box<super::websocket::WebSocket>),
    /// Made by the [`Platform`](crate::platform::Platform).
    Other(Box<dyn Duplex>),
}

impl Stream {
    /// What an error of reading or writing means, if it is more than a broken connection.
    pub(crate) fn explain(&self, error: &io::Error) -> Option<TransportError> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.explain(error),
            #[cfg(feature = "ws")]
            Self::WebSocket(socket) => socket.transport.explain(error),
            _ => {
                let _ = error;
                None
            }
        }
    }
}

macro_rules! on_each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Tcp($inner) => $call,
            #[cfg(unix)]
            Stream::Unix($inner) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls(tls) => {
                let $inner = &mut tls.bytes;
                $call
            }
            #[cfg(feature = "ws")]
            Stream::WebSocket($inner) => $call,
            Stream::Other($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_each!(self, inner => Pin::new(inner).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        #[cfg(feature = "tls")]
        if let Stream::Tls(tls) = stream {
            return tls.poll_write(context, bytes);
        }
        on_each!(Pin::new(stream), inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self, inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self, inner => Pin::new(inner).poll_shutdown(context))
    }
}
