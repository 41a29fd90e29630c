//! Time: limits of any length, deadlines that hold whatever the broker does, and an idle client that sleeps.
use crate::support::{Broker, CLIENT_ID, Peer, version, within};
use crate::{ended, spawn_get};
use bytes::BytesMut;
use statestore::platform::{Connecting, Duplex, Platform, System, Task};
use statestore::{
    Client, ConnectionState, Error, ErrorKind, GetOptions, ObserveOptions, Observer, Settings,
};
use statestore_protocol::mqtt::{ConnAck, Packet, PublishHeader, ReasonCode, encode_pingresp};
use statestore_protocol::{Command, Event, Reply, topic};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn durations_of_any_length_are_accepted() {
    let broker = Broker::start().await;
    let forever = Duration::MAX;
    let settings = broker
        .settings()
        .connect_timeout(forever)
        .request_timeout(forever)
        .ping_timeout(forever)
        .keep_alive(forever)
        .session_expiry(forever)
        .reconnect_delay(forever, forever);
    let (client, mut peer) = broker.connect(settings).await;
    let answer = peer.answer(&Reply::Nil, None);
    let (entry, _) = within(async { tokio::join!(client.get("k"), answer) }).await;
    assert_eq!(entry.unwrap(), None);
    let options = GetOptions::new().timeout(forever);
    let answer = peer.answer(&Reply::Nil, None);
    let get = client.get_with("k", &options);
    let (entry, _) = within(async { tokio::join!(get, answer) }).await;
    assert_eq!(entry.unwrap(), None);
    // The first attempt to connect again is immediate, the next one would be made in some centuries.
    let mut state = client.state();
    drop(peer);
    drop(broker.accept().await);
    within(state.wait_for(|state| matches!(state, ConnectionState::Reconnecting(_))))
        .await
        .unwrap();
    within(client.close()).await;
}

/// A stream that can be switched to always have data to read.
#[derive(Debug)]
struct FloodStream {
    stream: DuplexStream,
    flooding: Arc<Mutex<Option<Vec<u8>>>>,
}

impl AsyncRead for FloodStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.flooding.lock().unwrap().as_deref() {
            Some(packet) if buffer.remaining() >= packet.len() => {
                buffer.put_slice(packet);
                return Poll::Ready(Ok(()));
            }
            _ => {}
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for FloodStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A machine with one connection, and with a count of how often the client's tasks are polled.
#[derive(Debug, Clone, Default)]
struct FloodingPlatform {
    connection: Arc<Mutex<Option<FloodStream>>>,
    polls: Arc<AtomicU64>,
}

impl FloodingPlatform {
    /// The machine, the broker's end of its connection, and what floods it.
    fn new() -> (Self, Peer, Arc<Mutex<Option<Vec<u8>>>>) {
        let (near, far) = duplex(1 << 16);
        let flooding = Arc::<Mutex<Option<Vec<u8>>>>::default();
        let stream = FloodStream {
            stream: near,
            flooding: flooding.clone(),
        };
        let this = Self::default();
        *this.connection.lock().unwrap() = Some(stream);
        (this, Peer::new(far), flooding)
    }

    async fn connect(&self, settings: Settings, peer: &mut Peer) -> Client {
        let accept = async {
            peer.connect().await;
            peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
            peer.subscribe().await;
        };
        let settings = settings.client_id(CLIENT_ID).platform(self.clone());
        let (client, ()) = within(async { tokio::join!(Client::connect(settings), accept) }).await;
        client.unwrap()
    }
}

impl Platform for FloodingPlatform {
    fn wall_ms(&self) -> u64 {
        System.wall_ms()
    }
    fn random(&self) -> io::Result<u64> {
        System.random()
    }
    fn spawn(&self, mut task: Task) {
        let polls = self.polls.clone();
        tokio::spawn(poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            task.as_mut().poll(context)
        }));
    }
    fn connect(&self) -> Option<Connecting> {
        let stream = self.connection.lock().unwrap().take();
        Some(Box::pin(async {
            let stream = stream.ok_or(io::ErrorKind::ConnectionRefused)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        }))
    }
}

#[tokio::test]
async fn a_flooding_broker_does_not_delay_deadlines_or_closing() {
    let (machine, mut peer, flooding) = FloodingPlatform::new();
    let client = machine
        .connect(Settings::new("nowhere", 1), &mut peer)
        .await;
    let mut noise = BytesMut::new();
    let header = PublishHeader {
        topic: &topic::response(CLIENT_ID),
        ..PublishHeader::default()
    };
    header.encode(u32::MAX, &mut noise, 0, |_| {}).unwrap();
    *flooding.lock().unwrap() = Some(noise.to_vec());
    let options = GetOptions::new().timeout(Duration::from_millis(20));
    let error = within(client.get_with("k", &options)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    within(client.close()).await;
}

/// How observing a key ended, and after which time.
async fn observe_for(client: &Client, time: Duration) -> (Result<Observer, Error>, Duration) {
    let begun = Instant::now();
    let options = ObserveOptions::new().timeout(time);
    let result = client.observe_with("k", &options).await;
    (result, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn each_observer_that_waits_for_a_watch_has_its_own_timeout() {
    let (machine, mut peer, _) = FloodingPlatform::new();
    let settings = Settings::new("nowhere", 1).request_timeout(Duration::from_secs(1));
    let client = machine.connect(settings, &mut peer).await;
    // The first one asks the store, which does not answer; the others come while it waits.
    let times = [(0, 700), (100, 100), (200, 3000), (600, 1000), (2000, 500)];
    let observing = times.map(|(delay, time)| {
        let client = client.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(delay)).await;
            observe_for(&client, Duration::from_millis(time)).await
        })
    });
    for ((_, time), observing) in times.into_iter().zip(observing) {
        let (result, took) = observing.await.unwrap();
        let time = Duration::from_millis(time);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(
            took >= time && took <= time + Duration::from_millis(1),
            "{took:?} instead of {time:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_repeats_a_shared_request_that_timed_out() {
    let (machine, mut peer, _) = FloodingPlatform::new();
    let settings = Settings::new("nowhere", 1).request_timeout(Duration::from_secs(1));
    let client = machine.connect(settings, &mut peer).await;
    let first = observe_for(&client, Duration::from_millis(500));
    let second = async {
        sleep(Duration::from_millis(400)).await;
        observe_for(&client, Duration::from_secs(5)).await
    };
    let store = async {
        let watch = Command::Watch { key: "k".into() };
        assert_eq!(peer.request().await.command, watch);
        assert_eq!(peer.answer(&Reply::Ok, None).await.command, watch);
    };
    let (first, second, ()) = tokio::join!(first, second, store);
    assert_eq!(first.0.unwrap_err().kind(), ErrorKind::TimedOut);
    second.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_wakes_up_for_its_keep_alive_only() {
    const PERIODS: u64 = 100;
    let (machine, mut peer, _) = FloodingPlatform::new();
    let settings = Settings::new("nowhere", 1).keep_alive(Duration::from_secs(60));
    let client = machine.connect(settings, &mut peer).await;
    // Neither the end of a request nor an observer leaves anything behind that wakes up.
    let answer = peer.answer(&Reply::Nil, None);
    tokio::join!(client.get("k"), answer).0.unwrap();
    let answer = peer.answer(&Reply::Ok, None);
    let _observer = tokio::join!(client.observe("k"), answer).0.unwrap();
    for _ in 0..2 {
        ping(&mut peer).await;
    }
    let before = machine.polls.load(Ordering::Relaxed);
    for _ in 0..PERIODS {
        ping(&mut peer).await;
    }
    // The timer, and the answer to the PINGREQ, after which the task looks once more whether there is anything to do.
    let polls = machine.polls.load(Ordering::Relaxed) - before;
    assert!(polls <= 3 * PERIODS, "{polls}");
    assert!(client.state().borrow().is_connected());
}

/// How long it takes until the client sends a PUBACK next.
async fn acknowledged_after(peer: &mut Peer) -> Duration {
    let begun = Instant::now();
    let packet = peer.packet_at_any_time().await;
    assert!(matches!(packet, Packet::PubAck(_)), "{packet:?}");
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_puback_of_a_response_is_sent_with_the_next_request_or_after_a_delay() {
    let (machine, mut peer, _) = FloodingPlatform::new();
    let client = machine
        .connect(Settings::new("nowhere", 1), &mut peer)
        .await;
    let answer = peer.answer(&Reply::Nil, None);
    tokio::join!(client.get("k"), answer).0.unwrap();
    let asked_after = Duration::from_millis(5);
    let ask = async {
        sleep(asked_after).await;
        client.get("k").await
    };
    let store = async {
        assert_eq!(acknowledged_after(&mut peer).await, asked_after);
        peer.answer(&Reply::Nil, None).await;
        acknowledged_after(&mut peer).await
    };
    let (entry, alone_after) = tokio::join!(ask, store);
    assert_eq!(entry.unwrap(), None);
    assert!(
        (5..=11).contains(&alone_after.as_millis()),
        "{alone_after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn messages_other_than_responses_are_acknowledged_immediately() {
    let (machine, mut peer, _) = FloodingPlatform::new();
    let client = machine
        .connect(Settings::new("nowhere", 1), &mut peer)
        .await;
    // The next response, if it sends only one at a time.
    let gets = [spawn_get(&client, "a"), spawn_get(&client, "b")];
    let requests = [peer.request().await, peer.request().await];
    peer.respond(&requests[0], &Reply::Nil, None).await;
    assert_eq!(acknowledged_after(&mut peer).await, Duration::ZERO);
    peer.respond(&requests[1], &Reply::Nil, None).await;
    for get in gets {
        assert_eq!(ended(get).await.unwrap(), None);
    }
    assert_ne!(acknowledged_after(&mut peer).await, Duration::ZERO);
    // The next notification.
    let event = Event::Deleted;
    peer.notify(b"k", &event, &version(1)).await;
    assert_eq!(acknowledged_after(&mut peer).await, Duration::ZERO);
}

/// Answers the next PINGREQ, and lets the client take notice.
async fn ping(peer: &mut Peer) {
    loop {
        match peer.packet_at_any_time().await {
            Packet::PingReq => break,
            Packet::PubAck(_) => {}
            other => panic!("an idle client sent {other:?}"),
        }
    }
    let mut out = BytesMut::new();
    encode_pingresp(&mut out);
    peer.send_bytes(&out).await;
}
