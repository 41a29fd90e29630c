//! A file descriptor that is readable while there is something to do, for event loops.
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;

/// Readable while it is set. It is waited for with `poll`, `epoll` and the like, and never read by the event loop itself.
///
/// An eventfd on Linux, a pipe elsewhere.
#[derive(Debug)]
pub struct Signal {
    read: OwnedFd,
    /// Where it is set, if that is another end.
    write: Option<OwnedFd>,
}

impl Signal {
    /// One that is not set.
    ///
    /// # Errors
    /// The system gives no file descriptor.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn new() -> io::Result<Self> {
        let read = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { read, write: None })
    }

    /// One that is not set.
    ///
    /// # Errors
    /// The system gives no file descriptors.
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
        // It fails only when it is full, which is set enough.
        let _ = rustix::io::write(end, &1_u64.to_ne_bytes());
    }

    /// The descriptor, which this keeps.
    pub fn raw_fd(&self) -> i32 {
        self.read.as_raw_fd()
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        // It ends when nothing is left.
        while rustix::io::read(&self.read, &mut bytes).is_ok_and(|count| count == bytes.len()) {}
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}
