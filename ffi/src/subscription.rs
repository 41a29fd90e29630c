//! Callbacks that are called again and again.
use crate::boundary;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::output::Out;
use crate::status::sst_status;
use statestore_core::Error;
use statestore_embed::{Client, Feed, Subscription};
use std::mem::MaybeUninit;

/// A callback that is called again and again, until it is cancelled or there is nothing more to tell. Opaque.
pub struct sst_subscription;

object!(Subscription, sst_subscription, 11, "a subscription");

/// Ends a subscription. A call that runs at this moment is the last one; this does not wait for it. Then the context is
/// dropped on the thread of the callbacks. One that has ended is left alone.
///
/// Owner: `subscription` is borrowed and still to be freed. Thread: any, also in the callback itself. Blocks: no. NULL:
/// `error`. Errors: SST_INVALID_HANDLE, SST_FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn sst_subscription_cancel(
    subscription: *const sst_subscription,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        handle::get::<Subscription>(subscription)?.cancel();
        Ok(())
    })
}

/// Has a callback told what a feed brings.
pub(crate) fn begin<T: Send + 'static>(
    client: &Client,
    feed: &Feed<T>,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    tell: impl FnMut(Option<T>) + Send + 'static,
) -> Result<(), Error> {
    let to = Out::<Subscription>::optional(subscription);
    let begun = client.subscribe(feed, tell)?;
    match to {
        Some(to) => to.give(begun),
        None => Ok(()),
    }
}

/// Frees the handle of a subscription, which goes on.
///
/// Thread: any. Blocks: no. NULL, and what was freed before, is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sst_subscription_free(subscription: *mut sst_subscription) {
    boundary::run(|| drop(handle::free::<Subscription>(subscription)));
}
