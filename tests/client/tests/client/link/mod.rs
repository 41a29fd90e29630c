//! Links that are slow, silent or half broken: when a connection counts as dead, and when it does not.
mod machine;

use crate::support::{CLIENT_ID, Peer, Request, session_present, version};
use bytes::Bytes;
use machine::{Link, Pacer, SimulatedPlatform};
use statestore::{
    Client, ConnectionState, Error, ErrorKind, Outcome, SetOptions, SetOutcome, Settings,
};
use statestore_protocol::mqtt::{ConnAck, Connect, Packet, ReasonCode};
use statestore_protocol::{Command, Reply};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A client that has just connected, with the other end of its link.
struct LinkHarness {
    client: Client,
    peer: Peer,
    pace: Arc<Mutex<Option<usize>>>,
    /// The client's machine cannot write to its connections any more, and reads nothing of it.
    is_broken: Arc<AtomicBool>,
    /// The other ends of later connections.
    streams: mpsc::UnboundedReceiver<DuplexStream>,
}

impl LinkHarness {
    async fn new(settings: Settings) -> Self {
        let (far_ends, mut streams) = mpsc::unbounded_channel();
        let is_broken = Arc::<AtomicBool>::default();
        let machine = SimulatedPlatform {
            far_ends,
            is_broken: is_broken.clone(),
        };
        let settings = settings.client_id(CLIENT_ID).platform(machine);
        let pace = Arc::default();
        let accept = async {
            let mut peer = Peer::new(Link {
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
            is_broken,
            streams,
        }
    }
}

/// Returns the settings of a client whose network the test simulates.
fn settings() -> Settings {
    Settings::new("nowhere", 1)
}

/// The next request; a PINGREQ before it is not answered.
async fn request_or_ping(peer: &mut Peer) -> Request {
    loop {
        match peer.packet_except_puback().await {
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
    let LinkHarness {
        client,
        mut peer,
        pace,
        mut streams,
        ..
    } = LinkHarness::new(settings).await;
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
async fn time_to_detect_loss(client: &Client) -> Duration {
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
async fn a_silent_network_loss_is_detected_within_five_seconds_of_a_pending_request() {
    for idle_s in [0, 1, 30] {
        // The other end takes a few bytes more, as buffers do, and is never heard of again.
        let LinkHarness {
            client,
            peer: _peer,
            streams: _streams,
            ..
        } = LinkHarness::new(settings()).await;
        sleep(Duration::from_secs(idle_s)).await;
        let requests = async {
            loop {
                let get = client.get("k");
                let _ = tokio::time::timeout(Duration::from_millis(300), get).await;
            }
        };
        let took = tokio::select! {
            took = time_to_detect_loss(&client) => took,
            () = requests => unreachable!(),
        };
        assert!(took <= Duration::from_secs(5), "{took:?} after {idle_s} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_is_awaited_while_its_broker_answers_pings() {
    let LinkHarness {
        client,
        mut peer,
        mut streams,
        ..
    } = LinkHarness::new(settings()).await;
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

/// The broker's end of the next connection, with its CONNECT.
async fn next_connection(streams: &mut mpsc::UnboundedReceiver<DuplexStream>) -> (Peer, Connect) {
    let mut peer = Peer::new(streams.recv().await.unwrap());
    let connect = peer.connect().await;
    (peer, connect)
}

/// Sets `key` to a value of this many bytes.
fn spawn_set(
    client: &Client,
    key: &'static str,
    bytes: usize,
    timeout_ms: u64,
) -> JoinHandle<Result<SetOutcome, Error>> {
    let client = client.clone();
    let options = SetOptions::new().timeout(Duration::from_millis(timeout_ms));
    tokio::spawn(async move { client.set_with(key, vec![0; bytes], &options).await })
}

/// How a call failed.
async fn failure(call: JoinHandle<Result<SetOutcome, Error>>) -> (ErrorKind, Outcome) {
    let error = call.await.unwrap().unwrap_err();
    (error.kind(), error.outcome())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_expires_before_it_is_written_is_never_sent() {
    let LinkHarness {
        client, mut peer, ..
    } = LinkHarness::new(settings()).await;
    // More than the connection takes, so that the others wait behind it; they are encoded already, except for the last.
    let large = spawn_set(&client, "large", 100_000, 9_000);
    sleep(Duration::from_millis(1)).await;
    let late = spawn_set(&client, "late", 10, 100);
    let cancelled = spawn_set(&client, "cancelled", 10, 9_000);
    let more = spawn_set(&client, "more", 2_000_000, 9_000);
    let queued = spawn_set(&client, "queued", 10, 100);
    assert_eq!(
        failure(late).await,
        (ErrorKind::TimedOut, Outcome::NotDone),
        "it certainly did not happen"
    );
    assert_eq!(failure(queued).await.1, Outcome::NotDone);
    cancelled.abort();
    cancelled.await.unwrap_err();
    let version = version(1);
    for key in ["large", "more"] {
        assert_eq!(
            peer.answer(&Reply::Ok, Some(&version)).await.key(),
            key.as_bytes()
        );
    }
    for call in [large, more] {
        call.await.unwrap().unwrap();
    }
    let next = spawn_set(&client, "next", 10, 9_000);
    assert_eq!(peer.answer(&Reply::Ok, Some(&version)).await.key(), b"next");
    next.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_expired_request_is_not_executed_by_a_later_connection() {
    let LinkHarness {
        client,
        mut peer,
        mut streams,
        ..
    } = LinkHarness::new(settings()).await;
    let stale = spawn_set(&client, "stale", 10, 500);
    peer.request().await;
    // The request may or may not have been executed. Its acknowledgement is lost, and there is no connection for a
    // while.
    drop(peer);
    let (peer, _) = next_connection(&mut streams).await;
    assert_eq!(
        failure(stale).await,
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    let next = spawn_set(&client, "next", 10, 60_000);
    drop(peer);
    // The session ends, because in it the request would have to be sent again.
    let (mut peer, connect) = next_connection(&mut streams).await;
    assert!(connect.clean_start);
    peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
    peer.subscribe().await;
    let version = version(1);
    assert_eq!(peer.answer(&Reply::Ok, Some(&version)).await.key(), b"next");
    next.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stale_request_is_resent_with_the_shortest_expiry_if_the_session_is_needed() {
    let LinkHarness {
        client,
        mut peer,
        mut streams,
        ..
    } = LinkHarness::new(settings()).await;
    let stale = spawn_set(&client, "stale", 10, 500);
    peer.request().await;
    let wanted = spawn_set(&client, "wanted", 10, 60_000);
    peer.request().await;
    drop(peer);
    let (peer, _) = next_connection(&mut streams).await;
    assert_eq!(
        failure(stale).await,
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    drop(peer);
    let (mut peer, connect) = next_connection(&mut streams).await;
    assert!(!connect.clean_start);
    peer.send_connack(session_present()).await;
    peer.confirm_session().await;
    let version = version(1);
    for (key, expiry) in [("stale", 1), ("wanted", 60)] {
        let request = peer.answer(&Reply::Ok, Some(&version)).await;
        assert_eq!(request.key(), key.as_bytes());
        assert!(request.publish.dup());
        let seconds = request.publish.message_expiry().unwrap();
        assert!(seconds <= expiry && seconds + 5 >= expiry, "{seconds}");
    }
    wanted.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unacknowledged_request_ends_the_connection() {
    let LinkHarness {
        client,
        mut peer,
        mut streams,
        ..
    } = LinkHarness::new(settings()).await;
    let forgotten = spawn_set(&client, "forgotten", 10, 1_000);
    peer.request().await;
    let begun = Instant::now();
    let broker = async {
        loop {
            match peer.packet().await {
                Packet::PingReq => peer.send_bytes(b"\xD0\0").await,
                Packet::Disconnect(disconnect) => return disconnect.reason,
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(broker.await, ReasonCode::UNSPECIFIED_ERROR);
    assert!(
        begun.elapsed() <= Duration::from_secs(12),
        "its time, and that of a ping"
    );
    assert_eq!(
        failure(forgotten).await,
        (ErrorKind::TimedOut, Outcome::Unknown)
    );
    assert!(next_connection(&mut streams).await.1.clean_start);
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_kept_while_a_disconnect_is_written() {
    let LinkHarness {
        client, mut peer, ..
    } = LinkHarness::new(settings()).await;
    // The connection takes nothing more, not even a DISCONNECT.
    let _large = spawn_set(&client, "large", 1_000_000, 9_000);
    sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    let soon = spawn_set(&client, "soon", 10, 300);
    sleep(Duration::from_millis(200)).await;
    peer.send_bytes(b"\0\0").await;
    assert_eq!(failure(soon).await, (ErrorKind::TimedOut, Outcome::NotDone));
    let took = begun.elapsed();
    assert!(took <= Duration::from_millis(302), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_accepts_no_writes_ends_without_a_read_error() {
    let LinkHarness {
        client,
        peer: _peer,
        is_broken,
        streams: _streams,
        ..
    } = LinkHarness::new(settings()).await;
    is_broken.store(true, Ordering::Relaxed);
    let _set = spawn_set(&client, "k", 10, 9_000);
    let took = time_to_detect_loss(&client).await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
}
