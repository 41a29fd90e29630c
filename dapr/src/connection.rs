//! A connection of daprd, with few wake-ups on both sides.
//!
//! A Unix domain socket reports that it is writable whenever the other side has read something. A task that waits for it is woken
//! after each answer, without need. So the connection waits only after a write that the socket did not accept.
//!
//! daprd sends a PING after an answer, and the next PING after its acknowledgement, to measure the connection. Between short
//! answers there is nothing to measure, and sending, reading and acknowledging PINGs costs a good part of a call. So
//! acknowledgements between short answers are held back for a moment.
use crate::frames::{FrameTracker, is_acknowledgement};
use std::io::{self, IoSlice, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::time::{Instant, Sleep, sleep};

/// Duration for which the acknowledgement of a PING is held back.
const ACK_DELAY: Duration = Duration::from_millis(20);

/// Maximum frame length in bytes for which acknowledgements are held back. daprd enlarges its window after it has measured longer
/// frames.
const MAX_SHORT_FRAME: usize = 4096;

/// Maximum number of bytes that are held back.
const MAX_DELAYED_BYTES: usize = 128;

/// A connection to which only whole frames of HTTP/2 are written.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: UnixStream,
    /// The same socket, which wakes the task only when it is readable. The receiving end of a pipe in tokio works for any
    /// descriptor that can be read and polled.
    input: pipe::Receiver,
    /// The same socket while it is full, which wakes the task only when it is writable.
    full: Option<pipe::Sender>,
    /// The frames of the written bytes.
    frames: FrameTracker,
    /// Acknowledgements to be written between two frames.
    delayed_acks: Vec<u8>,
    /// The time at which they are written.
    flush_timer: Pin<Box<Sleep>>,
    /// Whether a part of the held acknowledgements was written: the rest has to be written before anything else.
    is_partly_written: bool,
}

impl Connection {
    /// Creates a connection of a socket that does not block.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        Ok(Self {
            input: pipe::Receiver::from_owned_fd_unchecked(socket.try_clone()?.into())?,
            socket,
            full: None,
            frames: FrameTracker::default(),
            delayed_acks: Vec::new(),
            flush_timer: Box::pin(sleep(ACK_DELAY)),
            is_partly_written: false,
        })
    }

    /// Whether these bytes have to be held back, as an acknowledgement between short frames.
    fn must_delay(&self, bytes: &[u8]) -> bool {
        is_acknowledgement(bytes)
            && self.frames.is_at_boundary()
            && self.frames.longest() <= MAX_SHORT_FRAME
            && self.delayed_acks.len() + bytes.len() <= MAX_DELAYED_BYTES
    }

    fn delay(&mut self, context: &mut Context<'_>, bytes: &[u8]) {
        if self.delayed_acks.is_empty() {
            self.flush_timer.as_mut().reset(Instant::now() + ACK_DELAY);
            // Registers the wake-up of this task; the due time is checked when it wakes.
            let _ = self.flush_timer.as_mut().poll(context);
        }
        self.delayed_acks.extend_from_slice(bytes);
    }

    /// Writes acknowledgements that were held long enough, as far as the socket accepts them.
    fn write_expired(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.delayed_acks.is_empty() {
            return Ok(());
        }
        let is_due = self.frames.longest() > MAX_SHORT_FRAME
            || self.flush_timer.as_mut().poll(context).is_ready();
        if is_due && (self.frames.is_at_boundary() || self.is_partly_written) {
            let _ = self.write_delayed(context)?;
        }
        Ok(())
    }

    fn write_delayed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.delayed_acks.is_empty() {
            let held = std::mem::take(&mut self.delayed_acks);
            let written = self.write_now(context, &[IoSlice::new(&held)]);
            self.delayed_acks = held;
            let count = ready!(written)?;
            self.frames.advance(&self.delayed_acks[..count]);
            self.delayed_acks.drain(..count);
            self.is_partly_written = !self.delayed_acks.is_empty();
        }
        self.frames.reset_longest();
        Poll::Ready(Ok(()))
    }

    /// Writes only these bytes; returns the number that the socket accepted.
    fn write_now(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.full.is_none() {
            match (&self.socket).write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
        let full = match self.full.take() {
            Some(full) => full,
            None => pipe::Sender::from_owned_fd_unchecked(self.socket.try_clone()?.into())?,
        };
        let full = self.full.insert(full);
        let written = ready!(Pin::new(full).poll_write_vectored(context, pieces));
        self.full = None;
        Poll::Ready(written)
    }

    /// Writes frames, after the acknowledgements that have to precede them.
    fn write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write_expired(context)?;
        if self.is_partly_written {
            ready!(self.write_delayed(context))?;
        }
        if let [piece] = pieces
            && self.must_delay(piece)
        {
            self.delay(context, piece);
            return Poll::Ready(Ok(piece.len()));
        }
        let count = ready!(self.write_now(context, pieces))?;
        let mut left = count;
        for piece in pieces {
            let count = left.min(piece.len());
            self.frames.advance(&piece[..count]);
            left -= count;
            if is_acknowledgement(piece) {
                self.frames.reset_longest();
            }
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The timer of held acknowledgements wakes the task, which then checks for input.
        this.write_expired(context)?;
        Pin::new(&mut this.input).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().write_expired(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const PING: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0probing!";

    /// Returns a frame of data on the first stream.
    fn frame(len: usize) -> Vec<u8> {
        let [_, high, middle, low] = u32::try_from(len).unwrap().to_be_bytes();
        let mut frame = vec![high, middle, low, 0, 0, 0, 0, 0, 1];
        frame.resize(frame.len() + len, b'x');
        frame
    }

    fn pair() -> (Connection, tokio::net::UnixStream) {
        let (near, peer) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        let peer = tokio::net::UnixStream::from_std(peer).unwrap();
        (Connection::new(near).unwrap(), peer)
    }

    async fn write(connection: &mut Connection, bytes: &[u8]) {
        connection.write_all(bytes).await.unwrap();
        connection.flush().await.unwrap();
    }

    /// Expects exactly these bytes, and no further bytes for now.
    async fn expect(peer: &mut tokio::net::UnixStream, expected: &[u8]) {
        let mut bytes = vec![0; expected.len()];
        peer.read_exact(&mut bytes).await.unwrap();
        assert!(bytes == expected, "other bytes came");
        let more = peer.try_read(&mut [0]).unwrap_err();
        assert_eq!(more.kind(), io::ErrorKind::WouldBlock);
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledgement_between_short_frames_is_delayed() {
        let (mut connection, mut peer) = pair();
        let begun = Instant::now();
        write(&mut connection, &frame(MAX_SHORT_FRAME)).await;
        write(&mut connection, PING).await;
        write(&mut connection, &frame(1)).await;
        expect(&mut peer, &[frame(MAX_SHORT_FRAME), frame(1)].concat()).await;
        // The server of the connection waits for the next call.
        tokio::select! {
            read = connection.read_u8() => panic!("{read:?}"),
            () = expect(&mut peer, PING) => {}
        }
        // The limit allows for the resolution of timers, a millisecond.
        assert!(begun.elapsed() >= ACK_DELAY && begun.elapsed() <= ACK_DELAY * 2);
        write(&mut connection, PING).await;
        peer.write_u8(7).await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), 7);
        assert!(peer.try_read(&mut [0]).is_err(), "it does not wait again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledgement_between_long_frames_is_not_delayed() {
        let (mut connection, mut peer) = pair();
        let begun = Instant::now();
        write(&mut connection, PING).await;
        write(&mut connection, &frame(MAX_SHORT_FRAME + 1)).await;
        expect(&mut peer, &[&frame(MAX_SHORT_FRAME + 1), PING].concat()).await;
        write(&mut connection, &frame(MAX_SHORT_FRAME + 1)).await;
        write(&mut connection, PING).await;
        expect(&mut peer, &[&frame(MAX_SHORT_FRAME + 1), PING].concat()).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // The last frame is short again.
        write(&mut connection, PING).await;
        assert!(peer.try_read(&mut [0]).is_err(), "it does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledgement_bytes_inside_a_frame_are_written() {
        let (mut connection, mut peer) = pair();
        let mut long = frame(PING.len());
        long[9..].copy_from_slice(PING);
        let (header, rest) = long.split_at(9);
        write(&mut connection, PING).await;
        write(&mut connection, header).await;
        tokio::time::advance(ACK_DELAY * 2).await;
        // The held acknowledgement is due, but a frame is only half written.
        write(&mut connection, rest).await;
        expect(&mut peer, &[&long, PING].concat()).await;
    }

    #[tokio::test]
    async fn delayed_acknowledgements_are_bounded() {
        let (mut connection, mut peer) = pair();
        // Few enough that the socket is not full.
        for _ in 0..100 {
            write(&mut connection, PING).await;
            assert!(connection.delayed_acks.len() <= MAX_DELAYED_BYTES);
        }
        let mut bytes = vec![0; PING.len() * 90];
        peer.read_exact(&mut bytes).await.unwrap();
        assert!(bytes.chunks(PING.len()).all(|it| it == PING));
    }

    #[tokio::test]
    async fn a_full_socket_gets_everything_in_order_later() {
        const FRAMES: usize = 300;
        let (mut connection, mut peer) = pair();
        let writes = async {
            for number in 0..FRAMES {
                write(&mut connection, &frame(number * 100)).await;
                write(&mut connection, PING).await;
            }
            connection.shutdown().await.unwrap();
        };
        let reads = async {
            // Long enough for the socket to fill.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).await.unwrap();
            bytes
        };
        let ((), bytes) = tokio::join!(writes, reads);
        let mut rest = bytes.as_slice();
        let mut lengths = Vec::new();
        let mut acknowledgements = 0;
        while let Some(header) = rest.get(..9) {
            let len =
                usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
            let (whole, after) = rest.split_at(9 + len);
            if whole == PING {
                acknowledgements += 1;
            } else {
                assert!(whole == frame(len), "a frame was torn");
                lengths.push(len);
            }
            rest = after;
        }
        assert!(rest.is_empty());
        assert_eq!(lengths, (0..FRAMES).map(|it| it * 100).collect::<Vec<_>>());
        // Of the acknowledgements between the first, short frames, some may still wait at the end.
        assert!(
            acknowledgements >= FRAMES - MAX_SHORT_FRAME / 100 - 1,
            "{acknowledgements}"
        );
        assert!(acknowledgements <= FRAMES);
    }
}
