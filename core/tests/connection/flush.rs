//! A transport may take bytes and keep them until it is flushed, and a flush may take time, as in TLS.
use crate::broker::Broker;
use crate::soon;
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use statestore::{Client, ConnectionState, Settings};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Keeps what is written until the second call of flush.
#[derive(Debug)]
struct Hesitant {
    stream: TcpStream,
    kept: Vec<u8>,
    hesitated: bool,
}

impl AsyncRead for Hesitant {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Hesitant {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.kept.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.hesitated {
            self.hesitated = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let this = &mut *self;
        while !this.kept.is_empty() {
            let count = ready!(Pin::new(&mut this.stream).poll_write(context, &this.kept))?;
            this.kept.drain(..count);
        }
        self.hesitated = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[derive(Debug)]
struct HesitantNetwork(SocketAddr);

impl Platform for HesitantNetwork {
    fn wall_ms(&self) -> u64 {
        System.wall_ms()
    }
    fn random(&self) -> io::Result<u64> {
        System.random()
    }
    fn spawn(&self, task: Task) {
        System.spawn(task);
    }
    fn connect(&self) -> Option<Connecting> {
        let address = self.0;
        Some(Box::pin(async move {
            let hesitant = Hesitant {
                stream: TcpStream::connect(address).await?,
                kept: Vec::new(),
                hesitated: false,
            };
            Ok(Box::new(hesitant) as Box<dyn Duplex>)
        }))
    }
}

#[tokio::test]
async fn what_a_transport_keeps_is_flushed_until_it_is_gone() {
    let broker = Broker::plain().await;
    let settings = Settings::new("broker", 1).platform(HesitantNetwork(broker.address()));
    let (client, (mut peer, _)) = tokio::join!(soon(Client::connect(settings)), broker.welcome());
    let client = client.unwrap();
    for _ in 0..3 {
        let (result, ()) = tokio::join!(soon(client.get("key")), peer.refuse_request());
        assert!(result.unwrap_err().mqtt_reason().is_some());
    }
    assert!(matches!(
        *client.state().borrow(),
        ConnectionState::Connected
    ));
}
