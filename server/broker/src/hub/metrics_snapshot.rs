//! Metrics of the hub.
use super::broker::{Broker, BrokerMetrics};
use super::clock::ClockMetrics;
use super::refusal_log::RefusalLog;
use super::{Hub, HubMetrics, LimitUsage};
use crate::audit::EndCounts;
use statestored_common::ClockReading;
use statestored_store::keyspace::EngineMetrics;
use statestored_store::service::{RequestMetrics, Service};

/// All metrics at one moment.
#[derive(Debug, Clone)]
pub struct MetricsSnapshot {
    /// Counters and gauges.
    pub hub: HubMetrics,
    /// Requests by verb, result and time.
    pub requests: RequestMetrics,
    /// Refusals by cause, and the last ones.
    pub refusals: RefusalLog,
    /// Ended connections.
    pub end_counts: EndCounts,
    /// The wall clock.
    pub clock: ClockMetrics,
    /// Median difference of the latest timestamps of clients from this machine's clock in milliseconds, positive if they are ahead;
    /// `None` if there were none within the last minutes.
    pub timestamp_difference_ms: Option<i64>,
    /// Watches of all clients.
    pub watches: u64,
    /// Keys that expired since the start; `None` if they are in an engine that servers share.
    pub expired_keys: Option<u64>,
    /// Limits of all clients together.
    pub limits: Vec<LimitUsage>,
    /// Shortages that limit writes.
    pub shortages: ResourceShortages,
    /// Whether any local user may connect and do everything.
    pub allows_anonymous: bool,
    /// Whether the server is being drained.
    pub is_draining: bool,
    /// The engine that stores the entries, if servers share it.
    pub engine: Option<EngineMetrics>,
    /// The broker in front of the store, if there is one.
    pub broker: Option<BrokerMetrics>,
}

/// Resources that the server has too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceShortages {
    /// The disk is full: entries can be read but not changed.
    pub disk_full: bool,
    /// The disk is slow: more waits for it than it takes.
    pub disk_slow: bool,
    /// The process has no memory left: the store may not grow.
    pub memory: bool,
}

impl Hub {
    /// Sets the present time, in microseconds since any moment. Calls around turns and commits measure the requests.
    pub fn set_time_us(&mut self, now_us: u64) {
        self.end_turn_traces(now_us);
        self.service.set_time_us(now_us);
    }

    /// Returns the service behind the hub.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns whether any local user may connect without credentials and read and write all keys.
    pub(crate) fn allows_anonymous(&self) -> bool {
        self.anonymous_local_users && self.authenticator.is_anonymous() && self.policy.is_none()
    }

    /// Sets whether all local users can reach a listener that demands no certificate.
    pub fn set_anonymous_local_users(&mut self, can_connect: bool) {
        self.anonymous_local_users = can_connect;
    }

    /// Returns the counters and gauges.
    pub fn metrics(&self) -> HubMetrics {
        let outcomes = self.service.outcome_metrics();
        let size = self.service.size();
        let is_here = !self.uses_shared_engine();
        let through_broker = self.broker.as_ref().map_or(0, Broker::pending_count);
        HubMetrics {
            requests: outcomes.executed,
            requests_refused: self.metrics.requests_refused + outcomes.refused,
            requests_expired: outcomes.expired,
            requests_unknown: outcomes.unknown,
            requests_denied: outcomes.denied,
            requests_pending: (self.pending_requests.len() + through_broker) as u64,
            keys: is_here.then_some(size.keys),
            entry_bytes: is_here.then_some(size.bytes),
            connections: self.connections.len() as u64,
            sessions: self.sessions.len() as u64,
            held_bytes: self.held_bytes() as u64,
            hashing_bytes: self.verifications.hashing_bytes() as u64,
            ..self.metrics
        }
    }

    /// Returns all metrics.
    pub fn metrics_snapshot(&mut self, now: ClockReading) -> MetricsSnapshot {
        MetricsSnapshot {
            hub: self.metrics(),
            requests: self.service.request_metrics(),
            refusals: self.refusal_log.clone(),
            end_counts: self.end_counts.clone(),
            clock: self.clock_metrics(now),
            timestamp_difference_ms: self.service.timestamp_difference_ms(now),
            watches: self.service.watch_count(),
            expired_keys: self.service.keyspace_metrics().map(|it| it.expired),
            limits: self.limit_usages(),
            shortages: ResourceShortages {
                disk_full: self.service.is_read_only(),
                disk_slow: self.is_storage_backlogged,
                memory: self.is_memory_short(),
            },
            allows_anonymous: self.allows_anonymous(),
            is_draining: self.is_draining(),
            engine: self.service.engine_metrics(),
            broker: self.broker.as_ref().map(Broker::metrics),
        }
    }
}
