//! Detection of file changes.
//!
//! On Linux, the kernel reports changes (inotify), without periodic wake-ups. Elsewhere, and where no inotify watch is
//! available, the file counts as changed every [`POLL_INTERVAL`], and the owner compares its content.
#[cfg(target_os = "linux")]
mod inotify;
#[cfg(target_os = "linux")]
mod links;

use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Interval at which a file is read again if the platform does not report changes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// A watch of one path. It detects that the file is written, replaced by a rename, or reached through another symbolic link.
/// The path need not exist.
#[derive(Debug)]
pub(crate) struct FileWatch {
    #[cfg(target_os = "linux")]
    kernel: Option<inotify::InotifyWatch>,
    next_poll: Instant,
}

impl FileWatch {
    /// Starts the watch: all later changes are detected, even those before the first call of [`changed`](Self::changed). Call
    /// it within a tokio runtime.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(unused_variables, clippy::needless_pass_by_value)
    )]
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            kernel: inotify::InotifyWatch::new(path).inspect_err(warn).ok(),
            next_poll: Instant::now() + POLL_INTERVAL,
        }
    }

    /// Waits until the file may have changed. Dropping the future loses no change.
    pub(crate) async fn changed(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(kernel) = &mut self.kernel {
            match kernel.changed().await {
                Ok(()) => return,
                Err(error) => {
                    warn(&error);
                    self.kernel = None;
                    self.next_poll = Instant::now() + POLL_INTERVAL;
                    return;
                }
            }
        }
        sleep_until(self.next_poll).await;
        self.next_poll = Instant::now() + POLL_INTERVAL;
    }
}

#[cfg(target_os = "linux")]
fn warn(error: &std::io::Error) {
    tracing::warn!(
        %error,
        "the kernel cannot watch the token file; it is read every {} s instead",
        POLL_INTERVAL.as_secs()
    );
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
