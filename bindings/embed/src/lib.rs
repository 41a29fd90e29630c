//! Common parts of the bindings of `statestore` to other languages.
//!
//! A Rust program has its own tokio runtime and does not need this crate. A C, Python or Node program has none; it has
//! threads that block, an event loop of its own, or callbacks. This crate connects the two, and is independent of these
//! languages.
//!
//! ```
//! use statestore::{GetOptions, Settings, SetOptions};
//! use statestore_embed::{Client, Mailbox, WaitOptions};
//!
//! # let server = statestored::RunningServer::start(statestored::config::Config::in_memory())?;
//! # let url = server.url();
//! let client = Client::new(Settings::from_url(&url)?)?;
//! client.wait("connecting", client.connect(), WaitOptions::default()).unwrap();
//!
//! // A call that blocks.
//! let set = client.set("greeting".into(), "hello".into(), SetOptions::default());
//! client.wait("setting", set, WaitOptions::default()).unwrap();
//!
//! // A call whose result comes through a mailbox, here into a channel of the foreign side.
//! let (wake, woken) = std::sync::mpsc::channel();
//! let mailbox = Mailbox::new(move || wake.send(()).unwrap());
//! let get = client.get("greeting".into(), GetOptions::default());
//! client.submit("getting", get, &mailbox, |result| result)?;
//! woken.recv()?;
//! mailbox.drain(usize::MAX, |result| {
//!     let entry = result.unwrap().unwrap();
//!     assert_eq!(entry.value, "hello");
//! });
//!
//! client.close(WaitOptions::default()).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Clients
//! [`Client`] has every method of [`statestore::Client`], with the same names and the option types of that crate. Each returns
//! a future that owns its arguments and can be awaited anywhere. A client creates [`Scan`], [`EntryScan`], [`Mirror`], [`Guard`],
//! [`Lease`], [`Election`] and [`EventStream`]. Their error type is [`Error`], which has more kinds than that of the client.
//! [`Client::core`] provides the values that need no waiting (the client id, the counters).
//!
//! There are three ways to run such a future:
//! - [`Client::wait`] blocks the thread, with an optional deadline and interruption hook. The waiting thread sends the
//!   request and reads its answer.
//! - [`Client::submit`] makes it an [`Operation`], which runs in the background and can be cancelled. Its result is posted to a
//!   [`Mailbox`], whose hook wakes the consumer once for many results: a dispatcher thread, an asyncio loop
//!   (`call_soon_threadsafe`, or a socket or [`Signal`] in its selector, which needs no lock of the interpreter), a
//!   thread-safe function of Node.
//! - Callbacks: [`Client::callbacks`] is the mailbox of one thread for each client, which runs jobs one after the other. With a
//!   [`Queue`], the program runs the jobs itself, on its own event loop.
//!
//! Operations and waits that cannot succeed are rejected: with [`Forked`], [`Closed`], [`Internal`] after a panic,
//! [`WrongThread`] if the runtime's thread would wait for itself.
//!
//! # Feeds
//! A [`EventStream`] is a stream of events: [`Client::observe`], [`Client::observe_matching`], [`Mirror::changes`],
//! [`Client::states`], [`Lease::observe`], [`Election::observe`]. It is bounded at its source, even if a consumer is slow. There are
//! three ways to receive its items:
//! - wait with [`EventStream::next`];
//! - poll with [`EventStream::try_next`] after the hook of [`EventStream::on_ready`] was called;
//! - pass a callback to [`Client::subscribe`], which runs on the thread of the callbacks.
//!
//! # The runtime
//! All clients of a process share one tokio runtime with one thread, which also runs the operations. The runtime begins with the
//! first client and ends with the last one. Only [`Client::close`] waits for its end. Loading the library has no effect. The
//! library changes no signal disposition, and its threads block all signals, so that the program's threads receive them.
//!
//! # Driving the runtime
//! The runtime's own thread drives it, or a thread that waits for a result takes over meanwhile. A waiting thread does not take
//! over if several wait, or if it waits for an [event](WaitOptions::for_event), which may never come. `tests/baton` tries every order
//! in which threads hand the runtime over.
//!
//! # Forks
//! In a forked child, every inherited object returns [`Forked`]. Dropping one does nothing: it waits for no thread, and the
//! parent's connection stays. New clients get a runtime of their own. This applies on Unix, from the creation of the first
//! client. A callback that forks must not return in the child: the child then ends at once, unless [`Queue::run`] ran the
//! callback on a thread of the program.
//!
//! # Closed descriptors
//! A program may close all descriptors, as daemons do. The runtime then fails: all calls of its clients, also those under way, end
//! with [`Closed`]. The next client gets a new runtime. The failed one is kept for good, because the numbers of its descriptors may
//! belong to other files by then.
//!
//! # The end of the process
//! In destructors of the program and handlers of `atexit`, which run on a thread without thread-local variables, everything
//! works as before; a wait there uses another thread, and is not interrupted.
//!
//! # Panics
//! A panic in a future, in the conversion of its result, or in a callback is caught. The operation ends with [`Internal`],
//! and the client is unusable from then on. [`Client::poison`] is for panics that a binding catches itself.
//!
//! [`Forked`]: ErrorKind::Forked
//! [`Closed`]: ErrorKind::Closed
//! [`Internal`]: ErrorKind::Internal
//! [`WrongThread`]: ErrorKind::WrongThread
//!
//! # Inside
//! Each file uses only those below it.
//!
//! ```text
//!  requests · lock · queue            requests of a client · leases and elections · callbacks that the program runs itself
//!  guard · mirror                     held leases · local copies of entries
//!  scan · subscription                keys and entries of a scan · callbacks for an event stream
//!  work_outcome                       outcome of work under a lease
//!  event_stream                       streams of events
//!  close                              closing a client
//!  callbacks                          the callback thread of a client
//!  client                             one client: connect, submit, wait
//!  operation · blocking               two ways to run a future: in the background, on a waiting thread
//!  task                               an operation as the executor sees it
//!  callback_queue                     callbacks that wait until the program runs them
//!  dispatcher                         callbacks that a thread runs
//!  client_context                     state that the operations of one client share
//!  runtime                            ownership of the runtime: all clients of the process, each with a share
//!  waiter                             a waiting thread, which may drive the runtime
//!  driver_handoff                     hand-over of the runtime between that thread and its own
//!  executor                           tasks that can make progress, on the driving thread
//!  log                                log records for the foreign side
//!  mailbox                            queue from the runtime to the foreign side
//!  operation_limiter · registry       limit of operations · tasks under way
//!  batch                              one wake-up for many results
//!  waker_set                          wakers that wait for the same event
//!  thread                             threads, the library's and others
//!  process                            forks
//!  cause · sync · signal              causes of an early end · locks and the time · descriptors
//!  error                              errors of a binding
//! ```
//!
//! Some words have one meaning here:
//! - A `RuntimeShare` is the share of a client in the runtime; a [`Lease`] is a lease of the store.
//! - A value that belongs to the process that made it is `ProcessBound`; a lease is [held](Acquisition::Held).
//! - A state is the state of a [connection](statestore::ConnectionState); a task makes progress; a handle is a tokio handle.
#![deny(unsafe_code)]

// From the top down, as in the picture; `tests/layers.rs` holds the files to it.
mod lock;
mod queue;
mod requests;

mod guard;
mod mirror;
mod scan;
mod subscription;

mod work_outcome;

mod event_stream;

mod close;

mod callbacks;

mod client;

mod blocking;
mod operation;

mod callback_queue;

mod dispatcher;

mod task;

mod client_context;

mod runtime;

mod waiter;

mod driver_handoff;

mod executor;

pub mod log;

mod mailbox;
mod operation_descriptor;

mod batch;
mod operation_limiter;
mod registry;

mod blocking_threads;
mod waker_set;

mod mutex;
mod thread;

#[allow(
    unsafe_code,
    reason = "learning of forks and ending a forked child need foreign functions"
)]
mod process;

mod cause;
#[cfg_attr(not(unix), path = "no_signal.rs")]
mod signal;
mod sync;

mod error;

pub use blocking::{WaitError, WaitOptions};
pub use client::{Client, WeakClient};
pub use dispatcher::Job;
pub use error::{Error, ErrorKind};
pub use event_stream::{EventStream, OfferedItem, StreamEnd};
pub use guard::Guard;
pub use lock::{Acquisition, Election, HolderResult, Lease};
pub use mailbox::Mailbox;
pub use mirror::Mirror;
pub use operation::Operation;
pub use operation_descriptor::OperationDescriptor;
pub use process::{PerProcess, forks};
pub use queue::Queue;
pub use requests::WriteResults;
pub use scan::{EntryScan, OfferedPage, PagedScan, Scan};
pub use signal::Signal;
pub use subscription::Subscription;
pub use thread::number as thread_number;
pub use thread::on_thread_start;
pub use work_outcome::WorkOutcome;
