//! Queues: callbacks on a thread of the program, called by its event loop.
use crate::boundary;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::input;
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use statestore_embed::{Error, Queue};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A queue of callbacks that wait until the program runs them, from its event loop. Opaque.
///
/// Clients with a queue in their settings have no thread for callbacks. sst_queue_run() calls everything that would be
/// called there: results of operations, observations, states. It also drops contexts.
pub struct sst_queue;

object!(Queue, sst_queue, 18, "a queue");

/// Returns the queue of a handle; `None` for NULL.
pub(crate) fn optional(queue: *const sst_queue) -> Result<Option<Arc<Queue>>, Error> {
    if queue.is_null() {
        return Ok(None);
    }
    handle::get::<Queue>(queue).map(Some)
}

/// Makes a queue, for the settings of clients. Several clients may share one.
///
/// Errors: SST_INTERNAL if the system provides no descriptor, as on Windows.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_new(
    queue: Option<&mut MaybeUninit<*mut sst_queue>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let queue = output::init_failed(queue);
    boundary::status(error, || {
        let to = HandleOut::<Queue>::new(queue, "queue")?;
        to.write(Queue::new()?)
    })
}

/// Returns a file descriptor for event loops that is readable while sst_queue_run() has something to run.
///
/// It may also be readable although nothing waits, and stops being so when nothing waits. Do not read it;
/// edge-triggered waiting is fine. The descriptor is closed with the queue: remove it from the event loop first.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_fd(
    queue: *const sst_queue,
    fd: Option<&mut MaybeUninit<c_int>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let fd = output::init_with(fd, -1, "fd")?;
        *fd = handle::get::<Queue>(queue)?.raw_fd()?;
        Ok(())
    })
}

/// Runs callbacks that wait now, on this thread: at most `max`, SST_ALL for all.
///
/// The rest, and callbacks that arrive meanwhile, run at the next call, and keep the descriptor readable. Other work of
/// the event loop gets its turn this way. `*ran` is the number of callbacks that were run; how long they take is up to
/// them.
///
/// The callbacks may do what all callbacks may, and also free the queue. They run one after the other: while one runs,
/// neither it nor another thread can run the queue.
///
/// Thread: any, one at a time. NULL: `ran`. Errors: SST_WRONG_THREAD in a callback of this queue and while another
/// thread runs it; nothing is run then. SST_FORKED also in the child if a callback forked; that callback may return.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_run(
    queue: *const sst_queue,
    max: usize,
    ran: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let ran = ran.map(|ran| ran.write(0));
    boundary::status(error, || {
        if max == 0 {
            return Err(input::invalid("max", "nothing would ever be run"));
        }
        let count = handle::get::<Queue>(queue)?.run(max)?;
        if let Some(ran) = ran {
            *ran = count;
        }
        Ok(())
    })
}

/// Frees a queue. Clients that still have it are closed, and their remaining callbacks run on this thread, each once,
/// as by sst_client_close().
///
/// To know when that happens, close the clients first. In a callback of the queue, and while another thread runs it,
/// this returns at once. The running sst_queue_run(), or the sst_client_close() that calls the rest, then does all that
/// at its end.
///
/// Blocks: for a moment if a client is left that was not closed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_free(queue: *mut sst_queue) {
    infallible::run(|| {
        if let Some(queue) = handle::free::<Queue>(queue) {
            // Closing fails in a forked child, where there is nothing to do.
            let _ = queue.close();
        }
    });
}
