//! A file descriptor that is readable while there is something to do, for event loops.
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;

/// A file descriptor that is readable while the signal is set. Wait for it with `poll`, `epoll` and the like; the event loop
/// never reads from it.
///
/// An eventfd on Linux and Android, a pipe on other systems.
#[derive(Debug)]
pub struct Signal {
    read: OwnedFd,
    /// Where it is set, if that is another end.
    write: Option<OwnedFd>,
}

impl Signal {
    /// Creates a signal that is not set.
    ///
    /// # Errors
    /// The system provides no file descriptor.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn new() -> io::Result<Self> {
        let read = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { read, write: None })
    }

    /// Creates a signal that is not set.
    ///
    /// # Errors
    /// The system provides no file descriptors.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Self {
            read,
            write: Some(write),
        })
    }

    /// Makes it readable. Setting it again changes nothing.
    pub fn set(&self) {
        let end = self.write.as_ref().unwrap_or(&self.read);
        // A write fails only when the pipe is full, and then the signal is set.
        let _ = rustix::io::write(end, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptor, which this keeps.
    pub fn raw_fd(&self) -> i32 {
        self.read.as_raw_fd()
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        // The loop ends when nothing is left.
        while rustix::io::read(&self.read, &mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}
