//! MQTT over WebSocket (RFC 6455; MQTT 5, section 6).
//!
//! The payloads of binary frames, one behind the other, are the byte stream: where frames and messages begin and end means
//! nothing. What arrives is handed on as it comes, so that a frame is as long as the broker likes and takes no memory, and so that
//! the session sees on a slow link that something moves.
mod frame;
mod handshake;

use super::Stream;
use super::error::TransportError;
use bytes::{Buf, BytesMut};
use frame::{Header, Kind};
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
    /// How much is still to come of a binary frame.
    payload: u64,
    /// A message has begun and not ended.
    in_message: bool,
    /// The broker's last frame was read.
    is_over: bool,
    /// Whole frames, on their way.
    output: BytesMut,
    /// What the last ping had, to be answered between two frames.
    pong: Option<Vec<u8>>,
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
        Ok(Self {
            transport,
            input,
            payload: 0,
            in_message: false,
            is_over: false,
            output: BytesMut::new(),
            pong: None,
            is_closed: false,
        })
    }

    /// Takes frames out of what was read, up to the next one with payload. Whether there is payload, or the end.
    fn advance(&mut self) -> io::Result<bool> {
        while self.payload == 0 && !self.is_over {
            let Some((header, length)) = Header::parse(&self.input).map_err(broken)? else {
                return Ok(false);
            };
            match header.kind {
                Kind::Binary | Kind::Continuation => {
                    if (header.kind == Kind::Continuation) != self.in_message {
                        return Err(broken("messages that are mixed up"));
                    }
                    self.in_message = !header.is_last;
                    self.payload = header.payload;
                    self.input.advance(length);
                }
                Kind::Close | Kind::Ping | Kind::Pong => {
                    let Ok(payload) = usize::try_from(header.payload) else {
                        return Ok(false);
                    };
                    if self.input.len() < length + payload {
                        return Ok(false);
                    }
                    self.input.advance(length);
                    let told = self.input[..payload].to_vec();
                    self.input.advance(payload);
                    self.control(header.kind, told)?;
                }
            }
        }
        Ok(true)
    }

    fn control(&mut self, kind: Kind, payload: Vec<u8>) -> io::Result<()> {
        match kind {
            // Only the last one needs an answer (section 5.5.3), so that pings take no memory.
            Kind::Ping => self.pong = Some(payload),
            Kind::Close => {
                self.is_over = true;
                let code = payload.first_chunk().copied().map(u16::from_be_bytes);
                // 1000 and 1001: it has done its work, it goes away.
                if let Some(code) = code.filter(|code| !matches!(code, 1000 | 1001)) {
                    let told = payload[2..].escape_ascii();
                    let reason = format!("the broker closed the WebSocket: {code} {told}");
                    let reason = reason.trim_end().to_owned();
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
                }
                self.close()?;
            }
            _ => {}
        }
        Ok(())
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
        frame::put(&mut self.output, kind, payload, mask);
        Ok(())
    }

    /// Writes what is on its way, and behind it the answer to a ping.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.output.is_empty() {
                let transport = Pin::new(&mut self.transport);
                match ready!(transport.poll_write(context, &self.output))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => self.output.advance(written),
                }
            }
            match self.pong.take() {
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
            if this.pong.is_some() || !this.output.is_empty() {
                // What it does not take now it takes at a later read or write.
                if let Poll::Ready(written) = this.poll_drain(context) {
                    written?;
                    let _ = Pin::new(&mut this.transport).poll_flush(context)?;
                }
            }
            if is_there && (this.is_over || buffer.remaining() == 0) {
                return Poll::Ready(Ok(()));
            }
            let most = usize::try_from(this.payload).unwrap_or(usize::MAX);
            let length = most.min(buffer.remaining()).min(this.input.len());
            if length > 0 {
                buffer.put_slice(&this.input[..length]);
                this.input.advance(length);
                this.payload -= length as u64;
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
        // The rest is written when more comes, or at the flush that follows.
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

    /// Says goodbye, and ends the connection.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.close()?;
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.transport).poll_shutdown(context)
    }
}
