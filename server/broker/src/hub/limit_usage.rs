//! Limits, and how much of them is used.
use super::Hub;
use crate::audit;
use statestored_access::{Principal, UserLimits};
use statestored_store::keyspace::{KeyspaceMetrics, QuotaUsage, used_ratio};

/// Maximum number of sessions in a part of the quotas of users.
const MAX_PAGE_SESSIONS: usize = 1_000;

/// A limit of all clients together, and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitUsage {
    /// Name of what is limited.
    pub name: &'static str,
    /// Option that sets the limit.
    pub option: &'static str,
    /// Whether it is an amount of memory, rather than a number.
    pub is_bytes: bool,
    /// Amount in use.
    pub used: u64,
    /// Maximum amount.
    pub max: u64,
}

impl LimitUsage {
    /// Returns the part of the limit that is used: 1 if it is full.
    pub fn ratio(&self) -> f64 {
        used_ratio(self.used, self.max)
    }
}

impl Hub {
    /// Returns the limits of all clients together.
    pub fn limit_usages(&self) -> Vec<LimitUsage> {
        let (limits, service) = (&self.limits, &self.service);
        let mut usages = vec![
            LimitUsage {
                name: "connections",
                option: "max-connections",
                is_bytes: false,
                used: self.connections.len() as u64,
                max: limits.max_connections as u64,
            },
            LimitUsage {
                name: "sessions",
                option: "max-sessions",
                is_bytes: false,
                used: self.sessions.len() as u64,
                max: limits.max_sessions as u64,
            },
            LimitUsage {
                name: "watches",
                option: "max-watches",
                is_bytes: false,
                used: service.watch_count(),
                max: service.max_watches(),
            },
            LimitUsage {
                name: "held",
                option: "max-session-bytes",
                is_bytes: true,
                used: self.held_bytes() as u64,
                max: self.max_session_bytes() as u64,
            },
        ];
        if let Some(KeyspaceMetrics { max_size, .. }) = service.keyspace_metrics() {
            let size = service.size();
            usages.push(LimitUsage {
                name: "keys",
                option: "max-keys",
                is_bytes: false,
                used: size.keys,
                max: max_size.keys,
            });
            usages.push(LimitUsage {
                name: "entries",
                option: "max-bytes",
                is_bytes: true,
                used: size.bytes,
                max: max_size.bytes,
            });
        }
        usages.retain(|usage| usage.max < u64::MAX);
        usages
    }

    /// Returns the quotas of prefixes.
    pub fn prefix_quotas(&self) -> Vec<QuotaUsage> {
        self.service.prefix_quotas()
    }

    /// Returns the quotas of the users of a part of the sessions, from the one at index `first` on, and where the next part begins. A
    /// user of several sessions may occur several times.
    pub fn user_quotas_from(&self, first: usize) -> (Vec<QuotaUsage>, Option<usize>) {
        if self.limits.users.is_empty() {
            return (Vec::new(), None);
        }
        let sessions = self.sessions.iter().skip(first).take(MAX_PAGE_SESSIONS);
        let usages = sessions.flat_map(|(_, session)| self.user_quotas(&session.principal));
        let usages = usages.collect();
        let next = first + MAX_PAGE_SESSIONS;
        (usages, (next < self.sessions.len()).then_some(next))
    }

    fn user_quotas(&self, principal: &Principal) -> Vec<QuotaUsage> {
        let UserLimits {
            connections,
            sessions,
            watches,
            subscriptions,
            held_bytes,
            ..
        } = *self.limits.users.get(principal);
        let used = self.sessions.usage_of(principal);
        let watched = self.service.watches_of_owner(principal.owner());
        let quotas = [
            ("connections", used.connections, connections),
            ("sessions", used.sessions, sessions),
            ("watches", watched, watches),
            ("subscriptions", used.wildcards, subscriptions),
            ("held", used.held_bytes, held_bytes),
        ];
        let limited = quotas
            .into_iter()
            .filter_map(|(quota, used, max)| Some((quota, used, max?)));
        let usages = limited.map(|(quota, used, max)| QuotaUsage {
            owner: audit::truncate(principal.name().unwrap_or_default()).into_owned(),
            quota,
            used: used as u64,
            max: max as u64,
        });
        usages.collect()
    }
}
