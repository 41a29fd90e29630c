//! A client's MQTT session as a state machine. The inputs are bytes, publishes and times; the outputs are bytes, events
//! and wake-up times.
//!
//! The owner of a [`Session`] has a transport and a clock. It makes these calls:
//! - [`connect`](Session::connect) when a transport is there;
//! - [`take_output`](Session::take_output) for the bytes to write;
//! - [`receive`](Session::receive) with the bytes that it reads;
//! - [`poll`](Session::poll) at [`wake_at_ms`](Session::wake_at_ms);
//! - [`connection_lost`](Session::connection_lost) when the transport is gone or a call returned an error.
//!
//! All times are milliseconds on one clock that never jumps.
mod error;
mod event;
mod leaving;
mod receive;
mod resend;
mod subscriptions;
mod unacknowledged;

pub use error::SessionError;
pub use event::Event;
pub use resend::seconds_left;
pub use subscriptions::Subscriptions;
pub use unacknowledged::Terms;

use super::alias::{InboundAliases, OutboundAliases, TopicName};
use super::authentication::Authentication;
use super::keep_alive::{ClientKeepAlive, Due};
use super::outbox::Outbox;
use super::{
    Connect, Decoder, Disconnect, EncodeError, Limits, PacketId, PacketIds, PubAck, PublishHeader,
    ReasonCode, Window, encode_pingreq,
};
use bytes::{Bytes, BytesMut};
use leaving::Leaving;
use unacknowledged::Unacknowledged;

/// The configuration of a session.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Sent on the first connection; later ones differ in that they continue the session.
    pub connect: Connect,
    /// Subscriptions, computed for each new session.
    pub subscriptions: Subscriptions,
    /// Milliseconds within which a PINGREQ must be answered.
    pub ping_timeout_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Offline,
    Connecting,
    /// Asks whether the session is the known one: only that one has the subscription which this UNSUBSCRIBE ends.
    Recognizing(PacketId),
    Subscribing {
        id: PacketId,
        /// Whether the session nevertheless is the known one.
        resumed: bool,
    },
    Ready,
}

/// No more PUBLISHes are unacknowledged at a time, so that a packet identifier is left for a SUBSCRIBE or UNSUBSCRIBE.
const MOST_PUBLISHES: usize = 65_534;
/// Maximum size in bytes of a packet before the CONNACK: four strings of the largest size.
const MAX_BYTES_BEFORE_CONNACK: u32 = 256 * 1024;
const NEVER: u64 = u64::MAX;

/// How many unanswered CONNECTs count at most, so that two clients with one client id do not fight for long.
const MAX_UNANSWERED: u32 = 3;
/// Time in milliseconds for which unanswered CONNECTs count after the last one: no CONNECT is on its way for longer.
const UNANSWERED_MS: u64 = 600_000;

/// Whether another session used the client id before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Nobody,
    /// Another session used the client id, and this one has not been connected yet.
    Somebody,
    Until {
        ms: u64,
    },
}

/// The state machine. A `T` names each PUBLISH towards its sender.
// Each flag is independent of the others.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug)]
pub struct Session<T> {
    config: SessionConfig,
    client_id: String,
    phase: Phase,
    authentication: Authentication,
    /// Whether the broker has, or had, a session of this object.
    known: bool,
    /// Number of sessions so far, including this one.
    number: u64,
    /// Whether the subscriptions are made in that session.
    subscribed: bool,
    /// The next session on the broker may be another one than the known one.
    unsure: bool,
    /// The next CONNECT is to begin a new session.
    renews: bool,
    /// The last CONNECT asked for a new session.
    asked_clean: bool,
    /// Whether this connection was ready for PUBLISHes.
    was_ready: bool,
    /// No PUBLISH is overdue before.
    overdue_ms: u64,
    /// CONNECTs that were not answered. Each may reach the broker later than those after it: it then takes the session
    /// over from their connection, or begins another one if there is none.
    unanswered: u32,
    /// When the last CONNECT was sent.
    connect_ms: u64,
    /// Whether a CONNECT of an earlier session with this client id may still be on its way, and until when.
    followed: Followed,
    /// Reason code that the broker returned for each subscription.
    granted: Vec<ReasonCode>,
    ids: PacketIds,
    window: Window<Unacknowledged<T>>,
    outbox: Outbox,
    /// PUBACKs in the output that was not taken yet.
    untaken_pubacks: u16,
    /// Number of messages that the owner has not acknowledged; `None` if the session acknowledges them itself.
    unanswered_messages: Option<u16>,
    leaving: Leaving,
    peer: Limits,
    keep_alive: ClientKeepAlive,
    decoder: Decoder,
    inbound: InboundAliases,
    outbound: OutboundAliases,
    resent: u64,
}

impl<T: Copy> Session<T> {
    /// Creates a session that has not been connected yet.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            client_id: config.connect.client_id.clone(),
            config,
            phase: Phase::Offline,
            authentication: Authentication::default(),
            known: false,
            number: 1,
            subscribed: false,
            unsure: false,
            renews: false,
            asked_clean: false,
            was_ready: false,
            overdue_ms: NEVER,
            unanswered: 0,
            connect_ms: 0,
            followed: Followed::Nobody,
            granted: Vec::new(),
            ids: PacketIds::new(),
            window: Window::new(1),
            outbox: Outbox::default(),
            untaken_pubacks: 0,
            unanswered_messages: None,
            leaving: Leaving::No,
            peer: Limits::default(),
            keep_alive: ClientKeepAlive::new(0, 0, 0),
            decoder: Decoder::default(),
            inbound: InboundAliases::default(),
            outbound: OutboundAliases::default(),
            resent: 0,
        }
    }

    /// Returns the same session, for a client id that may have been used before, such as by a former process. A CONNECT of the
    /// earlier user may arrive late and begin another session in place of this one. For ten minutes from the first connection
    /// on, each reconnect therefore asks whether the session is still this one [MQTT-3.1.2-4].
    #[must_use]
    pub fn after_others(mut self) -> Self {
        self.followed = Followed::Somebody;
        self
    }

    /// Returns the client id; the assigned one if the broker assigned it.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
    /// Returns the number of this session. It increases with each lost session.
    pub fn number(&self) -> u64 {
        self.number
    }
    /// Returns the limits that the broker set on the last connection.
    pub fn peer_limits(&self) -> Limits {
        self.peer
    }
    /// Returns the reason code that the broker returned for each subscription.
    pub fn granted(&self) -> &[ReasonCode] {
        &self.granted
    }
    /// Returns whether PUBLISHes can be sent, provided that the window has room.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }
    /// Returns how many more PUBLISHes can be sent now.
    pub fn room(&self) -> usize {
        if self.is_ready() {
            let most = MOST_PUBLISHES.saturating_sub(self.window.len());
            self.window.room().min(most)
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
    /// Bytes of the output that the transport did not take yet.
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.unsent_bytes()
    }
    /// Returns the maximum size in bytes of a received packet. It is small until the broker has accepted the connection.
    pub fn max_packet_bytes(&self) -> u32 {
        let most = self.config.connect.limits.max_packet_bytes;
        match self.phase {
            Phase::Connecting => most.min(MAX_BYTES_BEFORE_CONNACK),
            _ => most,
        }
    }
    /// Returns the number of PUBLISHes that were sent again so far.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Sets the credentials of the next CONNECT: user name, password, and method and data of an enhanced
    /// authentication.
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

    /// Sends newer data for the enhanced authentication over the live connection, if it differs from the last data. It is sent
    /// as soon as the previous authentication is complete. Without a connection it does nothing: each CONNECT has its own data,
    /// see [`set_credentials`](Self::set_credentials).
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

    /// Makes the next connection begin a new session, whatever the broker still has of this one.
    pub fn renew(&mut self) {
        self.renews = true;
    }

    /// Begins a connection over a new transport: sends CONNECT.
    pub fn connect(&mut self, now_ms: u64) -> Result<(), SessionError> {
        self.forget_unanswered(now_ms);
        if self.followed == Followed::Somebody {
            let ms = now_ms.saturating_add(UNANSWERED_MS);
            self.followed = Followed::Until { ms };
        }
        let mut connect = self.config.connect.clone();
        connect.client_id.clone_from(&self.client_id);
        connect.clean_start = self.renews || connect.clean_start && !self.known;
        self.asked_clean = connect.clean_start;
        self.was_ready = false;
        self.overdue_ms = NEVER;
        connect.encode(Limits::MAX_PACKET_BYTES, self.outbox.pending())?;
        self.authentication.connecting(connect.authentication);
        self.unanswered += 1;
        self.connect_ms = now_ms;
        self.phase = Phase::Connecting;
        self.keep_alive = ClientKeepAlive::new(0, self.config.ping_timeout_ms, now_ms);
        Ok(())
    }

    /// Records the loss of the transport. Unacknowledged PUBLISHes wait for the next connection.
    pub fn connection_lost(&mut self) {
        if std::mem::take(&mut self.was_ready) {
            for entry in self.window.sent_mut() {
                entry.maybe_delivered |= self.outbox.is_handed_over(entry.place);
            }
        }
        self.outbox.disconnected();
        self.untaken_pubacks = 0;
        self.unanswered_messages = self.unanswered_messages.map(|_| 0);
        if let Leaving::Asked(id) = self.leaving {
            self.ids.release(id);
        }
        self.leaving = Leaving::No;
        self.unanswered = self.unanswered.min(MAX_UNANSWERED);
        self.unsure |= matches!(self.phase, Phase::Recognizing(_));
        if let Phase::Recognizing(id) | Phase::Subscribing { id, .. } = self.phase {
            self.ids.release(id);
        }
        self.phase = Phase::Offline;
    }

    /// Returns whether a takeover that the broker reports may come from one of this session's own CONNECTs, unanswered
    /// and delivered late. Each such CONNECT explains only one takeover, so that the session does not fight a client
    /// that really took it over.
    pub fn excuses_takeover(&mut self, now_ms: u64) -> bool {
        self.forget_unanswered(now_ms);
        let excuses = self.unanswered > 0;
        self.unsure |= excuses;
        self.unanswered = self.unanswered.saturating_sub(1);
        excuses
    }

    fn forget_unanswered(&mut self, now_ms: u64) {
        if matches!(self.followed, Followed::Until { ms } if now_ms > ms) {
            self.followed = Followed::Nobody;
        }
        if now_ms.saturating_sub(self.connect_ms) > UNANSWERED_MS {
            self.unanswered = 0;
        }
    }

    /// Returns a DISCONNECT to write behind the output that was taken; empty if not even a CONNECT was sent. `session_expiry_s`
    /// replaces the interval of the CONNECT.
    pub fn disconnect(&self, reason: ReasonCode, session_expiry_s: Option<u32>) -> BytesMut {
        let mut out = BytesMut::new();
        if self.phase == Phase::Offline {
            return out;
        }
        let disconnect = Disconnect {
            session_expiry_s,
            ..Disconnect::new(reason)
        };
        // The only error is a broker that allows packets of three bytes; it gets none.
        let _ = disconnect.encode(self.peer.max_packet_bytes, &mut out);
        out
    }

    /// Takes all bytes to write now, in one piece; empty if there are none. The previous output must have been
    /// [written](Self::written) completely.
    pub fn take_output(&mut self, now_ms: u64) -> Bytes {
        if self.outbox.is_empty() {
            return Bytes::new();
        }
        self.untaken_pubacks = 0;
        self.outbound.go_out();
        let output = self.outbox.take();
        let awaits = !self.window.is_empty();
        self.keep_alive.handed_out(output.len(), awaits, now_ms);
        output
    }
    /// Records that the transport took `bytes` more of the output; `waited` is true if it did not take them at once.
    pub fn written(&mut self, bytes: usize, waited: bool, now_ms: u64) {
        self.outbox.written(bytes);
        self.keep_alive.written(bytes, waited, now_ms);
    }
    /// Returns whether [`take_output`](Self::take_output) returns any bytes.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns whether [`take_output`](Self::take_output) returns nothing, or only PUBACKs that the session made by itself.
    pub fn only_acknowledges(&self) -> bool {
        self.outbox.pending_bytes() == PubAck::SUCCESS_BYTES * usize::from(self.untaken_pubacks)
    }

    /// Returns the time for the next [`poll`](Self::poll); `None` if nothing is due, as while there is no transport.
    /// `awaits` is true if a message that answers a PUBLISH is pending.
    pub fn wake_at_ms(&self, awaits: bool) -> Option<u64> {
        if self.phase == Phase::Offline {
            return None;
        }
        let keep_alive = self
            .keep_alive
            .wake_at_ms(awaits || !self.window.is_empty());
        Some(keep_alive.unwrap_or(NEVER).min(self.overdue_ms)).filter(|at_ms| *at_ms != NEVER)
    }

    /// Handles the passing of time. `awaits` is the same as for [`wake_at_ms`](Self::wake_at_ms).
    pub fn poll(&mut self, awaits: bool, now_ms: u64) -> Result<(), SessionError> {
        if self.phase == Phase::Offline {
            return Ok(());
        }
        if now_ms >= self.overdue_ms {
            self.check_overdue(now_ms)?;
        }
        let awaits = awaits || !self.window.is_empty();
        match self.keep_alive.poll(awaits, now_ms) {
            Due::Nothing => Ok(()),
            Due::Ping => {
                encode_pingreq(self.outbox.pending());
                Ok(())
            }
            Due::PeerDead => Err(SessionError::PeerDead),
        }
    }

    /// Sends a PUBLISH with QoS 1; `header` needs no packet identifier. Call it only while there is [`room`](Self::room).
    /// Returns the packet identifier.
    ///
    /// # Errors
    /// The PUBLISH cannot be encoded or is too large for the broker. Nothing is sent then.
    pub fn publish(
        &mut self,
        header: &PublishHeader<'_>,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
        terms: Terms<T>,
    ) -> Result<PacketId, EncodeError> {
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
            terms,
            place,
            is_unwanted: false,
            defines: topic_alias.filter(|_| !topic.is_empty()),
            overdue_ms: self.overdue_at(terms.deadline_ms),
            maybe_delivered: false,
        };
        match self.window.push(id, entry) {
            Ok(()) => Ok(id),
            Err(entry) => {
                self.outbox.release(entry.place);
                self.outbox.pending().truncate(start);
                self.ids.release(id);
                Err(EncodeError::NoRoom)
            }
        }
    }

    /// Decodes up to `budget` packets from `stream` after bytes arrived; returns whether more may be left.
    pub fn receive(
        &mut self,
        stream: &mut BytesMut,
        now_ms: u64,
        budget: usize,
        mut handle: impl FnMut(Event<T>),
    ) -> Result<bool, SessionError> {
        self.keep_alive.received(now_ms);
        for _ in 0..budget {
            let most = self.max_packet_bytes();
            let Some(packet) = self.decoder.decode(stream, most)? else {
                return Ok(false);
            };
            self.packet(packet, now_ms, &mut handle)?;
        }
        Ok(true)
    }
}
