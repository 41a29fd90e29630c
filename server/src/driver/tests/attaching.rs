//! Times of the attempts to reach the broker, with a clock that stands still while all tasks wait.
use super::*;
use crate::attached::{AttachError, Connector, Transport};
use crate::hub::BrokerTerms;
use statestore_protocol::mqtt::{ConnAck, ReasonCode, SubAck};
use std::collections::VecDeque;
use std::fmt::Display;
use std::future::pending;
use tokio::time::{Instant, timeout};

/// The outcome of an attempt to connect.
enum Attempt {
    /// The attempt fails at once.
    Refused,
    /// The attempt never ends.
    Lost,
    /// The attempt succeeds with this connection.
    Made(DuplexStream),
}

/// A connector with a script of attempts.
struct Said {
    attempts: VecDeque<Attempt>,
    made: mpsc::UnboundedSender<Instant>,
}

impl Connector for Said {
    fn broker(&self) -> impl Display {
        "a broker"
    }

    async fn connect(&mut self) -> Result<Transport, AttachError> {
        self.made.send(Instant::now()).unwrap();
        match self.attempts.pop_front() {
            Some(Attempt::Refused) => Err(AttachError::Ended),
            Some(Attempt::Made(stream)) => Ok(Transport {
                stream: Box::new(stream),
                user: None,
                password: None,
                identity_key: None,
            }),
            Some(Attempt::Lost) | None => pending().await,
        }
    }

    fn hangs(&self) -> Option<AttachError> {
        None
    }
}

fn driver() -> Rc<Driver> {
    let config = HubConfig {
        broker: Some(BrokerTerms {
            client_id: "store".into(),
            ..BrokerTerms::default()
        }),
        ..HubConfig::default()
    };
    let hub = Hub::new(config, Service::embedded(ServiceConfig::default()));
    Rc::new(Driver::new(hub, Clock::start()))
}

/// Lets `driver` make these attempts while `then` runs, which receives the time of each.
async fn attaching<T>(
    driver: &Rc<Driver>,
    attempts: impl IntoIterator<Item = Attempt>,
    then: impl AsyncFnOnce(&mut mpsc::UnboundedReceiver<Instant>) -> T,
) -> T {
    let (made, mut when) = mpsc::unbounded_channel();
    let attempts = attempts.into_iter().collect();
    let connector = Said { attempts, made };
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
async fn is_tried_after(
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
async fn let_in(near: &mut DuplexStream, input: &mut BytesMut) {
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
    say(near, |out| suback.encode(u32::MAX, out).unwrap()).await;
}

async fn accept(near: &mut DuplexStream) {
    let connack = ConnAck::new(ReasonCode::SUCCESS);
    say(near, |out| connack.encode(u32::MAX, out).unwrap()).await;
}

async fn say(near: &mut DuplexStream, encode: impl FnOnce(&mut BytesMut)) {
    let mut packet = BytesMut::new();
    encode(&mut packet);
    near.write_all(&packet).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rests_get_longer_until_the_server_was_attached() {
    let (mut near, far) = tokio::io::duplex(4096);
    let (closed, at_once) = tokio::io::duplex(4096);
    drop(closed);
    let mut attempts: Vec<_> = std::iter::repeat_with(|| Attempt::Refused)
        .take(6)
        .collect();
    attempts.extend([Attempt::Made(at_once), Attempt::Made(far), Attempt::Refused]);
    let driver = driver();
    let then = async |when: &mut _| {
        let began = Instant::now();
        let mut last = is_tried_after(when, began, 0).await;
        for bound_ms in [500, 1000, 2000, 4000, 8000, 10_000] {
            last = is_tried_after(when, last, bound_ms).await;
        }
        // A connection on which no request could arrive counts as a failure.
        is_tried_after(when, last, 10_000).await;
        let_in(&mut near, &mut BytesMut::new()).await;
        drop(near);
        last = is_tried_after(when, Instant::now(), 500).await;
        is_tried_after(when, last, 1000).await;
    };
    attaching(&driver, attempts, then).await;
}

#[tokio::test(start_paused = true)]
async fn a_way_that_comes_to_no_end_is_given_up_after_twenty_seconds() {
    let then = async |when: &mut _| {
        let first = is_tried_after(when, Instant::now(), 0).await;
        is_tried_after(when, first + Duration::from_secs(20), 500).await;
    };
    attaching(&driver(), [Attempt::Lost], then).await;
}

/// Asserts that the server gives up after twenty seconds if the broker sends nothing, or only a CONNACK.
async fn is_left_after_twenty_seconds(is_connected: bool) {
    let (mut near, far) = tokio::io::duplex(4096);
    let then = async |when: &mut _| {
        let first = is_tried_after(when, Instant::now(), 0).await;
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
        is_tried_after(when, Instant::now(), 500).await;
    };
    attaching(&driver(), [Attempt::Made(far)], then).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_says_nothing_is_left_after_twenty_seconds() {
    is_left_after_twenty_seconds(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_subscribes_nothing_is_left_after_twenty_seconds() {
    is_left_after_twenty_seconds(true).await;
}

/// Asserts that the server abandons the attempt when it stops, whatever the attempt waits for.
async fn ends_at_once(attempts: Vec<Attempt>, before: impl AsyncFnOnce()) {
    let driver = driver();
    let committer = Committer::start(Box::new(MemoryStorage), CommitterOptions::default()).unwrap();
    let (made, mut when) = mpsc::unbounded_channel();
    let attempts = attempts.into();
    let attaching = Rc::clone(&driver).attach(Said { attempts, made });
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
async fn the_end_of_the_server_ends_every_wait() {
    let a_moment = async || tokio::time::sleep(Duration::from_millis(10)).await;
    ends_at_once(vec![Attempt::Lost], a_moment).await;
    ends_at_once(vec![Attempt::Refused], a_moment).await;
    let (near, far) = tokio::io::duplex(4096);
    ends_at_once(vec![Attempt::Made(far)], a_moment).await;
    drop(near);
    let (mut near, far) = tokio::io::duplex(4096);
    let attached = async || let_in(&mut near, &mut BytesMut::new()).await;
    ends_at_once(vec![Attempt::Made(far)], attached).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_falls_silent_is_left_ten_seconds_after_it_was_asked() {
    let (mut near, far) = tokio::io::duplex(4096);
    let then = async |when: &mut _| {
        is_tried_after(when, Instant::now(), 0).await;
        let mut input = BytesMut::new();
        let_in(&mut near, &mut input).await;
        let attached = Instant::now();
        let asked = packet(&mut near, &mut input).await;
        assert!(matches!(asked, Packet::PingReq), "{asked:?}");
        let silent = attached.elapsed();
        assert!((15..=30).contains(&silent.as_secs()), "{silent:?}");
        let asked = Instant::now();
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(asked.elapsed().as_secs(), 10);
        is_tried_after(when, Instant::now(), 500).await;
    };
    attaching(&driver(), [Attempt::Made(far)], then).await;
}
