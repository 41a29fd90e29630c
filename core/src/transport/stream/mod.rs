//! A connection over any kind of transport.
#[cfg(feature = "ws")]
mod websocket;

#[cfg(feature = "ws")]
pub(super) use websocket::WebSocket;

use super::error::TransportError;
use crate::platform::Duplex;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A byte stream to the broker. Written bytes must be flushed, since TLS may buffer them. The stream is not written to with
/// `writev`, which could send SIGPIPE to the program. If a write fails, the broker has received nothing of it.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<super::tls::TlsStream>),
    #[cfg(feature = "ws")]
    WebSocket(Box<WebSocket>),
    /// Created by the [`Platform`](crate::platform::Platform).
    Other(Box<dyn Duplex>),
}

impl Stream {
    /// Explains an error of a read or write; `None` if it is only a broken connection.
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
