//! A client's MQTT session as a state machine: bytes, publishes and times go in; bytes, events and wake-up times come
//! out.
//!
//! The owner of a [`Session`] has a transport and a clock. It calls [`connect`](Session::connect) when a transport is
//! there, writes what [`take_output`](Session::take_output) gives, passes what it reads to
//! [`receive`](Session::receive), calls [`poll`](Session::poll) at [`wake_at_ms`](Session::wake_at_ms), and
//! [`connection_lost`](Session::connection_lost) when the transport is gone or a call returned an error. All times are
//! milliseconds on one clock that never jumps.
use super::alias::{AliasError, InboundAliases, OutboundAliases, TopicName};
use super::authentication::Authentication;
use super::keep_alive::{Due, KeepAlive};
use super::outbox::{Outbox, Place};
use super::{
    Auth, ConnAck, Connect, DecodeError, Disconnect, EncodeError, Limits, Packet, PacketIds,
    PubAck, Publish, PublishHeader, QoS, ReasonCode, SubAck, Subscribe, Subscription, UnsubAck,
    Unsubscribe, Window, decode, encode_pingreq,
};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// What a session is to be.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Sent on the first connection; later ones differ in that they continue the session.
    pub connect: Connect,
    /// Made anew whenever the session is new, from the client id. The first one must be granted.
    pub subscriptions: fn(&str) -> Vec<Subscription>,
    /// Milliseconds within which a PINGREQ must be answered.
    pub ping_timeout_ms: u64,
}

/// What happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<T> {
    /// The session is new: what was subscribed, sent or on its way in the old one is gone. Follows the
    /// [`Lost`](Self::Lost) events.
    SessionLost,
    /// A PUBLISH of the lost session was not acknowledged and is not sent again. These come in the order of sending.
    Lost {
        /// What its sender gave.
        tag: T,
        /// Whether it may have reached the broker.
        maybe_delivered: bool,
    },
    /// A PUBLISH was not acknowledged and cannot be sent again: the broker now takes only smaller packets.
    TooLarge {
        /// What its sender gave.
        tag: T,
        /// Whether it may have reached the broker.
        maybe_delivered: bool,
    },
    /// The session is there with its subscriptions: PUBLISHes can be sent.
    Ready {
        /// It is the one from before the connection was lost.
        resumed: bool,
    },
    /// The broker has accepted newer authentication data.
    Reauthenticated,
    /// A message arrived. It is acknowledged after the handler returned.
    Message {
        /// The message.
        publish: Publish,
        /// Its topic, if a topic alias stands for it.
        alias_topic: Option<Arc<str>>,
    },
    /// The broker acknowledged, or refused, a PUBLISH.
    Acknowledged {
        /// What its sender gave.
        tag: T,
        /// How it went.
        reason: ReasonCode,
        /// Text for people.
        reason_string: Option<Box<str>>,
    },
}

/// Why the connection is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The broker refused the CONNECT.
    #[error("the broker refused the connection: {}{}", .0.reason, text(.0.reason_string.as_ref()))]
    Refused(Box<ConnAck>),
    /// The broker refused a subscription without which nothing works.
    #[error("the broker refused the subscription of `{filter}`: {reason}")]
    SubscriptionRefused {
        /// The topic filter.
        filter: String,
        /// Why.
        reason: ReasonCode,
    },
    /// The broker ended the connection.
    #[error("the broker closed the connection: {}{}", .0.reason, text(.0.reason_string.as_ref()))]
    Disconnected(Disconnect),
    /// The broker sent what is not acceptable.
    #[error("the broker sent an unacceptable packet: {0}")]
    Decode(#[from] DecodeError),
    /// The broker used a topic alias that it may not use.
    #[error("the broker sent an unacceptable packet: {0}")]
    Alias(#[from] AliasError),
    /// The broker sent a packet that has no place here.
    #[error("the broker broke the protocol: {0}")]
    Protocol(&'static str),
    /// What must be sent to set the session up cannot be sent to this broker.
    #[error("the session cannot be set up: {0}")]
    Encode(#[from] EncodeError),
    /// A PINGREQ was not answered in time.
    #[error("the broker does not answer any more")]
    PeerDead,
}

fn text(reason_string: Option<&String>) -> String {
    reason_string
        .map(|text| format!(", \"{}\"", text.escape_debug()))
        .unwrap_or_default()
}

impl SessionError {
    /// The reason code to tell the broker, if it should be told.
    pub fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Refused(_) | Self::Disconnected(_) | Self::PeerDead => None,
            Self::SubscriptionRefused { .. } | Self::Encode(_) => Some(ReasonCode::SUCCESS),
            Self::Decode(error) => Some(error.reason()),
            Self::Alias(error) => Some(error.reason()),
            Self::Protocol(_) => Some(ReasonCode::PROTOCOL_ERROR),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Offline,
    Connecting,
    /// Asks whether the session is the known one: only that one has the subscription which this UNSUBSCRIBE ends.
    Recognizing(super::PacketId),
    Subscribing {
        id: super::PacketId,
        /// The session is the known one nevertheless.
        resumed: bool,
    },
    Ready,
}

/// A PUBLISH that is not acknowledged.
#[derive(Debug)]
struct Unacknowledged<T> {
    tag: T,
    place: Place,
    /// When nobody wants it any more.
    deadline_ms: u64,
    /// Handed to a transport at least once.
    maybe_delivered: bool,
}

/// The state machine. A `T` names each PUBLISH towards its sender.
#[derive(Debug)]
pub struct Session<T> {
    config: SessionConfig,
    client_id: String,
    phase: Phase,
    authentication: Authentication,
    /// The broker has, or had, a session of this object's.
    known: bool,
    /// In that session the subscriptions are made.
    subscribed: bool,
    /// A CONNECT since then was not answered, so that the session on the broker may be one which that CONNECT began.
    unsure: bool,
    /// What the broker said to each subscription.
    granted: Vec<ReasonCode>,
    ids: PacketIds,
    window: Window<Unacknowledged<T>>,
    outbox: Outbox,
    peer: Limits,
    keep_alive: KeepAlive,
    inbound: InboundAliases,
    outbound: OutboundAliases,
    resent: u64,
}

impl<T: Copy> Session<T> {
    /// A session that has not been connected yet.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            client_id: config.connect.client_id.clone(),
            config,
            phase: Phase::Offline,
            authentication: Authentication::default(),
            known: false,
            subscribed: false,
            unsure: false,
            granted: Vec::new(),
            ids: PacketIds::new(),
            window: Window::new(1),
            outbox: Outbox::default(),
            peer: Limits::default(),
            keep_alive: KeepAlive::client(0, 0, 0),
            inbound: InboundAliases::default(),
            outbound: OutboundAliases::default(),
            resent: 0,
        }
    }

    /// The client id; the one that the broker assigned, if it did.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
    /// What the broker allows; as of the last connection.
    pub fn peer_limits(&self) -> Limits {
        self.peer
    }
    /// What the broker answered to each subscription.
    pub fn granted(&self) -> &[ReasonCode] {
        &self.granted
    }
    /// Whether PUBLISHes can be sent, room in the window provided.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }
    /// How many more PUBLISHes can be sent now.
    pub fn room(&self) -> usize {
        if self.is_ready() {
            self.window.room()
        } else {
            0
        }
    }
    /// PUBLISHes that are not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.window.len()
    }
    /// Bytes of PUBLISHes that are not acknowledged.
    pub fn buffered_bytes(&self) -> usize {
        self.outbox.buffered_bytes()
    }
    /// How many PUBLISHes were sent again so far.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// What the next CONNECT shows the broker: user name, password, and method and data of an enhanced authentication.
    pub fn set_credentials(
        &mut self,
        user_name: Option<String>,
        password: Option<Bytes>,
        authentication: Option<(String, Bytes)>,
    ) {
        let connect = &mut self.config.connect;
        connect.user_name = user_name;
        connect.password = password;
        connect.authentication = authentication;
    }

    /// There is newer data for the enhanced authentication: sends it over the live connection, if it differs from what
    /// was sent last, as soon as the authentication before it is done. Without a connection it does nothing, because
    /// each CONNECT has [its own](Self::set_credentials).
    ///
    /// # Errors
    /// The data is too large for MQTT or for this broker. The connection stays as it is.
    pub fn reauthenticate(&mut self, data: Bytes) -> Result<(), EncodeError> {
        let is_connected = match self.phase {
            Phase::Offline => return Ok(()),
            Phase::Connecting => false,
            Phase::Recognizing(_) | Phase::Subscribing { .. } | Phase::Ready => true,
        };
        match self.authentication.newer(data, is_connected) {
            Some(auth) => auth.encode(self.peer.max_packet_bytes, self.outbox.pending()),
            None => Ok(()),
        }
    }

    /// A transport is there: sends CONNECT.
    pub fn connect(&mut self, now_ms: u64) -> Result<(), SessionError> {
        let mut connect = self.config.connect.clone();
        connect.client_id.clone_from(&self.client_id);
        connect.clean_start = connect.clean_start && !self.known;
        connect.encode(Limits::MAX_PACKET_BYTES, self.outbox.pending())?;
        self.authentication.connecting(connect.authentication);
        self.phase = Phase::Connecting;
        self.keep_alive = KeepAlive::client(0, 0, now_ms);
        Ok(())
    }

    /// The transport is gone. PUBLISHes that are not acknowledged wait for the next connection.
    pub fn connection_lost(&mut self) {
        let unsent = self.outbox.current();
        // What was not handed to the transport is kept, but as packets, not as a stream.
        drop(self.outbox.take());
        for entry in self.window.values_mut() {
            entry.maybe_delivered |= entry.place.batch != unsent;
        }
        self.unsure |= matches!(self.phase, Phase::Connecting | Phase::Recognizing(_));
        self.phase = Phase::Offline;
    }

    /// Ends the connection: sends DISCONNECT. A `session_expiry_s` replaces the one of the CONNECT.
    pub fn disconnect(&mut self, reason: ReasonCode, session_expiry_s: Option<u32>) {
        if self.phase == Phase::Offline {
            return;
        }
        let disconnect = Disconnect {
            session_expiry_s,
            ..Disconnect::new(reason)
        };
        // The only error is a broker that allows packets of three bytes; it gets none.
        let _ = disconnect.encode(self.peer.max_packet_bytes, self.outbox.pending());
    }

    /// Everything that is to be written now, as one piece; empty if there is nothing.
    pub fn take_output(&mut self, now_ms: u64) -> Bytes {
        if self.outbox.is_empty() {
            return Bytes::new();
        }
        self.keep_alive.sent(now_ms);
        self.outbox.take()
    }
    /// Whether [`take_output`](Self::take_output) has something to give.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// When [`poll`](Self::poll) is to be called; never while there is no transport.
    pub fn wake_at_ms(&self) -> Option<u64> {
        (self.phase != Phase::Offline)
            .then(|| self.keep_alive.wake_at_ms())
            .flatten()
    }

    /// Time has passed.
    pub fn poll(&mut self, now_ms: u64) -> Result<(), SessionError> {
        if self.phase == Phase::Offline {
            return Ok(());
        }
        match self.keep_alive.poll(now_ms) {
            Due::Nothing => Ok(()),
            Due::Ping => {
                encode_pingreq(self.outbox.pending());
                Ok(())
            }
            Due::PeerDead => Err(SessionError::PeerDead),
        }
    }

    /// Sends a PUBLISH with QoS 1; `header` needs no packet identifier. `deadline_ms` is when nobody wants it any more:
    /// sent again, it carries a Message Expiry to match. Call it only while there is [`room`](Self::room).
    ///
    /// # Errors
    /// The PUBLISH cannot be encoded or is too large for the broker. Nothing is sent then.
    pub fn publish(
        &mut self,
        header: &PublishHeader<'_>,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
        tag: T,
        deadline_ms: u64,
    ) -> Result<(), EncodeError> {
        if self.room() == 0 {
            return Err(EncodeError::NoRoom);
        }
        let id = self.ids.allocate().ok_or(EncodeError::NoRoom)?;
        let name = self.outbound.name(header.topic);
        let (topic, topic_alias) = match name {
            TopicName::Plain => (header.topic, None),
            TopicName::Define(alias) => (header.topic, Some(alias)),
            TopicName::Alias(alias) => ("", Some(alias)),
        };
        let header = PublishHeader {
            topic,
            topic_alias,
            packet_id: Some(id),
            ..*header
        };
        let pending = self.outbox.pending();
        let start = pending.len();
        if let Err(error) = header.encode(
            self.peer.max_packet_bytes,
            pending,
            payload_len,
            write_payload,
        ) {
            self.ids.release(id);
            if let TopicName::Define(alias) = name {
                self.outbound.undefine(alias);
            }
            return Err(error);
        }
        let place = self.outbox.keep(start);
        let entry = Unacknowledged {
            tag,
            place,
            deadline_ms,
            maybe_delivered: false,
        };
        match self.window.push(id, entry) {
            Ok(()) => Ok(()),
            Err(entry) => {
                self.outbox.release(entry.place);
                self.outbox.pending().truncate(start);
                self.ids.release(id);
                Err(EncodeError::NoRoom)
            }
        }
    }

    /// Takes up to `budget` packets from `stream`; whether there may be more of them.
    pub fn receive(
        &mut self,
        stream: &mut BytesMut,
        now_ms: u64,
        budget: usize,
        mut handle: impl FnMut(Event<T>),
    ) -> Result<bool, SessionError> {
        for _ in 0..budget {
            let Some(packet) = decode(stream, self.config.connect.limits.max_packet_bytes)? else {
                return Ok(false);
            };
            self.keep_alive.received(now_ms);
            self.packet(packet, now_ms, &mut handle)?;
        }
        Ok(true)
    }

    fn packet(
        &mut self,
        packet: Packet,
        now_ms: u64,
        handle: &mut impl FnMut(Event<T>),
    ) -> Result<(), SessionError> {
        match (self.phase, packet) {
            (Phase::Connecting, Packet::ConnAck(connack)) => self.connack(*connack, now_ms, handle),
            (Phase::Connecting, Packet::Disconnect(disconnect)) => {
                Err(SessionError::Disconnected(disconnect))
            }
            (Phase::Connecting, Packet::Auth(auth)) => self.auth(&auth, false, handle),
            (Phase::Connecting | Phase::Offline, _) => {
                Err(SessionError::Protocol("the first packet is not CONNACK"))
            }
            (_, Packet::Publish(publish)) => self.message(publish, handle),
            (_, Packet::PubAck(puback)) => self.puback(puback, now_ms, handle),
            (Phase::Subscribing { id, resumed }, Packet::SubAck(suback))
                if suback.packet_id == id =>
            {
                self.suback(suback, resumed, now_ms, handle)
            }
            (_, Packet::Auth(auth)) => self.auth(&auth, true, handle),
            (Phase::Recognizing(id), Packet::UnsubAck(unsuback)) if unsuback.packet_id == id => {
                self.unsuback(&unsuback, handle)
            }
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
        if connack.reason != ReasonCode::SUCCESS {
            return Err(SessionError::Refused(Box::new(connack)));
        }
        if connack.maximum_qos == QoS::AtMostOnce {
            return Err(SessionError::Protocol(
                "it accepts QoS 0 only, and the state store needs QoS 1",
            ));
        }
        if let Some(id) = connack.assigned_client_id {
            self.client_id = id;
        }
        self.peer = connack.limits;
        let newer = self.authentication.connected();
        self.send_auth(newer)?;
        let seconds = connack
            .server_keep_alive_s
            .unwrap_or(self.config.connect.keep_alive_s);
        self.keep_alive = KeepAlive::client(seconds, self.config.ping_timeout_ms, now_ms);
        self.inbound = InboundAliases::new(self.config.connect.limits.topic_alias_maximum);
        self.outbound.reconnected(self.peer.topic_alias_maximum);

        let known = std::mem::replace(&mut self.known, true);
        let unsure = std::mem::take(&mut self.unsure);
        if known && connack.session_present && unsure && self.subscribed {
            return self.recognize(handle);
        }
        if known && connack.session_present && self.subscribed {
            self.ready(true, now_ms, handle);
            return Ok(());
        }
        // Without its subscriptions, a session that is there may be one that an unanswered CONNECT began.
        if known && (!connack.session_present || unsure) {
            self.session_lost(handle);
        }
        self.subscribe(false)
    }

    /// Asks whether the session is the known one.
    fn recognize(&mut self, handle: &mut impl FnMut(Event<T>)) -> Result<(), SessionError> {
        let subscriptions = (self.config.subscriptions)(&self.client_id);
        // The last one, which is missed least while it is gone. Until it is back the subscriptions are not complete.
        self.subscribed = false;
        match (subscriptions.into_iter().next_back(), self.granted.last()) {
            (Some(last), Some(reason)) if !reason.is_failure() => {
                let packet_id = self.packet_id()?;
                let unsubscribe = Unsubscribe {
                    packet_id,
                    filters: vec![last.filter],
                };
                unsubscribe.encode(self.peer.max_packet_bytes, self.outbox.pending())?;
                self.phase = Phase::Recognizing(packet_id);
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

    /// The session is another one than before.
    fn session_lost(&mut self, handle: &mut impl FnMut(Event<T>)) {
        for (_, entry) in self.window.drain() {
            self.outbox.release(entry.place);
            handle(Event::Lost {
                tag: entry.tag,
                maybe_delivered: entry.maybe_delivered,
            });
        }
        self.ids = PacketIds::new();
        self.subscribed = false;
        handle(Event::SessionLost);
    }

    fn packet_id(&mut self) -> Result<super::PacketId, SessionError> {
        self.ids
            .allocate()
            .ok_or(SessionError::Protocol("no packet identifier is free"))
    }

    fn subscribe(&mut self, resumed: bool) -> Result<(), SessionError> {
        let packet_id = self.packet_id()?;
        let subscriptions = (self.config.subscriptions)(&self.client_id);
        let subscribe = Subscribe {
            packet_id,
            subscription_id: None,
            subscriptions,
        };
        subscribe.encode(self.peer.max_packet_bytes, self.outbox.pending())?;
        self.phase = Phase::Subscribing {
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
            auth.encode(self.peer.max_packet_bytes, self.outbox.pending())?;
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
        let subscriptions = (self.config.subscriptions)(&self.client_id);
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
        self.phase = Phase::Ready;
        self.window.reconnected(self.peer.receive_maximum);
        handle(Event::Ready { resumed });
        self.resend(now_ms, handle);
    }

    /// Sends again what the last connection left unacknowledged, as far as there is room.
    fn resend(&mut self, now_ms: u64, handle: &mut impl FnMut(Event<T>)) {
        while let Some((id, entry)) = self.window.next_resend() {
            let packet = self.outbox.packet(entry.place);
            let out = self.outbox.pending();
            let start = out.len();
            let encoded = encode_again(&packet, entry, &self.outbound, self.peer, now_ms, out);
            if encoded.is_ok() {
                let place = std::mem::replace(&mut entry.place, self.outbox.keep(start));
                self.outbox.release(place);
                self.resent += 1;
                continue;
            }
            // The broker takes only smaller packets than before.
            if let Some(entry) = self.window.acknowledge(id) {
                self.outbox.release(entry.place);
                handle(Event::TooLarge {
                    tag: entry.tag,
                    maybe_delivered: entry.maybe_delivered,
                });
            }
            self.ids.release(id);
        }
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
        self.outbox.release(entry.place);
        handle(Event::Acknowledged {
            tag: entry.tag,
            reason: puback.reason,
            reason_string: puback.reason_string,
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
        let alias_topic = self
            .inbound
            .resolve(publish.topic(), publish.topic_alias())?;
        handle(Event::Message {
            publish,
            alias_topic,
        });
        if let Some(packet_id) = packet_id {
            PubAck::success(packet_id).encode(self.peer.max_packet_bytes, self.outbox.pending())?;
        }
        Ok(())
    }
}

/// Encodes a PUBLISH again: with DUP if it may have arrived, with its topic in full, and with the Message Expiry that is
/// left, because nobody waits for what happens after that.
fn encode_again<T>(
    packet: &Bytes,
    entry: &Unacknowledged<T>,
    aliases: &OutboundAliases,
    peer: Limits,
    now_ms: u64,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let Ok(Some(Packet::Publish(publish))) =
        decode(&mut BytesMut::from(&packet[..]), Limits::MAX_PACKET_BYTES)
    else {
        return Err(EncodeError::NoRoom);
    };
    let alias_topic = publish.topic_alias().and_then(|alias| aliases.topic(alias));
    let users: Vec<_> = publish.user_properties().collect();
    let header = PublishHeader {
        topic: match &alias_topic {
            Some(topic) => topic,
            None => publish.topic(),
        },
        packet_id: publish.packet_id(),
        dup: entry.maybe_delivered,
        retain: publish.retain(),
        topic_alias: None,
        message_expiry: publish
            .message_expiry()
            .map(|_| seconds_left(entry.deadline_ms, now_ms)),
        payload_is_utf8: publish.payload_is_utf8(),
        content_type: publish.content_type(),
        response_topic: publish.response_topic(),
        correlation_data: publish.correlation_data(),
        subscription_identifiers: &[],
        user_properties: &users,
        encoded: None,
    };
    let payload = publish.payload_bytes();
    header.encode(peer.max_packet_bytes, out, payload.len(), |out| {
        out.extend_from_slice(payload);
    })
}

/// The Message Expiry of something that is wanted until `deadline_ms`: whole seconds, rounded up, at least 1.
pub(crate) fn seconds_left(deadline_ms: u64, now_ms: u64) -> u32 {
    let seconds = deadline_ms.saturating_sub(now_ms).div_ceil(1000);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
