//! MQTT over WebSocket (RFC 6455; MQTT 5, section 6).
//!
//! The payloads of binary frames, one behind the other, are the byte stream: where frames and messages begin and end means
//! nothing. What arrives is handed on as it comes, so that a frame is as long as the broker likes and takes no memory, and so that
//! the session sees on a slow link that something moves.
mod handshake;

use super::Stream;
use super::error::TransportError;
use bytes::{Buf, BytesMut};
use statestore_protocol::websocket::{Incoming, Kind, Side, put};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Room for one read.
const READ: usize = 32 * 1024;
/// The longest frame that is written: it is masked in a copy.
const MOST_WRITTEN: usize = 64 * 1024;

/// A WebSocket, as a byte stream.
#[derive(Debug)]
pub(crate) struct WebSocket {
    pub(super) transport: Stream,
    /// What was read and not handed on.
    input: BytesMut,
    incoming: Incoming,
    /// Whole frames, on their way.
    output: BytesMut,
    is_closed: bool,
}

impl WebSocket {
    /// Makes a WebSocket of a connection. `host` is as it stands in URLs.
    pub(super) async fn connect(
        mut transport: Stream,
        host: &str,
        path: &str,
    ) -> Result<Self, TransportError> {
        let input = handshake::perform(&mut transport, host, path).await?;
        Ok(Self::new(transport, input))
    }

    /// One over which `input` came already.
    fn new(transport: Stream, input: BytesMut) -> Self {
        Self {
            transport,
            input,
            incoming: Incoming::new(Side::Server),
            output: BytesMut::new(),
            is_closed: false,
        }
    }

    /// Takes frames out of what was read, up to the next one with payload. Whether there is payload, or the end.
    fn advance(&mut self) -> io::Result<bool> {
        let is_there = self.incoming.advance(&mut self.input).map_err(broken)?;
        if let Some(close) = self.incoming.close() {
            // 1000 and 1001: it has done its work, it goes away.
            if let Some(code) = close.code.filter(|code| !matches!(code, 1000 | 1001)) {
                let told = close.reason.escape_ascii();
                let reason = format!("the broker closed the WebSocket: {code} {told}");
                let reason = reason.trim_end().to_owned();
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
            }
            self.close()?;
        }
        Ok(is_there)
    }

    fn close(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.frame(Kind::Close, &1000_u16.to_be_bytes())?;
        }
        Ok(())
    }

    fn frame(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        // Which nobody can foresee (section 10.3).
        let mut mask = [0; 4];
        getrandom::fill(&mut mask).map_err(io::Error::other)?;
        put(&mut self.output, kind, payload, Some(mask));
        Ok(())
    }

    /// Writes what is on its way.
    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let transport = Pin::new(&mut self.transport);
            match ready!(transport.poll_write(context, &self.output))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.output.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what is on its way, and behind it the answer to a ping.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_output(context))?;
            match self.incoming.take_pong() {
                Some(payload) => self.frame(Kind::Pong, &payload)?,
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

fn broken(problem: &'static str) -> io::Error {
    let reason = format!("the broker broke the WebSocket protocol: {problem}");
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl AsyncRead for WebSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let is_there = this.advance()?;
            if this.incoming.has_ping() || !this.output.is_empty() {
                // What it does not take now it takes at a later read or write.
                if let Poll::Ready(written) = this.poll_drain(context) {
                    written?;
                    let _ = Pin::new(&mut this.transport).poll_flush(context)?;
                }
            }
            if is_there && (this.incoming.close().is_some() || buffer.remaining() == 0) {
                return Poll::Ready(Ok(()));
            }
            let payload = this.incoming.take(&mut this.input, buffer.remaining());
            if !payload.is_empty() {
                buffer.put_slice(&payload);
                return Poll::Ready(Ok(()));
            }
            this.input.reserve(READ);
            if ready!(pin!(this.transport.read_buf(&mut this.input)).poll(context))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for WebSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        let length = bytes.len().min(MOST_WRITTEN);
        this.frame(Kind::Binary, &bytes[..length])?;
        let whole = this.output.len();
        match this.poll_output(context) {
            Poll::Ready(Err(error)) if this.output.len() == whole => Poll::Ready(Err(error)),
            // The rest is written when more comes, or at the flush that follows; of what has left, the broker may have got some.
            _ => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.transport).poll_flush(context)
    }

    /// Says goodbye, and ends the connection.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.close()?;
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.transport).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Duplex;
    use tokio::io::{AsyncWriteExt, DuplexStream};

    /// Takes so many more bytes, and then none.
    #[derive(Debug)]
    struct Breaking {
        stream: DuplexStream,
        takes: usize,
    }

    impl AsyncRead for Breaking {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for Breaking {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.takes);
            self.takes -= taken;
            Poll::Ready(if taken > 0 {
                Ok(taken)
            } else {
                Err(io::ErrorKind::ConnectionReset.into())
            })
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn bytes_of_which_some_have_left_count_as_written() {
        let bytes = [7; 1_000];
        for (takes, first) in [(0, None), (1, Some(1_000)), (900, Some(1_000))] {
            let (stream, _far_end) = tokio::io::duplex(1);
            let transport: Box<dyn Duplex> = Box::new(Breaking { stream, takes });
            let mut socket = WebSocket::new(Stream::Other(transport), BytesMut::new());
            assert_eq!(socket.write(&bytes).await.ok(), first, "{takes}");
            socket.write(&bytes).await.unwrap_err();
        }
    }
}
