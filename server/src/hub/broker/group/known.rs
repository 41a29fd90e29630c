//! Transfer of the keeper's watches to servers that join later.
use super::entry::{self, Kind, MOST_BYTES};
use super::log::About;
use crate::clock::Now;
use crate::hub::Hub;
use crate::hub::broker::BEHIND;
use crate::keyspace::Ticket;
use crate::keyspace::rules::Version;
use bytes::{Bytes, BytesMut};
use statestore_protocol::Command;
use std::sync::Arc;

/// Recipient that means all servers.
pub(super) const ALL: &str = "*";

impl Hub {
    /// Returns the clients of the broker that watch something, in an order that is the same for all servers.
    pub(super) fn watching(&self) -> Vec<Arc<str>> {
        let clients = self.service.watching();
        let behind = clients.filter(|client| client.starts_with(BEHIND));
        let mut behind: Vec<_> = behind.map(Arc::clone).collect();
        behind.sort_unstable();
        behind
    }

    /// Forgets all known watches, since another server knows them better.
    pub(super) fn forget_known(&mut self) {
        for client in self.watching() {
            self.service.disconnected(&client);
            self.forget_standing(&client);
        }
        if let Some(broker) = &mut self.broker
            && let Some(group) = &mut broker.group
        {
            group.forget_told();
            group.begun.clear();
            group.aside.take();
            broker.queue.retain(|outgoing| !outgoing.is_kept);
            broker.count_outgoing();
        }
    }

    /// Forgets all known watches, which may be incomplete, and asks the keeper again.
    pub(super) fn doubt_known(&mut self, now: Now) {
        if let Some(group) = self.group()
            && group.keepers.stands_by()
        {
            group.keepers.could_not_follow(now.mono_ms);
            self.forget_known();
        }
    }

    /// Processes the outcome of a watch that came from the log or the keeper. If it failed here, the watches are requested again, so that
    /// all servers have the same.
    pub(in crate::hub::broker) fn watch_concluded(
        &mut self,
        ticket: Option<Ticket>,
        is_followed: bool,
        now: Now,
    ) {
        let Some(group) = self.group() else {
            return;
        };
        let is_one = ticket.is_none_or(|ticket| group.told.remove(&ticket));
        if is_one && !is_followed {
            self.doubt_known(now);
        }
    }

    /// Sends the watches of the matching clients to one server or to all, if this server is the keeper.
    pub(super) fn tell_known(&mut self, to: &str, is_it: impl Fn(&str) -> bool, now: Now) {
        let is_keeper = self.group().is_some_and(|group| group.keeps(now));
        if !is_keeper {
            return;
        }
        let begin = |payload: &mut BytesMut| entry::push(to.as_bytes(), payload);
        let mut payload = BytesMut::new();
        begin(&mut payload);
        let mut parts = Vec::new();
        for client in self.watching() {
            let client_id = client.strip_prefix(BEHIND).unwrap_or(&client);
            if !is_it(&client) {
                continue;
            }
            let standings = self.broker.as_ref().map(|broker| &broker.standings);
            let standing = standings.and_then(|standings| standings.get(&client));
            let user = standing.and_then(|it| it.principal.name());
            let mut keys: Vec<_> = self.service.keys_watched_by(&client).collect();
            keys.sort_unstable();
            let group = self.broker.as_ref().and_then(|it| it.group.as_ref());
            for key in keys {
                let since = group.and_then(|it| it.begun.since(&client, key));
                let since = since.map(|(wall_ms, counter)| format!("{wall_ms} {counter}"));
                for name in [
                    client_id.as_bytes(),
                    user.unwrap_or_default().as_bytes(),
                    key,
                    since.unwrap_or_default().as_bytes(),
                ] {
                    entry::push(name, &mut payload);
                }
                if payload.len() >= MOST_BYTES {
                    parts.push(payload.split());
                    begin(&mut payload);
                }
            }
        }
        for part in parts {
            let kind = Kind::Known { is_last: false };
            self.log(kind, About::default(), &part, now);
        }
        let kind = Kind::Known { is_last: to != ALL };
        self.log(kind, About::default(), &payload, now);
    }

    /// Takes over the watches that the keeper sends.
    pub(super) fn known(&mut self, from: &Arc<str>, payload: &[u8], is_last: bool, now: Now) {
        let Some(group) = self.group() else {
            return;
        };
        let mut names = entry::names(payload);
        let to = names.next().unwrap_or_default();
        let is_for_me = group
            .keepers
            .me()
            .is_some_and(|me| me.as_bytes() == to && !group.keepers.is_whole());
        let is_keeper = group.keepers.keeper() == Some(from);
        if !group.keepers.stands_by() || !is_keeper || !is_for_me && to != ALL.as_bytes() {
            return;
        }
        while let (Some(client), Some(user), Some(key), Some(since)) =
            (names.next(), names.next(), names.next(), names.next())
        {
            let text = std::str::from_utf8;
            let (Ok(client_id), Ok(user), Ok(since)) = (text(client), text(user), text(since))
            else {
                continue;
            };
            let user = (!user.is_empty()).then_some(user);
            let since = since.split_once(' ').and_then(|(wall_ms, counter)| {
                Some((wall_ms.parse().ok()?, counter.parse().ok()?))
            });
            self.watch_as_told((client_id, user), &Bytes::copy_from_slice(key), since, now);
        }
        if is_last && let Some(group) = self.group() {
            group.keepers.was_told();
            tracing::info!("this server knows the watches of its group from now on, and stands by");
            group.touched.clear();
        }
    }

    fn watch_as_told(
        &mut self,
        (client_id, user): (&str, Option<&str>),
        key: &Bytes,
        since: Option<Version>,
        now: Now,
    ) {
        let name: Arc<str> = format!("{BEHIND}{client_id}").into();
        let group = self.group();
        let is_known = group.is_some_and(|group| group.touched.has(&name, key));
        if is_known || self.service.is_watching(&name, key) {
            return;
        }
        let Some((client, standing)) = self.watcher(client_id, user, now) else {
            return;
        };
        let mut payload = BytesMut::new();
        Command::Watch { key: key.clone() }.encode(&mut payload);
        let asked = self.ask_about_watch(&client, &standing, &payload.freeze(), now);
        self.note_watch((&client, key), since);
        if let (Some(ticket), Some(group)) = (asked, self.group()) {
            group.told.insert(ticket);
        }
    }
}
