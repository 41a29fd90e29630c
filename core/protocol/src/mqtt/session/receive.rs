//! Handling of each packet that a session receives from the broker.
use super::super::alias::InboundAliases;
use super::super::{
    Auth, ConnAck, Packet, PacketId, PacketIds, PubAck, Publish, QoS, ReasonCode, SubAck,
    Subscribe, UnsubAck, Unsubscribe,
};
use super::resend::decode_publish;
use super::{ClientIdReuse, Event, Session, SessionError, SessionState};

impl<T: Copy> Session<T> {
    pub(super) fn handle_packet(
        &mut self,
        packet: Packet,
        now_ms: u64,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        match (self.state, packet) {
            (SessionState::Connecting, Packet::ConnAck(connack)) => {
                self.connack(*connack, now_ms, handle)
            }
            (SessionState::Connecting, Packet::Disconnect(disconnect)) => {
                Err(SessionError::Disconnected(disconnect))
            }
            (SessionState::Connecting, Packet::Auth(auth)) => self.auth(&auth, false, handle),
            (SessionState::Connecting | SessionState::Offline, _) => {
                Err(SessionError::Protocol("the first packet is not CONNACK"))
            }
            (_, Packet::Publish(publish)) => self.message(publish, handle),
            (_, Packet::PubAck(puback)) => self.puback(puback, now_ms, handle),
            (SessionState::Subscribing { id, resumed }, Packet::SubAck(suback))
                if suback.packet_id == id =>
            {
                self.suback(suback, resumed, now_ms, handle)
            }
            (_, Packet::Auth(auth)) => self.auth(&auth, true, handle),
            (SessionState::Verifying(id), Packet::UnsubAck(unsuback))
                if unsuback.packet_id == id =>
            {
                self.unsuback(&unsuback, handle)
            }
            (_, Packet::UnsubAck(unsuback)) if self.complete_drain(&unsuback) => Ok(()),
            (_, Packet::PingResp) => Ok(()),
            (_, Packet::Disconnect(disconnect)) => Err(SessionError::Disconnected(disconnect)),
            (_, Packet::SubAck(_) | Packet::UnsubAck(_)) => Err(SessionError::Protocol(
                "an acknowledgement of a subscription that was not asked for",
            )),
            (_, Packet::ConnAck(_)) => Err(SessionError::Protocol("a second CONNACK")),
            (_, _) => Err(SessionError::Protocol("a packet that only a client sends")),
        }
    }

    fn connack(
        &mut self,
        connack: ConnAck,
        now_ms: u64,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        self.unanswered_connects = self.unanswered_connects.saturating_sub(1);
        if connack.reason != ReasonCode::SUCCESS {
            return Err(SessionError::Refused(Box::new(connack)));
        }
        if connack.maximum_qos == QoS::AtMostOnce {
            return Err(SessionError::Protocol(
                "it accepts QoS 0 only, and the state store needs QoS 1",
            ));
        }
        if connack.session_present && self.requested_clean_start {
            return Err(SessionError::Protocol(
                "it kept the session that was to be ended",
            ));
        }
        if connack.session_present && !self.is_resumable {
            return Err(SessionError::UnknownSession);
        }
        self.forces_clean_start = false;
        if let Some(id) = connack.assigned_client_id {
            if self.config.subscriptions.for_client(&id).is_empty() {
                return Err(SessionError::Protocol(
                    "it assigned a client id that cannot stand in topics",
                ));
            }
            self.client_id = id;
        }
        self.peer_limits = connack.limits;
        let newer = self.authentication.connected();
        self.send_auth(newer)?;
        let seconds = connack
            .server_keep_alive_s
            .unwrap_or(self.config.connect.keep_alive_s);
        self.keep_alive.set_interval(seconds);
        self.inbound = InboundAliases::new(self.config.connect.limits.topic_alias_maximum);
        self.outbound
            .reconnected(self.peer_limits.topic_alias_maximum);

        let known = std::mem::replace(&mut self.is_resumable, true);
        let unsure = std::mem::take(&mut self.is_uncertain)
            || self.unanswered_connects > 0
            || self.client_id_reuse != ClientIdReuse::No;
        if known && connack.session_present && unsure && self.subscribed {
            return self.verify_session(handle);
        }
        if known && connack.session_present && self.subscribed {
            self.ready(true, now_ms, handle);
            return Ok(());
        }
        // A session without its subscriptions may be one that an unanswered CONNECT began.
        if known && (!connack.session_present || unsure) {
            self.session_lost(handle);
        }
        self.subscribe(false)
    }

    /// Asks whether the session is the known one.
    fn verify_session(&mut self, handle: &mut impl FnMut(Event<T>)) -> Result<(), SessionError> {
        let subscriptions = self.config.subscriptions.for_client(&self.client_id);
        // The last one, which is missed least while it is gone. Until it is back the subscriptions are not complete.
        self.subscribed = false;
        match (subscriptions.into_iter().next_back(), self.granted.last()) {
            (Some(last), Some(reason)) if !reason.is_failure() => {
                let packet_id = self.packet_id()?;
                let unsubscribe = Unsubscribe {
                    packet_id,
                    filters: vec![last.filter],
                };
                unsubscribe.encode(self.peer_limits.max_packet_bytes, self.outbox.pending())?;
                self.state = SessionState::Verifying(packet_id);
                Ok(())
            }
            _ => {
                self.session_lost(handle);
                self.subscribe(false)
            }
        }
    }

    fn unsuback(
        &mut self,
        unsuback: &UnsubAck,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        self.ids.release(unsuback.packet_id);
        let resumed = unsuback.reasons == [ReasonCode::SUCCESS];
        if !resumed {
            self.session_lost(handle);
        }
        self.subscribe(resumed)
    }

    /// Handles the loss of the previous session.
    fn session_lost(&mut self, handle: &mut impl FnMut(Event<T>)) {
        for (_, entry) in self.window.drain() {
            let publish = if entry.maybe_delivered {
                None
            } else {
                decode_publish(&self.outbox.packet(entry.location))
            };
            self.outbox.release(entry.location);
            handle(Event::Lost {
                tag: entry.options.tag,
                maybe_delivered: entry.maybe_delivered,
                publish,
                is_harmless: entry.options.is_harmless,
            });
        }
        self.ids = PacketIds::new();
        self.number += 1;
        self.subscribed = false;
        handle(Event::SessionLost);
    }

    fn packet_id(&mut self) -> Result<PacketId, SessionError> {
        self.ids
            .allocate()
            .ok_or(SessionError::Protocol("no packet identifier is free"))
    }

    fn subscribe(&mut self, resumed: bool) -> Result<(), SessionError> {
        let packet_id = self.packet_id()?;
        let subscriptions = self.config.subscriptions.for_client(&self.client_id);
        let subscribe = Subscribe {
            packet_id,
            subscription_id: None,
            subscriptions,
        };
        subscribe.encode(self.peer_limits.max_packet_bytes, self.outbox.pending())?;
        self.state = SessionState::Subscribing {
            id: packet_id,
            resumed,
        };
        Ok(())
    }

    fn auth(
        &mut self,
        auth: &Auth,
        is_connected: bool,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        let (answer, done) = self.authentication.receive(auth, is_connected)?;
        if done {
            handle(Event::Reauthenticated);
        }
        self.send_auth(answer)
    }

    fn send_auth(&mut self, auth: Option<Auth>) -> Result<(), SessionError> {
        if let Some(auth) = auth {
            auth.encode(self.peer_limits.max_packet_bytes, self.outbox.pending())?;
        }
        Ok(())
    }

    fn suback(
        &mut self,
        suback: SubAck,
        resumed: bool,
        now_ms: u64,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        self.ids.release(suback.packet_id);
        let subscriptions = self.config.subscriptions.for_client(&self.client_id);
        if suback.reasons.len() != subscriptions.len() {
            return Err(SessionError::Protocol(
                "a SUBACK with another number of reason codes than asked for",
            ));
        }
        self.granted = suback.reasons;
        match (subscriptions.into_iter().next(), self.granted.first()) {
            (Some(needed), Some(reason)) if reason.is_failure() => {
                return Err(SessionError::SubscriptionRefused {
                    filter: needed.filter,
                    reason: *reason,
                });
            }
            _ => {}
        }
        self.subscribed = true;
        self.ready(resumed, now_ms, handle);
        Ok(())
    }

    fn ready(&mut self, resumed: bool, now_ms: u64, handle: &mut impl FnMut(Event<T>)) {
        self.state = SessionState::Ready;
        self.was_ready = true;
        self.window.reconnected(self.peer_limits.receive_maximum);
        handle(Event::Ready { resumed });
        self.resend(now_ms, handle);
    }

    fn puback(
        &mut self,
        puback: PubAck,
        now_ms: u64,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        let Some(entry) = self.window.acknowledge(puback.packet_id) else {
            return Err(SessionError::Protocol(
                "a PUBACK of a packet identifier that is not in use",
            ));
        };
        self.ids.release(puback.packet_id);
        self.outbox.release(entry.location);
        handle(Event::Acknowledged {
            tag: entry.options.tag,
            reason: puback.reason,
            reason_string: puback.reason_string,
            resent: entry.maybe_delivered,
        });
        self.resend(now_ms, handle);
        Ok(())
    }

    fn message(
        &mut self,
        publish: Publish,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        let packet_id = publish.packet_id();
        if publish.qos() == QoS::ExactlyOnce {
            return Err(SessionError::Protocol(
                "a message with QoS 2, which was not subscribed",
            ));
        }
        // A broker that takes nothing may not make our answers to it pile up.
        if packet_id.is_some() {
            let (count, limit) = match &mut self.unanswered_messages {
                // Mosquitto exceeds the Receive Maximum in bursts. There are no more than this many packet identifiers.
                Some(count) => (count, u16::MAX),
                None => (
                    &mut self.pending_pubacks,
                    self.config.connect.limits.receive_maximum,
                ),
            };
            if *count == limit {
                return Err(SessionError::TooManyMessages);
            }
            *count += 1;
        }
        let alias_topic = self.inbound.topic_of(&publish)?;
        handle(Event::Message {
            publish,
            alias_topic,
        });
        if let Some(packet_id) = packet_id
            && self.unanswered_messages.is_none()
        {
            PubAck::success(packet_id)
                .encode(self.peer_limits.max_packet_bytes, self.outbox.pending())?;
        }
        Ok(())
    }
}
