//! Signals whose default action would end the process although a failed system call is enough.
use signal_hook::consts::SIGXFSZ;
use std::sync::Arc;

/// Makes a write beyond the file size limit (`ulimit -f`) fail with `EFBIG`, which the storage treats as a full disk. `SIGPIPE`,
/// the other signal of a failed write, is ignored by the Rust runtime.
pub(crate) fn survive_file_size_limit() {
    // The flag has no reader: a handler of any kind replaces the default action.
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, Arc::default()) {
        tracing::warn!(%error, "cannot handle SIGXFSZ: a write beyond the file size limit ends the process");
    }
}
