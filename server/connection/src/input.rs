//! The input of a connection: which packets are taken out of it, and when.
use super::{Connection, ConnectionState};
use crate::proxy_header;
use bytes::BytesMut;
use statestore_protocol::mqtt::{CommonPrefix, DecodeError, Packet, Publish, QoS, ReasonCode};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::topic;
use std::borrow::Cow;
use std::sync::Arc;

/// Maximum size in bytes of a packet other than PUBLISH. It fits each field of a CONNECT, and as many filters as a
/// session may have.
const MAX_CONTROL_BYTES: u32 = 512 * 1024;

/// Amount of processed input, in bytes, above which the remaining input is moved to memory of its own.
const LARGE_INPUT_BYTES: usize = 64 * 1024;

/// The packet type of PUBLISH.
pub(super) const PUBLISH: u8 = 3;

/// The next item in the input.
#[derive(Debug)]
pub enum NextInput {
    /// A packet, which was taken out of the input.
    Packet(Packet),
    /// Bytes that cannot be decoded, the first of which is given. The connection has to end.
    Undecodable(Option<u8>, DecodeError),
    /// A PROXY protocol header in place of CONNECT.
    ProxyHeader,
    /// Input is available, but other connections have their turn first.
    Deferred,
    /// No complete packet, or none that may be taken now.
    Nothing,
}

/// The progress of a connection's turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputQuantum {
    /// Whether a packet was taken.
    pub has_packets: bool,
    /// Whether the packets have caused as much work as one turn may.
    pub is_exhausted: bool,
}

/// The kind of a PUBLISH.
#[derive(Debug)]
pub enum PublishKind {
    /// A request to the store.
    Request,
    /// A message. The topic is given if an alias represents it.
    Message(Option<Arc<str>>),
}

/// The reason why a packet that can be decoded ends the connection.
pub(crate) type ProtocolViolation = (ReasonCode, Cow<'static, str>);

impl Connection {
    /// Records that the input holds `bytes` bytes. More than at the last call means that the client is alive.
    pub fn record_input(&mut self, bytes: usize, now_ms: u64) {
        if bytes > self.unread_bytes {
            self.keep_alive.received(now_ms);
        }
    }

    /// Returns whether [`next_input`](Self::next_input) can take something at some time. If it cannot, nothing should be read
    /// either.
    pub fn accepts_input(&self) -> bool {
        !self.is_connect_pending()
            && self.paused_until_ms.is_none()
            && self.read_ahead.accepts(self.unread_bytes)
            && !self.is_full()
            && !self.has_too_many_pending()
            && self.pending_fanouts == 0
    }

    /// Pauses a client that is over its rate limit: nothing is taken from it until [the end of the
    /// pause](Self::end_pause). Returns when the connection is [due](Self::due_ms).
    pub fn pause(&mut self, until_ms: u64, now_ms: u64) -> Option<u64> {
        self.paused_until_ms = Some(until_ms);
        self.keep_alive.paused(now_ms);
        self.due_ms()
    }

    /// Ends the pause if its time has passed. Returns false if the connection was not paused or still is.
    pub fn end_pause(&mut self, now_ms: u64) -> bool {
        let ended = self.paused_until_ms.take_if(|until_ms| *until_ms <= now_ms);
        if ended.is_some() {
            self.keep_alive.resumed(now_ms);
        }
        ended.is_some()
    }

    /// Takes the next packet out of the input, if it may be taken now.
    pub fn next_input(
        &mut self,
        input: &mut BytesMut,
        quantum: InputQuantum,
        now_ms: u64,
    ) -> NextInput {
        if matches!(
            self.state,
            ConnectionState::Closing | ConnectionState::Closed
        ) {
            input.clear();
            return NextInput::Nothing;
        }
        if self.is_connect_pending() {
            return NextInput::Nothing;
        }
        let is_paused = self.paused_until_ms.is_some();
        if is_paused || self.is_full() || self.has_too_many_pending() || self.pending_fanouts > 0 {
            if !input.is_empty() {
                self.blocked_since_ms.get_or_insert(now_ms);
            }
            return NextInput::Nothing;
        }
        if quantum.is_exhausted && !input.is_empty() {
            self.blocked_since_ms.get_or_insert(now_ms);
            return NextInput::Deferred;
        }
        if self.state == ConnectionState::Opening && proxy_header::is_header(input) {
            return NextInput::ProxyHeader;
        }
        let before = input.len();
        let first = input.first().copied();
        let is_publish = first.is_some_and(|first| first >> 4 == PUBLISH);
        let max_packet_bytes = if is_publish && self.session().is_some() {
            self.server_limits.max_packet_bytes
        } else {
            self.server_limits.max_packet_bytes.min(MAX_CONTROL_BYTES)
        };
        match self.decoder.decode(input, max_packet_bytes) {
            Ok(Some(packet)) => {
                self.read_ahead.consume(before - input.len());
                NextInput::Packet(packet)
            }
            Ok(None) => {
                self.blocked_since_ms = None;
                self.keep_alive
                    .partial(input.len(), quantum.has_packets, now_ms);
                NextInput::Nothing
            }
            Err(error) => NextInput::Undecodable(first, error),
        }
    }

    /// Ends a turn that began with `offered` bytes of input. The caller counts the connection's memory next.
    pub fn end_quantum(&mut self, offered: usize, input: &mut BytesMut) {
        if offered - input.len() > LARGE_INPUT_BYTES && !input.is_empty() {
            // Without the copy, a few bytes would keep all the memory of the input before them.
            *input = BytesMut::from(&input[..]);
        }
        self.unread_bytes = input.len();
    }

    /// Records that output was sent while nothing is read. The client is alive although no input can arrive from it.
    pub fn record_output_progress(&mut self, now_ms: u64) {
        self.keep_alive.received(now_ms);
    }

    /// Returns whether no input came for one and a half times the keep-alive.
    pub fn is_silent(&self, now_ms: u64) -> bool {
        self.keep_alive.is_expired(now_ms)
    }

    /// Returns since when the packet that was just taken has waited, if it has.
    pub fn blocked_since_ms(&self) -> Option<u64> {
        self.blocked_since_ms
    }

    /// Returns the user properties of the request that was just taken.
    pub fn request_properties(&mut self, publish: &Publish) -> RequestProperties {
        let recognized = self.decoder.common_prefix();
        if recognized == CommonPrefix::default() {
            return RequestProperties::parse(publish.user_property_bytes());
        }
        let reader = self.property_reader.get_or_insert_default();
        reader.read(publish, recognized)
    }

    /// Returns the kind of a PUBLISH, or the rule that it breaks regardless of its topic.
    pub fn classify_publish(
        &mut self,
        publish: &Publish,
    ) -> Result<PublishKind, ProtocolViolation> {
        let broken = if publish.retain() {
            (ReasonCode::RETAIN_NOT_SUPPORTED, "no retained messages")
        } else if publish.qos() == QoS::ExactlyOnce {
            (ReasonCode::QOS_NOT_SUPPORTED, "no QoS 2")
        } else if publish.packet_id().is_some()
            && self.output.acknowledgements() >= u32::from(self.server_limits.receive_maximum)
        {
            (
                ReasonCode::RECEIVE_MAXIMUM_EXCEEDED,
                "too many unacknowledged messages",
            )
        } else if publish.has_subscription_identifiers() {
            (
                ReasonCode::PROTOCOL_ERROR,
                "a client does not send subscription identifiers",
            )
        } else {
            if self.aliases.is_alias_of(publish, topic::REQUEST) {
                return Ok(PublishKind::Request);
            }
            let topic = self
                .aliases
                .topic_of(publish)
                .map_err(|error| (error.reason(), error.to_string().into()))?;
            let name = topic.as_deref().map(str::as_bytes);
            if name.unwrap_or_else(|| publish.topic_bytes()) == topic::REQUEST.as_bytes() {
                return Ok(PublishKind::Request);
            }
            return Ok(PublishKind::Message(topic));
        };
        Err((broken.0, broken.1.into()))
    }
}
