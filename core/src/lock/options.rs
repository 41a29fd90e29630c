//! Options of leases and locks.
use super::{holder, invalid};
use crate::Client;
use crate::client::{MIN_EXPIRY, certain_lifetime};
use crate::error::Error;
use bytes::Bytes;
use std::time::Duration;

/// Maximum duration of a lease; renew it if you need it for longer.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);
/// Minimum time between renewals.
const MIN_RENEWAL_INTERVAL: Duration = Duration::from_millis(10);

/// Times at which a guard renews its lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewal {
    /// Automatically, after each third of the lease.
    #[default]
    Third,
    /// Automatically, at this interval.
    Every(Duration),
    /// Manually, by calls of [`Guard::renew`](super::Guard::renew).
    Manual,
}

/// Options of [`Client::lease_with`](crate::Client::lease_with).
///
/// ```
/// use statestore::LeaseOptions;
/// use std::time::Duration;
///
/// let options = LeaseOptions::new().duration(Duration::from_secs(3));
/// assert_eq!(options.validity(), Duration::from_millis(2_960));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseOptions {
    /// Duration of the lease at the store after it was taken or renewed (default: 10 s). The range is 100 ms to a day, rounded
    /// up to whole milliseconds.
    pub duration: Duration,
    /// Times at which the guard renews the lease.
    pub renewal: Renewal,
    /// Name of the holder; the client id by default. Each attempt adds a unique suffix, so that two clients, or two tasks of
    /// one client, with the same name exclude each other. [`Holder`](super::Holder) contains both.
    pub holder: Option<Bytes>,
    /// Whether to hold the lease under exactly the [`holder`](Self::holder)'s name, without a suffix. An attempt also succeeds
    /// if the lease is already held under this name, so that a restarted program resumes its lease.
    ///
    /// Two running clients that resume one name *both* hold the lease. Use a name that only one program has at a time.
    pub resume: bool,
    /// Time limit of an attempt; [`Settings::request_timeout`](crate::Settings::request_timeout) by default, and never longer
    /// than [`validity`](Self::validity).
    pub timeout: Option<Duration>,
    /// Maximum age of a value that this library did not write, to count as a lease (default: 1 hour). A renewal resets the age
    /// of a lease; ordinary data grows older.
    pub foreign_lease_max: Duration,
}

impl LeaseOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`duration`](Self#structfield.duration).
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Sets [`renewal`](Self#structfield.renewal).
    #[must_use]
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.renewal = renewal;
        self
    }

    /// Sets [`holder`](Self#structfield.holder).
    #[must_use]
    pub fn holder(mut self, holder: impl Into<Option<Bytes>>) -> Self {
        self.holder = holder.into();
        self
    }

    /// Sets [`resume`](Self#structfield.resume).
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`foreign_lease_max`](Self#structfield.foreign_lease_max).
    #[must_use]
    pub fn foreign_lease_max(mut self, foreign_lease_max: Duration) -> Self {
        self.foreign_lease_max = foreign_lease_max;
        self
    }
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            renewal: Renewal::Third,
            holder: None,
            resume: false,
            timeout: None,
            foreign_lease_max: Duration::from_secs(3600),
        }
    }
}

impl LeaseOptions {
    /// Returns how long a guard is valid after the request that took or renewed the lease was sent. It is the
    /// [`duration`](Self::duration) less 1 %, by which clocks may drift apart, and less 10 ms.
    pub fn validity(&self) -> Duration {
        certain_lifetime(self.duration)
    }

    /// Returns the time limit of one attempt to take the lease.
    pub(super) fn attempt_timeout(&self, client: &Client) -> Duration {
        let timeout = self.timeout.unwrap_or(client.shared().request_timeout());
        timeout.min(self.validity())
    }

    /// Returns the renewal interval; `None` for manual renewal.
    pub(super) fn renewal_interval(&self) -> Option<Duration> {
        match self.renewal {
            Renewal::Third => Some(self.duration / 3),
            Renewal::Every(interval) => Some(interval),
            Renewal::Manual => None,
        }
    }

    /// Rejects invalid options before any request is sent.
    pub(super) fn check(&self, verb: &str, name: &[u8]) -> Result<(), Error> {
        let refuse = |reason: String| Err(invalid(verb, name, reason));
        if name.is_empty() {
            return refuse("the name is empty".into());
        }
        if self.duration < MIN_EXPIRY {
            return refuse(format!(
                "a lease of {:?} is too short; it lasts at least {MIN_EXPIRY:?}",
                self.duration
            ));
        }
        if self.duration > MAX_LEASE {
            return refuse("a lease lasts at most a day; renew it to keep it longer".into());
        }
        if let Renewal::Every(interval) = self.renewal {
            if interval < MIN_RENEWAL_INTERVAL {
                return refuse(format!(
                    "a renewal every {interval:?} is too often; at least {MIN_RENEWAL_INTERVAL:?} lie between two"
                ));
            }
            if interval >= self.validity() {
                return refuse(format!(
                    "a renewal every {interval:?} comes too late for a lease of {:?}, which counts for {:?}",
                    self.duration,
                    self.validity()
                ));
            }
        }
        match &self.holder {
            Some(name) if !holder::is_valid_name(name, self.resume) => refuse(
                "the holder's name is not one: it is not empty, and UTF-8 without control characters".into(),
            ),
            None if self.resume => refuse("a lease is resumed under the name of its holder, and there is none".into()),
            _ => Ok(()),
        }
    }
}

/// Options of [`Client::lock_with`](crate::Client::lock_with).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOptions {
    /// Options of the lease behind the lock.
    pub lease: LeaseOptions,
    /// Maximum time to wait for the lock; unlimited if `None`. With zero, there is a single attempt within the
    /// [`timeout`](LeaseOptions::timeout) of the lease's options, and none while the connection is lost.
    pub wait: Option<Duration>,
}

impl LockOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`lease`](Self#structfield.lease).
    #[must_use]
    pub fn lease(mut self, lease: LeaseOptions) -> Self {
        self.lease = lease;
        self
    }

    /// Sets [`wait`](Self#structfield.wait).
    #[must_use]
    pub fn wait(mut self, wait: impl Into<Option<Duration>>) -> Self {
        self.wait = wait.into();
        self
    }
}
