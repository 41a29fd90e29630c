//! Bytes that were taken from the session and not written yet.
use bytes::{Buf, Bytes};
use statestore_protocol::mqtt::session::Session;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// What a transport did with what it was to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// There was nothing to write.
    Nothing,
    /// It took everything.
    Everything,
    /// It did not take everything, but will say when it takes more.
    Blocked,
}

/// The bytes that are written now.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Bytes,
    /// How many bytes the transport took that the session does not know of yet.
    unreported: usize,
    /// The transport did not take all of `bytes` at once.
    is_blocked: bool,
    /// The transport may hold back what it took.
    is_unflushed: bool,
}

impl Output {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is still to be written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what the session has, if there is nothing left.
    pub(super) fn refill<T: Copy>(&mut self, session: &mut Session<T>, now_ms: u64) {
        if self.bytes.is_empty() {
            self.is_blocked = false;
            self.bytes = session.take_output(now_ms);
        }
    }

    /// Tells the session what the transport took; whether that was anything.
    pub(super) fn report<T: Copy>(&mut self, session: &mut Session<T>, now_ms: u64) -> bool {
        let written = std::mem::take(&mut self.unreported);
        if written > 0 {
            session.written(written, self.is_blocked, now_ms);
        }
        written > 0
    }

    /// Writes as much as the transport takes.
    pub(super) fn poll_write(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> io::Result<Progress> {
        let mut progress = Progress::Nothing;
        while !self.bytes.is_empty() {
            match Pin::new(&mut *io).poll_write(context, &self.bytes) {
                Poll::Pending => return Ok(Progress::Blocked),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.bytes.advance(count);
                    self.unreported += count;
                    self.is_unflushed = true;
                    progress = Progress::Everything;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        if progress == Progress::Everything {
            // Nothing keeps its memory, which the session uses again.
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

    /// What was written from now on had to wait.
    pub(super) fn blocked(&mut self) {
        self.is_blocked = true;
    }
}
