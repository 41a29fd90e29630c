//! Requests through the broker: their senders and their responses.
use super::super::fanout::MOST_FANOUTS;
use super::super::message::{Message, Payload};
use super::super::request::encoded;
use super::super::{Hub, TURN_WORK};
use super::incoming::Incoming;
use super::outgoing::What;
use super::standing::{Sender, Standing};
use super::{BEHIND, BrokerError, RECEIVE_MAXIMUM, group, refusals};
use crate::budget::Charge;
use crate::clock::Now;
use crate::keyspace::Ticket;
use crate::service::{Answered, Envelope, Outcome, Reception, Refusal, Request};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::session::{Session, SessionError};
use statestore_protocol::mqtt::{
    CheckedTopic, KeptTopic, PacketId, Publish, PublishHeader, ReasonCode,
};
use statestore_protocol::{property, topic};
use std::collections::VecDeque;
use std::sync::Arc;

/// Memory of a pending request besides what the client has sent: here, in the service and in the keyspace.
const ASKER_BYTES: usize = 512;
/// Requests that are executed before other connections have their turn.
const TURN_REQUESTS: usize = 64;

/// The data needed to respond to a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReturnAddress<'a> {
    pub(super) number: u64,
    pub(super) response_topic: CheckedTopic<'a>,
    pub(super) correlation_data: &'a [u8],
    /// Client and key of the watch, if the request came from the [log](super::group).
    pub(super) watch: Option<(&'a Arc<str>, &'a Bytes)>,
}

/// The client id and the response topic of a request.
pub(super) type Requester<'a> = (&'a str, &'a str);

/// A request whose outcome comes later.
#[derive(Debug)]
pub(super) struct Asker {
    number: u64,
    response_topic: KeptTopic,
    correlation_data: Box<[u8]>,
    watch: Option<(Arc<str>, Bytes)>,
    _charge: Charge,
}

/// Requests of this connection that are not acknowledged, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Unacknowledged {
    /// Number of the first one. Numbers are never reused.
    first: u64,
    /// Packet identifiers, each with the reason code of its acknowledgement once the request is done.
    places: VecDeque<(PacketId, Option<ReasonCode>)>,
}

impl Unacknowledged {
    pub(super) fn add(&mut self, packet_id: PacketId) -> u64 {
        self.places.push_back((packet_id, None));
        self.first + self.places.len() as u64 - 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns whether the broker may not send many more requests.
    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= usize::from(RECEIVE_MAXIMUM) / 2
    }

    /// Returns whether a pending request belongs to this connection.
    fn has(&self, number: u64) -> bool {
        number >= self.first
    }

    /// Returns the number of the first request that is not acknowledged.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Marks a request as done, if its connection is still there.
    pub(super) fn finish(&mut self, number: u64, reason: ReasonCode) {
        let offset = number.checked_sub(self.first);
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        if let Some((_, done)) = offset.and_then(|offset| self.places.get_mut(offset)) {
            *done = Some(reason);
        }
    }

    /// Acknowledges the requests that are done, up to the first that is not.
    pub(super) fn acknowledge(&mut self, session: &mut Session<u64>) -> Result<(), SessionError> {
        while let Some((packet_id, Some(reason))) = self.places.front() {
            session.acknowledge(*packet_id, *reason)?;
            self.places.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    /// Forgets all requests, since the connection is gone.
    pub(super) fn clear(&mut self) {
        self.first += self.places.len() as u64;
        self.places.clear();
    }
}

impl Hub {
    /// Processes a message with QoS 1 from the broker. Fails if the connection cannot go on.
    pub(super) fn came_from_broker(
        &mut self,
        publish: Publish,
        now: Now,
    ) -> Result<(), BrokerError> {
        let most = self.max_session_bytes();
        let (Some(broker), Some(packet_id)) = (&mut self.broker, publish.packet_id()) else {
            return Ok(());
        };
        broker.requests += 1;
        let number = broker.unacknowledged.add(packet_id);
        let incoming = Incoming::new(publish, number, now.mono_ms, &self.gauge);
        if broker.incoming.has_room(&incoming, most) {
            broker.incoming.push(incoming);
            return Ok(());
        }
        let group = broker.group.as_ref();
        if group.is_some_and(|group| incoming.publish.topic() == group.topic) {
            // No entry of the log may be skipped.
            return Err(BrokerError::Behind);
        }
        broker.incoming.tell_of_refusal();
        self.execute_one(&incoming, false, now);
        Ok(())
    }

    /// Returns whether there is room for the results of requests.
    pub(super) fn may_execute_incoming(&self) -> bool {
        !self.lacks_room() && self.fanouts.len() < MOST_FANOUTS && self.has_room_for_broker()
    }

    /// Executes requests as long as there is room for their results. Returns whether more can be executed in the next turn.
    pub(super) fn execute_incoming(&mut self, now: Now) -> bool {
        let mut left = TURN_REQUESTS;
        while self.may_execute_incoming() {
            if left == 0 || self.service.work() >= TURN_WORK {
                return true;
            }
            let broker = self.broker.as_mut();
            let Some(incoming) = broker.and_then(|broker| broker.incoming.pop()) else {
                return false;
            };
            left -= 1;
            self.execute_one(&incoming, true, now);
        }
        if let Some(broker) = &mut self.broker {
            broker.incoming.keep();
        }
        false
    }

    /// Executes a request, or refuses it if there was no room for it to wait.
    fn execute_one(&mut self, incoming: &Incoming, had_room: bool, now: Now) {
        let (publish, number) = (&incoming.publish, incoming.number);
        if let Some(group) = self.broker.as_ref().and_then(|it| it.group.as_ref())
            && publish.topic() == group.topic
        {
            self.logged(publish, number, now);
            self.tell_watchers(None, now);
            return self.tell_outcomes(now);
        }
        let response_topic = publish
            .checked_response_topic()
            .filter(|topic| !topic::is_forbidden_response(topic));
        let client_id = response_topic.and_then(|topic| topic::requester(topic.as_str()));
        let correlation_data = publish.correlation_data().filter(|data| !data.is_empty());
        let properties = self.request_properties(publish);
        let Some(broker) = &mut self.broker else {
            return;
        };
        let (Some(response_topic), Some(client_id), Some(correlation_data), true) = (
            response_topic,
            client_id,
            correlation_data,
            publish.topic() == topic::REQUEST,
        ) else {
            self.statistics.requests_refused += 1;
            let reason = ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR;
            return broker.unacknowledged.finish(number, reason);
        };
        let client_id = client_id.as_ref();
        let requester = (client_id, response_topic.as_str());
        let sender = match self.sender(publish, requester) {
            Ok(sender) => sender,
            Err(doubt) => {
                self.doubt(doubt, response_topic.as_str(), now);
                return self.finish(number, ReasonCode::NOT_AUTHORIZED);
            }
        };
        let Some(broker) = &mut self.broker else {
            return;
        };
        let is_shared = broker.terms.share.is_some();
        let deadline_ms = broker
            .terms
            .deadline_ms(incoming.since_ms, publish.message_expiry());
        let to = ReturnAddress {
            number,
            response_topic,
            correlation_data,
            watch: None,
        };
        if !had_room {
            self.statistics.requests_refused += 1;
            if !self.has_room_for_broker() {
                return self.finish(number, ReasonCode::QUOTA_EXCEEDED);
            }
            return self.conclude_for_broker(to, &Outcome::Refused(Refusal::NoRoom), now);
        }
        let payload = publish.payload();
        if is_shared && group::is_about_watch(&payload) {
            let user = match sender {
                Sender::Proven(user) => user,
                Sender::Anybody => None,
            };
            let is_late = deadline_ms.is_some_and(|at_ms| now.mono_ms > at_ms);
            let left_ms = deadline_ms.map(|at_ms| at_ms.saturating_sub(now.mono_ms));
            let expiry_s = left_ms.and_then(|left_ms| u32::try_from(left_ms.div_ceil(1000)).ok());
            if is_late {
                self.conclude_for_broker(to, &Outcome::Refused(Refusal::Expired), now);
            } else if !self.put_into_log(publish, number, (client_id, user), expiry_s, now) {
                self.conclude_for_broker(to, &Outcome::Refused(Refusal::Away), now);
            }
            return;
        }
        let name = format!("{BEHIND}{client_id}");
        let client = broker.answers.came(&name, broker.requests, now.mono_ms);
        if is_shared {
            self.renew_lease_of_group(&client);
        }
        let Standing { principal, rights } = self.standing(&client, client_id, sender, Some(now));
        let envelope = Envelope {
            request: Request {
                client: &client,
                principal: &principal,
                rights: rights.as_ref(),
                correlation: correlation_data,
                payload: &payload,
                properties,
                may_return: true,
            },
            deadline_ms,
            has_room: true,
            is_shared,
        };
        self.ask_for_broker(&envelope, to, now);
        if !is_shared {
            self.renew_lease(&client, now);
        }
        self.tell_watchers(None, now);
        self.tell_outcomes(now);
    }

    /// Passes a request to the service and responds, now or later.
    pub(super) fn ask_for_broker(
        &mut self,
        envelope: &Envelope<'_>,
        to: ReturnAddress<'_>,
        now: Now,
    ) {
        let payload_bytes = envelope.request.payload.len();
        if !self.large_allocations.allows_copies(payload_bytes) {
            self.service.refuse_next_change();
        }
        match self.service.ask(envelope, now) {
            Reception::Ended(outcome) => self.conclude_for_broker(to, &outcome, now),
            Reception::Later(ticket) => {
                let bytes = ASKER_BYTES
                    + envelope.request.payload.len()
                    + to.response_topic.as_bytes().len()
                    + to.correlation_data.len();
                let asker = Asker {
                    number: to.number,
                    response_topic: to.response_topic.kept(),
                    correlation_data: to.correlation_data.into(),
                    watch: to
                        .watch
                        .map(|(client, key)| (Arc::clone(client), key.clone())),
                    _charge: Charge::new(&self.gauge, bytes),
                };
                if let Some(broker) = &mut self.broker {
                    broker.askers.insert(ticket, asker);
                }
            }
        }
    }

    /// Processes an outcome that came later, if a request of the broker waits for it.
    pub(in super::super) fn conclude_later_for_broker(
        &mut self,
        ticket: Ticket,
        outcome: &Outcome,
        now: Now,
    ) {
        let broker = self.broker.as_mut();
        let Some(asker) = broker.and_then(|broker| broker.askers.remove(&ticket)) else {
            let is_followed = matches!(outcome, Outcome::Answered(_));
            return self.watch_concluded(Some(ticket), is_followed, now);
        };
        let to = ReturnAddress {
            number: asker.number,
            response_topic: asker.response_topic.get(),
            correlation_data: &asker.correlation_data,
            watch: asker.watch.as_ref().map(|(client, key)| (client, key)),
        };
        self.conclude_for_broker(to, outcome, now);
    }

    /// Responds to a request. The built-in listener reports some outcomes in a PUBACK, which here reaches the broker only. So the status of
    /// a response reports them, if a client may still wait for it.
    fn conclude_for_broker(&mut self, to: ReturnAddress<'_>, outcome: &Outcome, now: Now) {
        if let Some((client, key)) = to.watch {
            self.kept_outcome(outcome, (client, key), now);
        }
        let is_alone = matches!(outcome, Outcome::Refused(_))
            || to.watch.is_none() && refusals::is_of_this_moment(outcome);
        if is_alone && self.is_given_to_others(to.number) {
            // Another server may have executed the request.
            return;
        }
        if let Some(reasons) = self.refusal(outcome) {
            let party = self.party_behind_broker(to.response_topic.as_str());
            self.refuse(party, None, reasons, None, now);
        }
        match outcome {
            Outcome::Answered(answered) => {
                let what = self.what_answers(to, outcome);
                match refusals::of_this_server(&answered.response.reply) {
                    Some(error) if matches!(what, What::Refusal(_)) => {
                        self.refuse_through_broker(to, &error.to_string(), what, now);
                    }
                    _ => self.respond_through_broker(to, answered, what, now),
                }
            }
            Outcome::Refused(refusal @ (Refusal::Away | Refusal::NoRoom)) => {
                let why = match refusal {
                    Refusal::NoRoom => "too many requests wait at the store",
                    _ => "the storage does not answer",
                };
                let what = self.what_answers(to, outcome);
                self.refuse_through_broker(to, why, what, now);
            }
            Outcome::Refused(Refusal::Expired) => {
                self.finish(to.number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
            }
            // Without a response, the client learns that the outcome is unknown.
            Outcome::Unknown => self.finish(to.number, ReasonCode::SUCCESS),
        }
    }

    /// Returns whether the connection of a request has ended, so that the broker may give the request to other servers.
    fn is_given_to_others(&self, number: u64) -> bool {
        let broker = self.broker.as_ref();
        broker.is_some_and(|it| it.terms.share.is_some() && !it.unacknowledged.has(number))
    }

    /// Returns how an outcome is sent. If other servers might answer differently, the request has to be acknowledged first.
    fn what_answers(&self, to: ReturnAddress<'_>, outcome: &Outcome) -> What {
        let is_shared = self.broker.as_ref().is_some_and(|it| it.group.is_some());
        if is_shared && to.watch.is_none() && refusals::is_of_this_moment(outcome) {
            What::Refusal(to.number)
        } else {
            What::Response(to.number)
        }
    }

    pub(super) fn finish(&mut self, number: u64, reason: ReasonCode) {
        if let Some(broker) = &mut self.broker {
            broker.unacknowledged.finish(number, reason);
            broker.is_dirty = true;
        }
    }

    /// Responds that this server did not execute a request.
    fn refuse_through_broker(&mut self, to: ReturnAddress<'_>, why: &str, what: What, now: Now) {
        let why = format!("{why}; this server did not execute the request");
        let header = PublishHeader {
            topic: to.response_topic.as_str(),
            correlation_data: Some(to.correlation_data),
            user_properties: &[
                (property::STATUS, refusals::UNAVAILABLE),
                (property::STATUS_MESSAGE, &why),
                (property::PROTOCOL_VERSION, property::PROTOCOL_VERSION_VALUE),
            ],
            ..PublishHeader::default()
        };
        self.send_through_broker(to, &header, BytesMut::new(), 0, what, now);
    }

    fn respond_through_broker(
        &mut self,
        to: ReturnAddress<'_>,
        Answered { response, commit }: &Answered,
        what: What,
        now: Now,
    ) {
        let mut payload = BytesMut::with_capacity(response.reply.encoded_len());
        response.reply.encode(&mut payload);
        let mut version = std::mem::take(&mut self.response_version);
        let properties = self.response_properties.clone();
        let header = PublishHeader {
            topic: to.response_topic.as_str(),
            correlation_data: Some(to.correlation_data),
            encoded: Some(&properties),
            encoded_last: encoded(response.version.as_ref(), &mut version),
            ..PublishHeader::default()
        };
        self.statistics.responses += 1;
        self.send_through_broker(to, &header, payload, *commit, what, now);
        self.response_version = version;
    }

    fn send_through_broker(
        &mut self,
        to: ReturnAddress<'_>,
        header: &PublishHeader<'_>,
        payload: BytesMut,
        hold: u64,
        what: What,
        now: Now,
    ) {
        let payload = Payload::new(payload.freeze(), &self.gauge);
        let Some(broker) = &mut self.broker else {
            return;
        };
        match Message::new(header, payload, None) {
            Ok(message) => broker.enqueue(message, hold, what, to.watch.is_some(), now),
            Err(error) => {
                tracing::debug!(%error, "a response cannot be sent");
                self.statistics.dropped_too_large += 1;
                self.finish(to.number, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
            }
        }
    }

    /// Forgets clients that have sent nothing for long.
    pub(super) fn end_idle_clients(&mut self, now: Now) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        let most = self.limits.max_sessions;
        let mut ended = Vec::new();
        while let Some(client) = broker.answers.take(now.mono_ms) {
            self.service.session_ended(&client);
            ended.push(client);
        }
        while broker.answers.len() > most
            && let Some(client) = broker.answers.take_first()
        {
            self.service.session_ended(&client);
            ended.push(client);
        }
        let mut silent = Vec::new();
        let (keeps, requests) = (broker.keeps(now), broker.requests);
        if let Some(leases) = broker.leases.as_mut().filter(|_| keeps) {
            silent.extend(std::iter::from_fn(|| leases.take(now.mono_ms)));
        }
        for client in ended {
            self.forget_standing(&client);
        }
        for client in silent {
            self.end_watches(&client, None, requests, now);
        }
    }
}
