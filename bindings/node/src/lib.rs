//! The native half of the npm package `statestore`.
//!
//! TypeScript (in `face/`) checks arguments and creates promises, errors and iterators. This half converts calls to
//! operations of [`statestore_embed`], and returns their results in batches. Its interface is private: only
//! `face/native.ts` uses it.
//!
//! # From a call to its promise
//! 1. The face calls a method here, on the thread of its event loop. [`OperationTable::submit`](operation_table::OperationTable) begins the operation and
//!    returns its number, under which the face keeps its promise; or the error, if it could not begin.
//! 2. The result is posted to the mailbox of the client, on the runtime's thread. The first one calls the
//!    [waker](event_loop_waker::EventLoopWaker), which calls into the event loop; further ones only join the queue.
//! 3. The face calls [`drain`](client::NativeClient::drain), which turns a bounded number of results into JavaScript
//!    values, and settles the promises.
//!
//! The waker is the only JavaScript value that is kept across calls. An environment that ends with operations under way
//! leaves nothing behind.
#![allow(
    unreachable_pub,
    missing_debug_implementations,
    reason = "what napi exports must be public, and is for nobody but JavaScript"
)]
#![allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::needless_pass_by_value,
    reason = "napi decides how arguments come"
)]

mod client;
mod convert;
mod election;
mod event_loop_waker;
mod event_stream;
mod failure;
mod guard;
mod hlc;
mod key_calls;
mod lease;
mod log;
mod operation_table;
mod options;
mod reply;
mod result_batch;
mod scan;
mod settings;
