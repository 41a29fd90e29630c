//! Watches of a group, which begin and end by its log.
use super::entry::{self, Kind, Said};
use super::known::ALL;
use super::log::About;
use crate::clock::Now;
use crate::hub::Hub;
use crate::hub::broker::BEHIND;
use crate::hub::broker::outgoing::What;
use crate::hub::broker::requests::ReturnAddress;
use crate::hub::broker::standing::{Sender, Standing};
use crate::keyspace::Ticket;
use crate::keyspace::rules::Version;
use crate::service::{Envelope, Outcome, Reception, Request};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Publish, ReasonCode};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Command, topic};
use std::sync::Arc;

/// Returns whether a request is about a watch.
pub(in crate::hub::broker) fn is_about_watch(payload: &Bytes) -> bool {
    let command = Command::decode(payload);
    matches!(command, Ok(Command::Watch { .. } | Command::Unwatch { .. }))
}

impl Hub {
    pub(super) fn logged_request(
        &mut self,
        publish: &Publish,
        number: u64,
        said: Said<'_>,
        expiry_s: Option<u32>,
        now: Now,
    ) {
        let payload = publish.payload();
        let (key, is_stop) = match Command::decode(&payload) {
            Ok(Command::Watch { key }) => (key, false),
            Ok(Command::Unwatch { key }) => (key, true),
            _ => return self.finish(number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR),
        };
        let Some(client_id) = said.client else {
            return self.finish(number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
        };
        let Some((client, standing)) = self.watcher(client_id, said.user, now) else {
            return;
        };
        let properties = self.request_properties(publish);
        let asked_at = properties
            .timestamp
            .as_ref()
            .and_then(|it| it.as_ref().ok());
        let asked_at = asked_at.map(|hlc| (hlc.wall_ms(), hlc.counter()));
        let gauge = self.gauge.clone();
        if let Some(group) = self.group() {
            if is_stop && group.begun.is_before(&client, &key, asked_at) {
                // The client was answered, or has given up the request, before it asked for the present watch.
                return self.finish(number, ReasonCode::SUCCESS);
            }
            if is_stop {
                // Drop notifications that were not published before. A repeated request for an existing watch is still notified.
                group.aside.forget(|outgoing| {
                    matches!(&outgoing.what, What::Notification { client: its, key: its_key, .. }
                        if *its == client && *its_key == key)
                });
            }
            if !group.keepers.is_whole() {
                group.touched.watch(&client, &key, &gauge);
            }
        }
        let deadline_ms = expiry_s.map(|seconds| now.mono_ms + u64::from(seconds) * 1000);
        let to = publish
            .checked_response_topic()
            .filter(|topic| topic::requester(topic.as_str()).as_deref() == Some(client_id))
            .zip(publish.correlation_data());
        let Some((response_topic, correlation_data)) = to else {
            self.finish(number, ReasonCode::SUCCESS);
            self.ask_about_watch(&client, &standing, &payload, now);
            return self.note_watch((&client, &key), asked_at);
        };
        let envelope = Envelope {
            request: Request {
                client: &client,
                principal: &standing.principal,
                rights: standing.rights.as_ref(),
                correlation: correlation_data,
                payload: &payload,
                properties,
                may_return: true,
            },
            deadline_ms,
            has_room: true,
            is_shared: false,
        };
        let to = ReturnAddress {
            number,
            response_topic,
            correlation_data,
            watch: Some((&client, &key)),
        };
        self.ask_for_broker(&envelope, to, now);
        self.note_watch((&client, &key), asked_at);
        self.renew_lease(&client, now);
    }

    /// Notes that a request about a watch was executed. `at` is its time by the clock of its client.
    pub(super) fn note_watch(&mut self, watch: (&Arc<str>, &Bytes), at: Option<Version>) {
        let is_watching = self.service.is_watching(watch.0, watch.1);
        let gauge = self.gauge.clone();
        if let Some(group) = self.group() {
            group.begun.executed(watch, at, is_watching, &gauge);
        }
    }

    /// Returns the client of a watch by its name in the service, and its rights.
    pub(super) fn watcher(
        &mut self,
        client_id: &str,
        user: Option<&str>,
        now: Now,
    ) -> Option<(Arc<str>, Standing)> {
        let broker = self.broker.as_mut()?;
        let name = format!("{BEHIND}{client_id}");
        let client = broker.answers.came(&name, broker.requests, now.mono_ms);
        let sender = match broker.terms.identity {
            Some(_) => Sender::Proven(user),
            None => Sender::Anybody,
        };
        let standing = self.standing(&client, client_id, sender, None);
        Some((client, standing))
    }

    /// Executes a request about a watch for a client that gets no response.
    pub(super) fn ask_about_watch(
        &mut self,
        client: &Arc<str>,
        standing: &Standing,
        payload: &Bytes,
        now: Now,
    ) -> Option<Ticket> {
        let envelope = Envelope {
            request: Request {
                client,
                principal: &standing.principal,
                rights: standing.rights.as_ref(),
                correlation: b"-",
                payload,
                properties: RequestProperties::default(),
                may_return: false,
            },
            deadline_ms: None,
            has_room: true,
            is_shared: false,
        };
        let asked = self.service.ask(&envelope, now);
        self.renew_lease(client, now);
        match asked {
            Reception::Ended(_) => None,
            Reception::Later(ticket) => Some(ticket),
        }
    }

    /// Ends the watches of a client, unless the client is the user `unless`, on all servers of the group. `requests` is the number of
    /// messages that this server had received by then.
    pub(in crate::hub::broker) fn end_watches(
        &mut self,
        client: &str,
        unless: Option<&str>,
        requests: u64,
        now: Now,
    ) {
        if self.group().is_none() {
            self.service.disconnected(client);
            self.renew_lease(client, now);
            return self.forget_standing(client);
        }
        let about = About {
            client: Some(client.strip_prefix(BEHIND).unwrap_or(client)),
            user: unless,
            request: None,
        };
        self.log(Kind::Ended { requests }, about, b"", now);
    }

    pub(super) fn ended(&mut self, said: &Said<'_>, requests: u64, now: Now) {
        let Some(client_id) = said.client else {
            return;
        };
        let client = format!("{BEHIND}{client_id}");
        let Some(broker) = &self.broker else {
            return;
        };
        let standing = broker.standings.get(&client[..]);
        let user = standing.map(|it| it.principal.name().unwrap_or_default());
        if said.user.is_some() && said.user == user {
            return;
        }
        let is_mine = broker.group.as_ref().is_some_and(|group| {
            group
                .keepers
                .me()
                .is_some_and(|me| **me == *said.from && group.keeps(now))
        });
        let last = broker.answers.last_request(&client);
        if is_mine && said.user.is_none() && last.is_some_and(|last| last > requests) {
            // The client has come back since, and the other servers have ended its watches.
            return self.tell_known(ALL, |its| its == client, now);
        }
        self.service.disconnected(&client);
        self.renew_lease(&client, now);
        self.forget_standing(&client);
        let gauge = self.gauge.clone();
        if let Some(group) = self.group() {
            group.begun.ended(&client);
            group.aside.forget(|outgoing| {
                matches!(&outgoing.what, What::Notification { client: its, .. } if **its == *client)
            });
            if !group.keepers.is_whole() {
                group.touched.client(client.into(), &gauge);
            }
        }
    }

    /// Notes that a client sent a request that is not about a watch: the server that ends idle watches needs it.
    pub(in crate::hub::broker) fn renew_lease_of_group(&mut self, client: &Arc<str>) {
        if self.service.is_watching_any(client)
            && let Some(group) = self.group()
        {
            group.alive.insert(Arc::clone(client));
        }
    }

    pub(super) fn renew_leases(&mut self, payload: &[u8], now: Now) {
        for name in entry::names(payload) {
            if let Ok(client) = std::str::from_utf8(name) {
                self.renew_lease(client, now);
            }
        }
    }

    /// Renews the lease of a client's watches after a message from it. A client without watches is not kept, since a sender of requests can
    /// name any number of clients.
    pub(in crate::hub::broker) fn renew_lease(&mut self, client: &str, now: Now) {
        let is_watching = self.service.is_watching_any(client);
        let Some(broker) = &mut self.broker else {
            return;
        };
        match &mut broker.leases {
            Some(leases) if is_watching => {
                leases.came(client, broker.requests, now.mono_ms);
            }
            Some(leases) => leases.forget(client),
            None => {}
        }
    }

    /// Processes the outcome of a request about a watch, as far as the other servers need it.
    pub(in crate::hub::broker) fn kept_outcome(
        &mut self,
        outcome: &Outcome,
        (client, key): (&str, &Bytes),
        now: Now,
    ) {
        // Every server gives the same answer.
        if matches!(outcome, Outcome::Answered(_)) {
            return;
        }
        if !self.group().is_some_and(|group| group.keeps(now)) {
            return self.watch_concluded(None, false, now);
        }
        let mut payload = BytesMut::new();
        Command::Unwatch { key: key.clone() }.encode(&mut payload);
        let standings = self.broker.as_ref().map(|broker| &broker.standings);
        let standing = standings.and_then(|standings| standings.get(client));
        let user = standing.and_then(|it| it.principal.name().map(str::to_owned));
        let about = About {
            client: Some(client.strip_prefix(BEHIND).unwrap_or(client)),
            user: user.as_deref(),
            request: None,
        };
        let kind = Kind::Request { expiry_s: None };
        self.log(kind, about, &payload, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_about_a_watch_is_one_however_its_lengths_are_written() {
        let zeros = "0".repeat(100);
        for (text, expected) in [
            ("*2\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n".to_owned(), true),
            (format!("*2\r\n${zeros}9\r\nKEYNOTIFY\r\n$1\r\nk\r\n"), true),
            (
                "*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$4\r\nSTOP\r\n".to_owned(),
                true,
            ),
            ("*2\r\n$3\r\nGET\r\n$9\r\nKEYNOTIFY\r\n".to_owned(), false),
        ] {
            assert_eq!(is_about_watch(&text.clone().into()), expected, "{text:?}");
        }
    }
}
