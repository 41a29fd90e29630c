//! Publishing to and reading from the log of a group.
use super::election::{ElectionEvent, ElectionMessage};
use super::entry::{self, Entry, EntryKind, MAX_PAYLOAD_BYTES};
use super::{Group, UNPUBLISHED_WINDOW_MS};
use crate::hub::Hub;
use crate::hub::broker::outgoing_message::OutgoingKind;
use crate::hub::message::{Message, Payload};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Publish, ReasonCode};
use statestored_common::ClockReading;
use statestored_store::keyspace::EngineProblem;
use std::sync::Arc;

impl Hub {
    pub(super) fn group(&mut self) -> Option<&mut Group> {
        self.broker.as_mut()?.group.as_mut()
    }

    /// Publishes an entry of the log, unless this server is not attached to a group.
    pub(super) fn publish_entry(&mut self, entry: &Entry<'_>, now: ClockReading) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let Some(group) = &broker.group else {
            return;
        };
        let Some(me) = group.election.name() else {
            return;
        };
        let identity = (
            broker.identity_key.as_ref(),
            broker.config.identity.as_deref(),
        );
        let payload = Bytes::copy_from_slice(entry.payload);
        let body = Payload::new(payload, &self.memory_budget);
        let is_heartbeat = matches!(
            entry.kind,
            EntryKind::Election(ElectionMessage::Heartbeat(_))
        );
        let message = entry.write(me, &group.topic, identity, |header| {
            Message::new(header, body, None)
        });
        match message {
            // Servers that hear no heartbeat take this one for gone.
            Ok(message) if is_heartbeat => {
                broker.enqueue_front(message, OutgoingKind::Entry(None));
            }
            Ok(message) => {
                let number = entry.request.map(|(_, number)| number);
                broker.enqueue(message, 0, OutgoingKind::Entry(number), false, now);
            }
            Err(error) => {
                tracing::debug!(%error, "an entry cannot be sent");
                self.metrics.dropped_too_large += 1;
            }
        }
    }

    fn publish_election(&mut self, message: ElectionMessage, now: ClockReading) {
        self.publish_entry(&Entry::new(EntryKind::Election(message)), now);
    }

    /// Leaves the group, so that another server leads at once.
    pub(in crate::hub::broker) fn leave_group(&mut self, now: ClockReading) {
        self.publish_election(ElectionMessage::Leave, now);
        if let Some(group) = self.group() {
            group.leave();
        }
    }

    /// Publishes a request about a watch to all servers. Returns false if this server is not attached to a group.
    pub(in crate::hub::broker) fn publish_watch_request(
        &mut self,
        publish: &Publish,
        number: u64,
        (client, user): (&str, Option<&str>),
        expiry_s: Option<u32>,
        now: ClockReading,
    ) -> bool {
        let can = self
            .group()
            .is_some_and(|group| group.election.name().is_some());
        if can {
            let entry = Entry {
                client: Some(client),
                user,
                payload: publish.payload_bytes(),
                request: Some((publish, number)),
                ..Entry::new(EntryKind::Request { expiry_s })
            };
            self.publish_entry(&entry, now);
        }
        can
    }

    /// Publishes due entries, and the messages that were set aside if this server leads again.
    pub(in crate::hub::broker) fn poll_group(&mut self, now: ClockReading) {
        // A full storage still reports changes.
        let sees = self.service.engine_metrics().is_none_or(|engine| {
            use EngineProblem::{Replaced, Unavailable, Unreadable};
            let hides_changes = matches!(engine.problem, Some(Unavailable | Unreadable | Replaced));
            engine.is_watched && !hides_changes
        });
        if let Some(group) = self.group() {
            group.election.set_sees_changes(sees, now.mono_ms);
        }
        while let Some(message) = self
            .group()
            .and_then(|group| group.election.poll(now.mono_ms, now.wall_ms))
        {
            if let ElectionMessage::Resign { .. } = message {
                tracing::warn!(
                    "the storage does not report changes to this server: another server becomes the leader of its group"
                );
            }
            self.publish_election(message, now);
            if let ElectionMessage::Heartbeat(_) = message {
                self.publish_alive_clients(now);
            }
        }
        let Some(broker) = &mut self.broker else {
            return;
        };
        let is_active = broker.is_active(now);
        let Some(group) = &mut broker.group else {
            return;
        };
        if group.election.is_standby() {
            group.standby.drop_expired(now.mono_ms);
            group.dropped = 0;
            group.has_gap = false;
            broker.lost_notifications.clear();
        } else {
            let dropped = std::mem::take(&mut group.dropped);
            self.metrics.dropped_full += dropped;
            group.has_gap |= dropped > 0;
        }
        // From here on, this server notifies of all changes: a client that reads now misses none.
        let reports_gap = is_active && sees && std::mem::take(&mut group.has_gap);
        if is_active && !group.standby.is_empty() {
            let mut steps = 0;
            for outgoing in group.standby.take() {
                if let OutgoingKind::Notification {
                    client, key, scope, ..
                } = &outgoing.kind
                    && !self.service.is_notified(client, key, *scope, &mut steps)
                {
                    continue;
                }
                broker.outgoing_bytes += outgoing.message.bytes();
                broker.queue.push_back(outgoing);
            }
            self.service.add_work(steps);
        }
        if reports_gap {
            for client in self.watching_broker_clients() {
                self.record_lost_notification(&client);
            }
        }
    }

    fn publish_alive_clients(&mut self, now: ClockReading) {
        let Some(group) = self.group() else {
            return;
        };
        let clients = std::mem::take(&mut group.alive_clients);
        let mut clients = clients.into_iter().peekable();
        while clients.peek().is_some() {
            let mut payload = BytesMut::new();
            while payload.len() < MAX_PAYLOAD_BYTES
                && let Some(client) = clients.next()
            {
                entry::push_name(client.as_bytes(), &mut payload);
            }
            let entry = Entry {
                payload: &payload,
                ..Entry::new(EntryKind::ClientsAlive)
            };
            self.publish_entry(&entry, now);
        }
    }

    /// Processes an entry of the log.
    pub(in crate::hub::broker) fn handle_log_entry(
        &mut self,
        publish: &Publish,
        number: u64,
        now: ClockReading,
    ) {
        let Some(broker) = &self.broker else {
            return;
        };
        let Some(header) = entry::parse_entry(publish, broker.identity_key.as_ref()) else {
            if let Some(broker) = &mut self.broker {
                broker.metrics.unverified_requests += 1;
            }
            return self.finish_broker_request(number, ReasonCode::NOT_AUTHORIZED);
        };
        if !matches!(header.kind, EntryKind::Request { .. }) {
            self.finish_broker_request(number, ReasonCode::SUCCESS);
        }
        let from: Arc<str> = header.server.into();
        match header.kind {
            EntryKind::Request { expiry_s } => {
                self.handle_logged_request(publish, number, header, expiry_s, now);
            }
            EntryKind::Election(message) => self.handle_election(&from, message, now),
            EntryKind::WatchSnapshot { is_last } => {
                self.receive_watches(&from, publish.payload_bytes(), is_last, now);
            }
            EntryKind::WatchesEnded { requests } => {
                self.handle_watches_ended(&header, requests, now);
            }
            EntryKind::ClientsAlive => self.renew_leases(publish.payload_bytes(), now),
        }
    }

    fn handle_election(&mut self, from: &Arc<str>, message: ElectionMessage, now: ClockReading) {
        let Some(group) = self.group() else {
            return;
        };
        match group.election.handle(from, message, now.mono_ms) {
            ElectionEvent::Unchanged => {}
            ElectionEvent::Elected { since_ms } => self.become_leader(since_ms, now),
            ElectionEvent::Stale => self.discard_watches(),
            ElectionEvent::WatchesRequested => self.send_watches(from, |_| true, now),
        }
    }

    fn become_leader(&mut self, since_ms: u64, now: ClockReading) {
        tracing::info!("this server is now the leader of its group");
        if let Some(group) = self.group() {
            let since_ms = since_ms.saturating_sub(UNPUBLISHED_WINDOW_MS);
            group.standby.drop_before(since_ms);
            group.clear_pending_transfers();
            // The former leader may have left more unpublished than was set aside here.
            group.has_gap = true;
        }
        // It is not known when they sent their last requests.
        for client in self.watching_broker_clients() {
            self.renew_lease(&client, now);
        }
    }
}
