//! Where there are no file descriptors that an event loop can wait for, there are no signals.
use std::io;

/// A file descriptor that is readable while it is set. This system has none.
#[derive(Debug)]
pub enum Signal {}

impl Signal {
    /// # Errors
    /// Always: [`io::ErrorKind::Unsupported`].
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes it readable.
    pub fn set(&self) {
        match *self {}
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        match *self {}
    }

    /// Returns the descriptor.
    pub fn raw_fd(&self) -> i32 {
        match *self {}
    }
}
