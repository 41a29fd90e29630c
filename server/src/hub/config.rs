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
    /// Makes client ids given by the server differ from those of other runs.
    pub client_id_seed: u64,
}
