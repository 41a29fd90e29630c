//! MQTT over WebSocket (RFC 6455; MQTT 5, section 6).
//!
//! The concatenated payloads of binary frames are the byte stream; the boundaries of frames and messages have no meaning.
//! Received payload is passed on as it arrives. So a frame may have any length and needs no memory, and the session sees
//! progress on a slow link.
mod handshake;

use super::Stream;
use crate::transport::error::TransportError;
use bytes::{Buf, BytesMut};
use statestore_protocol::websocket::{FrameDecoder, Opcode, Role, put_frame};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Capacity for one read, in bytes.
const READ_SIZE: usize = 32 * 1024;
/// Maximum payload of a frame that is written, in bytes: it is masked in a copy.
const MAX_FRAME_PAYLOAD: usize = 64 * 1024;

/// A WebSocket as a byte stream.
#[derive(Debug)]
pub(crate) struct WebSocket {
    pub(super) transport: Stream,
    /// Bytes that were read and are not passed on yet.
    input: BytesMut,
    decoder: FrameDecoder,
    /// Complete frames that are being written.
    output: BytesMut,
    is_closed: bool,
}

impl WebSocket {
    /// Performs the handshake over a connection. `host` is in the form used in URLs.
    pub(in crate::transport) async fn connect(
        mut transport: Stream,
        host: &str,
        path: &str,
    ) -> Result<Self, TransportError> {
        let input = handshake::perform(&mut transport, host, path).await?;
        Ok(Self::new(transport, input))
    }

    /// Creates a WebSocket with bytes that were already read.
    fn new(transport: Stream, input: BytesMut) -> Self {
        Self {
            transport,
            input,
            decoder: FrameDecoder::new(Role::Server),
            output: BytesMut::new(),
            is_closed: false,
        }
    }

    /// Consumes frames up to the next one with payload. Returns whether there is payload, or the WebSocket has ended.
    fn advance(&mut self) -> io::Result<bool> {
        let has_data = self
            .decoder
            .advance(&mut self.input)
            .map_err(invalid_data)?;
        if let Some(close) = self.decoder.close() {
            // 1000 and 1001 are regular ends: normal closure, and going away.
            if let Some(code) = close.code.filter(|code| !matches!(code, 1000 | 1001)) {
                let close_reason = close.reason.escape_ascii();
                let reason = format!("the broker closed the WebSocket: {code} {close_reason}");
                let reason = reason.trim_end().to_owned();
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
            }
            self.close()?;
        }
        Ok(has_data)
    }

    fn close(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.frame(Opcode::Close, &1000_u16.to_be_bytes())?;
        }
        Ok(())
    }

    fn frame(&mut self, kind: Opcode, payload: &[u8]) -> io::Result<()> {
        // The mask must be unpredictable (section 10.3).
        let mut mask = [0; 4];
        getrandom::fill(&mut mask).map_err(io::Error::other)?;
        put_frame(&mut self.output, kind, payload, Some(mask));
        Ok(())
    }

    /// Writes the pending frames.
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

    /// Writes the pending frames, followed by the response to a ping.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_output(context))?;
            match self.decoder.take_pong() {
                Some(payload) => self.frame(Opcode::Pong, &payload)?,
                None => return Poll::Ready(Ok(())),
            }
        }
    }
}

fn invalid_data(problem: &'static str) -> io::Error {
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
            let has_data = this.advance()?;
            if this.decoder.has_ping() || !this.output.is_empty() {
                // The rest is written at a later read or write.
                if let Poll::Ready(written) = this.poll_drain(context) {
                    written?;
                    let _ = Pin::new(&mut this.transport).poll_flush(context)?;
                }
            }
            if has_data && (this.decoder.close().is_some() || buffer.remaining() == 0) {
                return Poll::Ready(Ok(()));
            }
            let payload = this
                .decoder
                .take_payload(&mut this.input, buffer.remaining());
            if !payload.is_empty() {
                buffer.put_slice(&payload);
                return Poll::Ready(Ok(()));
            }
            this.input.reserve(READ_SIZE);
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
        let length = bytes.len().min(MAX_FRAME_PAYLOAD);
        this.frame(Opcode::Binary, &bytes[..length])?;
        let whole = this.output.len();
        match this.poll_output(context) {
            Poll::Ready(Err(error)) if this.output.len() == whole => Poll::Ready(Err(error)),
            // The rest is written with the next bytes, or at the flush that follows. The broker may have received some of the
            // bytes that were written.
            _ => Poll::Ready(Ok(length)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.transport).poll_flush(context)
    }

    /// Sends a close frame, and ends the connection.
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

    /// A stream that accepts this many more bytes, and then none.
    #[derive(Debug)]
    struct LimitedStream {
        stream: DuplexStream,
        capacity: usize,
    }

    impl AsyncRead for LimitedStream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for LimitedStream {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.capacity);
            self.capacity -= taken;
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
    async fn a_partly_sent_frame_counts_as_written() {
        let bytes = [7; 1_000];
        for (takes, first) in [(0, None), (1, Some(1_000)), (900, Some(1_000))] {
            let (stream, _far_end) = tokio::io::duplex(1);
            let transport: Box<dyn Duplex> = Box::new(LimitedStream {
                stream,
                capacity: takes,
            });
            let mut socket = WebSocket::new(Stream::Other(transport), BytesMut::new());
            assert_eq!(socket.write(&bytes).await.ok(), first, "{takes}");
            socket.write(&bytes).await.unwrap_err();
        }
    }
}
