//! Configuration of a hub.
use super::broker::BrokerConfig;
use super::limits::HubLimits;
use crate::audit::EndCounts;
use statestored_access::{Authenticator, Policy};
use std::sync::Arc;

/// Configuration of a [`Hub`](super::Hub).
#[derive(Debug, Clone, Default)]
pub struct HubConfig {
    /// Limits of connections and sessions.
    pub limits: HubLimits,
    /// Rules about the clients that may connect.
    pub authenticator: Authenticator,
    /// Rights of clients; `None` allows everything.
    pub policy: Option<Arc<Policy>>,
    /// User property, with its value, by which a SET asks to persist its key, if it is not `aio-persistence: true`.
    pub persist_property: Option<(String, String)>,
    /// The broker in front of the hub, if there is one.
    pub broker: Option<BrokerConfig>,
    /// Numbers of ended connections, shared with connections that end before they reach the hub.
    pub end_counts: EndCounts,
    /// Whether all users of this machine can reach a listener that demands no certificate. Keys are shown over HTTP without the token only
    /// if they can.
    pub anonymous_local_users: bool,
    /// Seed of the client ids that the server assigns, so that a simulation can be repeated. Without it they come from the random source of
    /// the system, and no client can derive another id from its own.
    pub client_id_seed: Option<u64>,
}
