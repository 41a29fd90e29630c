//! The end of standard input as a request to stop.
use std::io;
use std::thread;
use tokio::sync::oneshot;

/// The end of standard input.
pub(crate) struct EndOfInput(oneshot::Receiver<()>);

impl EndOfInput {
    /// Reads standard input on a thread of its own, which may block for the lifetime of the process.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn watch() -> io::Result<Self> {
        let (reading, ended) = oneshot::channel();
        thread::Builder::new().name("stdin".into()).spawn(move || {
            // A read error counts as the end as well.
            drop(io::copy(&mut io::stdin(), &mut io::sink()));
            drop(reading);
        })?;
        Ok(Self(ended))
    }

    /// Waits until standard input has ended.
    pub(crate) async fn wait(self) {
        // The sender sends nothing: it is dropped at the end.
        drop(self.0.await);
    }
}
