//! Measurement of the round trip time.
use crate::boundary;
use crate::callback::{Callback, closure};
use crate::client::sst_client;
use crate::completion;
use crate::error::sst_error;
use crate::input::milliseconds;
use crate::operation::{begin, sst_operation, wait};
use crate::output;
use crate::status::sst_status;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::time::Duration;

const PINGING: &str = "pinging the store";

/// Callback that receives the result of sst_ping().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sst_on_ping {
    pub context: *mut c_void,
    pub call: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            status: sst_status,
            error: *const sst_error,
            round_trip_us: u64,
        ),
    >,
    pub drop: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

closure!(
    sst_on_ping,
    unsafe extern "C" fn(*mut c_void, sst_status, *const sst_error, u64)
);

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Sends a request that needs no key, and returns the time until the store has answered it, in microseconds.
///
/// The time includes the wait for the connection and for earlier requests. `timeout_ms` limits it; 0 for the request
/// time-out of the settings. A store that rejects the request has answered it too.
///
/// Blocks: until the answer, at most for the time-out.
#[unsafe(no_mangle)]
pub extern "C" fn sst_ping(
    client: *const sst_client,
    timeout_ms: u64,
    round_trip_us: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let round_trip_us = output::init_failed(round_trip_us);
    boundary::with_client(error, client, |client| {
        let round_trip_us = output::init_with(round_trip_us, 0, "round_trip_us")?;
        let ping = client.ping(milliseconds(timeout_ms, "timeout_ms")?);
        *round_trip_us = microseconds(wait(client, PINGING, ping)?);
        Ok(())
    })
}

/// Begins sst_ping().
#[unsafe(no_mangle)]
pub extern "C" fn sst_ping_async(
    client: *const sst_client,
    timeout_ms: u64,
    callback: sst_on_ping,
    operation: Option<&mut MaybeUninit<*mut sst_operation>>,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    let operation = output::init_failed(operation);
    let callback = Callback::new(callback);
    boundary::with_client(error, client, |client| {
        let ping = client.ping(milliseconds(timeout_ms, "timeout_ms")?);
        begin(
            client,
            PINGING,
            ping,
            callback,
            operation,
            |callback, result| completion::report_value(callback, result.map(microseconds)),
        )
    })
}
