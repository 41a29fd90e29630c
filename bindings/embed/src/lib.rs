//! What the bindings of `statestore` to other languages share.
//!
//! A Rust program brings its own tokio runtime and needs nothing of this. A C, Python or Node program has none; it has
//! threads that block, an event loop of its own, or callbacks. This crate stands between the two, and knows none of these
//! languages.
//!
//! ```
//! use statestore::{GetOptions, Settings, SetOptions};
//! use statestore_embed::{Client, Mailbox, Wait};
//!
//! # let server = statestored::RunningServer::start(statestored::config::Config::in_memory())?;
//! # let url = server.url();
//! let client = Client::new(Settings::from_url(&url)?)?;
//! client.wait("connecting", client.connect(), Wait::default()).unwrap();
//!
//! // A call that blocks.
//! let set = client.set("greeting".into(), "hello".into(), SetOptions::default());
//! client.wait("setting", set, Wait::default()).unwrap();
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
//! client.close(Wait::default()).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Clients
//! [`Client`] has every verb of [`statestore::Client`], with the same words and the option types of that crate, as a future
//! that owns its arguments and can be awaited anywhere. [`Scan`], [`Guard`], [`Lease`], [`Election`] and [`Feed`] are the
//! things that a client gives. Their errors are [`Error`], which knows more kinds than that of the client does. What does not
//! wait (the client id, the counters) is asked of [`Client::core`].
//!
//! There are three ways to run such a future:
//! - [`Client::wait`] blocks the thread, with a deadline and an interruption hook if wanted. The request is sent and its
//!   answer is read on the thread that waits.
//! - [`Client::submit`] makes it an [`Operation`], which goes on by itself and can be cancelled. Its result is posted to a
//!   [`Mailbox`], whose hook wakes the consumer once for many results: a dispatcher thread, an asyncio loop
//!   (`call_soon_threadsafe`, or a socket or [`Signal`] in its selector, which needs no lock of the interpreter), a
//!   thread-safe function of Node.
//! - Callbacks: [`Client::callbacks`] is the mailbox of one thread for each client, which runs jobs one after the other; or of a
//!   [`Queue`], whose jobs run when the program says so, on its own event loop.
//!
//! Operations and waits are refused when they can come to nothing: with [`Forked`], [`Closed`], [`Internal`] after a panic,
//! [`WrongThread`] when the runtime's thread is to wait for itself.
//!
//! # Feeds
//! What happens again and again is a [`Feed`]: [`Client::observe`], [`Client::states`], [`Lease::observe`],
//! [`Election::observe`]. It is bounded at its origin, whoever is slow. It can be waited for ([`Feed::next`]), looked at
//! ([`Feed::try_next`] after the hook of [`Feed::on_ready`] was called), or told to a callback on the thread of the callbacks
//! ([`Client::subscribe`]).
//!
//! # The runtime
//! All clients of a process share one tokio runtime with one thread, which also runs the operations. The runtime begins with the
//! first client and ends with the last one: [`Client::close`] waits for its end, everything else leaves it to end by itself.
//! Nothing happens when the library is loaded. No disposition of a signal is changed, and the threads of the library
//! block all signals, so that those go to the threads of the program.
//!
//! # Who drives the runtime
//! Its own thread, or a thread that waits for a result and takes its place meanwhile, unless several wait, or it waits for an
//! [event](Wait::for_event), which may never come. `tests/baton` tries every order in which threads hand it to each other.
//!
//! # Forks
//! In a forked child, everything that was inherited answers with [`Forked`], and dropping it does nothing: it waits for no
//! thread, and the parent's connection stays. New clients get a runtime of their own. That is so on Unix from when the first
//! client was made. A callback that forks must not return in the child: the child ends at once then, unless it was run by
//! [`Queue::run`], on a thread of the program.
//!
//! # The end of the process
//! In destructors of the program and handlers of `atexit`, which run on a thread without thread-local variables, everything
//! works as before; what waits there does so by means of another thread, and is not interrupted.
//!
//! # Panics
//! A panic in a future, in making an item of its result, or in a callback is caught. The operation ends with [`Internal`],
//! and the client is unusable from then on: [`Client::poison`] is for panics that a binding catches itself.
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
//!  verbs · lock · queue               what is asked of a client · callbacks that the program runs itself
//!  guard · scan · subscription        what it gives: what is held, keys, a callback that is told
//!  feed                               what happens again and again
//!  closing                            how a client ends
//!  callbacks                          where its callbacks are called
//!  client                             one client: connect, submit, wait
//!  operation · blocking               two ways to run a future: by itself, on a thread that waits
//!  task                               what an operation is to who runs it
//!  lane                               callbacks that wait until the program runs them
//!  dispatcher                         callbacks that a thread runs
//!  home                               what the operations of one client share
//!  runtime                            who owns the runtime: all clients of the process, each with a share
//!  waiter                             who drives it: a thread that waits,
//!  baton                              or its own, and how they hand it to each other
//!  executor                           what can go on, on the thread that drives
//!  log                                what is logged, for the foreign side
//!  mailbox                            what the runtime hands to the foreign side
//!  admission · registry · batch       who may begin · what is under way · one wake-up for many results
//!  alarm                              who waits for the same thing
//!  thread                             threads, the library's and others
//!  process                            forks
//!  cause · sync · signal              why something comes to nothing · locks and the time · descriptors
//!  error                              what can go wrong
//! ```
//!
//! Words that have one meaning here: a `Share` is that of a client in the runtime, a [`Lease`] is one of the store; a value that
//! belongs to the process that made it is `OfProcess`, what is [held](Acquisition::Held) is a lease; a state is that of a
//! [connection](statestore::ConnectionState), a task makes progress; a handle is that of tokio.
#![deny(unsafe_code)]

// From the top down, as in the picture; `tests/layers.rs` holds the files to it.
mod lock;
mod queue;
mod verbs;

mod guard;
mod scan;
mod subscription;

mod feed;

mod closing;

mod callbacks;

mod client;

mod blocking;
mod operation;

mod lane;

mod dispatcher;

mod task;

mod home;

mod runtime;

mod waiter;

mod baton;

mod executor;

pub mod log;

mod action;
mod mailbox;

mod admission;
mod batch;
mod registry;

mod alarm;
mod blocking_threads;

mod locking;
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

pub use action::Action;
pub use blocking::{Stopped, Wait};
pub use client::{Client, WeakClient};
pub use dispatcher::Job;
pub use error::{Error, ErrorKind};
pub use feed::{End, Feed, Offer};
pub use guard::{Guard, Work};
pub use lock::{Acquisition, Election, Found, Lease};
pub use mailbox::Mailbox;
pub use operation::Operation;
pub use process::{PerProcess, forks};
pub use queue::Queue;
pub use scan::{Fetch, Scan};
pub use signal::Signal;
pub use subscription::Subscription;
pub use thread::number as thread_number;
pub use thread::on_thread_start;
pub use verbs::Many;
