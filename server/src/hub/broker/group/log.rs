//! Publishing to and reading from the log of a group.
use super::entry::{self, Entry, Kind, MOST_BYTES};
use super::keeper::{Saying, Turn};
use super::{Group, UNSAID_MS};
use crate::clock::Now;
use crate::hub::Hub;
use crate::hub::broker::outgoing::What;
use crate::hub::message::{Message, Payload};
use crate::keyspace::remote::Trouble;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Publish, ReasonCode};
use std::sync::Arc;

/// Subject of an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
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
    pub(super) fn log(&mut self, kind: Kind, about: About<'_>, payload: &[u8], now: Now) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let Some(group) = &broker.group else {
            return;
        };
        let Some(me) = group.keepers.me() else {
            return;
        };
        let entry = Entry {
            kind,
            from: me,
            client: about.client,
            user: about.user,
            payload,
            request: about.request.map(|(publish, _)| publish),
            identity: broker.terms.identity.as_deref(),
        };
        let key = broker.identity_key.as_ref();
        let body = Payload::new(Bytes::copy_from_slice(payload), &self.gauge);
        let message = entry.write(&group.topic, key, |header| Message::new(header, body, None));
        match message {
            // Servers that hear no heartbeat take this one for gone.
            Ok(message) if matches!(kind, Kind::Beat(_)) => {
                broker.enqueue_first(message, What::Entry(None));
            }
            Ok(message) => {
                let number = about.request.map(|(_, number)| number);
                broker.enqueue(message, 0, What::Entry(number), false, now);
            }
            Err(error) => {
                tracing::debug!(%error, "an entry cannot be sent");
                self.statistics.dropped_too_large += 1;
            }
        }
    }

    /// Leaves the group, so that another server keeps at once.
    pub(in crate::hub::broker) fn leave_group(&mut self, now: Now) {
        self.log(Kind::Gone, About::default(), b"", now);
        if let Some(group) = self.group() {
            group.left();
        }
    }

    /// Publishes a request about a watch to all servers. Returns false if this server is not attached to a group.
    pub(in crate::hub::broker) fn put_into_log(
        &mut self,
        publish: &Publish,
        number: u64,
        (client, user): (&str, Option<&str>),
        expiry_s: Option<u32>,
        now: Now,
    ) -> bool {
        let can = self
            .group()
            .is_some_and(|group| group.keepers.me().is_some());
        let about = About {
            client: Some(client),
            user,
            request: Some((publish, number)),
        };
        let kind = Kind::Request { expiry_s };
        if can {
            self.log(kind, about, publish.payload_bytes(), now);
        }
        can
    }

    /// Publishes due entries, and the messages that were set aside if this server keeps again.
    pub(in crate::hub::broker) fn keep(&mut self, now: Now) {
        let sees = self
            .service
            .engine()
            .is_none_or(|engine| engine.is_watched && !engine.trouble.is_some_and(hides_changes));
        if let Some(group) = self.group() {
            group.keepers.sees(sees, now.mono_ms);
        }
        while let Some(saying) = self
            .group()
            .and_then(|group| group.keepers.poll(now.mono_ms, now.wall_ms))
        {
            let kind = match saying {
                Saying::Beat(beat) => Kind::Beat(beat),
                Saying::Claim(claim) => Kind::Claim(claim),
                Saying::Join => Kind::Join,
                Saying::Yield { blind_ms } => {
                    tracing::warn!(
                        "the storage does not tell this server what changes: another one is to keep the watches of its group"
                    );
                    Kind::Yield { blind_ms }
                }
            };
            self.log(kind, About::default(), b"", now);
            if let Kind::Beat(_) = kind {
                self.say_who_is_alive(now);
            }
        }
        let Some(broker) = &mut self.broker else {
            return;
        };
        let keeps = broker.keeps(now);
        let Some(group) = &mut broker.group else {
            return;
        };
        if group.keepers.stands_by() {
            group.aside.forget_old(now.mono_ms);
            group.dropped = 0;
        } else {
            self.statistics.dropped_full += std::mem::take(&mut group.dropped);
        }
        if keeps && !group.aside.is_empty() {
            for outgoing in group.aside.take() {
                if let What::Notification { client, key, .. } = &outgoing.what
                    && !self.service.is_watching(client, key)
                {
                    continue;
                }
                broker.outgoing_bytes += outgoing.message.bytes();
                broker.queue.push_back(outgoing);
            }
        }
    }

    fn say_who_is_alive(&mut self, now: Now) {
        let Some(group) = self.group() else {
            return;
        };
        let mut payload = BytesMut::new();
        for client in std::mem::take(&mut group.alive) {
            entry::push(client.as_bytes(), &mut payload);
            if payload.len() >= MOST_BYTES {
                let part = payload.split();
                self.log(Kind::Alive, About::default(), &part, now);
            }
        }
        if !payload.is_empty() {
            self.log(Kind::Alive, About::default(), &payload, now);
        }
    }

    /// Processes an entry of the log.
    pub(in crate::hub::broker) fn logged(&mut self, publish: &Publish, number: u64, now: Now) {
        let Some(broker) = &self.broker else {
            return;
        };
        let Some(said) = entry::read(publish, broker.identity_key.as_ref()) else {
            if let Some(broker) = &mut self.broker {
                broker.figures.unproven += 1;
            }
            return self.finish(number, ReasonCode::NOT_AUTHORIZED);
        };
        if let Kind::Request { expiry_s } = said.kind {
            return self.logged_request(publish, number, said, expiry_s, now);
        }
        self.finish(number, ReasonCode::SUCCESS);
        let from: Arc<str> = said.from.into();
        let Some(group) = self.group() else {
            return;
        };
        let keepers = &mut group.keepers;
        let turn = match said.kind {
            Kind::Beat(beat) => keepers.heard(&from, beat, now.mono_ms),
            Kind::Claim(claim) => keepers.claimed(&from, claim, now.mono_ms),
            Kind::Gone => {
                keepers.gone(&from);
                Turn::Nothing
            }
            Kind::Yield { blind_ms } => {
                keepers.yielded(&from, blind_ms);
                Turn::Nothing
            }
            Kind::Join => {
                self.tell_known(&from, |_| true, now);
                Turn::Nothing
            }
            Kind::Known { is_last } => {
                self.known(&from, publish.payload_bytes(), is_last, now);
                Turn::Nothing
            }
            Kind::Ended { requests } => {
                self.ended(&said, requests, now);
                Turn::Nothing
            }
            Kind::Alive => {
                self.renew_leases(publish.payload_bytes(), now);
                Turn::Nothing
            }
            Kind::Request { .. } => Turn::Nothing,
        };
        match turn {
            Turn::Nothing => {}
            Turn::Began { since_ms } => self.began_to_keep(since_ms, now),
            Turn::Stale => self.forget_known(),
        }
    }

    fn began_to_keep(&mut self, since_ms: u64, now: Now) {
        tracing::info!("this server keeps the watches of its group from now on");
        if let Some(group) = self.group() {
            let since_ms = since_ms.saturating_sub(UNSAID_MS);
            group.aside.forget_before(since_ms);
            group.forget_told();
        }
        // It is not known when they sent their last requests.
        for client in self.watching() {
            self.renew_lease(&client, now);
        }
    }
}

/// Returns whether a server with this trouble does not see changes.
fn hides_changes(trouble: Trouble) -> bool {
    matches!(
        trouble,
        Trouble::Away | Trouble::Unreadable | Trouble::Replaced
    )
}
