//! Options of observers of a pattern.
use std::time::Duration;

/// Options of [`Client::observe_matching_with`](crate::Client::observe_matching_with).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObserveMatchingOptions {
    /// Time limit for the store to start the watch; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// Interval at which the client scans for new keys on a store without
    /// [`Capabilities::observe_matching`](crate::Capabilities::observe_matching); 10 seconds by default, and not zero. With
    /// `None`, such a store returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    pub refresh: Option<Duration>,
    /// Maximum number of keys; 1,000,000 by default. The observer keeps each matching key and its version in memory. With more
    /// keys it ends with [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
    pub max_keys: usize,
}

impl Default for ObserveMatchingOptions {
    fn default() -> Self {
        Self {
            timeout: None,
            refresh: Some(Duration::from_secs(10)),
            max_keys: 1_000_000,
        }
    }
}

impl ObserveMatchingOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`refresh`](Self#structfield.refresh).
    #[must_use]
    pub fn refresh(mut self, refresh: impl Into<Option<Duration>>) -> Self {
        self.refresh = refresh.into();
        self
    }

    /// Sets [`max_keys`](Self#structfield.max_keys).
    #[must_use]
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }
}
