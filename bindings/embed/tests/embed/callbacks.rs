//! Callbacks run one after the other on one thread, and are dropped once, after the last call.
use crate::server::{PATIENCE, close, connect, start, wait};
use statestore::{GetOptions, Observation, ObserveOptions, Overflow, SetOptions};
use statestore_embed::Client;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, ThreadId};

fn set(client: &Client, key: &'static str, value: String) {
    let set = client.set(key.into(), value.into(), SetOptions::default());
    wait(client, set).unwrap();
}

#[derive(Debug, PartialEq)]
enum CallbackEvent {
    Value(String),
    End,
    Dropped,
}

/// Reports when it is dropped, and on which thread.
struct Context(Sender<(CallbackEvent, ThreadId)>);

impl Context {
    fn report(&self, told: CallbackEvent) {
        // The test may be over.
        let _ = self.0.send((told, thread::current().id()));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.report(CallbackEvent::Dropped);
    }
}

fn keep_all() -> ObserveOptions {
    ObserveOptions::new().overflow(Overflow::All(10_000))
}

#[test]
fn a_callback_receives_every_event_in_order_and_is_dropped_at_the_end() {
    let server = start();
    let client = connect(&server);
    let feed = wait(&client, client.observe("key".into(), keep_all())).unwrap();
    let (sender, told) = channel();
    let context = Context(sender);
    client
        .subscribe(&feed, move |item| match item {
            Some(Observation::Set { value, .. }) => {
                context.report(CallbackEvent::Value(
                    String::from_utf8(value.to_vec()).unwrap(),
                ));
            }
            Some(_) => {}
            None => context.report(CallbackEvent::End),
        })
        .unwrap();
    for number in 0..300 {
        set(&client, "key", number.to_string());
    }
    let mut threads = Vec::new();
    for number in 0..300 {
        let (value, thread) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(value, CallbackEvent::Value(number.to_string()));
        threads.push(thread);
    }
    close(&client);
    for expected in [CallbackEvent::End, CallbackEvent::Dropped] {
        let (next, thread) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(next, expected);
        threads.push(thread);
    }
    assert!(threads.iter().all(|thread| *thread == threads[0]));
    assert_ne!(threads[0], thread::current().id());
    assert!(told.recv().is_err(), "nothing more is told");
}

#[test]
fn a_cancelled_callback_is_dropped_and_not_called_again() {
    let server = start();
    let client = connect(&server);
    let feed = wait(&client, client.observe("key".into(), keep_all())).unwrap();
    let (sender, told) = channel();
    let context = Context(sender);
    let subscription = client
        .subscribe(&feed, move |item| match item {
            Some(_) => context.report(CallbackEvent::Value("called".into())),
            None => context.report(CallbackEvent::End),
        })
        .unwrap();
    subscription.cancel();
    assert_eq!(
        told.recv_timeout(PATIENCE).unwrap().0,
        CallbackEvent::Dropped
    );
    set(&client, "key", "value".into());
    subscription.cancel();
    close(&client);
    assert!(told.recv().is_err());
}

#[test]
fn a_callback_that_cancels_itself_is_dropped_after_it_returned() {
    let server = start();
    let client = connect(&server);
    let feed = wait(&client, client.observe("key".into(), keep_all())).unwrap();
    let (sender, told) = channel();
    let context = Context(sender);
    let (hand_over, handed_over) = channel::<statestore_embed::Subscription>();
    let subscription = client
        .subscribe(&feed, move |_| {
            handed_over.recv_timeout(PATIENCE).unwrap().cancel();
            context.report(CallbackEvent::Value("returned".into()));
        })
        .unwrap();
    set(&client, "key", "1".into());
    set(&client, "key", "2".into());
    hand_over.send(subscription).unwrap();
    let told: Vec<_> = [told.recv_timeout(PATIENCE), told.recv_timeout(PATIENCE)]
        .map(|told| told.unwrap().0)
        .into();
    assert_eq!(
        told,
        [
            CallbackEvent::Value("returned".into()),
            CallbackEvent::Dropped
        ]
    );
    close(&client);
}

#[test]
fn a_slow_callback_does_not_delay_results_of_other_threads() {
    let server = start();
    let client = connect(&server);
    let (release, released) = channel::<()>();
    let job = move || released.recv_timeout(PATIENCE).unwrap();
    client
        .callbacks()
        .unwrap()
        .post(Box::new(job))
        .ok()
        .unwrap();
    let get = client.get("key".into(), GetOptions::default());
    assert_eq!(wait(&client, get).unwrap(), None);
    release.send(()).unwrap();
    close(&client);
}
