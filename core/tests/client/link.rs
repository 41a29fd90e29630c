//! Links that are slow, silent or half broken: when a connection counts as dead, and when it does not.
use crate::support::{CLIENT_ID, Peer, Request, version};
use bytes::Bytes;
use statestore::mqtt::{ConnAck, Packet, ReasonCode};
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use statestore::protocol::{Command, Reply};
use statestore::{Client, ConnectionState, ErrorKind, Settings};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

/// A machine whose connections end here.
#[derive(Debug)]
struct Machine(mpsc::UnboundedSender<DuplexStream>);

impl Machine {
    /// A machine, and the other ends of its connections.
    fn new() -> (Self, mpsc::UnboundedReceiver<DuplexStream>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }
}

impl Platform for Machine {
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
        let sent = self.0.send(far);
        Some(Box::pin(async move {
            sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Box::new(near) as Box<dyn Duplex>)
        }))
    }
}

/// The broker's end of a link.
#[derive(Debug)]
struct Link {
    stream: DuplexStream,
    /// Bytes that pass in each direction per 100 ms, if that is limited.
    pace: Arc<Mutex<Option<usize>>>,
    reads: Pacer,
    writes: Pacer,
}

#[derive(Debug, Default)]
struct Pacer {
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

/// A client that has just connected, with the other end of its link.
struct Bench {
    client: Client,
    peer: Peer,
    pace: Arc<Mutex<Option<usize>>>,
    /// The other ends of later connections.
    streams: mpsc::UnboundedReceiver<DuplexStream>,
}

impl Bench {
    async fn new(settings: Settings) -> Self {
        let (machine, mut streams) = Machine::new();
        let settings = settings.client_id(CLIENT_ID).platform(machine);
        let pace = Arc::default();
        let accept = async {
            let mut peer = Peer::over(Link {
                stream: streams.recv().await.unwrap(),
                pace: Arc::clone(&pace),
                reads: Pacer::default(),
                writes: Pacer::default(),
            });
            peer.connect().await;
            peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
            peer.subscribe().await;
            peer
        };
        let (client, peer) = tokio::join!(Client::connect(settings), accept);
        Self {
            client: client.unwrap(),
            peer,
            pace,
            streams,
        }
    }
}

/// Settings of a client whose network the test plays.
fn settings() -> Settings {
    Settings::new("nowhere", 1)
}

/// The next request; a PINGREQ before it is not answered.
async fn request_or_ping(peer: &mut Peer) -> Request {
    loop {
        match peer.packet_but_puback().await {
            Packet::PingReq => {}
            Packet::Publish(publish) => {
                let command = Command::decode(&publish.payload()).unwrap();
                return Request { publish, command };
            }
            other => panic!("a request was expected: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_packet_on_a_slow_link_takes_longer_than_any_keep_alive() {
    let settings = settings()
        .keep_alive(Duration::from_secs(5))
        .request_timeout(Duration::from_secs(300));
    let Bench {
        client,
        mut peer,
        pace,
        mut streams,
    } = Bench::new(settings).await;
    // 1 Mbit/s
    *pace.lock().unwrap() = Some(12_500);
    let large = Bytes::from(vec![7; 12_000_000]);
    let begun = Instant::now();
    let (version, reply) = (version(1), Reply::Value(large.clone()));
    let broker = async {
        for reply in [&Reply::Ok, &reply] {
            let request = request_or_ping(&mut peer).await;
            peer.acknowledge(&request, ReasonCode::SUCCESS).await;
            peer.respond(&request, reply, Some(&version)).await;
        }
    };
    let calls = async {
        client.set("k", large.clone()).await.unwrap();
        client.get("k").await.unwrap().unwrap()
    };
    let (entry, ()) = tokio::join!(calls, broker);
    assert_eq!(entry.value, large);
    assert!(begun.elapsed() > Duration::from_secs(180));
    assert!(streams.try_recv().is_err(), "it connected once");
}

/// How long it takes until the client knows that it has no connection.
async fn noticed(client: &Client) -> Duration {
    let begun = Instant::now();
    let mut state = client.state();
    let lost = state.wait_for(|state| !state.is_connected()).await;
    let ConnectionState::Reconnecting(error) = lost.unwrap().clone() else {
        panic!("it ended for good");
    };
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_silent_loss_of_the_network_is_noticed_within_five_seconds_while_a_request_waits() {
    for idle_s in [0, 1, 30] {
        // The other end takes a few bytes more, as buffers do, and is never heard of again.
        let Bench {
            client,
            peer: _peer,
            streams: _streams,
            ..
        } = Bench::new(settings()).await;
        sleep(Duration::from_secs(idle_s)).await;
        let requests = async {
            loop {
                let get = client.get("k");
                let _ = tokio::time::timeout(Duration::from_millis(300), get).await;
            }
        };
        let took = tokio::select! {
            took = noticed(&client) => took,
            () = requests => unreachable!(),
        };
        assert!(took <= Duration::from_secs(5), "{took:?} after {idle_s} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_its_time_is_not_given_up_as_long_as_its_broker_answers() {
    let Bench {
        client,
        mut peer,
        mut streams,
        ..
    } = Bench::new(settings()).await;
    let broker = async {
        let request = peer.request().await;
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        let mut pings = 0;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(9) {
            peer.answer_ping().await;
            pings += 1;
        }
        peer.respond(&request, &Reply::Nil, None).await;
        pings
    };
    let (entry, pings) = tokio::join!(client.get("k"), broker);
    assert_eq!(entry.unwrap(), None);
    assert!((4..=5).contains(&pings), "{pings}");
    assert!(streams.try_recv().is_err(), "it connected once");
}
