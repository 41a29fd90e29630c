//! Hand-over of results from the runtime to a thread of the foreign side. The models of the mailbox run with [loom] in every order of the
//! threads' steps.
//!
//! The file of `bindings/embed` is used unchanged, with the locks of [`sync`]. A consumer that is not woken although there is an item for
//! it waits for ever, which loom detects.
#![allow(clippy::expect_used)]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is of a library, and a consumer here needs less than it has"
)]
#[path = "../../bindings/embed/src/mailbox.rs"]
mod mailbox;
#[allow(dead_code, reason = "nobody waits here for a time")]
mod sync;

/// How many operations there may be is not part of the models.
mod operation_limiter {
    pub(crate) struct Permit(());

    impl Drop for Permit {
        fn drop(&mut self) {}
    }
}

/// Nor are batches: a hook is called at once.
mod batch {
    pub(crate) type WakeHook = std::sync::Arc<dyn Fn() + Send + Sync>;

    pub(crate) fn call(hook: &WakeHook) {
        hook();
    }
}

use loom::thread;
use mailbox::Mailbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use sync::{Condvar, Mutex, TestClock};

/// A flag that a consumer sleeps on.
#[derive(Default)]
struct WakeFlag {
    is_set: Mutex<bool>,
    condvar: Condvar,
}

impl WakeFlag {
    fn set(&self) {
        *self.is_set.lock().expect("sound") = true;
        self.condvar.notify_one();
    }

    /// Until it rings, or at once if it has since the last time.
    fn wait(&self) {
        let has_notification = self.is_set.lock().expect("sound");
        let waited = self
            .condvar
            .wait_while(has_notification, |has_notification| !*has_notification);
        *waited.expect("sound") = false;
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(move || {
        sync::begin(TestClock::Frozen);
        model();
    });
}

fn mailbox<T: Send + 'static>() -> (Arc<Mailbox<T>>, Arc<WakeFlag>) {
    let bell = Arc::<WakeFlag>::default();
    let ringing = Arc::clone(&bell);
    (Mailbox::new(move || ringing.set()), bell)
}

/// Two threads post two items each, and a consumer takes `most` at a time.
fn check_all_received(most: usize) {
    check(move || {
        let (mailbox, bell) = mailbox();
        let posting = [0, 10].map(|first| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                for item in [first, first + 1] {
                    mailbox.post(item).expect("it is open");
                }
            })
        });
        let mut taken = Vec::new();
        while taken.len() < 4 {
            bell.wait();
            while mailbox.drain(most, |item| taken.push(item)) {}
        }
        for thread in posting {
            thread.join().expect("it does not panic");
        }
        for first in [0, 10] {
            let of_one = taken.iter().filter(|item| **item / 10 == first / 10);
            assert!(of_one.eq(&[first, first + 1]), "{taken:?}");
        }
    });
}

#[test]
fn a_consumer_that_takes_all_items_is_woken_for_each() {
    check_all_received(usize::MAX);
}

#[test]
fn a_consumer_that_takes_one_item_at_a_time_is_woken_for_each() {
    check_all_received(1);
}

/// Counts where it is dropped.
struct Item(Arc<AtomicUsize>);

impl Drop for Item {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_item_posted_during_close_is_received_returned_or_dropped_once() {
    check(|| {
        let (mailbox, _bell) = mailbox();
        let dropped = Arc::<AtomicUsize>::default();
        let item = Item(Arc::clone(&dropped));
        let closing = Arc::clone(&mailbox);
        let closing = thread::spawn(move || closing.close());
        let taking = Arc::clone(&mailbox);
        let taking = thread::spawn(move || {
            let mut count = 0;
            taking.drain(usize::MAX, |_item| count += 1);
            count
        });
        let given_back = usize::from(mailbox.post(item).is_err());
        closing.join().expect("it does not panic");
        let taken: usize = taking.join().expect("it does not panic");
        assert!(taken + given_back <= 1);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert!(mailbox.is_empty());
    });
}
