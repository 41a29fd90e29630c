//! The requests of the broker's clients, and their results.
use crate::history::{CallResult, Invocation, Version, version};
use bytes::{Bytes, BytesMut};
use statestore_protocol::glob::Glob;
use statestore_protocol::mqtt::{
    Connect, Limits, PacketId, Publish, PublishHeader, Subscribe, Subscription,
};
use statestore_protocol::property::{
    PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, ResponseProperties, SOURCE_ID, TIMESTAMP,
};
use statestore_protocol::{Command, Hlc, Reply, SetOptions, topic};
use std::collections::BTreeMap;

/// Message expiry of requests, in seconds.
const EXPIRY_S: u32 = 10;

/// Patterns that a client watches. Some keys match both.
pub(super) const PATTERNS: [&[u8]; 2] = [b"*", b"key?"];

fn is_pattern(name: &[u8]) -> bool {
    PATTERNS.contains(&name)
}

/// Returns whether a watch of this key or pattern covers a key, or the gaps of a pattern.
pub(super) fn covers(watched: &[u8], name: &[u8]) -> bool {
    watched == name || is_pattern(watched) && !is_pattern(name) && Glob::new(watched).matches(name)
}

/// A request of a client.
#[derive(Debug, Clone)]
pub(super) enum RequestKind {
    Call(Invocation),
    /// Begins a watch of a key, or of a pattern.
    Watch(Bytes),
    Unwatch(Bytes),
}

impl RequestKind {
    /// Returns the key, or the pattern of a watch.
    pub(super) fn key(&self) -> &Bytes {
        match self {
            Self::Call(action) => action.key().expect("no SCAN"),
            Self::Watch(key) | Self::Unwatch(key) => key,
        }
    }

    fn command(&self) -> Command {
        match self.clone() {
            Self::Call(Invocation::Set {
                key,
                value,
                condition,
                ..
            }) => Command::Set {
                key,
                value,
                options: SetOptions {
                    condition,
                    ..SetOptions::default()
                },
            },
            Self::Call(Invocation::Get { key }) => Command::Get {
                key,
                remaining: false,
                eventual: false,
            },
            Self::Call(Invocation::Del { key, .. }) => Command::Del {
                key,
                if_version: None,
            },
            Self::Call(Invocation::Vdel { key, value, .. }) => Command::Vdel {
                key,
                value,
                if_version: None,
            },
            Self::Call(Invocation::Scan { .. }) => unreachable!("nobody scans"),
            Self::Watch(pattern) if is_pattern(&pattern) => Command::WatchPattern { pattern },
            Self::Unwatch(pattern) if is_pattern(&pattern) => Command::UnwatchPattern { pattern },
            Self::Watch(key) => Command::Watch { key },
            Self::Unwatch(key) => Command::Unwatch { key },
        }
    }
}

/// A request and its result.
#[derive(Debug, Clone)]
pub(super) struct ClientRequest {
    pub(super) client: usize,
    pub(super) kind: RequestKind,
    pub(super) timestamp: Hlc,
    pub(super) started_ms: u64,
    /// Number of times that the request was sent.
    pub(super) attempts: u32,
    /// Whether the client has stopped waiting.
    pub(super) is_abandoned: bool,
    /// The first answer, and its time.
    pub(super) response: Option<(u64, ResponseContent)>,
}

/// The content of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResponseContent {
    Result(CallResult),
    /// Answer to a request about a watch: whether there is a watch now, or was one.
    Watch(bool),
    /// The request was certainly not executed, and will not be, for a reason that another server may not have.
    Rejected(String),
    /// The server did not execute the request; the status is 503.
    Unavailable,
}

/// State of a watch as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchState {
    /// Certainly inactive, since then.
    Off { since_ms: u64 },
    /// A request has no response yet, or all servers that knew the watch are gone.
    Unknown,
    /// Certainly active, since then.
    On { since_ms: u64 },
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: String,
    next_packet_id: PacketId,
    /// The last reading of the client's clock.
    pub(super) clock_ms: u64,
    pub(super) input: BytesMut,
    /// Arrival time of the last bytes on their way to the broker, and of those on their way back.
    pub(super) up_ms: u64,
    pub(super) down_ms: u64,
    pub(super) watches: BTreeMap<Bytes, WatchState>,
    /// Pending requests about the watch of a key.
    pub(super) pending_watch_requests: BTreeMap<Bytes, usize>,
    /// Time until which earlier requests about the watch of a key may still be executed.
    pub(super) unsettled: BTreeMap<Bytes, u64>,
}

impl Client {
    pub(super) fn new(index: usize) -> Self {
        Self {
            id: format!("client-{index}"),
            next_packet_id: PacketId::MIN,
            clock_ms: 0,
            input: BytesMut::new(),
            up_ms: 0,
            down_ms: 0,
            watches: BTreeMap::new(),
            pending_watch_requests: BTreeMap::new(),
            unsettled: BTreeMap::new(),
        }
    }

    fn packet_id(&mut self) -> PacketId {
        let id = self.next_packet_id;
        self.next_packet_id = id.checked_add(1).unwrap_or(PacketId::MIN);
        id
    }

    /// Returns the first packets of a connection.
    pub(super) fn connect_packets(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        let connect = Connect {
            client_id: self.id.clone(),
            clean_start: true,
            session_expiry_s: u32::MAX,
            ..Connect::default()
        };
        connect.encode(Limits::MAX_PACKET_BYTES, &mut out).unwrap();
        let filters = [
            topic::response(&self.id),
            topic::notification_filter(&self.id),
        ];
        let subscribe = Subscribe {
            packet_id: self.packet_id(),
            subscription_id: None,
            subscriptions: filters.map(Subscription::at_least_once).into(),
        };
        subscribe
            .encode(Limits::MAX_PACKET_BYTES, &mut out)
            .unwrap();
        out.freeze()
    }

    /// Returns the PUBLISH of a request.
    pub(super) fn request(&mut self, number: usize, what: &RequestKind, timestamp: &Hlc) -> Bytes {
        let mut payload = BytesMut::new();
        what.command().encode(&mut payload);
        let timestamp = timestamp.to_string();
        let header = PublishHeader {
            topic: topic::REQUEST,
            packet_id: Some(self.packet_id()),
            message_expiry: Some(EXPIRY_S),
            response_topic: Some(&topic::response(&self.id)),
            correlation_data: Some(&(number as u128).to_be_bytes()),
            user_properties: &[
                (TIMESTAMP, &timestamp),
                (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
                (SOURCE_ID, &self.id),
            ],
            ..PublishHeader::default()
        };
        let mut out = BytesMut::new();
        let write = |out: &mut BytesMut| out.extend_from_slice(&payload);
        let most = Limits::MAX_PACKET_BYTES;
        header.encode(most, &mut out, payload.len(), write).unwrap();
        out.freeze()
    }
}

/// Returns the number of the request with this correlation data.
pub(super) fn number(correlation: &[u8]) -> Option<usize> {
    let number = u128::from_be_bytes(correlation.try_into().ok()?);
    usize::try_from(number).ok()
}

/// Returns the content of a response to this request.
///
/// # Errors
/// The message is no response to the request.
pub(super) fn parse_response(
    what: &RequestKind,
    publish: &Publish,
) -> Result<ResponseContent, String> {
    let properties = match ResponseProperties::parse(publish.user_property_bytes()) {
        Ok(properties) => properties,
        Err(error) if error.status == Some(503) => return Ok(ResponseContent::Unavailable),
        Err(error) => return Err(format!("{what:?} is answered with {error:?}")),
    };
    let version = properties.version.as_ref().map(version);
    let payload = publish.payload();
    let reply = Reply::decode(&payload).map_err(|error| error.to_string())?;
    if let Reply::Error(error) = reply {
        return Ok(ResponseContent::Rejected(error.to_string()));
    }
    result_of(what, &reply, version).ok_or_else(|| format!("{what:?} is answered with {reply:?}"))
}

fn result_of(
    what: &RequestKind,
    reply: &Reply,
    version: Option<Version>,
) -> Option<ResponseContent> {
    let answer = match (what, reply) {
        (RequestKind::Watch(_) | RequestKind::Unwatch(_), Reply::Ok) => {
            return Some(ResponseContent::Watch(true));
        }
        (RequestKind::Unwatch(_), Reply::Count(0)) => return Some(ResponseContent::Watch(false)),
        (RequestKind::Call(Invocation::Set { .. }), Reply::Ok | Reply::NotApplied) => {
            CallResult::Set {
                applied: *reply == Reply::Ok,
                version: version?,
            }
        }
        (RequestKind::Call(Invocation::Get { .. }), Reply::Nil) => CallResult::Read(None),
        (RequestKind::Call(Invocation::Get { .. }), Reply::Value(value)) => {
            CallResult::Read(Some((value.clone(), version?)))
        }
        (RequestKind::Call(Invocation::Del { .. } | Invocation::Vdel { .. }), Reply::Count(0)) => {
            CallResult::Absent
        }
        (RequestKind::Call(Invocation::Del { .. } | Invocation::Vdel { .. }), Reply::Count(1)) => {
            CallResult::Deleted(version)
        }
        (RequestKind::Call(Invocation::Vdel { .. }), Reply::NotApplied) => CallResult::Mismatch,
        _ => return None,
    };
    Some(ResponseContent::Result(answer))
}
