//! Watches of a group, which begin and end by its log.
use super::entry::{self, Entry, EntryHeader, EntryKind};
use super::watch_transfer::ALL_SERVERS;
use crate::hub::Hub;
use crate::hub::broker::BROKER_CLIENT_PREFIX;
use crate::hub::broker::broker_client::{BrokerClient, Sender};
use crate::hub::broker::outgoing_message::OutgoingKind;
use crate::hub::broker::pending_request::ReturnAddress;
use crate::hub::broker::watch_target::WatchTarget;
use bytes::Bytes;
use statestore_protocol::mqtt::{Publish, ReasonCode};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::topic;
use statestored_common::ClockReading;
use statestored_store::keyspace::Ticket;
use statestored_store::keyspace::rules::Version;
use statestored_store::service::{Outcome, Request, RequestEnvelope, RequestProgress};
use std::sync::Arc;

/// Returns a request about a watch for a client that gets no response.
fn watch_request<'a>(
    client: &'a Arc<str>,
    broker_client: &'a BrokerClient,
    payload: &'a Bytes,
) -> RequestEnvelope<'a> {
    RequestEnvelope {
        request: Request {
            client,
            principal: &broker_client.principal,
            rights: broker_client.rights.as_ref(),
            correlation: b"-",
            payload,
            properties: RequestProperties::default(),
            may_be_redelivered: false,
        },
        deadline_ms: None,
        has_capacity: true,
        max_reply_bytes: usize::MAX,
        is_shared: false,
    }
}

impl Hub {
    pub(super) fn handle_logged_request(
        &mut self,
        publish: &Publish,
        number: u64,
        header: EntryHeader<'_>,
        expiry_s: Option<u32>,
        now: ClockReading,
    ) {
        let payload = publish.payload();
        let (Some((target, is_stop)), Some(client_id)) =
            (WatchTarget::parse(&payload), header.client)
        else {
            return self.finish_broker_request(number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
        };
        let Some((client, broker_client)) = self.watching_client(client_id, header.user, now)
        else {
            return;
        };
        let properties = self.request_properties(publish);
        let requested_at = properties
            .timestamp
            .as_ref()
            .and_then(|it| it.as_ref().ok());
        let requested_at = requested_at.map(|hlc| (hlc.wall_ms(), hlc.counter()));
        let budget = self.memory_budget.clone();
        if let Some(group) = self.group() {
            let watch_starts = &group.watch_starts;
            if is_stop && watch_starts.predates_watch(&client, &target, requested_at) {
                // The client was answered, or has given up the request, before it asked for the present watch.
                return self.finish_broker_request(number, ReasonCode::SUCCESS);
            }
            if !group.election.is_synced() {
                group.changes.insert(&client, Some(&target), &budget);
            }
        }
        let was_watching = self.is_watching(&client, &target);
        let deadline_ms = expiry_s.map(|seconds| now.mono_ms + u64::from(seconds) * 1000);
        let to = publish
            .checked_response_topic()
            .filter(|topic| topic::requester(topic.as_str()).as_deref() == Some(client_id))
            .zip(publish.correlation_data());
        if let Some((response_topic, correlation_data)) = to {
            let mut envelope = watch_request(&client, &broker_client, &payload);
            envelope.request.correlation = correlation_data;
            envelope.request.properties = properties;
            envelope.request.may_be_redelivered = true;
            envelope.deadline_ms = deadline_ms;
            let to = ReturnAddress {
                number,
                response_topic,
                correlation_data,
                watch: Some((&client, &target)),
            };
            self.submit_for_broker(&envelope, to, now);
            self.renew_lease(&client, now);
        } else {
            self.finish_broker_request(number, ReasonCode::SUCCESS);
            self.execute_watch_request(&client, &broker_client, &payload, now);
        }
        self.record_watch_start((&client, &target), requested_at);
        // A repeated request for an existing watch is still notified.
        if was_watching && !self.is_watching(&client, &target) {
            self.drop_unwatched(&client);
        }
    }

    /// Returns whether a client watches this key or pattern.
    pub(super) fn is_watching(&self, client: &str, target: &WatchTarget) -> bool {
        match target {
            WatchTarget::Key(key) => self.service.is_watching(client, key),
            WatchTarget::Pattern(pattern) => self.service.is_watching_pattern(client, pattern),
        }
    }

    /// Notes that a request about a watch was executed. `at` is its time by the clock of its client.
    pub(super) fn record_watch_start(
        &mut self,
        watch: (&Arc<str>, &WatchTarget),
        at: Option<Version>,
    ) {
        let is_watching = self.is_watching(watch.0, watch.1);
        let budget = self.memory_budget.clone();
        if let Some(group) = self.group() {
            group.watch_starts.record(watch, at, is_watching, &budget);
        }
    }

    /// Drops the notifications of a client that were set aside for watches which have ended.
    fn drop_unwatched(&mut self, client: &Arc<str>) {
        let service = &self.service;
        let Some(group) = self.broker.as_mut().and_then(|it| it.group.as_mut()) else {
            return;
        };
        let mut steps = 0;
        group.standby.drop_matching(|outgoing| {
            let OutgoingKind::Notification {
                client: its,
                key,
                scope,
                ..
            } = &outgoing.kind
            else {
                return false;
            };
            its == client && !service.is_notified(its, key, *scope, &mut steps)
        });
        self.service.add_work(steps);
    }

    /// Returns the client of a watch by its name in the service, and its rights.
    pub(super) fn watching_client(
        &mut self,
        client_id: &str,
        user: Option<&str>,
        now: ClockReading,
    ) -> Option<(Arc<str>, BrokerClient)> {
        let broker = self.broker.as_mut()?;
        let name = format!("{BROKER_CLIENT_PREFIX}{client_id}");
        let client = broker
            .replay_clients
            .record_request(&name, broker.request_count, now.mono_ms);
        let sender = match broker.config.identity {
            Some(_) => Sender::Verified(user),
            None => Sender::Unverified,
        };
        let broker_client = self.broker_client(&client, client_id, sender, None);
        Some((client, broker_client))
    }

    /// Executes a request about a watch for a client that gets no response.
    pub(super) fn execute_watch_request(
        &mut self,
        client: &Arc<str>,
        broker_client: &BrokerClient,
        payload: &Bytes,
        now: ClockReading,
    ) -> Option<Ticket> {
        let envelope = watch_request(client, broker_client, payload);
        let progress = self.service.submit(&envelope, now);
        self.renew_lease(client, now);
        match progress {
            RequestProgress::Complete(_) => None,
            RequestProgress::Pending(ticket) => Some(ticket),
        }
    }

    /// Ends the watches of a client, except if the client is the user `except_user`, on all servers of the group. `requests` is the number of
    /// messages that this server had received by then.
    pub(in crate::hub::broker) fn end_watches(
        &mut self,
        client: &str,
        except_user: Option<&str>,
        requests: u64,
        now: ClockReading,
    ) {
        if self.group().is_none() {
            self.service.end_watches(client);
            self.renew_lease(client, now);
            return self.forget_broker_client(client);
        }
        let entry = Entry {
            client: Some(client.strip_prefix(BROKER_CLIENT_PREFIX).unwrap_or(client)),
            user: except_user,
            ..Entry::new(EntryKind::WatchesEnded { requests })
        };
        self.publish_entry(&entry, now);
    }

    pub(super) fn handle_watches_ended(
        &mut self,
        header: &EntryHeader<'_>,
        requests: u64,
        now: ClockReading,
    ) {
        let Some(client_id) = header.client else {
            return;
        };
        let client = format!("{BROKER_CLIENT_PREFIX}{client_id}");
        let Some(broker) = &self.broker else {
            return;
        };
        let broker_client = broker.named_clients.get(&client[..]);
        let user = broker_client.map(|it| it.principal.name().unwrap_or_default());
        if header.user.is_some() && header.user == user {
            return;
        }
        let is_mine = broker.group.as_ref().is_some_and(|group| {
            group.election.is_me(header.server.as_bytes()) && group.is_active(now)
        });
        let last = broker.replay_clients.last_request(&client);
        if is_mine && header.user.is_none() && last.is_some_and(|last| last > requests) {
            // The client has come back since, and the other servers have ended its watches.
            return self.send_watches(ALL_SERVERS, |its| its == client, now);
        }
        self.service.end_watches(&client);
        self.renew_lease(&client, now);
        self.forget_broker_client(&client);
        let budget = self.memory_budget.clone();
        if let Some(group) = self.group() {
            group.watch_starts.remove_client(&client);
            group.standby.drop_matching(|outgoing| {
                matches!(&outgoing.kind, OutgoingKind::Notification { client: its, .. } if **its == *client)
            });
            if !group.election.is_synced() {
                group.changes.insert(&client.into(), None, &budget);
            }
        }
    }

    /// Notes that a client sent a request that is not about a watch: the server that ends idle watches needs it.
    pub(in crate::hub::broker) fn renew_group_lease(&mut self, client: &Arc<str>) {
        if let Some(broker) = &mut self.broker
            && let Some(group) = &mut broker.group
            && broker.watch_leases.is_some()
            && self.service.is_watching_any(client)
        {
            group.alive_clients.insert(Arc::clone(client));
        }
    }

    pub(super) fn renew_leases(&mut self, payload: &[u8], now: ClockReading) {
        for name in entry::names(payload) {
            if let Ok(client) = std::str::from_utf8(name) {
                self.renew_lease(client, now);
            }
        }
    }

    /// Renews the lease of a client's watches after a message from it. A client without watches is not kept, since a sender of requests can
    /// name any number of clients.
    pub(in crate::hub::broker) fn renew_lease(&mut self, client: &str, now: ClockReading) {
        let is_watching = self.service.is_watching_any(client);
        let Some(broker) = &mut self.broker else {
            return;
        };
        match &mut broker.watch_leases {
            Some(leases) if is_watching => {
                leases.record_request(client, broker.request_count, now.mono_ms);
            }
            Some(leases) => leases.remove(client),
            None => {}
        }
    }

    /// Processes the outcome of a request about a watch, as far as the other servers need it.
    pub(in crate::hub::broker) fn apply_watch_outcome(
        &mut self,
        outcome: &Outcome,
        (client, target): (&str, &WatchTarget),
        now: ClockReading,
    ) {
        // Every server gives the same answer.
        if matches!(outcome, Outcome::Replied(_)) {
            return;
        }
        if !self.group().is_some_and(|group| group.is_active(now)) {
            return self.handle_watch_outcome(None, false, now);
        }
        let payload = target.request(true);
        let named_clients = self.broker.as_ref().map(|broker| &broker.named_clients);
        let broker_client = named_clients.and_then(|named_clients| named_clients.get(client));
        let user = broker_client.and_then(|it| it.principal.name().map(str::to_owned));
        let entry = Entry {
            client: Some(client.strip_prefix(BROKER_CLIENT_PREFIX).unwrap_or(client)),
            user: user.as_deref(),
            payload: &payload,
            ..Entry::new(EntryKind::Request { expiry_s: None })
        };
        self.publish_entry(&entry, now);
    }
}
