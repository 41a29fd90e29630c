//! Metrics of the hub.
use super::broker::{Broker, BrokerFigures};
use super::clock::ClockFigures;
use super::refusals::Refusals;
use super::{Hub, Statistics};
use crate::audit::EndCounts;
use crate::clock::Now;
use crate::keyspace::remote::EngineFigures;
use crate::service::{RequestFigures, Service};

/// All metrics at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Counters and gauges.
    pub(crate) statistics: Statistics,
    /// Requests by verb, result and time.
    pub(crate) requests: RequestFigures,
    /// Refusals by cause, and the last ones.
    pub(crate) refusals: Refusals,
    /// Ended connections.
    pub(crate) ends: EndCounts,
    /// The wall clock.
    pub(crate) clock: ClockFigures,
    /// Watches of all clients.
    pub(crate) watches: u64,
    /// Shortages that limit writes.
    pub(crate) shortages: Shortages,
    /// Whether any local user may connect and do everything.
    pub(crate) is_open: bool,
    /// The engine that stores the entries, if servers share it.
    pub(crate) engine: Option<EngineFigures>,
    /// The broker in front of the store, if there is one.
    pub(crate) broker: Option<BrokerFigures>,
}

/// Resources that the server has too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortages {
    /// The disk is full: entries can be read but not changed.
    pub(crate) disk_full: bool,
    /// The disk is slow: more waits for it than it takes.
    pub(crate) disk_slow: bool,
    /// The process has no memory left: the store may not grow.
    pub(crate) memory: bool,
}

impl Hub {
    /// Sets the present time, in microseconds since any moment. Calls around turns and commits measure the requests.
    pub(crate) fn measure(&mut self, now_us: u64) {
        self.service.measure(now_us);
    }

    /// Returns the service behind the hub.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns whether any local user may connect without credentials and read and write all keys.
    pub(crate) fn is_open(&self) -> bool {
        self.anonymous_local_users && self.authenticator.is_anonymous() && self.policy.is_none()
    }

    /// Sets whether all local users can reach a listener that demands no certificate.
    pub(crate) fn set_anonymous_local_users(&mut self, can_connect: bool) {
        self.anonymous_local_users = can_connect;
    }

    /// Returns all metrics.
    pub(crate) fn figures(&mut self, now: Now) -> Figures {
        Figures {
            statistics: self.statistics(),
            requests: self.service.request_figures().clone(),
            refusals: self.refusals.clone(),
            ends: self.ends.clone(),
            clock: self.clock_figures(now),
            watches: self.service.watches(),
            shortages: Shortages {
                disk_full: self.service.is_read_only(),
                disk_slow: self.is_storage_full,
                memory: self.is_memory_short(),
            },
            is_open: self.is_open(),
            engine: self.service.engine(),
            broker: self.broker.as_ref().map(Broker::figures),
        }
    }
}
