//! MQTT over WebSocket (RFC 6455; MQTT 5, section 6), from the server's side.
//!
//! Received bytes are passed on as they arrive: a frame takes no memory, whatever its length.
mod handshake;
mod origin;

pub(super) use handshake::upgrade;

use bytes::{Buf, BytesMut};
use statestore_protocol::websocket::{FrameDecoder, Opcode, Role, put_frame};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Size of the buffer of a read.
const READ_BYTES: usize = 16 * 1024;
/// Maximum payload of a written frame, which is copied behind its header.
const MAX_FRAME_PAYLOAD_BYTES: usize = 64 * 1024;

/// Close codes (section 7.4.1) for a violation of the protocol, and for a normal end.
const PROTOCOL_ERROR: u16 = 1002;
const NORMAL: u16 = 1000;

/// A WebSocket, as a byte stream.
#[derive(Debug)]
pub(crate) struct WebSocket<T> {
    transport: T,
    /// Bytes that were read and not passed on yet.
    input: BytesMut,
    incoming: FrameDecoder,
    /// Complete frames to be written.
    output: BytesMut,
    is_closed: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> WebSocket<T> {
    /// Creates the stream behind the handshake. `input` has the bytes that followed the handshake.
    pub(super) fn new(transport: T, input: BytesMut) -> Self {
        Self {
            transport,
            input,
            incoming: FrameDecoder::new(Role::Client),
            output: BytesMut::new(),
            is_closed: false,
        }
    }

    pub(super) fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Processes the frames that were read, up to the next one with payload. Returns whether there is payload or the
    /// end.
    fn advance(&mut self) -> io::Result<bool> {
        match self.incoming.advance(&mut self.input) {
            Ok(is_there) => {
                if self.incoming.close().is_some() {
                    self.close(NORMAL);
                }
                Ok(is_there)
            }
            Err(problem) => {
                self.close(PROTOCOL_ERROR);
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
        }
    }

    fn close(&mut self, code: u16) {
        if !std::mem::replace(&mut self.is_closed, true) {
            put_frame(&mut self.output, Opcode::Close, &code.to_be_bytes(), None);
        }
    }

    /// Writes the pending output, and then the response to a ping.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.output.is_empty() {
                let transport = Pin::new(&mut self.transport);
                match ready!(transport.poll_write(context, &self.output))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => self.output.advance(written),
                }
            }
            match self.incoming.take_pong() {
                Some(payload) if !self.is_closed => {
                    put_frame(&mut self.output, Opcode::Pong, &payload, None);
                }
                Some(_) => {}
                None => {
                    // An idle connection keeps no buffer.
                    self.output = BytesMut::new();
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Writes as much as the transport accepts; a later read or write continues.
    fn write_some(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Poll::Ready(written) = self.poll_drain(context) {
            written?;
            let _ = Pin::new(&mut self.transport).poll_flush(context)?;
        }
        Ok(())
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let is_there = this.advance();
            if this.incoming.has_ping() || !this.output.is_empty() {
                let written = this.write_some(context);
                if is_there.is_ok() {
                    written?;
                }
            }
            if is_there? && (this.incoming.close().is_some() || buffer.remaining() == 0) {
                return Poll::Ready(Ok(()));
            }
            let payload = this
                .incoming
                .take_payload(&mut this.input, buffer.remaining());
            if !payload.is_empty() {
                buffer.put_slice(&payload);
                return Poll::Ready(Ok(()));
            }
            this.input.reserve(READ_BYTES);
            match pin!(this.transport.read_buf(&mut this.input)).poll(context)? {
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(_) => {}
                Poll::Pending => {
                    if this.input.is_empty() {
                        this.input = BytesMut::new();
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        let length = bytes.len().min(MAX_FRAME_PAYLOAD_BYTES);
        put_frame(&mut this.output, Opcode::Binary, &bytes[..length], None);
        // The rest is written by later writes or the flush.
        match this.poll_drain(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
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
        this.close(NORMAL);
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.transport).poll_shutdown(context)
    }
}
