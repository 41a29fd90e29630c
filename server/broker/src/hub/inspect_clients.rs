//! Views of clients for operators, and their disconnection. Each handles a bounded number of connections, since all clients wait meanwhile.
use super::inspect::{ListPage, MAX_PAGE_ITEMS, SessionView, session_view};
use super::refusal_log::RefusalEntry;
use super::{ConnectionId, Hub};
use bytes::Bytes;
use statestore_protocol::mqtt::ReasonCode;
use statestored_access::{ClientCertificate, Peer};
use statestored_common::ClockReading;
use statestored_connection::Connection;
use std::cmp::Reverse;
use std::sync::Arc;

/// Maximum number of connections that a page of a filtered list considers.
const MAX_PAGE_SCAN: usize = 5_000;
/// Maximum number of connections that a sorted list considers.
const MAX_SORT_SCAN: usize = 20_000;

const OPERATOR_REASON: &str = "an operator has ended the connection";

/// A connection, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionView {
    /// Address, port and listener of the client.
    pub peer: Peer,
    /// Empty before CONNECT was accepted.
    pub client: Arc<str>,
    /// User of the login; `None` is an anonymous client.
    pub user: Option<String>,
    /// Time at which the connection was opened, in Unix milliseconds.
    pub since_ms: u64,
    /// Number of requests to the store.
    pub requests: u64,
    /// Recent requests per 1,000 seconds.
    pub requests_per_1000_s: u64,
    /// Bytes that have not been sent yet.
    pub outstanding_bytes: usize,
    /// Memory that the connection takes.
    pub held_bytes: usize,
}

/// A selection of connections. A criterion that is absent selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// Part of the client id.
    pub client: Option<String>,
    /// Name of the user.
    pub user: Option<String>,
    /// Beginning of the address, or of the address with its port.
    pub address: Option<String>,
}

/// Order of a list of connections, the highest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionOrder {
    /// Recent requests.
    RequestRate,
    /// Memory that the connection takes.
    HeldBytes,
    /// Bytes that have not been sent yet.
    OutstandingBytes,
}

/// A client with all that the server knows of it.
#[derive(Debug, Clone)]
pub struct ClientView {
    /// Its connection, if it has one.
    pub connection: Option<ConnectionView>,
    /// Certificate that it presented on this connection.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// Its session, if it has one.
    pub session: Option<SessionView>,
    /// The first topic filters.
    pub subscriptions: Vec<String>,
    /// Number of watched keys and patterns.
    pub watch_count: usize,
    /// The first watched keys.
    pub watches: Vec<Bytes>,
    /// The first watched patterns.
    pub patterns: Vec<Bytes>,
    /// Its last refusals, newest first.
    pub refusals: Vec<RefusalEntry>,
}

impl ConnectionFilter {
    /// Returns whether the peer has the address, or begins with it.
    fn matches_address(&self, peer: &Peer) -> bool {
        self.address.as_deref().is_none_or(|beginning| {
            peer.address.to_string().starts_with(beginning)
                || peer.to_string().starts_with(beginning)
        })
    }
}

impl Hub {
    /// Returns selected connections, from the one at index `first` on. The next part begins behind the connections that were considered.
    pub fn connections_from(
        &self,
        filter: &ConnectionFilter,
        first: usize,
        now: ClockReading,
    ) -> ListPage<ConnectionView, usize> {
        let mut items = Vec::new();
        let mut end = first;
        for connection in self.connections.values().skip(first).take(MAX_PAGE_SCAN) {
            end += 1;
            if self.is_selected(connection, filter) {
                items.push(self.connection_view(connection, now));
            }
            if items.len() >= MAX_PAGE_ITEMS {
                break;
            }
        }
        ListPage {
            next: (end < self.connections.len()).then_some(end),
            items,
        }
    }

    /// Returns the selected connections that come first in this order, and whether all connections were considered.
    pub fn top_connections(
        &self,
        filter: &ConnectionFilter,
        order: ConnectionOrder,
        now: ClockReading,
    ) -> (Vec<ConnectionView>, bool) {
        let considered = self.connections.values().take(MAX_SORT_SCAN);
        let mut found: Vec<(u64, &Connection)> = considered
            .filter(|connection| self.is_selected(connection, filter))
            .map(|connection| (rank(connection, order, now), connection))
            .collect();
        found.sort_by_key(|(rank, _)| Reverse(*rank));
        found.truncate(MAX_PAGE_ITEMS);
        let items = found
            .into_iter()
            .map(|(_, connection)| self.connection_view(connection, now));
        (items.collect(), self.connections.len() <= MAX_SORT_SCAN)
    }

    fn is_selected(&self, connection: &Connection, filter: &ConnectionFilter) -> bool {
        let has_client = |part: &str| connection.client().contains(part);
        filter.client.as_deref().is_none_or(has_client)
            && filter
                .user
                .as_deref()
                .is_none_or(|name| self.user_name_of(connection) == Some(name))
            && filter.matches_address(connection.endpoint())
    }

    fn user_name_of(&self, connection: &Connection) -> Option<&str> {
        let session = self.sessions.get(connection.session()?)?;
        session.principal.name()
    }

    fn connection_view(&self, connection: &Connection, now: ClockReading) -> ConnectionView {
        let age_ms = now.mono_ms.saturating_sub(connection.opened_ms());
        ConnectionView {
            peer: connection.endpoint().clone(),
            client: Arc::clone(connection.client()),
            user: self.user_name_of(connection).map(str::to_owned),
            since_ms: now.wall_ms.saturating_sub(age_ms),
            requests: connection.request_count(),
            requests_per_1000_s: connection.requests_per_1000_s(now.mono_ms),
            outstanding_bytes: connection.outstanding_bytes(),
            held_bytes: connection.reserved_bytes(),
        }
    }

    /// Returns a client; `None` if it has no session, and nothing was refused to it lately.
    pub fn client_view(&self, client: &str, now: ClockReading) -> Option<ClientView> {
        let refusals = self.refusal_log.recent();
        let refusals: Vec<_> = refusals
            .filter(|it| &*it.details.client == client)
            .cloned()
            .collect();
        let session = self.sessions.find(client);
        let session = session.and_then(|id| self.sessions.get(id));
        if session.is_none() && refusals.is_empty() {
            return None;
        }
        let connection = session
            .and_then(|it| it.connection)
            .and_then(|id| self.connections.get(id));
        let filters = session.into_iter().flat_map(|it| it.subscriptions.keys());
        let keys = self.service.keys_watched_by(client).take(MAX_PAGE_ITEMS);
        let patterns = self.service.patterns_watched_by(client);
        Some(ClientView {
            connection: connection.map(|it| self.connection_view(it, now)),
            certificate: connection.and_then(|it| it.certificate().cloned()),
            session: session.map(session_view),
            subscriptions: filters
                .take(MAX_PAGE_ITEMS)
                .map(ToString::to_string)
                .collect(),
            watch_count: self.service.watches_of(client),
            watches: keys.map(Bytes::copy_from_slice).collect(),
            patterns: patterns
                .take(MAX_PAGE_ITEMS)
                .map(|pattern| Bytes::copy_from_slice(pattern))
                .collect(),
            refusals,
        })
    }

    /// Disconnects a client. Returns whether it was connected.
    pub fn disconnect_client(&mut self, client: &str, now: ClockReading) -> bool {
        let session = self.sessions.find(client);
        let connection = session
            .and_then(|id| self.sessions.get(id))
            .and_then(|session| session.connection);
        self.disconnect_connections(connection.as_slice(), now) == 1
    }

    /// Returns the connections of a user.
    pub fn connections_of_user(&self, user: &str) -> Vec<ConnectionId> {
        let sessions = self.sessions.iter().map(|(_, session)| session);
        sessions
            .filter(|session| session.principal.name() == Some(user))
            .filter_map(|session| session.connection)
            .collect()
    }

    /// Disconnects the clients of these connections. Returns how many of them were connected.
    pub fn disconnect_connections(
        &mut self,
        connections: &[ConnectionId],
        now: ClockReading,
    ) -> usize {
        let mut count = 0;
        for &id in connections {
            let connection = self.connections.get(id);
            if connection.and_then(Connection::session).is_some() {
                let code = ReasonCode::ADMINISTRATIVE_ACTION;
                self.disconnect_with(id, code, OPERATOR_REASON, now);
                count += 1;
            }
        }
        self.settle(now);
        count
    }
}

fn rank(connection: &Connection, order: ConnectionOrder, now: ClockReading) -> u64 {
    match order {
        ConnectionOrder::RequestRate => connection.requests_per_1000_s(now.mono_ms),
        ConnectionOrder::HeldBytes => connection.reserved_bytes() as u64,
        ConnectionOrder::OutstandingBytes => connection.outstanding_bytes() as u64,
    }
}
