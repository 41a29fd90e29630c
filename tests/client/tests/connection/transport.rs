//! Transports that behave in ways that TCP on one machine shows only now and then.
use crate::broker::Broker;
use crate::reconnecting;
use crate::support::within;
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use statestore::{Client, ConnectionState, Error, ErrorKind, Settings};
use statestore_protocol::mqtt::ReasonCode;
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Keeps what is written until the second call of flush, as TLS may do.
#[derive(Debug)]
struct BufferingStream {
    stream: TcpStream,
    kept: Vec<u8>,
    flushed_once: bool,
    /// From now on it takes nothing, as after a reset by the other end.
    broken: Arc<AtomicBool>,
}

impl AsyncRead for BufferingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for BufferingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.broken.load(Ordering::Relaxed) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.kept.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.flushed_once {
            self.flushed_once = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let this = &mut *self;
        while !this.kept.is_empty() {
            let count = ready!(Pin::new(&mut this.stream).poll_write(context, &this.kept))?;
            this.kept.drain(..count);
        }
        self.flushed_once = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[derive(Debug)]
struct BufferingPlatform {
    broker: SocketAddr,
    broken: Arc<AtomicBool>,
}

impl Platform for BufferingPlatform {
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
        let (address, broken) = (self.broker, self.broken.clone());
        Some(Box::pin(async move {
            let hesitant = BufferingStream {
                stream: TcpStream::connect(address).await?,
                kept: Vec::new(),
                flushed_once: false,
                broken,
            };
            Ok(Box::new(hesitant) as Box<dyn Duplex>)
        }))
    }
}

#[tokio::test]
async fn buffered_output_is_flushed_completely() {
    let broker = Broker::plain().await;
    let settings = Settings::new("broker", 1).platform(BufferingPlatform {
        broker: broker.address(),
        broken: Arc::default(),
    });
    let (client, (mut peer, _)) = tokio::join!(within(Client::connect(settings)), broker.welcome());
    let client = client.unwrap();
    for _ in 0..3 {
        let (result, ()) = tokio::join!(within(client.get("key")), peer.refuse_request());
        assert!(result.unwrap_err().mqtt_reason().is_some());
    }
    assert!(matches!(
        *client.state().borrow(),
        ConnectionState::Connected
    ));
}

#[tokio::test]
async fn a_final_disconnect_is_read_after_a_write_failure() {
    let broker = Broker::plain().await;
    let reset = Arc::new(AtomicBool::new(false));
    let settings = Settings::new("broker", 1).platform(BufferingPlatform {
        broker: broker.address(),
        broken: reset.clone(),
    });
    let (client, (mut peer, _)) = tokio::join!(within(Client::connect(settings)), broker.welcome());
    let client = client.unwrap();
    reset.store(true, Ordering::Relaxed);
    let request = client.get("key");
    let serve = async {
        let state = client.state();
        // The request has been written, in vain, when it is not queued any more.
        while client.counters().in_flight == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(state.borrow().is_connected());
        peer.disconnect(ReasonCode::SERVER_SHUTTING_DOWN).await;
        let error = reconnecting(&client, |_| true).await;
        assert_eq!(error.mqtt_reason(), Some(ReasonCode::SERVER_SHUTTING_DOWN));
        client.close().await;
    };
    let (result, ()) = tokio::join!(within(request), serve);
    result.unwrap_err();
}

/// The error of the system behind an error.
fn system_error(error: &Error) -> Option<&io::Error> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<io::Error>()
            && found.raw_os_error().is_some()
        {
            return Some(found);
        }
        source = error.source();
    }
    None
}

#[tokio::test]
async fn the_error_of_the_system_is_the_source_of_a_refused_connection() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let port = socket.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let error = within(Client::connect(Settings::new(host, port)))
            .await
            .unwrap_err();
        let system = system_error(&error).unwrap();
        assert_eq!(system.kind(), io::ErrorKind::ConnectionRefused, "{error}");
    }
    let missing = Settings::new("127.0.0.1", port)
        .user_name("me")
        .password_file("/no/such/file")
        .allow_plaintext_credentials(true);
    let error = within(Client::connect(missing)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSettings);
    assert_eq!(
        system_error(&error).unwrap().kind(),
        io::ErrorKind::NotFound
    );
}
