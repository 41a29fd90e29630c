//! A connection over any transport.
use super::websocket::WebSocket;
use bytes::BytesMut;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// Number of bytes read at a time below TLS, which reads 4 KiB at a time by itself.
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// A TCP connection that can move to another runtime, while the TLS session around it is kept.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Option<TcpStream>,
    /// Bytes that were read and not consumed yet; `None` if nothing is read ahead.
    read_ahead: Option<BytesMut>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Some(stream),
            read_ahead: None,
        }
    }

    /// Creates a socket that reads large pieces, however few bytes the caller asks for.
    pub(super) fn with_read_ahead(stream: TcpStream) -> Self {
        Self {
            stream: Some(stream),
            read_ahead: Some(BytesMut::new()),
        }
    }
}

fn connected(stream: &mut Option<TcpStream>) -> io::Result<&mut TcpStream> {
    stream
        .as_mut()
        .ok_or_else(|| io::ErrorKind::NotConnected.into())
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            stream,
            read_ahead: ahead,
        } = self.get_mut();
        let stream = connected(stream)?;
        let Some(ahead) = ahead else {
            return Pin::new(stream).poll_read(context, buffer);
        };
        if ahead.is_empty() {
            ahead.reserve(READ_AHEAD_BYTES);
            let read = pin!(stream.read_buf(ahead)).poll(context);
            if !matches!(read, Poll::Ready(Ok(1..))) {
                // A waiting connection keeps no buffer.
                *ahead = BytesMut::new();
                return read.map_ok(|_| ());
            }
        }
        let taken = ahead.split_to(ahead.len().min(buffer.remaining()));
        buffer.put_slice(&taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(connected(&mut self.get_mut().stream)?).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(connected(&mut self.get_mut().stream)?).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(connected(&mut self.get_mut().stream)?).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(connected(&mut self.get_mut().stream)?).poll_shutdown(context)
    }
}

/// Transport below MQTT, or below WebSocket.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(Socket),
    Unix(UnixStream),
    Tls(Box<TlsStream<Socket>>),
}

impl Transport {
    fn socket(&mut self) -> Option<&mut Socket> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Tls(stream) => Some(stream.get_mut().0),
            Self::Unix(_) => None,
        }
    }
}

/// A byte stream that carries MQTT.
#[derive(Debug)]
pub struct Stream(Framing);

/// Framing of the bytes of MQTT.
#[derive(Debug)]
enum Framing {
    /// No framing.
    None(Transport),
    /// Frames of WebSocket.
    WebSocket(Box<WebSocket<Transport>>),
}

impl Stream {
    /// Creates a stream of the transport's bytes.
    pub(crate) fn plain(transport: Transport) -> Self {
        Self(Framing::None(transport))
    }

    /// Creates a stream of the payloads of a WebSocket.
    pub(crate) fn web_socket(stream: WebSocket<Transport>) -> Self {
        Self(Framing::WebSocket(Box::new(stream)))
    }

    fn transport(&mut self) -> &mut Transport {
        match &mut self.0 {
            Framing::None(transport) => transport,
            Framing::WebSocket(stream) => stream.transport(),
        }
    }

    /// Removes the stream from its runtime.
    pub(super) fn detach(mut self) -> io::Result<DetachedStream> {
        let socket = self.transport().socket();
        let stream = socket.and_then(|socket| socket.stream.take());
        let stream = stream.ok_or(io::ErrorKind::Unsupported)?.into_std()?;
        Ok(DetachedStream {
            stream,
            session: self,
        })
    }
}

/// A stream between two runtimes.
#[derive(Debug)]
pub(super) struct DetachedStream {
    stream: std::net::TcpStream,
    session: Stream,
}

impl DetachedStream {
    /// Registers the stream with the current runtime.
    pub(super) fn attach(self) -> io::Result<Stream> {
        let mut stream = self.session;
        if let Some(socket) = stream.transport().socket() {
            socket.stream = Some(TcpStream::from_std(self.stream)?);
        }
        Ok(stream)
    }
}

macro_rules! delegate {
    ($name:ident, $this:ident => $inner:expr, $stream:ident, $($variant:path)|+) => {
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match {
                    let $this = self.get_mut();
                    $inner
                } {
                    $($variant($stream) => Pin::new($stream).poll_read(context, buffer)),+
                }
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match {
                    let $this = self.get_mut();
                    $inner
                } {
                    $($variant($stream) => Pin::new($stream).poll_write(context, bytes)),+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match {
                    let $this = self.get_mut();
                    $inner
                } {
                    $($variant($stream) => Pin::new($stream).poll_flush(context)),+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match {
                    let $this = self.get_mut();
                    $inner
                } {
                    $($variant($stream) => Pin::new($stream).poll_shutdown(context)),+
                }
            }
        }
    };
}

delegate!(Transport, this => this, stream, Transport::Tcp | Transport::Unix | Transport::Tls);
delegate!(Stream, this => &mut this.0, stream, Framing::None | Framing::WebSocket);
