//! Bytes that were taken from the session and are not written yet.
use bytes::{Buf, Bytes};
use statestore_protocol::mqtt::session::Session;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteProgress {
    /// No bytes were pending.
    Idle,
    /// The transport accepted everything.
    Complete,
    /// The transport did not accept everything, and wakes the task when it accepts more.
    Blocked,
}

/// The bytes that are being written.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Bytes,
    /// Number of bytes that the transport accepted and that are not reported to the session yet.
    unreported: usize,
    /// Whether the transport did not accept all of `bytes` at once.
    is_blocked: bool,
    /// Whether the transport may buffer the bytes that it accepted.
    is_unflushed: bool,
}

impl Output {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes that are not written yet.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes output from the session if everything is written.
    pub(super) fn refill<T: Copy>(&mut self, session: &mut Session<T>, now_ms: u64) {
        if self.bytes.is_empty() {
            self.is_blocked = false;
            self.bytes = session.take_output(now_ms);
        }
    }

    /// Reports the written bytes to the session. Returns whether there were any.
    pub(super) fn report<T: Copy>(&mut self, session: &mut Session<T>, now_ms: u64) -> bool {
        let written = std::mem::take(&mut self.unreported);
        if written > 0 {
            session.written(written, self.is_blocked, now_ms);
        }
        written > 0
    }

    /// Writes as much as the transport accepts.
    pub(super) fn poll_write(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> io::Result<WriteProgress> {
        let mut progress = WriteProgress::Idle;
        while !self.bytes.is_empty() {
            match Pin::new(&mut *io).poll_write(context, &self.bytes) {
                Poll::Pending => return Ok(WriteProgress::Blocked),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.bytes.advance(count);
                    self.unreported += count;
                    self.is_unflushed = true;
                    progress = WriteProgress::Complete;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        if progress == WriteProgress::Complete {
            // The session can use the memory again.
            self.bytes = Bytes::new();
        }
        if self.is_unflushed {
            match Pin::new(io).poll_flush(context) {
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) => self.is_unflushed = false,
                Poll::Pending => {}
            }
        }
        Ok(progress)
    }

    /// Marks that bytes written from now on had to wait.
    pub(super) fn blocked(&mut self) {
        self.is_blocked = true;
    }
}
