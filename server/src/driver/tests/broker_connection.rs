//! Times of the attempts to reach the broker, with a clock that stands still while all tasks wait.
use super::*;
use crate::attached::{AttachError, Connector, Transport};
use statestore_protocol::mqtt::{ConnAck, ReasonCode, SubAck};
use statestored_broker::hub::BrokerConfig;
use std::collections::VecDeque;
use std::fmt::Display;
use std::future::pending;
use tokio::time::{Instant, timeout};

/// The outcome of an attempt to connect.
enum Attempt {
    /// The attempt fails at once.
    Refused,
    /// The attempt never ends.
    Hangs,
    /// The attempt succeeds with this connection.
    Connected(DuplexStream),
}

/// A connector with a script of attempts.
struct ScriptedConnector {
    attempts: VecDeque<Attempt>,
    attempt_sender: mpsc::UnboundedSender<Instant>,
}

impl Connector for ScriptedConnector {
    fn broker(&self) -> impl Display {
        "a broker"
    }

    async fn connect(&mut self) -> Result<Transport, AttachError> {
        self.attempt_sender.send(Instant::now()).unwrap();
        match self.attempts.pop_front() {
            Some(Attempt::Refused) => Err(AttachError::ConnectionClosed),
            Some(Attempt::Connected(stream)) => Ok(Transport {
                stream: Box::new(stream),
                user: None,
                password: None,
                identity_key: None,
            }),
            Some(Attempt::Hangs) | None => pending().await,
        }
    }

    fn stall_reason(&self) -> Option<AttachError> {
        None
    }
}

fn driver() -> Rc<Driver> {
    let config = HubConfig {
        broker: Some(BrokerConfig {
            client_id: "store".into(),
            ..BrokerConfig::default()
        }),
        ..HubConfig::default()
    };
    let hub = Hub::new(config, Service::embedded(ServiceConfig::default()));
    Rc::new(Driver::new(hub, Clock::start()))
}

/// Lets `driver` make these attempts while `then` runs, which receives the time of each.
async fn with_attempts<T>(
    driver: &Rc<Driver>,
    attempts: impl IntoIterator<Item = Attempt>,
    then: impl AsyncFnOnce(&mut mpsc::UnboundedReceiver<Instant>) -> T,
) -> T {
    let (made, mut when) = mpsc::unbounded_channel();
    let attempts = attempts.into_iter().collect();
    let connector = ScriptedConnector {
        attempts,
        attempt_sender: made,
    };
    let both = async {
        tokio::select! {
            () = Rc::clone(driver).attach(connector) => panic!("nobody stopped it"),
            then = then(&mut when) => then,
        }
    };
    let much_longer = Duration::from_secs(600);
    timeout(much_longer, both).await.unwrap()
}

/// Asserts that the next attempt is made between `bound_ms` / 2 and `bound_ms` after `since`. Returns its time.
async fn assert_attempt_after(
    when: &mut mpsc::UnboundedReceiver<Instant>,
    since: Instant,
    bound_ms: u64,
) -> Instant {
    let next = when.recv().await.unwrap();
    let rest = next - since;
    let bound = Duration::from_millis(bound_ms);
    // Timers have milliseconds.
    assert!(
        rest >= bound / 2 && rest <= bound + Duration::from_millis(1),
        "after {rest:?} instead of {bound:?} at most"
    );
    next
}

/// Accepts the server as the broker does, and grants its subscriptions.
async fn accept_and_subscribe(near: &mut DuplexStream, input: &mut BytesMut) {
    let connect = packet(near, input).await;
    assert!(matches!(connect, Packet::Connect(_)), "{connect:?}");
    accept(near).await;
    let Packet::Subscribe(subscribe) = packet(near, input).await else {
        panic!("it subscribes");
    };
    // The broker forbids the topic of the probes, which comes last, so that only pings count.
    let mut reasons = vec![ReasonCode::GRANTED_QOS_1; subscribe.subscriptions.len() - 1];
    reasons.push(ReasonCode::NOT_AUTHORIZED);
    let suback = SubAck {
        packet_id: subscribe.packet_id,
        reasons,
        reason_string: None,
    };
    send_packet(near, |out| suback.encode(u32::MAX, out).unwrap()).await;
}

async fn accept(near: &mut DuplexStream) {
    let connack = ConnAck::new(ReasonCode::SUCCESS);
    send_packet(near, |out| connack.encode(u32::MAX, out).unwrap()).await;
}

async fn send_packet(near: &mut DuplexStream, encode: impl FnOnce(&mut BytesMut)) {
    let mut packet = BytesMut::new();
    encode(&mut packet);
    near.write_all(&packet).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn backoff_grows_until_the_server_is_attached() {
    let (mut near, far) = tokio::io::duplex(4096);
    let (closed, at_once) = tokio::io::duplex(4096);
    drop(closed);
    let mut attempts: Vec<_> = std::iter::repeat_with(|| Attempt::Refused)
        .take(6)
        .collect();
    attempts.extend([
        Attempt::Connected(at_once),
        Attempt::Connected(far),
        Attempt::Refused,
    ]);
    let driver = driver();
    let then = async |when: &mut _| {
        let began = Instant::now();
        let mut last = assert_attempt_after(when, began, 0).await;
        for bound_ms in [500, 1000, 2000, 4000, 8000, 10_000] {
            last = assert_attempt_after(when, last, bound_ms).await;
        }
        // A connection on which no request could arrive counts as a failure.
        assert_attempt_after(when, last, 10_000).await;
        accept_and_subscribe(&mut near, &mut BytesMut::new()).await;
        drop(near);
        last = assert_attempt_after(when, Instant::now(), 500).await;
        assert_attempt_after(when, last, 1000).await;
    };
    with_attempts(&driver, attempts, then).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_attempt_times_out_after_twenty_seconds() {
    let then = async |when: &mut _| {
        let first = assert_attempt_after(when, Instant::now(), 0).await;
        assert_attempt_after(when, first + Duration::from_secs(20), 500).await;
    };
    with_attempts(&driver(), [Attempt::Hangs], then).await;
}

/// Asserts that the server gives up after twenty seconds if the broker sends nothing, or only a CONNACK.
async fn assert_dropped_after_twenty_seconds(is_connected: bool) {
    let (mut near, far) = tokio::io::duplex(4096);
    let then = async |when: &mut _| {
        let first = assert_attempt_after(when, Instant::now(), 0).await;
        let mut input = BytesMut::new();
        packet(&mut near, &mut input).await;
        if is_connected {
            accept(&mut near).await;
            let subscribe = packet(&mut near, &mut input).await;
            assert!(matches!(subscribe, Packet::Subscribe(_)), "{subscribe:?}");
        }
        let last = packet(&mut near, &mut input).await;
        assert!(matches!(last, Packet::Disconnect(_)), "{last:?}");
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        let passed = first.elapsed();
        assert_eq!(passed.as_secs(), 20, "{passed:?}");
        assert_attempt_after(when, Instant::now(), 500).await;
    };
    with_attempts(&driver(), [Attempt::Connected(far)], then).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_broker_is_dropped_after_twenty_seconds() {
    assert_dropped_after_twenty_seconds(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_sends_no_suback_is_dropped_after_twenty_seconds() {
    assert_dropped_after_twenty_seconds(true).await;
}

/// Asserts that the server abandons the attempt when it stops, whatever the attempt waits for.
async fn assert_ends_at_once(attempts: Vec<Attempt>, before: impl AsyncFnOnce()) {
    let driver = driver();
    let committer = Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).unwrap();
    let (made, mut when) = mpsc::unbounded_channel();
    let attempts = attempts.into();
    let attaching = Rc::clone(&driver).attach(ScriptedConnector {
        attempts,
        attempt_sender: made,
    });
    let stopping = async {
        when.recv().await.unwrap();
        before().await;
        let stopped = Instant::now();
        driver.stop(committer).unwrap();
        stopped
    };
    let both = async { tokio::join!(attaching, stopping).1 };
    let stopped = timeout(Duration::from_secs(60), both).await.unwrap();
    assert_eq!(stopped.elapsed(), Duration::ZERO);
    assert!(when.try_recv().is_err(), "it was tried again");
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_every_wait() {
    let a_moment = async || tokio::time::sleep(Duration::from_millis(10)).await;
    assert_ends_at_once(vec![Attempt::Hangs], a_moment).await;
    assert_ends_at_once(vec![Attempt::Refused], a_moment).await;
    let (near, far) = tokio::io::duplex(4096);
    assert_ends_at_once(vec![Attempt::Connected(far)], a_moment).await;
    drop(near);
    let (mut near, far) = tokio::io::duplex(4096);
    let attached = async || accept_and_subscribe(&mut near, &mut BytesMut::new()).await;
    assert_ends_at_once(vec![Attempt::Connected(far)], attached).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_sends_no_pingresp_is_dropped_after_ten_seconds() {
    let (mut near, far) = tokio::io::duplex(4096);
    let then = async |when: &mut _| {
        assert_attempt_after(when, Instant::now(), 0).await;
        let mut input = BytesMut::new();
        accept_and_subscribe(&mut near, &mut input).await;
        let attached = Instant::now();
        let asked = packet(&mut near, &mut input).await;
        assert!(matches!(asked, Packet::PingReq), "{asked:?}");
        let silent = attached.elapsed();
        assert!((15..=30).contains(&silent.as_secs()), "{silent:?}");
        let asked = Instant::now();
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(asked.elapsed().as_secs(), 10);
        assert_attempt_after(when, Instant::now(), 500).await;
    };
    with_attempts(&driver(), [Attempt::Connected(far)], then).await;
}
