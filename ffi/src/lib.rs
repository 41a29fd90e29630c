//! The C ABI of `statestore`. `include/statestore.h` is generated from this crate, and is its documentation.
//!
//! - A [`handle`] is a number that looks like a pointer, so that a use after free is an error and no crash.
//! - Each export is a [`boundary`], which turns errors and panics into a status and an error object. An export without a
//!   status is [`infallible`]: errors and panics become a default value.
//! - The arguments of an export are read in [`input`], its results are written through [`output`]. [`outcome`] converts
//!   the result of an operation to the enums of the header.
//! - An object of a client, a [`client_object`], keeps that client. An export looks its object up once. The blocking function and
//!   its twin read their arguments in the same function.
//! - A [`callback`] is three words: a context, a function to call, and one to drop the context. A [`revocable_callback`]
//!   can be revoked. A [`completion`] lends or passes an object to a callback.
//!
//! The rest is one file for each noun of the header.
#![allow(non_camel_case_types, reason = "the names are those of the header")]
#![allow(
    unreachable_pub,
    reason = "what is public is what the header has, not what Rust code could reach"
)]
#![allow(
    clippy::doc_markdown,
    reason = "the documentation is that of a C header, which is not Markdown"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "what a pointer must be is said with its owner and where it may be NULL"
)]

// Modules whose items are not in the header.
mod boundary;
mod callback;
#[cfg_attr(
    not(any(
        all(target_os = "linux", any(target_env = "gnu", target_env = "musl")),
        target_os = "macos"
    )),
    path = "no_cancellation.rs"
)]
mod cancellation;
mod client_object;
mod completion;
mod handle;
mod infallible;
mod input;
mod outcome;
mod output;
mod revocable_callback;

// Modules whose items are in the header, in its order.
mod version;

mod status;

mod error;

mod bytes;

mod hlc;

mod entry;

mod queue;

mod settings;

mod client;

mod state;

mod counters;

mod capabilities;

mod ping;

mod log;

mod completion_callback;
mod thread;

mod operation;

mod subscription;

mod get;

mod get_many;

mod exists;

mod set;

mod del;

mod vdel;

mod results;

mod write_many;

mod transaction;

mod transact;

mod scan;

mod scan_entries;

mod pattern;

mod update;

mod compare_and_set;

mod touch;

mod increment;

mod observation;

mod observer;

mod observe_matching;

mod mirror;

mod guard;

mod guarded_update;
mod guarded_write;

mod lost_reason;

mod release;

mod holding;

mod lease;

mod lock;

mod leader;

mod election;
