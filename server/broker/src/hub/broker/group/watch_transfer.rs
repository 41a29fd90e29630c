//! Transfer of the leader's watches to servers that join later.
use super::entry::{self, Entry, EntryKind, MAX_PAYLOAD_BYTES};
use crate::hub::Hub;
use crate::hub::broker::BROKER_CLIENT_PREFIX;
use crate::hub::broker::watch_target::WatchTarget;
use bytes::{Bytes, BytesMut};
use statestored_common::ClockReading;
use statestored_store::keyspace::Ticket;
use statestored_store::keyspace::rules::Version;
use std::sync::Arc;

/// Recipient that means all servers.
pub(super) const ALL_SERVERS: &str = "*";

impl Hub {
    /// Returns the clients of the broker that watch something, in an order that is the same for all servers.
    pub(super) fn watching_broker_clients(&self) -> Vec<Arc<str>> {
        let clients = self.service.watching_clients();
        let behind = clients.filter(|client| client.starts_with(BROKER_CLIENT_PREFIX));
        let mut behind: Vec<_> = behind.map(Arc::clone).collect();
        behind.sort_unstable();
        behind
    }

    /// Forgets all known watches, since another server knows them better.
    pub(super) fn discard_watches(&mut self) {
        for client in self.watching_broker_clients() {
            self.service.end_watches(&client);
            self.forget_broker_client(&client);
        }
        if let Some(broker) = &mut self.broker
            && let Some(group) = &mut broker.group
        {
            group.clear_pending_transfers();
            group.watch_starts.clear();
            group.standby.take();
            broker.queue.retain(|outgoing| !outgoing.is_leader_only);
            broker.recount_outgoing();
        }
    }

    /// Forgets all known watches, which may be incomplete, and asks the leader again.
    pub(super) fn resync_watches(&mut self, now: ClockReading) {
        if let Some(group) = self.group()
            && group.election.is_standby()
        {
            group.election.mark_unsynced_with_delay(now.mono_ms);
            self.discard_watches();
        }
    }

    /// Processes the outcome of a watch that came from the log or the leader. If it failed here, the watches are requested again, so that
    /// all servers have the same.
    pub(in crate::hub::broker) fn handle_watch_outcome(
        &mut self,
        ticket: Option<Ticket>,
        is_followed: bool,
        now: ClockReading,
    ) {
        let Some(group) = self.group() else {
            return;
        };
        let is_one = ticket.is_none_or(|ticket| group.pending_transfers.remove(&ticket));
        if is_one && !is_followed {
            self.resync_watches(now);
        }
    }

    /// Sends the watches of the matching clients to one server or to all, if this server is the leader.
    pub(super) fn send_watches(
        &mut self,
        to: &str,
        is_it: impl Fn(&str) -> bool,
        now: ClockReading,
    ) {
        if !self.group().is_some_and(|group| group.is_active(now)) {
            return;
        }
        let begin = |payload: &mut BytesMut| entry::push_name(to.as_bytes(), payload);
        let mut payload = BytesMut::new();
        begin(&mut payload);
        let mut parts = Vec::new();
        for client in self.watching_broker_clients() {
            let client_id = client.strip_prefix(BROKER_CLIENT_PREFIX).unwrap_or(&client);
            if !is_it(&client) {
                continue;
            }
            let named_clients = self.broker.as_ref().map(|broker| &broker.named_clients);
            let broker_client = named_clients.and_then(|named_clients| named_clients.get(&client));
            let user = broker_client.and_then(|it| it.principal.name());
            let mut keys: Vec<_> = self.service.keys_watched_by(&client).collect();
            keys.sort_unstable();
            let keys = keys
                .into_iter()
                .map(|key| WatchTarget::Key(Bytes::copy_from_slice(key)));
            let patterns = self.service.patterns_watched_by(&client);
            let patterns = patterns.map(|it| WatchTarget::Pattern(Bytes::copy_from_slice(it)));
            let group = self.broker.as_ref().and_then(|it| it.group.as_ref());
            for target in keys.chain(patterns) {
                let since = group.and_then(|it| it.watch_starts.watch_start(&client, &target));
                let since = since.map(|(wall_ms, counter)| format!("{wall_ms} {counter}"));
                let request = target.request(false);
                for name in [
                    client_id.as_bytes(),
                    user.unwrap_or_default().as_bytes(),
                    &request[..],
                    since.unwrap_or_default().as_bytes(),
                ] {
                    entry::push_name(name, &mut payload);
                }
                if payload.len() >= MAX_PAYLOAD_BYTES {
                    parts.push(payload.split());
                    begin(&mut payload);
                }
            }
        }
        parts.push(payload);
        let count = parts.len();
        for (index, payload) in parts.iter().enumerate() {
            let is_last = index + 1 == count && to != ALL_SERVERS;
            let entry = Entry {
                payload,
                ..Entry::new(EntryKind::WatchSnapshot { is_last })
            };
            self.publish_entry(&entry, now);
        }
    }

    /// Takes over the watches that the leader sends.
    pub(super) fn receive_watches(
        &mut self,
        from: &Arc<str>,
        payload: &[u8],
        is_last: bool,
        now: ClockReading,
    ) {
        let Some(group) = self.group() else {
            return;
        };
        let mut names = entry::names(payload);
        let to = names.next().unwrap_or_default();
        let election = &group.election;
        let is_for_me = election.is_me(to) && !election.is_synced();
        let is_from_leader = election.is_standby() && election.leader() == Some(from);
        if !is_from_leader || !is_for_me && to != ALL_SERVERS.as_bytes() {
            return;
        }
        while let (Some(client), Some(user), Some(request), Some(since)) =
            (names.next(), names.next(), names.next(), names.next())
        {
            let text = std::str::from_utf8;
            let (Ok(client_id), Ok(user), Ok(since)) = (text(client), text(user), text(since))
            else {
                continue;
            };
            let request = Bytes::copy_from_slice(request);
            let Some((target, false)) = WatchTarget::parse(&request) else {
                continue;
            };
            let user = (!user.is_empty()).then_some(user);
            let since = since.split_once(' ').and_then(|(wall_ms, counter)| {
                Some((wall_ms.parse().ok()?, counter.parse().ok()?))
            });
            self.apply_received_watch((client_id, user), &request, &target, since, now);
        }
        if is_last && let Some(group) = self.group() {
            group.election.mark_synced();
            tracing::info!("this server now knows the watches of its group and stands by");
            group.changes.clear();
        }
    }

    fn apply_received_watch(
        &mut self,
        (client_id, user): (&str, Option<&str>),
        request: &Bytes,
        target: &WatchTarget,
        since: Option<Version>,
        now: ClockReading,
    ) {
        let name: Arc<str> = format!("{BROKER_CLIENT_PREFIX}{client_id}").into();
        let group = self.group();
        let is_known = group.is_some_and(|group| group.changes.contains(&name, target));
        if is_known || self.is_watching(&name, target) {
            return;
        }
        let Some((client, broker_client)) = self.watching_client(client_id, user, now) else {
            return;
        };
        let ticket = self.execute_watch_request(&client, &broker_client, request, now);
        self.record_watch_start((&client, target), since);
        if let (Some(ticket), Some(group)) = (ticket, self.group()) {
            group.pending_transfers.insert(ticket);
        }
    }
}
