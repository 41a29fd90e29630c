//! A client's end of a connection.
use super::SharedSimulation;
use super::network::CloseKind;
use crate::faults::Mishap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A client's end of a connection. Closes the connection when it is dropped.
pub(crate) struct Socket {
    world: SharedSimulation,
    link: usize,
}

impl Socket {
    pub(crate) fn new(world: SharedSimulation, link: usize) -> Self {
        Self { world, link }
    }
    pub(crate) fn link(&self) -> usize {
        self.link
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket({})", self.link)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // At the end of a run the world may be gone.
        if let Ok(mut world) = self.world.lock() {
            world.client_closes(self.link);
            world.changed.notify_one();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut world = self.world.lock().unwrap();
        let near = &mut world.links[self.link].client_end;
        if !near.inbox.is_empty() {
            world.client_reads(self.link, buffer);
            world.changed.notify_one();
            return Poll::Ready(Ok(()));
        }
        match near.ended {
            Some(CloseKind::Closed) => Poll::Ready(Ok(())),
            Some(CloseKind::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                near.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut world = self.world.lock().unwrap();
        let room = world.links[self.link].up.free_bytes();
        let now_ms = world.now_ms();
        let near = &mut world.links[self.link].client_end;
        if near.ended.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if room == 0 {
            near.write_blocked.get_or_insert((now_ms, None)).1 = None;
            near.writer = Some(context.waker().clone());
            world.fault_counts.count(Mishap::HeldUp);
            return Poll::Pending;
        }
        let len = bytes.len().min(room);
        world.client_writes(self.link, &bytes[..len]);
        let blocked = &mut world.links[self.link].client_end.write_blocked;
        if len < bytes.len() {
            blocked.get_or_insert((now_ms, None)).1 = None;
        } else if let Some((_, until_ms)) = blocked {
            *until_ms = Some(now_ms);
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
