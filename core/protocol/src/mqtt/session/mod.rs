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
mod auth_exchange;
mod drain;
mod error;
mod event;
mod receive;
mod resend;
mod subscriptions;
mod unacknowledged_publish;

pub use error::SessionError;
pub use event::Event;
pub use resend::seconds_left;
pub use subscriptions::Subscriptions;
pub use unacknowledged_publish::PublishOptions;

use super::alias::{InboundAliases, OutboundAliases, TopicName};
use super::keep_alive::{ClientKeepAlive, KeepAliveAction};
use super::outbox::Outbox;
use super::{
    Connect, Decoder, Disconnect, EncodeError, Limits, PacketId, PacketIds, PubAck, PublishHeader,
    ReasonCode, Window, encode_pingreq,
};
use auth_exchange::AuthExchange;
use bytes::{Bytes, BytesMut};
use drain::DrainState;
use unacknowledged_publish::UnacknowledgedPublish;

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
enum SessionState {
    Offline,
    Connecting,
    /// Asks whether the session is the known one: only that one has the subscription which this UNSUBSCRIBE ends.
    Verifying(PacketId),
    Subscribing {
        id: PacketId,
        /// Whether the session nevertheless is the known one.
        resumed: bool,
    },
    Ready,
}

/// No more PUBLISHes are unacknowledged at a time, so that a packet identifier is left for a SUBSCRIBE or UNSUBSCRIBE.
const MAX_PUBLISHES: usize = 65_534;
/// Maximum size in bytes of a packet before the CONNACK: four strings of the largest size.
const MAX_BYTES_BEFORE_CONNACK: u32 = 256 * 1024;
const NEVER: u64 = u64::MAX;

/// How many unanswered CONNECTs count at most, so that two clients with one client id do not fight for long.
const MAX_UNANSWERED_CONNECTS: u32 = 3;
/// Time in milliseconds for which unanswered CONNECTs count after the last one: no CONNECT is on its way for longer.
const CONNECT_LIFETIME_MS: u64 = 600_000;

/// Whether another session used the client id before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientIdReuse {
    No,
    /// Another session used the client id, and this one has not been connected yet.
    Possible,
    PossibleUntil {
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
    state: SessionState,
    authentication: AuthExchange,
    /// Whether the broker has, or had, a session of this object.
    is_resumable: bool,
    /// Number of sessions so far, including this one.
    number: u64,
    /// Whether the subscriptions are made in that session.
    subscribed: bool,
    /// The next session on the broker may be another one than the known one.
    is_uncertain: bool,
    /// The next CONNECT is to begin a new session.
    forces_clean_start: bool,
    /// The last CONNECT asked for a new session.
    requested_clean_start: bool,
    /// Whether this connection was ready for PUBLISHes.
    was_ready: bool,
    /// No PUBLISH is overdue before.
    overdue_ms: u64,
    /// CONNECTs that were not answered. Each may reach the broker later than those after it: it then takes the session
    /// over from their connection, or begins another one if there is none.
    unanswered_connects: u32,
    /// When the last CONNECT was sent.
    connect_ms: u64,
    /// Whether a CONNECT of an earlier session with this client id may still be on its way, and until when.
    client_id_reuse: ClientIdReuse,
    /// Reason code that the broker returned for each subscription.
    granted: Vec<ReasonCode>,
    ids: PacketIds,
    window: Window<UnacknowledgedPublish<T>>,
    outbox: Outbox,
    /// PUBACKs in the output that was not taken yet.
    pending_pubacks: u16,
    /// Number of messages that the owner has not acknowledged; `None` if the session acknowledges them itself.
    unanswered_messages: Option<u16>,
    drain: DrainState,
    peer_limits: Limits,
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
            state: SessionState::Offline,
            authentication: AuthExchange::default(),
            is_resumable: false,
            number: 1,
            subscribed: false,
            is_uncertain: false,
            forces_clean_start: false,
            requested_clean_start: false,
            was_ready: false,
            overdue_ms: NEVER,
            unanswered_connects: 0,
            connect_ms: 0,
            client_id_reuse: ClientIdReuse::No,
            granted: Vec::new(),
            ids: PacketIds::new(),
            window: Window::new(1),
            outbox: Outbox::default(),
            pending_pubacks: 0,
            unanswered_messages: None,
            drain: DrainState::Active,
            peer_limits: Limits::default(),
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
    pub fn with_reused_client_id(mut self) -> Self {
        self.client_id_reuse = ClientIdReuse::Possible;
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
        self.peer_limits
    }
    /// Returns the reason code that the broker returned for each subscription.
    pub fn granted(&self) -> &[ReasonCode] {
        &self.granted
    }
    /// Returns whether PUBLISHes can be sent, provided that the window has room.
    pub fn is_ready(&self) -> bool {
        self.state == SessionState::Ready
    }
    /// Returns how many more PUBLISHes can be sent now.
    pub fn capacity(&self) -> usize {
        if self.is_ready() {
            let limit = MAX_PUBLISHES.saturating_sub(self.window.len());
            self.window.capacity().min(limit)
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
        let limit = self.config.connect.limits.max_packet_bytes;
        match self.state {
            SessionState::Connecting => limit.min(MAX_BYTES_BEFORE_CONNACK),
            _ => limit,
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
        let is_connected = match self.state {
            SessionState::Offline => return Ok(()),
            SessionState::Connecting => false,
            SessionState::Verifying(_) | SessionState::Subscribing { .. } | SessionState::Ready => {
                true
            }
        };
        match self.authentication.update(data, is_connected) {
            Some(auth) => auth.encode(self.peer_limits.max_packet_bytes, self.outbox.pending()),
            None => Ok(()),
        }
    }

    /// Makes the next connection begin a new session, whatever the broker still has of this one.
    pub fn force_clean_start(&mut self) {
        self.forces_clean_start = true;
    }

    /// Begins a connection over a new transport: sends CONNECT.
    pub fn connect(&mut self, now_ms: u64) -> Result<(), SessionError> {
        self.expire_unanswered_connects(now_ms);
        if self.client_id_reuse == ClientIdReuse::Possible {
            let ms = now_ms.saturating_add(CONNECT_LIFETIME_MS);
            self.client_id_reuse = ClientIdReuse::PossibleUntil { ms };
        }
        let mut connect = self.config.connect.clone();
        connect.client_id.clone_from(&self.client_id);
        connect.clean_start = self.forces_clean_start || connect.clean_start && !self.is_resumable;
        self.requested_clean_start = connect.clean_start;
        self.was_ready = false;
        self.overdue_ms = NEVER;
        connect.encode(Limits::MAX_PACKET_BYTES, self.outbox.pending())?;
        self.authentication.connecting(connect.authentication);
        self.unanswered_connects += 1;
        self.connect_ms = now_ms;
        self.state = SessionState::Connecting;
        self.keep_alive = ClientKeepAlive::new(0, self.config.ping_timeout_ms, now_ms);
        Ok(())
    }

    /// Records the loss of the transport. Unacknowledged PUBLISHes wait for the next connection.
    pub fn connection_lost(&mut self) {
        if std::mem::take(&mut self.was_ready) {
            for entry in self.window.sent_mut() {
                entry.maybe_delivered |= self.outbox.is_written(entry.location);
            }
        }
        self.outbox.disconnected();
        self.pending_pubacks = 0;
        self.unanswered_messages = self.unanswered_messages.map(|_| 0);
        if let DrainState::Requested(id) = self.drain {
            self.ids.release(id);
        }
        self.drain = DrainState::Active;
        self.unanswered_connects = self.unanswered_connects.min(MAX_UNANSWERED_CONNECTS);
        self.is_uncertain |= matches!(self.state, SessionState::Verifying(_));
        if let SessionState::Verifying(id) | SessionState::Subscribing { id, .. } = self.state {
            self.ids.release(id);
        }
        self.state = SessionState::Offline;
    }

    /// Returns whether a takeover that the broker reports may come from one of this session's own CONNECTs, unanswered
    /// and delivered late. Each such CONNECT explains only one takeover, so that the session does not fight a client
    /// that really took it over.
    pub fn explains_takeover(&mut self, now_ms: u64) -> bool {
        self.expire_unanswered_connects(now_ms);
        let is_explained = self.unanswered_connects > 0;
        self.is_uncertain |= is_explained;
        self.unanswered_connects = self.unanswered_connects.saturating_sub(1);
        is_explained
    }

    fn expire_unanswered_connects(&mut self, now_ms: u64) {
        if matches!(self.client_id_reuse, ClientIdReuse::PossibleUntil { ms } if now_ms > ms) {
            self.client_id_reuse = ClientIdReuse::No;
        }
        if now_ms.saturating_sub(self.connect_ms) > CONNECT_LIFETIME_MS {
            self.unanswered_connects = 0;
        }
    }

    /// Returns a DISCONNECT to write behind the output that was taken; empty if not even a CONNECT was sent. `session_expiry_s`
    /// replaces the interval of the CONNECT.
    pub fn disconnect(&self, reason: ReasonCode, session_expiry_s: Option<u32>) -> BytesMut {
        let mut out = BytesMut::new();
        if self.state == SessionState::Offline {
            return out;
        }
        let disconnect = Disconnect {
            session_expiry_s,
            ..Disconnect::new(reason)
        };
        // The only error is a broker that allows packets of three bytes; it gets none.
        let _ = disconnect.encode(self.peer_limits.max_packet_bytes, &mut out);
        out
    }

    /// Takes all bytes to write now, in one piece; empty if there are none. The previous output must have been
    /// [written](Self::written) completely.
    pub fn take_output(&mut self, now_ms: u64) -> Bytes {
        if self.outbox.is_empty() {
            return Bytes::new();
        }
        self.pending_pubacks = 0;
        self.outbound.mark_sent();
        let output = self.outbox.take();
        let awaits = !self.window.is_empty();
        self.keep_alive.output_taken(output.len(), awaits, now_ms);
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
    pub fn has_only_pubacks(&self) -> bool {
        self.outbox.pending_bytes() == PubAck::SUCCESS_BYTES * usize::from(self.pending_pubacks)
    }

    /// Returns the time for the next [`poll`](Self::poll); `None` if nothing is due, as while there is no transport.
    /// `awaits` is true if a message that answers a PUBLISH is pending.
    pub fn wake_at_ms(&self, awaits: bool) -> Option<u64> {
        if self.state == SessionState::Offline {
            return None;
        }
        let keep_alive = self
            .keep_alive
            .wake_at_ms(awaits || !self.window.is_empty());
        Some(keep_alive.unwrap_or(NEVER).min(self.overdue_ms)).filter(|at_ms| *at_ms != NEVER)
    }

    /// Handles the passing of time. `awaits` is the same as for [`wake_at_ms`](Self::wake_at_ms).
    pub fn poll(&mut self, awaits: bool, now_ms: u64) -> Result<(), SessionError> {
        if self.state == SessionState::Offline {
            return Ok(());
        }
        if now_ms >= self.overdue_ms {
            self.check_overdue(now_ms)?;
        }
        let awaits = awaits || !self.window.is_empty();
        match self.keep_alive.poll(awaits, now_ms) {
            KeepAliveAction::Nothing => Ok(()),
            KeepAliveAction::Ping => {
                encode_pingreq(self.outbox.pending());
                Ok(())
            }
            KeepAliveAction::PeerDead => Err(SessionError::PeerDead),
        }
    }

    /// Sends a PUBLISH with QoS 1; `header` needs no packet identifier. Call it only while there is [`capacity`](Self::capacity).
    /// Returns the packet identifier.
    ///
    /// # Errors
    /// The PUBLISH cannot be encoded or is too large for the broker. Nothing is sent then.
    pub fn publish(
        &mut self,
        header: &PublishHeader<'_>,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
        options: PublishOptions<T>,
    ) -> Result<PacketId, EncodeError> {
        if self.capacity() == 0 {
            return Err(EncodeError::WindowFull);
        }
        let id = self.ids.allocate().ok_or(EncodeError::WindowFull)?;
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
            self.peer_limits.max_packet_bytes,
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
        let entry = UnacknowledgedPublish {
            options,
            location: place,
            is_withdrawn: false,
            defined_alias: topic_alias.filter(|_| !topic.is_empty()),
            overdue_ms: self.overdue_at(options.deadline_ms),
            maybe_delivered: false,
        };
        match self.window.push(id, entry) {
            Ok(()) => Ok(id),
            Err(entry) => {
                self.outbox.release(entry.location);
                self.outbox.pending().truncate(start);
                self.ids.release(id);
                Err(EncodeError::WindowFull)
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
            let limit = self.max_packet_bytes();
            let Some(packet) = self.decoder.decode(stream, limit)? else {
                return Ok(false);
            };
            self.handle_packet(packet, now_ms, &mut handle)?;
        }
        Ok(true)
    }
}
