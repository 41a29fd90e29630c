//! A machine whose network the test simulates: links that are slow, or that accept no more data.
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

/// A machine whose connections end here.
#[derive(Debug)]
pub(super) struct SimulatedPlatform {
    pub(super) far_ends: mpsc::UnboundedSender<DuplexStream>,
    /// Whether the connections accept no more data.
    pub(super) is_broken: Arc<AtomicBool>,
}

impl Platform for SimulatedPlatform {
    fn wall_ms(&self) -> u64 {
        System.wall_ms()
    }
    fn random(&self) -> io::Result<u64> {
        System.random()
    }
    fn spawn(&self, task: Task) {
        tokio::spawn(task);
    }
    fn connect(&self) -> Option<Connecting> {
        let (near, far) = duplex(1 << 16);
        let sent = self.far_ends.send(far);
        let near = ClientEnd {
            stream: near,
            is_broken: self.is_broken.clone(),
        };
        Some(Box::pin(async move {
            sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Box::new(near) as Box<dyn Duplex>)
        }))
    }
}

/// The client's end of a link. Writes fail once the link is broken; reads do not.
#[derive(Debug)]
struct ClientEnd {
    stream: DuplexStream,
    is_broken: Arc<AtomicBool>,
}

impl AsyncRead for ClientEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The broker's end of a link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: DuplexStream,
    /// Bytes that pass in each direction per 100 ms, if that is limited.
    pub(super) pace: Arc<Mutex<Option<usize>>>,
    pub(super) reads: Pacer,
    pub(super) writes: Pacer,
}

#[derive(Debug, Default)]
pub(super) struct Pacer {
    left: usize,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Pacer {
    /// How many bytes may pass now.
    fn poll(&mut self, pace: Option<usize>, context: &mut Context<'_>) -> Poll<usize> {
        let Some(pace) = pace else {
            return Poll::Ready(usize::MAX);
        };
        if self.left == 0 {
            let tick = || Box::pin(sleep(Duration::from_millis(100)));
            let sleep = self.sleep.get_or_insert_with(tick);
            ready!(sleep.as_mut().poll(context));
            self.sleep = None;
            self.left = pace;
        }
        Poll::Ready(self.left)
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let pace = *this.pace.lock().unwrap();
        let most = ready!(this.reads.poll(pace, context)).min(buffer.remaining());
        let mut bytes = vec![0; most];
        let mut part = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
        buffer.put_slice(part.filled());
        this.reads.left = this.reads.left.saturating_sub(part.filled().len());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let pace = *this.pace.lock().unwrap();
        let most = ready!(this.writes.poll(pace, context)).min(bytes.len());
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, &bytes[..most]))?;
        this.writes.left = this.writes.left.saturating_sub(written);
        Poll::Ready(Ok(written))
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
