//! A client's MQTT session as a state machine: bytes, publishes and times go in; bytes, events and wake-up times come
//! out.
//!
//! The owner of a [`Session`] has a transport and a clock. It calls [`connect`](Session::connect) when a transport is
//! there, writes what [`take_output`](Session::take_output) gives, passes what it reads to
//! [`receive`](Session::receive), calls [`poll`](Session::poll) at [`wake_at_ms`](Session::wake_at_ms), and
//! [`connection_lost`](Session::connection_lost) when the transport is gone or a call returned an error. All times are
//! milliseconds on one clock that never jumps.
mod error;
mod event;
mod receive;
mod resend;

pub use error::SessionError;
pub use event::Event;
pub(crate) use resend::seconds_left;

use super::alias::{InboundAliases, OutboundAliases, TopicName};
use super::authentication::Authentication;
use super::keep_alive::{ClientKeepAlive, Due};
use super::outbox::{Outbox, Place};
use super::{
    Connect, Disconnect, EncodeError, Limits, PacketId, PacketIds, PublishHeader, ReasonCode,
    Subscription, Window, decode, encode_pingreq,
};
use bytes::{Bytes, BytesMut};

/// What a session is to be.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Sent on the first connection; later ones differ in that they continue the session.
    pub connect: Connect,
    /// Made anew whenever the session is new, from the client id. The first one must be granted. There are none for a
    /// client id that cannot be used.
    pub subscriptions: fn(&str) -> Vec<Subscription>,
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

/// How many unanswered CONNECTs count at most, so that two clients with one client id do not fight for long.
const MAX_UNANSWERED: u32 = 3;
/// A CONNECT that was not answered counts for so long after the last one: nothing is under way for longer.
const UNANSWERED_MS: u64 = 600_000;

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
    /// The next session on the broker may be another one than the known one.
    unsure: bool,
    /// CONNECTs that were not answered. Each may reach the broker later than those after it: it then takes the session
    /// over from their connection, or begins another one if there is none.
    unanswered: u32,
    /// When the last CONNECT was sent.
    connect_ms: u64,
    /// What the broker said to each subscription.
    granted: Vec<ReasonCode>,
    ids: PacketIds,
    window: Window<Unacknowledged<T>>,
    outbox: Outbox,
    /// PUBACKs in the output that was not taken yet.
    untaken_pubacks: u16,
    peer: Limits,
    keep_alive: ClientKeepAlive,
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
            unanswered: 0,
            connect_ms: 0,
            granted: Vec::new(),
            ids: PacketIds::new(),
            window: Window::new(1),
            outbox: Outbox::default(),
            untaken_pubacks: 0,
            peer: Limits::default(),
            keep_alive: ClientKeepAlive::new(0, 0, 0),
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
        self.forget_unanswered(now_ms);
        let mut connect = self.config.connect.clone();
        connect.client_id.clone_from(&self.client_id);
        connect.clean_start = connect.clean_start && !self.known;
        connect.encode(Limits::MAX_PACKET_BYTES, self.outbox.pending())?;
        self.authentication.connecting(connect.authentication);
        self.unanswered += 1;
        self.connect_ms = now_ms;
        self.phase = Phase::Connecting;
        self.keep_alive = ClientKeepAlive::new(0, self.config.ping_timeout_ms, now_ms);
        Ok(())
    }

    /// The transport is gone. PUBLISHes that are not acknowledged wait for the next connection.
    pub fn connection_lost(&mut self) {
        let unsent = self.outbox.current();
        // What was not handed to the transport is kept, but as packets, not as a stream.
        drop(self.outbox.take());
        self.untaken_pubacks = 0;
        for entry in self.window.values_mut() {
            entry.maybe_delivered |= entry.place.batch != unsent;
        }
        self.unanswered = self.unanswered.min(MAX_UNANSWERED);
        self.unsure |= matches!(self.phase, Phase::Recognizing(_));
        self.phase = Phase::Offline;
    }

    /// Whether the broker's word that another connection took the session over may be about a CONNECT of this session's
    /// own, one that was not answered and came late. Each such CONNECT is an excuse for one takeover, so that another
    /// client which really took the session over is left in peace.
    pub fn excuses_takeover(&mut self, now_ms: u64) -> bool {
        self.forget_unanswered(now_ms);
        let excuses = self.unanswered > 0;
        self.unsure |= excuses;
        self.unanswered = self.unanswered.saturating_sub(1);
        excuses
    }

    fn forget_unanswered(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.connect_ms) > UNANSWERED_MS {
            self.unanswered = 0;
        }
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

    /// Everything that is to be written now, as one piece; empty if there is nothing. What was taken before must have been
    /// [written](Self::written) completely.
    pub fn take_output(&mut self, now_ms: u64) -> Bytes {
        if self.outbox.is_empty() {
            return Bytes::new();
        }
        self.untaken_pubacks = 0;
        let output = self.outbox.take();
        let awaits = !self.window.is_empty();
        self.keep_alive.handed_out(output.len(), awaits, now_ms);
        output
    }
    /// The transport took so many more bytes of the output; `waited` says that it had not taken them at once.
    pub fn written(&mut self, bytes: usize, waited: bool, now_ms: u64) {
        self.keep_alive.written(bytes, waited, now_ms);
    }
    /// Whether [`take_output`](Self::take_output) has something to give.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// When [`poll`](Self::poll) is to be called; never while there is no transport. `awaits` says whether a message is
    /// awaited that answers what was published.
    pub fn wake_at_ms(&self, awaits: bool) -> Option<u64> {
        if self.phase == Phase::Offline {
            return None;
        }
        self.keep_alive
            .wake_at_ms(awaits || !self.window.is_empty())
    }

    /// Time has passed. `awaits` as for [`wake_at_ms`](Self::wake_at_ms).
    pub fn poll(&mut self, awaits: bool, now_ms: u64) -> Result<(), SessionError> {
        if self.phase == Phase::Offline {
            return Ok(());
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

    /// Takes up to `budget` packets from `stream`, into which bytes came just now; whether there may be more of them.
    pub fn receive(
        &mut self,
        stream: &mut BytesMut,
        now_ms: u64,
        budget: usize,
        mut handle: impl FnMut(Event<T>),
    ) -> Result<bool, SessionError> {
        self.keep_alive.received(now_ms);
        for _ in 0..budget {
            let Some(packet) = decode(stream, self.config.connect.limits.max_packet_bytes)? else {
                return Ok(false);
            };
            self.packet(packet, now_ms, &mut handle)?;
        }
        Ok(true)
    }
}
