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

/// Subject of an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EntrySubject<'a> {
    pub(super) client: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    /// The request, and the number under which it is acknowledged.
    pub(super) request: Option<(&'a Publish, u64)>,
}

impl Hub {
    pub(super) fn group(&mut self) -> Option<&mut Group> {
        self.broker.as_mut()?.group.as_mut()
    }

    /// Publishes an entry of the log, unless this server is not attached to a group.
    pub(super) fn publish_entry(
        &mut self,
        kind: EntryKind,
        about: EntrySubject<'_>,
        payload: &[u8],
        now: ClockReading,
    ) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let Some(group) = &broker.group else {
            return;
        };
        let Some(me) = group.election.name() else {
            return;
        };
        let entry = Entry {
            kind,
            server: me,
            client: about.client,
            user: about.user,
            payload,
            request: about.request.map(|(publish, _)| publish),
            identity: broker.config.identity.as_deref(),
        };
        let key = broker.identity_key.as_ref();
        let body = Payload::new(Bytes::copy_from_slice(payload), &self.memory_budget);
        let message = entry.write(&group.topic, key, |header| Message::new(header, body, None));
        match message {
            // Servers that hear no heartbeat take this one for gone.
            Ok(message) if matches!(kind, EntryKind::Heartbeat(_)) => {
                broker.enqueue_front(message, OutgoingKind::Entry(None));
            }
            Ok(message) => {
                let number = about.request.map(|(_, number)| number);
                broker.enqueue(message, 0, OutgoingKind::Entry(number), false, now);
            }
            Err(error) => {
                tracing::debug!(%error, "an entry cannot be sent");
                self.metrics.dropped_too_large += 1;
            }
        }
    }

    /// Leaves the group, so that another server keeps at once.
    pub(in crate::hub::broker) fn leave_group(&mut self, now: ClockReading) {
        self.publish_entry(EntryKind::Leave, EntrySubject::default(), b"", now);
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
        let about = EntrySubject {
            client: Some(client),
            user,
            request: Some((publish, number)),
        };
        let kind = EntryKind::Request { expiry_s };
        if can {
            self.publish_entry(kind, about, publish.payload_bytes(), now);
        }
        can
    }

    /// Publishes due entries, and the messages that were set aside if this server keeps again.
    pub(in crate::hub::broker) fn poll_group(&mut self, now: ClockReading) {
        let sees = self
            .service
            .engine_metrics()
            .is_none_or(|engine| engine.is_watched && !engine.problem.is_some_and(hides_changes));
        if let Some(group) = self.group() {
            group.election.set_sees_changes(sees, now.mono_ms);
        }
        while let Some(saying) = self
            .group()
            .and_then(|group| group.election.poll(now.mono_ms, now.wall_ms))
        {
            let kind = match saying {
                ElectionMessage::Heartbeat(beat) => EntryKind::Heartbeat(beat),
                ElectionMessage::Campaign(claim) => EntryKind::Campaign(claim),
                ElectionMessage::Join => EntryKind::Join,
                ElectionMessage::Resign { blind_ms } => {
                    tracing::warn!(
                        "the storage does not report changes to this server: another server becomes the keeper of the watches of its group"
                    );
                    EntryKind::Resign { blind_ms }
                }
            };
            self.publish_entry(kind, EntrySubject::default(), b"", now);
            if let EntryKind::Heartbeat(_) = kind {
                self.publish_alive_clients(now);
            }
        }
        let Some(broker) = &mut self.broker else {
            return;
        };
        let keeps = broker.is_active(now);
        let Some(group) = &mut broker.group else {
            return;
        };
        if group.election.is_standby() {
            group.standby.drop_expired(now.mono_ms);
            group.dropped = 0;
        } else {
            self.metrics.dropped_full += std::mem::take(&mut group.dropped);
        }
        if keeps && !group.standby.is_empty() {
            for outgoing in group.standby.take() {
                if let OutgoingKind::Notification { client, key, .. } = &outgoing.kind
                    && !self.service.is_watching(client, key)
                {
                    continue;
                }
                broker.outgoing_bytes += outgoing.message.bytes();
                broker.queue.push_back(outgoing);
            }
        }
    }

    fn publish_alive_clients(&mut self, now: ClockReading) {
        let Some(group) = self.group() else {
            return;
        };
        let mut payload = BytesMut::new();
        for client in std::mem::take(&mut group.alive_clients) {
            entry::push_name(client.as_bytes(), &mut payload);
            if payload.len() >= MAX_PAYLOAD_BYTES {
                let part = payload.split();
                self.publish_entry(EntryKind::ClientsAlive, EntrySubject::default(), &part, now);
            }
        }
        if !payload.is_empty() {
            self.publish_entry(
                EntryKind::ClientsAlive,
                EntrySubject::default(),
                &payload,
                now,
            );
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
        let Some(said) = entry::parse_entry(publish, broker.identity_key.as_ref()) else {
            if let Some(broker) = &mut self.broker {
                broker.metrics.unverified_requests += 1;
            }
            return self.finish_broker_request(number, ReasonCode::NOT_AUTHORIZED);
        };
        if let EntryKind::Request { expiry_s } = said.kind {
            return self.handle_logged_request(publish, number, said, expiry_s, now);
        }
        self.finish_broker_request(number, ReasonCode::SUCCESS);
        let from: Arc<str> = said.server.into();
        let Some(group) = self.group() else {
            return;
        };
        let keepers = &mut group.election;
        let turn = match said.kind {
            EntryKind::Heartbeat(beat) => keepers.handle_heartbeat(&from, beat, now.mono_ms),
            EntryKind::Campaign(claim) => keepers.handle_campaign(&from, claim, now.mono_ms),
            EntryKind::Leave => {
                keepers.handle_leave(&from);
                ElectionEvent::Unchanged
            }
            EntryKind::Resign { blind_ms } => {
                keepers.handle_resign(&from, blind_ms);
                ElectionEvent::Unchanged
            }
            EntryKind::Join => {
                self.send_watches(&from, |_| true, now);
                ElectionEvent::Unchanged
            }
            EntryKind::WatchSnapshot { is_last } => {
                self.receive_watches(&from, publish.payload_bytes(), is_last, now);
                ElectionEvent::Unchanged
            }
            EntryKind::WatchesEnded { requests } => {
                self.handle_watches_ended(&said, requests, now);
                ElectionEvent::Unchanged
            }
            EntryKind::ClientsAlive => {
                self.renew_leases(publish.payload_bytes(), now);
                ElectionEvent::Unchanged
            }
            EntryKind::Request { .. } => ElectionEvent::Unchanged,
        };
        match turn {
            ElectionEvent::Unchanged => {}
            ElectionEvent::Elected { since_ms } => self.become_leader(since_ms, now),
            ElectionEvent::Stale => self.discard_watches(),
        }
    }

    fn become_leader(&mut self, since_ms: u64, now: ClockReading) {
        tracing::info!("this server is now the keeper of the watches of its group");
        if let Some(group) = self.group() {
            let since_ms = since_ms.saturating_sub(UNPUBLISHED_WINDOW_MS);
            group.standby.drop_before(since_ms);
            group.clear_pending_transfers();
        }
        // It is not known when they sent their last requests.
        for client in self.watching_broker_clients() {
            self.renew_lease(&client, now);
        }
    }
}

/// Returns whether a server with this trouble does not see changes.
fn hides_changes(trouble: EngineProblem) -> bool {
    matches!(
        trouble,
        EngineProblem::Unavailable | EngineProblem::Unreadable | EngineProblem::Replaced
    )
}
