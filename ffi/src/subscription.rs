//! Subscriptions: callbacks that are called repeatedly.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::completion;
use crate::error::sst_error;
use crate::handle::{self, object};
use crate::infallible;
use crate::output::{self, HandleOut};
use crate::status::sst_status;
use statestore_embed::{Client, Error, EventStream, StreamEnd, Subscription};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// A callback that is called repeatedly, until it is cancelled or its events have ended. Opaque.
pub struct sst_subscription;

object!(Subscription, sst_subscription, 11, "a subscription");

/// Callback that receives a new subscription, before the first call of the subscription's own callback.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_subscription {
    pub context: *mut c_void,
    /// Without this function the subscription continues until the client is closed.
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            subscription: *mut sst_subscription,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_subscription,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, *mut sst_subscription)
);

/// Ends a subscription without waiting. A call that runs at this moment is the last one; then the context is dropped on
/// the thread of the callbacks. A subscription that has ended is left alone.
///
/// Thread: any, also in the callback itself.
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

/// Ends a subscription, and waits for a call that runs on another thread. When this returns, the callback is not called
/// any more, and its context was dropped.
///
/// Do not hold anything that the running call waits for. In the callback itself, the context is dropped when the call
/// has returned.
///
/// Thread: any; the context is dropped on this one. Blocks: while the callback runs on another thread.
#[unsafe(no_mangle)]
pub extern "C" fn sst_subscription_close(
    subscription: *const sst_subscription,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::status(error, || {
        handle::get::<Subscription>(subscription)?.close();
        Ok(())
    })
}

/// Reports the events of a stream, and its end, to a callback.
pub(crate) fn begin<T: Send + 'static>(
    client: &Client,
    stream: &EventStream<T>,
    subscription: Option<&mut MaybeUninit<*mut sst_subscription>>,
    report: impl FnMut(Result<T, &StreamEnd>) + Send + 'static,
) -> Result<(), Error> {
    let to = HandleOut::<Subscription>::optional(subscription);
    output::begin(to, || subscribe(client, stream, report))
}

fn subscribe<T: Send + 'static>(
    client: &Client,
    stream: &EventStream<T>,
    mut report: impl FnMut(Result<T, &StreamEnd>) + Send + 'static,
) -> Result<Subscription, Error> {
    let end = stream.end()?.clone();
    client.subscribe(stream, move |item| report(item.ok_or(&end)))
}

/// Reports the events of a new stream to a callback, after another callback has received the subscription.
///
/// This runs on the thread of the callbacks, so that no event is reported before it has returned.
pub(crate) fn subscribe_and_report<T: Send + 'static>(
    client: &Client,
    report: impl FnMut(Result<T, &StreamEnd>) + Send + 'static,
) -> impl FnOnce(&Callback<sst_on_subscription>, Result<EventStream<T>, Error>) + Send + 'static {
    let client = client.downgrade();
    move |callback, result| {
        let subscribed = result.and_then(|stream| {
            let place = handle::reserve::<Subscription>()?;
            Ok(place.fill(subscribe(&client.upgrade()?, &stream, report)?))
        });
        completion::pass_handle::<Subscription, _>(callback, &subscribed);
    }
}

/// Frees the handle of a subscription. The subscription continues until its client is closed: its callback may run now,
/// and is called again.
///
/// To be sure that it is not called any more, call sst_subscription_close() first.
#[unsafe(no_mangle)]
pub extern "C" fn sst_subscription_free(subscription: *mut sst_subscription) {
    infallible::run(|| drop(handle::free::<Subscription>(subscription)));
}
