//! The disk of the server's machine: a file system that forgets unsynced changes.
//!
//! # What survives
//! When the *process* ends, all its changes survive. When the *power* fails:
//! - **Content**: everything that a successful sync of the file covered. Of later writes and truncations, none, all, a beginning
//!   that ends within a write, or any of the sectors survive. A file may be longer than the kept part of its end; the rest is
//!   zeros then.
//! - **Names**: everything that a sync of the directory covered. Of later creations, renames and removals, most often a beginning
//!   survives: ext4 and xfs keep the order in a journal. In other cases any part survives, as POSIX allows. Syncing a file makes
//!   neither its name nor its siblings durable: ext4 often does more, but does not promise it.
//! - **A failed sync** has no effect, but the system marks its pages as written, so that no later sync writes them. The next
//!   process may or may not find them: they may have been read from the disk again.
//!
//! # What goes wrong
//! Syncs take time; writes are short, or cut off by the end of the space; the disk is full, or refuses a reservation. Reads,
//! writes and syncs fail. A crash comes between any two of these calls, or during one.
//!
//! # Time
//! A caller uses the disk immediately, and the disk's [clock](device::Device) runs ahead of that of the simulation. Each call is
//! entered in a journal with the time at which it completes. A crash removes later calls from the journal. Calls on one file, and
//! those on names, complete in the order in which they are made, by any caller.
mod crash_states;
mod device;
mod disk_handle;
mod file_tree;
mod process_disk;
#[cfg(test)]
mod tests;

pub(crate) use device::{DiskFaults, Failure};
pub(crate) use disk_handle::{DATA, DiskHandle, ProcessEnd};
pub(crate) use file_tree::{DiskChange, FileTree, NameChange};
