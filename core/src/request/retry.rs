//! Requests that are sent a second time.

/// Treatment of a write whose response was lost together with the MQTT session, as after a restart of the broker. The write may
/// have been executed or not.
///
/// | request | executed twice | sent again |
/// |---|---|---|
/// | GET, MGET, SCAN, KEYNOTIFY, CAPS | as once | always |
/// | SET | overwrites what others stored in between | [`Retry::Always`] |
/// | SET with a condition | its own first execution can make the condition fail, so that it seems not applied | [`Retry::Always`] |
/// | SET with NEX, as for leases | takes a lease again that ended in between | [`Retry::Always`] |
/// | DEL, VDEL | deletes what others stored in between, or finds nothing left to delete | [`Retry::Always`] |
/// | TXN | as its operations | [`Retry::Always`] |
///
/// A fencing token does not change this: the key, and its protection with it, can be gone by the second time.
///
/// This setting does not concern lost connections. While the session lives, an unacknowledged request is *delivered* again with
/// the same correlation data, and the store answers it again without executing it again. A request that certainly did not reach
/// the broker is always sent, since that is its first time.
///
/// ```
/// use statestore::{Retry, SetOptions};
///
/// // Only this client writes the key, and each value makes the one before obsolete.
/// let telemetry = SetOptions::new().retry(Retry::Always);
/// # assert_ne!(telemetry.retry, Retry::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Repeats a request only if that changes nothing, which excludes every write. A write ends with
    /// [`ErrorKind::SessionLost`](crate::ErrorKind::SessionLost) and [`Outcome::Unknown`](crate::Outcome::Unknown) instead.
    #[default]
    Safe,
    /// Repeats the request, before new requests. The result is that of the last execution. If it fails, the outcome is
    /// [`Unknown`](crate::Outcome::Unknown), because an earlier execution may have succeeded.
    Always,
    /// Never repeats the request.
    Never,
}
