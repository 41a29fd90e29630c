//! The subscriptions of a session.
use super::super::Subscription;
use std::fmt;
use std::sync::Arc;

/// The subscriptions of a session, by its client id. The first one must be granted. There are none for a client id that
/// cannot be used.
#[derive(Clone)]
pub struct Subscriptions(Arc<SubscriptionsFn>);

type SubscriptionsFn = dyn Fn(&str) -> Vec<Subscription> + Send + Sync;

impl Subscriptions {
    /// Creates the subscriptions from a function that computes them for a client id.
    pub fn new(of: impl Fn(&str) -> Vec<Subscription> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    /// Returns the subscriptions for this client id.
    pub(super) fn for_client(&self, client_id: &str) -> Vec<Subscription> {
        (self.0)(client_id)
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscriptions")
    }
}
