//! What can be chosen about leases and locks.
use super::{holder, invalid};
use crate::Client;
use crate::error::Error;
use bytes::Bytes;
use std::time::Duration;

/// The shortest lease.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest lease: one that needs to be longer should be renewed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The part of the safety margin that does not depend on the lease: the store counts whole milliseconds, and a write
/// takes its time to leave the process.
const FIXED_MARGIN: Duration = Duration::from_millis(10);
/// The part of the lease by which the clocks of client and store may drift apart.
const DRIFT: u32 = 100;
/// The shortest time between renewals.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// For how long after a request was sent a key that expires `after` so much is certainly there.
pub(super) fn certain(after: Duration) -> Duration {
    after
        .saturating_sub(after / DRIFT)
        .saturating_sub(FIXED_MARGIN)
}

/// When a guard renews its lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewal {
    /// By itself, each time a third of the lease is over.
    #[default]
    Third,
    /// By itself, each time so much is over.
    Every(Duration),
    /// Only when [`Guard::renew`](super::Guard::renew) is called.
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
    /// How long the lease lasts at the store after it was taken or renewed: 100 ms to a day, whole milliseconds, rounded
    /// up (default: 10 s).
    pub duration: Duration,
    /// When the guard renews it.
    pub renewal: Renewal,
    /// The name of the holder, the client id unless given. Each attempt makes it unique by a suffix, so that two clients, or two tasks
    /// of one, with the same name exclude each other. [`Holder`](super::Holder) shows both.
    pub holder: Option<Bytes>,
    /// Holds the lease under exactly the [`holder`](Self::holder)'s name, without a suffix. An attempt also succeeds if the lease is held
    /// under this name already, so that a restarted program resumes its lease.
    ///
    /// Two running clients that resume one name *both* hold the lease. Use a name that only one program has at a time.
    pub resume: bool,
    /// How long an attempt may take; [`Settings::request_timeout`](crate::Settings::request_timeout) unless given, and
    /// never longer than [`validity`](Self::validity).
    pub timeout: Option<Duration>,
    /// How old a value of the key that this library did not write may become and still count as somebody's lease
    /// (default: 1 hour). Renewal makes it new; ordinary data stays as old as it is.
    pub foreign_lease_max: Duration,
}

impl LeaseOptions {
    /// The defaults.
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
    /// How long a guard is valid after the request that took or renewed the lease was sent: the
    /// [`duration`](Self::duration) less a hundredth of it, by which clocks may drift apart, and less 10 ms.
    pub fn validity(&self) -> Duration {
        certain(self.duration)
    }

    /// How long one attempt to take the lease may take.
    pub(super) fn attempt(&self, client: &Client) -> Duration {
        let timeout = self.timeout.unwrap_or(client.shared().request_timeout());
        timeout.min(self.validity())
    }

    /// After what time the lease is renewed, unless that is left to the caller.
    pub(super) fn renewal_interval(&self) -> Option<Duration> {
        match self.renewal {
            Renewal::Third => Some(self.duration / 3),
            Renewal::Every(interval) => Some(interval),
            Renewal::Manual => None,
        }
    }

    /// Refuses what cannot work before anything is sent.
    pub(super) fn check(&self, verb: &str, name: &[u8]) -> Result<(), Error> {
        let refuse = |reason: String| Err(invalid(verb, name, reason));
        if name.is_empty() {
            return refuse("the name is empty".into());
        }
        if self.duration < SHORTEST {
            return refuse(format!(
                "a lease of {:?} is too short; it lasts at least {SHORTEST:?}",
                self.duration
            ));
        }
        if self.duration > LONGEST {
            return refuse("a lease lasts at most a day; renew it to keep it longer".into());
        }
        if let Renewal::Every(interval) = self.renewal {
            if interval < SHORTEST_INTERVAL {
                return refuse(format!(
                    "a renewal every {interval:?} is too often; at least {SHORTEST_INTERVAL:?} lie between two"
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
            Some(name) if !holder::is_possible(name, self.resume) => refuse(
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
    /// The lease that is behind the lock.
    pub lease: LeaseOptions,
    /// How long to wait for the lock; without it, for ever. With zero there is one attempt, which takes no longer than the
    /// [`timeout`](LeaseOptions::timeout) of the lease's options, and is not made while there is no connection.
    pub wait: Option<Duration>,
}

impl LockOptions {
    /// The defaults.
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
