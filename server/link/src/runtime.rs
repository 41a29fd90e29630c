//! Single-threaded runtimes.
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Time longer than any process runs.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Creates a runtime that runs on the calling thread, with a permanent thread for blocking work.
///
/// tokio panics if there is blocking work, no thread for it, and the system refuses one. With a permanent first thread, the work
/// waits for that thread.
///
/// # Errors
/// The system refuses a resource of the runtime, or a thread.
pub fn single_threaded_runtime() -> io::Result<Runtime> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(NEVER)
        .build()?;
    // Returns an error where tokio would panic.
    std::thread::Builder::new().spawn(|| {})?;
    drop(runtime.spawn_blocking(|| {}));
    Ok(runtime)
}
