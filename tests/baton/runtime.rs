//! The runtime of a model: a network whose messages are received only by a thread that drives.
use crate::driver_handoff::{DriveRuntime, Failed};
use crate::executor::Resume;
use crate::sync::{Mutex, MutexGuard};
use crate::waiter::Waiter;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// An event that happens once, with the waker of its waiter.
#[derive(Debug, Default)]
pub(crate) struct Event {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Event {
    pub(crate) fn happen(&self) {
        let waker = {
            let mut state = self.state();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn has_happened(&self) -> bool {
        self.state().0
    }

    /// Waits for it without driving anything.
    pub(crate) fn wait(&self) {
        let waited = Arc::<Waiter>::default().sleep(&mut |context| self.poll(context), None);
        assert_eq!(waited, Poll::Ready(()));
    }

    fn state(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.state.lock().expect("nothing panics")
    }
}

/// A message in transit. The thread that drives hands it to its waiter.
#[derive(Debug, Default)]
pub(crate) struct Network {
    arrived: Event,
    received: Event,
}

impl Network {
    /// Delivers the message, whether or not a thread drives the runtime.
    pub(crate) fn deliver(&self) {
        self.arrived.happen();
    }

    pub(crate) fn poll_received(&self, context: &mut Context<'_>) -> Poll<()> {
        self.received.poll(context)
    }

    pub(crate) fn wait_received(&self) {
        self.received.wait();
    }

    /// Polls the network, as the runtime does between two polls of a future.
    fn turn(&self, context: &mut Context<'_>) {
        if !self.received.has_happened() && self.arrived.poll(context).is_ready() {
            self.received.happen();
        }
    }
}

/// A runtime, driven by the thread that holds it.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) networks: Vec<Arc<Network>>,
    /// The event after which it cannot be driven, if there is one.
    pub(crate) failure: Option<Arc<Event>>,
}

impl DriveRuntime for Runtime {
    fn drive<T>(
        &self,
        future: impl Future<Output = T>,
        until: Option<Instant>,
    ) -> Result<Option<T>, Failed> {
        let mut future = pin!(future);
        let mut output = Ok(None);
        let _ = Arc::<Waiter>::default().sleep(
            &mut |context| {
                for network in &self.networks {
                    network.turn(context);
                }
                let failure = self.failure.as_ref();
                if failure.is_some_and(|failure| failure.poll(context).is_ready()) {
                    output = Err(Failed);
                    return Poll::Ready(());
                }
                let polled = future.as_mut().poll(context);
                polled.map(|ready| output = Ok(Some(ready)))
            },
            until,
        );
        output
    }
}

/// An operation: it sends a request, which is answered at once, or ends by itself.
#[derive(Debug)]
pub(crate) enum Operation {
    Request(Arc<Network>),
    Work(Arc<Event>),
}

impl Resume for Operation {
    fn resume(self: Arc<Self>) {
        match &*self {
            Self::Request(network) => network.deliver(),
            Self::Work(done) => done.happen(),
        }
    }

    fn abandon(self: Arc<Self>) {
        unreachable!("nothing begins after the end");
    }
}
