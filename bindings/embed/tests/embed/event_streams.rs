//! Feeds: waited for, looked at, stopped.
#[cfg(unix)]
use crate::closing::thread_cpu_time;
use crate::server::{Inbox, PATIENCE, close, connect, start, wait};
use statestore::{ConnectionState, LostReason, Observation, ObserveOptions, Overflow, SetOptions};
use statestore_embed::{Client, ErrorKind, EventStream, WaitError, WaitOptions};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn observe(client: &Client) -> EventStream<Observation> {
    let options = ObserveOptions::new().overflow(Overflow::All(100));
    wait(client, client.observe("key".into(), options)).unwrap()
}

fn set(client: &Client, value: &'static str) {
    let set = client.set("key".into(), value.into(), SetOptions::default());
    wait(client, set).unwrap();
}

fn value(observation: Option<Observation>) -> Option<String> {
    match observation {
        Some(Observation::Set { value, .. }) => Some(String::from_utf8(value.to_vec()).unwrap()),
        _ => None,
    }
}

#[test]
fn a_wait_that_times_out_loses_no_item() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    for number in ["1", "2", "3"] {
        let deadline = Some(Instant::now() + Duration::from_millis(1));
        let wait_for = WaitOptions {
            deadline,
            ..WaitOptions::default()
        };
        let stopped = client.wait("waiting", feed.next(), wait_for).unwrap_err();
        assert!(matches!(stopped, WaitError::TimedOut));
        set(&client, number);
        assert_eq!(
            value(wait(&client, feed.next()).unwrap()).as_deref(),
            Some(number)
        );
    }
    close(&client);
    assert_eq!(wait(&client, feed.next()).unwrap(), None);
}

#[test]
fn an_untaken_item_is_delivered_again_in_order() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let next = || value(wait(&client, feed.next()).unwrap());
    set(&client, "1");
    let offer = wait(&client, feed.next_offered()).unwrap();
    // A consumer that already waits is woken.
    let inbox = Inbox::new();
    client
        .submit("waiting", feed.ready(), &inbox.mailbox, |ready| ready)
        .unwrap();
    drop(offer);
    inbox.next().unwrap();
    let offer = wait(&client, feed.next_offered()).unwrap();
    set(&client, "2");
    drop(offer);
    assert_eq!(next().as_deref(), Some("1"));
    assert_eq!(next().as_deref(), Some("2"));

    set(&client, "3");
    let offer = wait(&client, feed.next_offered()).unwrap().unwrap();
    assert_eq!(value(offer.take()).as_deref(), Some("3"));
    // `next` returns the oldest item; an offered item is reserved for the caller with the offer.
    set(&client, "4");
    let offer = wait(&client, feed.next_offered()).unwrap();
    assert_eq!(feed.try_next().unwrap(), Poll::Pending);
    set(&client, "5");
    assert_eq!(next().as_deref(), Some("4"));
    drop(offer);
    assert_eq!(next().as_deref(), Some("5"));
    assert_eq!(feed.try_next().unwrap(), Poll::Pending);

    // Whichever of two is dropped, and in whatever order.
    set(&client, "6");
    let first = wait(&client, feed.next_offered()).unwrap().unwrap();
    set(&client, "7");
    let second = wait(&client, feed.next_offered()).unwrap().unwrap();
    drop(first);
    assert_eq!(value(second.take()).as_deref(), Some("6"));
    assert_eq!(next().as_deref(), Some("7"));

    set(&client, "8");
    let offer = wait(&client, feed.next_offered()).unwrap();
    feed.stop().unwrap();
    drop(offer);
    assert_eq!(next(), None);
    close(&client);
}

#[test]
fn the_last_offered_item_goes_to_the_first_taker_and_the_end_to_the_second() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    set(&client, "1");
    let offer = wait(&client, feed.next_offered()).unwrap().unwrap();
    close(&client);
    let Poll::Ready(item) = feed.try_next().unwrap() else {
        panic!("it has not ended");
    };
    assert_eq!(value(item).as_deref(), Some("1"));
    assert_eq!(offer.take(), None);
    assert_eq!(feed.lost_reason().unwrap(), Some(LostReason::Closed));

    // An item that was offered before the feed was stopped is still delivered, but only to the caller with the offer.
    let client = connect(&server);
    let feed = observe(&client);
    set(&client, "2");
    let offer = wait(&client, feed.next_offered()).unwrap().unwrap();
    feed.stop().unwrap();
    assert_eq!(wait(&client, feed.next()).unwrap(), None);
    assert_eq!(value(offer.take()).as_deref(), Some("2"));
    close(&client);
}

#[test]
fn waiting_threads_receive_different_items() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let mut values = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| value(wait(&client, feed.next()).unwrap()).unwrap()))
            .collect();
        for number in ["0", "1", "2", "3"] {
            set(&client, number);
        }
        waiting
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    values.sort();
    assert_eq!(values, ["0", "1", "2", "3"]);
    close(&client);
}

#[test]
fn the_hook_is_called_for_new_items() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let (ready, called) = channel();
    feed.on_ready(move || ready.send(()).unwrap_or_default())
        .unwrap();
    called.recv_timeout(PATIENCE).unwrap();
    assert_eq!(feed.try_next().unwrap(), Poll::Pending);
    set(&client, "1");
    called.recv_timeout(PATIENCE).unwrap();
    let Poll::Ready(item) = feed.try_next().unwrap() else {
        panic!("the hook was called for nothing");
    };
    assert_eq!(value(item).as_deref(), Some("1"));
    close(&client);
}

#[test]
fn a_stop_ends_the_waits_for_items() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&client, feed.clone().next()).unwrap());
        feed.stop().unwrap();
        assert_eq!(waiting.join().unwrap(), None);
    });
    close(&client);
}

#[test]
fn connection_states_are_delivered_until_the_connection_closes() {
    let server = start();
    let client = connect(&server);
    let states = client.states().unwrap();
    let first = wait(&client, states.next()).unwrap().unwrap();
    assert!(first.is_connected());
    server.stop().unwrap();
    let second = wait(&client, states.next()).unwrap().unwrap();
    assert!(
        matches!(second, ConnectionState::Reconnecting(_)),
        "{second:?}"
    );
    close(&client);
    let mut rest = Vec::new();
    while let Some(state) = wait(&client, states.next()).unwrap() {
        rest.push(state.is_closed());
    }
    assert_eq!(rest.last(), Some(&true), "the end is told");
    assert_eq!(rest.iter().filter(|is_closed| **is_closed).count(), 1);
}

#[test]
fn an_event_stream_has_one_hook_at_a_time() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let (tell, told) = channel();
    let subscription = client
        .subscribe(&feed, move |item| tell.send(value(item)).unwrap())
        .unwrap();
    let (second, seconds) = channel::<()>();
    let refused = client.subscribe(&feed, move |_| second.send(()).unwrap());
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    seconds.recv().unwrap_err();
    let refused = feed.on_ready(|| {});
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // The first item is still delivered, and closing does not wait for other callers.
    set(&client, "1");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap().as_deref(), Some("1"));
    subscription.cancel();
    close(&client);
}

#[test]
fn a_wait_for_readiness_takes_no_item() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let ready = feed.ready();
    set(&client, "1");
    wait(&client, ready).unwrap();
    // As often as wanted.
    wait(&client, feed.ready()).unwrap();
    set(&client, "2");
    let Ok(Poll::Ready(first)) = feed.try_next() else {
        panic!("it was ready");
    };
    assert_eq!(value(first).as_deref(), Some("1"));
    wait(&client, feed.ready()).unwrap();
    assert_eq!(
        value(wait(&client, feed.next()).unwrap()).as_deref(),
        Some("2")
    );

    let states = client.states().unwrap();
    for _ in 0..2 {
        wait(&client, states.ready()).unwrap();
    }
    let state = wait(&client, states.next()).unwrap();
    assert!(state.unwrap().is_connected());
    close(&client);
    wait(&client, feed.ready()).unwrap();
    assert_eq!(wait(&client, feed.next()).unwrap(), None);
}

#[test]
fn an_event_stream_reports_why_it_ended() {
    let server = start();
    let client = connect(&server);
    let (feed, stopped) = (observe(&client), observe(&client));
    assert_eq!(feed.lost_reason().unwrap(), None);
    stopped.stop().unwrap();
    assert_eq!(stopped.lost_reason().unwrap(), Some(LostReason::Closed));
    let end = feed.end().unwrap().clone();
    close(&client);
    assert_eq!(wait(&client, feed.next()).unwrap(), None);
    assert_eq!(feed.lost_reason().unwrap(), Some(LostReason::Closed));
    assert_eq!(end.lost_reason(), Some(LostReason::Closed));
    assert!(feed.error().unwrap().is_none());
}

/// Reports when it is woken.
struct ChannelWaker(Sender<()>);

impl Wake for ChannelWaker {
    fn wake(self: Arc<Self>) {
        // The test may be over.
        self.0.send(()).unwrap_or_default();
    }
}

fn wait_with<F: Future>(next: F, waker: &Waker) -> Pin<Box<F>> {
    let mut next = Box::pin(next);
    let polled = next.as_mut().poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending());
    next
}

#[test]
fn a_dropped_wait_keeps_other_waits_with_the_same_waker_registered() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let (wake, woken) = channel();
    let waker = Waker::from(Arc::new(ChannelWaker(wake)));
    let (one, other) = (
        wait_with(feed.next(), &waker),
        wait_with(feed.next(), &waker),
    );
    drop(one);
    set(&client, "1");
    woken.recv_timeout(PATIENCE).unwrap();
    assert_eq!(value(wait(&client, other).unwrap()).as_deref(), Some("1"));
    close(&client);
}

#[cfg(unix)]
#[test]
fn dropping_a_wait_takes_constant_time() {
    let server = start();
    let client = connect(&server);
    let feed = observe(&client);
    let cost = |count| {
        let waiting: Vec<_> = (0..count)
            .map(|_| {
                wait_with(
                    feed.next(),
                    &Waker::from(Arc::new(ChannelWaker(channel().0))),
                )
            })
            .collect();
        let before = thread_cpu_time();
        drop(waiting);
        thread_cpu_time().saturating_sub(before)
    };
    let (few, many) = (cost(1000), cost(16_000));
    assert!(many < few * 16 * 4, "{few:?}, {many:?}");
    close(&client);
}
