//! Counters of a client.
use crate::boundary;
use crate::client::sst_client;
use crate::error::sst_error;
use crate::input::sized;
use crate::output;
use crate::status::sst_status;
use std::mem::MaybeUninit;

/// Counts since the client was made.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sst_counters {
    pub size: usize,
    /// Requests sent. A request that is sent again in a new session counts again.
    pub sent: u64,
    /// Responses that a request waited for.
    pub completed: u64,
    /// Requests that timed out.
    pub timed_out: u64,
    /// Requests that the broker refused or that could not be sent.
    pub failed: u64,
    /// Requests that newer ones replaced before they were sent.
    pub superseded: u64,
    /// Requests sent again after a reconnect.
    pub resent: u64,
    /// Successful reconnects.
    pub reconnects: u64,
    /// Newer service account tokens that the broker accepted over a live connection.
    pub reauthentications: u64,
    /// Reconnects at which the broker no longer had the session.
    pub sessions_lost: u64,
    /// Connections that this client closed because the broker broke the protocol.
    pub protocol_errors: u64,
    /// Responses for which no request waited.
    pub unmatched_responses: u64,
    /// Received timestamps that were too far ahead of the local clock and therefore not adopted.
    pub clock_skews: u64,
    /// Notifications of watched keys.
    pub notifications: u64,
    /// Notifications that were not newer than the previous one, or whose key is not watched.
    pub stale_notifications: u64,
    /// Messages that are neither responses nor notifications.
    pub malformed_messages: u64,
    /// Requests that are sent and not answered yet.
    pub in_flight: u64,
    /// Requests that are waiting to be sent.
    pub queued: u64,
}

sized!(sst_counters, queued: u64);

/// Fills `counters`, up to its `size`. Fields that this version does not know become zero.
///
/// Errors: SST_INVALID_ARGUMENT for an impossible size. `counters` is not changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sst_client_counters(
    client: *const sst_client,
    counters: *mut sst_counters,
    error: Option<&mut MaybeUninit<*mut sst_error>>,
) -> sst_status {
    boundary::with_client(error, client, |client| {
        let seen = client.counters()?;
        let known = |size| {
            Ok(sst_counters {
                size,
                sent: seen.sent,
                completed: seen.completed,
                timed_out: seen.timed_out,
                failed: seen.failed,
                superseded: seen.superseded,
                resent: seen.resent,
                reconnects: seen.reconnects,
                reauthentications: seen.reauthentications,
                sessions_lost: seen.sessions_lost,
                protocol_errors: seen.protocol_errors,
                unmatched_responses: seen.unmatched_responses,
                clock_skews: seen.clock_skews,
                notifications: seen.notifications,
                stale_notifications: seen.stale_notifications,
                malformed_messages: seen.malformed_messages,
                in_flight: seen.in_flight,
                queued: seen.queued,
            })
        };
        // SAFETY: the header asks for a struct with its size.
        unsafe { output::fill(counters, "counters", known) }
    })
}
