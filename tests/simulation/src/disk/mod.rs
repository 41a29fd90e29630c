//! The disk of the server's machine: a file system that forgets what was not synced.
//!
//! # What survives
//! When the *process* ends, everything that it did so far. When the *power* fails:
//! - **Content**: what a successful sync of the file covered. Of what was written or cut off since, nothing, everything,
//!   a beginning that ends within a write, or any of its sectors. A file may be longer than what was kept of its end; zeros
//!   are there then.
//! - **Names**: what a sync of the directory covered. Of what was made, renamed and removed since, most often a beginning, as
//!   ext4 and xfs have it, which keep the order in a journal; else any part, which is all that POSIX promises. Syncing a file
//!   does not make its name durable, nor anything else in its directory: ext4 often does more, but does not promise it.
//! - **A sync that failed** is as none, but the system takes for written what it was about, so that no later sync writes it.
//!   The next process finds it, or does not: it may have been read anew from the disk.
//!
//! # What goes wrong
//! Syncs take time; writes are short, or cut off by the end of the space; there is no room, or none can be reserved; reads,
//! writes and syncs fail. A crash comes between any two of these calls, or during one.
//!
//! # Time
//! Whoever uses the disk does so at once, and its [clock](device::Device) runs ahead of that of the simulation: each call
//! is entered in a journal with the time at which it is over. A crash takes what is later out of the journal again. Calls of
//! one file, and those of names, are over in the order in which they are made, whoever makes them.
mod device;
mod drive;
mod files;
mod port;
mod survivals;
#[cfg(test)]
mod tests;

pub(crate) use device::{Failure, Faults};
pub(crate) use drive::{DATA, Drive, End};
pub(crate) use files::{Change, Files, NameChange};
