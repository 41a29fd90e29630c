//! What is counted and measured, for whoever watches the server.
use super::broker::{Broker, BrokerFigures};
use super::refusals::{Cause, Refusals, Refused};
use super::{ConnectionId, Hub, Statistics};
use crate::clock::Now;
use crate::connection::Connection;
use crate::keyspace::remote::EngineFigures;
use crate::service::{RequestFigures, Service};
use std::sync::Arc;

/// Everything of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    /// Counters and gauges.
    pub(crate) statistics: Statistics,
    /// Requests by verb, result and time.
    pub(crate) requests: RequestFigures,
    /// Refusals by cause, and the last ones.
    pub(crate) refusals: Refusals,
    /// Watches of all clients.
    pub(crate) watches: u64,
    /// Entries can be read but not changed.
    pub(crate) is_read_only: bool,
    /// More waits for the storage than it takes.
    pub(crate) is_storage_busy: bool,
    /// Everybody may connect and do everything.
    pub(crate) is_open: bool,
    /// The engine that has the entries, if that is elsewhere.
    pub(crate) engine: Option<EngineFigures>,
    /// The broker behind which the store is, if there is one.
    pub(crate) broker: Option<BrokerFigures>,
}

impl Hub {
    /// It is so late now, in microseconds since any moment: told around turns and commits, it is how requests are measured.
    pub(crate) fn measure(&mut self, now_us: u64) {
        self.service.measure(now_us);
    }

    /// Something that a client asked for was refused.
    #[cold]
    pub(super) fn note_refusal(
        &mut self,
        id: ConnectionId,
        cause: Cause,
        why: &'static str,
        now: Now,
    ) {
        let connection = self.connections.get(id);
        self.refusals.note(Refused {
            wall_ms: now.wall_ms,
            peer: connection.map(Connection::peer),
            client: connection
                .map(|it| Arc::clone(it.client()))
                .unwrap_or_default(),
            cause,
            why: why.into(),
        });
    }

    /// The service behind it.
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

    /// Everything that is counted and measured.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            statistics: self.statistics(),
            requests: self.service.request_figures().clone(),
            refusals: self.refusals.clone(),
            watches: self.service.watches(),
            is_read_only: self.service.is_read_only(),
            is_storage_busy: self.is_storage_full,
            is_open: self.is_open(),
            engine: self.service.engine(),
            broker: self.broker.as_ref().map(Broker::figures),
        }
    }
}
