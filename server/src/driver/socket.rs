//! Bytes between one socket and the hub.
use super::Driver;
use bytes::{Buf, BufMut, BytesMut};
use statestored_broker::hub::{CloseAction, ConnectionId};
use statestored_common::ClockReading;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Number of bytes taken from one connection before the others get their turn.
const QUANTUM_BYTES: usize = 16 * 1024;

/// The socket of a connection, with its input and output in progress.
pub(super) struct Socket<'a, S> {
    driver: &'a Driver,
    id: ConnectionId,
    stream: &'a mut S,
    /// The beginning of a packet, or packets that wait until output is sent.
    input: BytesMut,
    /// Output taken from the hub and not yet written.
    output: BytesMut,
    /// Whether output was written since this flag was last read.
    has_written: bool,
    /// Time at which the turn began, in microseconds.
    quantum_start_us: u64,
    /// Whether the hub keeps the rest of the input for the next turn.
    is_quantum_over: bool,
    /// Whether all output is written and the sending direction is closed. Input is discarded from then on: closing the
    /// socket with unread input would destroy the last output.
    is_lingering: bool,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Socket<'a, S> {
    pub(super) fn new(driver: &'a Driver, id: ConnectionId, stream: &'a mut S) -> Self {
        Self {
            driver,
            id,
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            quantum_start_us: 0,
            is_quantum_over: false,
            has_written: false,
            is_lingering: false,
        }
    }

    /// Moves bytes for as long as there is progress. Ready when the connection is to be dropped.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.driver.is_poisoned.get() {
            return Poll::Pending;
        }
        self.remember_waker(context);
        self.has_written = false;
        // One reading of the clock serves the whole turn. A turn is short, and reading the clock takes longer than many
        // of its steps.
        let (now, begun_us) = self.driver.clock.now_with_micros();
        self.quantum_start_us = begun_us;
        let mut left = QUANTUM_BYTES;
        loop {
            let is_written = self.poll_write(context, now)?.is_ready();
            let closing = self.driver.hub.borrow().close_action(self.id);
            match closing {
                CloseAction::Immediately => return Poll::Ready(Ok(())),
                CloseAction::AfterOutput if is_written => return self.poll_linger(context),
                CloseAction::AfterOutput => return Poll::Pending,
                CloseAction::KeepOpen => {}
            }
            if self.driver.is_stopping.get() || !self.driver.hub.borrow().accepts_input(self.id) {
                if std::mem::take(&mut self.has_written) {
                    self.driver
                        .hub
                        .borrow_mut()
                        .record_output_progress(self.id, now);
                }
                return Poll::Pending;
            }
            if self.is_quantum_over || left == 0 {
                self.is_quantum_over = false;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let taken = self.take_input(now);
            if taken > 0 {
                left = left.saturating_sub(taken);
                continue;
            }
            if self.is_quantum_over {
                continue;
            }
            if !self.may_read(left) {
                self.input = BytesMut::new();
                self.driver.hub.borrow_mut().end_large_packet(self.id, now);
                self.driver.wake_tasks(Some(self.id));
                continue;
            }
            match self.poll_read(context, left, now)? {
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(count) => left -= count,
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn remember_waker(&self, context: &Context<'_>) {
        let mut wakers = self.driver.wakers.borrow_mut();
        match wakers.get_mut(self.id) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                wakers.insert(self.id, context.waker().clone());
            }
        }
    }

    /// Writes output. Ready when nothing is left to write now.
    fn poll_write(&mut self, context: &mut Context<'_>, now: ClockReading) -> Poll<io::Result<()>> {
        loop {
            if self.output.is_empty() {
                let driver = self.driver;
                driver
                    .hub
                    .borrow_mut()
                    .take_output(self.id, &mut self.output, now);
                if self.output.is_empty() {
                    return Pin::new(&mut *self.stream).poll_flush(context);
                }
            }
            let stream = Pin::new(&mut *self.stream);
            match stream.poll_write(context, &self.output)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(count) => {
                    self.output.advance(count);
                    self.has_written = true;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Offers waiting input to the hub again. Returns the number of bytes that it took.
    fn take_input(&mut self, now: ClockReading) -> usize {
        let before = self.input.len();
        if before == 0 {
            return 0;
        }
        let driver = self.driver;
        let mut hub = driver.hub.borrow_mut();
        driver.begin_quantum(&mut hub, self.quantum_start_us);
        self.is_quantum_over = hub.received(self.id, &mut self.input, now);
        driver.record_work(&mut hub);
        drop(hub);
        driver.wake_tasks(Some(self.id));
        before - self.input.len()
    }

    /// Returns whether the input may take `max_bytes` more bytes, for which its memory doubles.
    fn may_read(&self, max_bytes: usize) -> bool {
        let (needed, capacity) = (self.input.len() + max_bytes, self.input.capacity());
        needed <= capacity
            || self
                .driver
                .hub
                .borrow()
                .allows_input(needed.max(2 * capacity))
    }

    /// Reads at most `max_bytes` bytes once and hands them to the hub. Returns their number, 0 at the end of the stream.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        max_bytes: usize,
        now: ClockReading,
    ) -> Poll<io::Result<usize>> {
        let driver = self.driver;
        let is_shared = self.input.is_empty();
        let mut buffer = if is_shared {
            driver.read_buffer.take()
        } else {
            std::mem::take(&mut self.input)
        };
        buffer.reserve(max_bytes);
        let mut part = (&mut buffer).limit(max_bytes);
        let result = pin!(self.stream.read_buf(&mut part)).poll(context);
        if let Poll::Ready(Ok(count @ 1..)) = result {
            driver.record_input(count, now);
            let mut hub = driver.hub.borrow_mut();
            driver.begin_quantum(&mut hub, self.quantum_start_us);
            self.is_quantum_over = hub.received(self.id, &mut buffer, now);
            driver.record_work(&mut hub);
            drop(hub);
            driver.wake_tasks(Some(self.id));
        }
        if is_shared {
            if !buffer.is_empty() {
                self.input = BytesMut::from(&buffer[..]);
                buffer.clear();
            }
            driver.read_buffer.replace(buffer);
        } else if !buffer.is_empty() {
            self.input = buffer;
        }
        result
    }

    /// Closes the sending direction and discards input until the client closes or the time is over.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_lingering {
            if Pin::new(&mut *self.stream)
                .poll_shutdown(context)?
                .is_pending()
            {
                return Poll::Pending;
            }
            self.is_lingering = true;
            self.input = BytesMut::new();
        }
        loop {
            self.input.clear();
            self.input.reserve(QUANTUM_BYTES);
            match pin!(self.stream.read_buf(&mut self.input)).poll(context)? {
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(_) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
