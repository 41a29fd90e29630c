//! What a hub is made with.
use super::broker::BrokerTerms;
use super::limits::HubLimits;
use crate::access::{Authenticator, Policy};
use crate::audit::EndCounts;
use std::sync::Arc;

/// What a [`Hub`](super::Hub) is made with.
#[derive(Debug, Clone, Default)]
pub struct HubConfig {
    /// Limits of connections and sessions.
    pub limits: HubLimits,
    /// Who may connect.
    pub authenticator: Authenticator,
    /// What they may do; without it, everything.
    pub policy: Option<Arc<Policy>>,
    /// The user property by which a SET asks for its key to be kept, with its value, if it is not `aio-persistence: true`.
    pub persist_property: Option<(String, String)>,
    /// The broker behind which it is, if there is one.
    pub broker: Option<BrokerTerms>,
    /// Numbers of ended connections, which those that end before they reach the hub have in common.
    pub ends: EndCounts,
    /// Whether all users of this machine can reach a listener that demands no certificate: keys are shown over HTTP without the token
    /// only then.
    pub anonymous_local_users: bool,
    /// Seed of the client ids that the server assigns, so that a simulation can be repeated. Without it they come from the random source
    /// of the system, and no client can tell the next one from its own.
    pub client_id_seed: Option<u64>,
}
