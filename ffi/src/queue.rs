//! Queues: callbacks on a thread of the program, out of its event loop.
use crate::boundary;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::input;
use crate::output::{self, Out};
use crate::status::sst_status;
use statestore_embed::{Error, Queue};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Callbacks that wait until the program runs them, out of its event loop. Opaque.
///
/// The clients that have it in their settings have no thread for callbacks. Everything that would be called there is
/// called by sst_queue_run(): results of operations, observations, states, and contexts are dropped there.
pub struct sst_queue;

object!(Queue, sst_queue, 18, "a queue");

/// The queue of a handle; none for NULL.
pub(crate) fn optional(queue: *const sst_queue) -> Result<Option<Arc<Queue>>, Error> {
    if queue.is_null() {
        return Ok(None);
    }
    handle::get::<Queue>(queue).map(Some)
}

/// Makes a queue, to be named in the settings of clients. Several clients may have the same one.
///
/// Errors: SST_INTERNAL if the system gives no descriptor, as on Windows.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_new(
    queue: Option<&mut MaybeUninit<*mut sst_queue>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let queue = output::failed(queue);
    boundary::status(error, || {
        let to = Out::<Queue>::new(queue, "queue")?;
        to.give(Queue::new()?)
    })
}

/// A file descriptor for event loops that is readable while sst_queue_run() has something to run; it may also be so
/// although there is nothing. It is quiet again when nothing waits. Do not read it; edge-triggered waiting is fine. The
/// descriptor is closed with the queue; let the event loop forget it before.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_fd(
    queue: *const sst_queue,
    fd: Option<&mut MaybeUninit<c_int>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        let fd = output::place(fd, -1, "fd")?;
        *fd = handle::get::<Queue>(queue)?.raw_fd()?;
        Ok(())
    })
}

/// Runs callbacks on this thread: of those that wait now at most `most`, SST_ALL for all. What is left, and what comes
/// meanwhile, is for the next time, and keeps the descriptor readable, so that other things of the event loop have
/// their turn. `*ran` says how many were run; how long they take is up to them.
///
/// The callbacks may do what callbacks may, also free the queue. They come one after the other: while one runs, a queue
/// is not run a second time, neither by it nor on another thread.
///
/// Thread: any, one at a time. NULL: `ran`. Errors: SST_WRONG_THREAD in a callback of this queue and while another
/// thread runs it, and nothing is run; SST_FORKED also in the child if a callback forked, which may return.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_run(
    queue: *const sst_queue,
    most: usize,
    ran: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let ran = ran.map(|ran| ran.write(0));
    boundary::status(error, || {
        if most == 0 {
            return Err(input::invalid("most", "nothing would ever be run"));
        }
        let count = handle::get::<Queue>(queue)?.run(most)?;
        if let Some(ran) = ran {
            *ran = count;
        }
        Ok(())
    })
}

/// Frees a queue. Clients that still have it are closed, and what they have left is run on this thread, each callback
/// once, as by sst_client_close(): close them before to know when that happens. In a callback of the queue, and while
/// another thread runs it, this returns at once, and who runs it does all that at the end: of sst_queue_run(), or of a
/// sst_client_close() that calls what is left.
///
/// Blocks: for a moment if a client is left that was not closed.
#[unsafe(no_mangle)]
pub extern "C" fn sst_queue_free(queue: *mut sst_queue) {
    boundary::run(|| {
        if let Some(queue) = handle::free::<Queue>(queue) {
            // It fails in a forked child, where there is nothing to do.
            let _ = queue.close();
        }
    });
}
