//! The driver of the bindings' runtime: models of the hand-over, which [loom] runs in every order of the threads' steps.
//!
//! The files of `bindings/embed` are used unchanged, with the primitives of [`sync`] and a runtime of a few lines ([`runtime`]). A
//! thread that waits for ever is detected by loom, which knows when no thread can proceed. The models are a crate of their own,
//! because tokio has no sockets when it is compiled with `cfg(loom)`.
#![allow(clippy::expect_used)]

#[path = "../../bindings/embed/src/driver_handoff.rs"]
mod driver_handoff;
#[allow(dead_code, reason = "a model needs no end of the operations")]
#[path = "../../bindings/embed/src/executor.rs"]
mod executor;
mod runtime;
mod sync;
#[path = "../../bindings/embed/src/waiter.rs"]
mod waiter;

/// Consumers are woken at the end of a batch. They are not part of the models.
mod batch {
    pub(crate) fn run(work: impl FnOnce()) {
        work();
    }
}

use driver_handoff::DriverHandoff;
use executor::{Dependent, Executor};
use loom::thread::{self, JoinHandle};
use runtime::{Event, Network, Operation, Runtime};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use sync::TestClock;
use waiter::Waiter;

/// Tries every order with at most `preemptions` preemptions of a thread that could proceed.
fn check(preemptions: usize, time: TestClock, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        sync::begin(time);
        model();
    });
}

/// The runtime with its own thread.
struct Process {
    executor: Arc<Executor>,
    baton: Arc<DriverHandoff<Runtime>>,
    driver_thread: JoinHandle<()>,
}

impl Process {
    fn start(networks: &[Arc<Network>]) -> Self {
        Self::begin_with(Runtime {
            networks: networks.to_vec(),
            failure: None,
        })
    }

    fn begin_with(runtime: Runtime) -> Self {
        let executor = Arc::<Executor>::default();
        let baton = Arc::new(DriverHandoff::new(runtime, Arc::clone(&executor)));
        let keeper = Arc::clone(&baton);
        Self {
            executor,
            baton,
            driver_thread: thread::spawn(move || drop(keeper.run_thread())),
        }
    }

    /// A thread that waits until `poll` is ready.
    fn caller(&self, poll: impl FnMut(&mut Context<'_>) -> Poll<()> + 'static) -> JoinHandle<()> {
        let baton = Arc::clone(&self.baton);
        thread::spawn(move || wait(&baton, poll))
    }

    /// A thread that makes a request and waits for its answer.
    fn requester(&self, network: &Arc<Network>) -> JoinHandle<()> {
        self.caller(self.request(network))
    }

    /// A request, to be waited for.
    fn request(
        &self,
        network: &Arc<Network>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<()> + 'static {
        let (executor, network) = (Arc::clone(&self.executor), Arc::clone(network));
        let mut has_begun = false;
        move |context| {
            if !std::mem::replace(&mut has_begun, true) {
                executor.schedule(Arc::new(Operation::Request(Arc::clone(&network))));
            }
            network.poll_received(context)
        }
    }

    /// Begins work, which ends with the event.
    fn begin_work(&self) -> Arc<Event> {
        let done = Arc::<Event>::default();
        let work = Operation::Work(Arc::clone(&done));
        self.executor.schedule(Arc::new(work));
        done
    }

    /// Stops the executor and its thread, as the last client does.
    fn end(self) {
        self.executor.stop();
        self.baton.wake_thread();
        self.driver_thread.join().expect("it does not panic");
    }
}

/// Waits until `poll` is ready.
fn wait(baton: &Arc<DriverHandoff<Runtime>>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) {
    let waiter = Arc::<Waiter>::default();
    while waiter.wait(baton, &mut poll, None).is_pending() {}
}

fn join(thread: JoinHandle<()>) {
    thread.join().expect("it does not panic");
}

#[test]
fn a_caller_drives_the_runtime_and_hands_it_back() {
    check(3, TestClock::Frozen, || {
        let network = Arc::default();
        let process = Process::start(&[Arc::clone(&network)]);
        join(process.requester(&network));
        process.end();
    });
}

#[test]
fn two_callers_and_the_thread_all_make_progress() {
    check(3, TestClock::Frozen, || {
        let networks = [Arc::<Network>::default(), Arc::default()];
        let process = Process::start(&networks);
        let awaited = Arc::clone(&networks[1]);
        let other = process.caller(move |context| awaited.poll_received(context));
        wait(&process.baton, process.request(&networks[0]));
        // Delivered to the thread that drives at that time, if there is one.
        networks[1].deliver();
        join(other);
        process.end();
    });
}

#[test]
fn work_posted_to_an_idle_runtime_wakes_the_driver_at_once() {
    check(3, TestClock::Frozen, || {
        let network = Arc::default();
        let process = Process::start(&[Arc::clone(&network)]);
        let caller = process.requester(&network);
        // The work comes before the caller drives, meanwhile, or afterwards.
        process.begin_work().wait();
        join(caller);
        process.end();
    });
}

#[test]
fn a_message_that_arrives_at_an_idle_runtime_is_received_after_the_pause() {
    check(2, TestClock::Elapsing, || {
        let networks = [Arc::default(), Arc::default()];
        let process = Process::start(&networks);
        let caller = process.requester(&networks[0]);
        networks[1].deliver();
        networks[1].wait_received();
        join(caller);
        process.end();
    });
}

#[test]
fn the_runtime_stops_while_a_caller_drives_it() {
    check(3, TestClock::Frozen, || {
        let event = Arc::<Event>::default();
        let process = Process::start(&[]);
        let awaited = Arc::clone(&event);
        let caller = process.caller(move |context| awaited.poll(context));
        process.end();
        // The caller waits on without a runtime.
        event.happen();
        join(caller);
    });
}

/// The callers of a client, which end when the runtime fails.
struct Callers(Arc<Event>);

impl Dependent for Callers {
    fn runtime_failed(&self) {
        self.0.happen();
    }
}

#[test]
fn a_failed_runtime_keeps_no_thread_waiting() {
    check(2, TestClock::Frozen, || {
        let failure = Arc::<Event>::default();
        let process = Process::begin_with(Runtime {
            networks: Vec::new(),
            failure: Some(Arc::clone(&failure)),
        });
        let callers = Arc::new(Callers(Arc::default()));
        let baton = Arc::downgrade(&process.baton);
        process.executor.notify_of_failure(baton);
        let dependent = Arc::downgrade(&callers);
        process.executor.notify_of_failure(dependent);
        let awaited = Arc::clone(&callers.0);
        let caller = process.caller(move |context| awaited.poll(context));
        failure.happen();
        join(caller);
        join(process.driver_thread);
    });
}

#[test]
fn a_caller_that_times_out_hands_the_runtime_back() {
    check(2, TestClock::Elapsing, || {
        let network = Arc::<Network>::default();
        let process = Process::start(&[Arc::clone(&network)]);
        let (baton, awaited) = (Arc::clone(&process.baton), network);
        let impatient = thread::spawn(move || {
            let until = sync::now() + Duration::from_millis(2);
            let mut poll = |context: &mut Context<'_>| awaited.poll_received(context);
            let waiter = Arc::<Waiter>::default();
            while sync::now() < until {
                assert!(waiter.wait(&baton, &mut poll, Some(until)).is_pending());
            }
        });
        process.begin_work().wait();
        join(impatient);
        process.end();
    });
}
