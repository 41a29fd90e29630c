//! Notices when a file changes.
//!
//! On Linux the kernel tells (inotify), and nothing wakes up in between; elsewhere, and where the kernel has no watch
//! left, the file counts as changed every [`POLL_INTERVAL`], and the owner compares its content.
#[cfg(target_os = "linux")]
mod inotify;
#[cfg(target_os = "linux")]
mod links;

use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often a file is looked at where the platform does not tell of changes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Watches one path, which need not exist, for a file that is written, replaced by a rename, or reached through a
/// symbolic link that is swapped.
#[derive(Debug)]
pub(crate) struct FileWatch {
    #[cfg(target_os = "linux")]
    kernel: Option<inotify::Watch>,
    next_poll: Instant,
}

impl FileWatch {
    /// Begins to watch: changes from now on are noticed, also those before the first call of
    /// [`changed`](Self::changed). Call it inside of a tokio runtime.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            kernel: inotify::Watch::new(path).inspect_err(warn).ok(),
            next_poll: Instant::now() + POLL_INTERVAL,
        }
    }

    /// Waits until the file may have changed. Dropping the future loses nothing.
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
