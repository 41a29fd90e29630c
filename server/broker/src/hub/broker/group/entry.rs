//! Entries of a group's log, each a message of one server to all.
use super::super::identity::{IdentityKey, SignatureContext};
use super::election::{Campaign, ElectionMessage as Message, Heartbeat};
use bytes::{BufMut, BytesMut};
use statestore_protocol::mqtt::{Publish, PublishHeader};
use statestore_protocol::topic;

/// The user property with the kind of an entry and its numbers.
const KIND_PROPERTY: &str = "__is";
/// The user property with the name of the server whose entry it is.
const SERVER_PROPERTY: &str = "__from";
/// The user property with the client that an entry is about.
const CLIENT_PROPERTY: &str = "__client";
/// The user property with the user that the client is.
const USER_PROPERTY: &str = "__user";
/// The user property with the signature, where there is a key.
const SIGNATURE_PROPERTY: &str = "__mac";

/// First field that the signature of an entry covers. The signature of a request covers a client id first, which never contains this
/// character. So neither signature can pass for the other.
const SIGNATURE_DOMAIN: &[u8] = b"\0servers";

/// Maximum number of bytes of names in one entry; the last name may exceed it.
pub(super) const MAX_PAYLOAD_BYTES: usize = 16 * 1024;

/// Returns the topic of a group's log.
pub(in crate::hub::broker) fn log_topic(group: &str) -> String {
    format!("statestore/v1/{}/servers/{group}", topic::STORE_GUID)
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// An entry about the election of the leader.
    Election(Message),
    /// A client's request about a watch, with the seconds until it expires, if it does.
    Request { expiry_s: Option<u32> },
    /// Watches that the leader knows: client, user, request and start of each. The first name of the payload is the server that they are
    /// for, or `*`.
    WatchSnapshot { is_last: bool },
    /// The end of all watches of a client, unless the client is this user. `requests` is the number of requests that the server had
    /// received by then.
    WatchesEnded { requests: u64 },
    /// Clients that have sent requests.
    ClientsAlive,
}

impl EntryKind {
    fn text(self) -> String {
        match self {
            Self::Election(Message::Heartbeat(it)) => format!(
                "beat {} {} {} {} {} {} {}",
                it.term,
                u8::from(it.is_leader),
                it.synced_term,
                u8::from(it.is_synced),
                it.sent_ms,
                it.sequence,
                u8::from(it.sees_changes)
            ),
            Self::Election(Message::Campaign(it)) => format!(
                "claim {} {} {} {}",
                it.term, it.sent_ms, it.after_heartbeat_ms, it.previous_term
            ),
            Self::Election(Message::Join) => "join".into(),
            Self::Election(Message::Leave) => "gone".into(),
            Self::Election(Message::Resign { blind_ms }) => format!("yield {blind_ms}"),
            Self::Request { expiry_s } => match expiry_s {
                Some(seconds) => format!("request {seconds}"),
                None => "request".into(),
            },
            Self::WatchSnapshot { is_last } => format!("watches {}", u8::from(is_last)),
            Self::WatchesEnded { requests } => format!("ended {requests}"),
            Self::ClientsAlive => "alive".into(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = words.next()?;
        let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let message = match (kind, &numbers[..]) {
            ("beat", &[term, leads, synced_term, synced, sent_ms, sequence, sees]) => {
                Message::Heartbeat(Heartbeat {
                    term,
                    is_leader: leads == 1,
                    synced_term,
                    is_synced: synced == 1,
                    sent_ms,
                    sequence,
                    sees_changes: sees == 1,
                })
            }
            ("claim", &[term, sent_ms, after_heartbeat_ms, previous_term]) => {
                Message::Campaign(Campaign {
                    term,
                    sent_ms,
                    after_heartbeat_ms,
                    previous_term,
                })
            }
            ("join", []) => Message::Join,
            ("gone", []) => Message::Leave,
            ("yield", &[blind_ms]) => Message::Resign { blind_ms },
            ("request", []) => return Some(Self::Request { expiry_s: None }),
            ("request", &[seconds]) => {
                let expiry_s = Some(u32::try_from(seconds).ok()?);
                return Some(Self::Request { expiry_s });
            }
            ("watches", &[is_last]) => {
                let is_last = is_last == 1;
                return Some(Self::WatchSnapshot { is_last });
            }
            ("ended", &[requests]) => return Some(Self::WatchesEnded { requests }),
            ("alive", []) => return Some(Self::ClientsAlive),
            _ => return None,
        };
        Some(Self::Election(message))
    }
}

/// An entry that is to be published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) kind: EntryKind,
    pub(super) client: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) payload: &'a [u8],
    /// The request, if the entry has one, and the number under which it is acknowledged.
    pub(super) request: Option<(&'a Publish, u64)>,
}

impl Entry<'_> {
    /// Creates an entry without a subject.
    pub(super) const fn new(kind: EntryKind) -> Self {
        Self {
            kind,
            client: None,
            user: None,
            payload: b"",
            request: None,
        }
    }

    /// Writes the message of a server, signed if there is a key.
    ///
    /// `identity` is the user property in which the broker names the sender of a request, for the receiving server alone. The broker removes
    /// it from all that is published, so an entry leaves it out.
    pub(super) fn write<T>(
        &self,
        server: &str,
        topic: &str,
        (key, identity): (Option<&IdentityKey>, Option<&str>),
        write: impl FnOnce(&PublishHeader<'_>) -> T,
    ) -> T {
        let kind = self.kind.text();
        let mut properties: Vec<(&str, &str)> =
            vec![(KIND_PROPERTY, &kind), (SERVER_PROPERTY, server)];
        properties.extend(self.client.map(|client| (CLIENT_PROPERTY, client)));
        properties.extend(self.user.map(|user| (USER_PROPERTY, user)));
        let request = self.request.map(|(publish, _)| publish);
        let client_properties = request.into_iter().flat_map(Publish::user_properties);
        let is_ours = |name| is_reserved(name) || Some(name) == identity;
        properties.extend(client_properties.filter(|(name, _)| !is_ours(*name)));
        let mut header = PublishHeader {
            topic,
            response_topic: request.and_then(Publish::response_topic),
            correlation_data: request.and_then(Publish::correlation_data),
            ..PublishHeader::default()
        };
        let mac = key.map(|key| {
            let mut signed = SignatureContext::new(key);
            signed.field(SIGNATURE_DOMAIN);
            signed.message(
                topic,
                header.response_topic.unwrap_or_default(),
                header.correlation_data.unwrap_or_default(),
                self.payload,
            );
            for (name, value) in &properties {
                signed.property(name.as_bytes(), value.as_bytes());
            }
            signed.finish_hex()
        });
        properties.extend(mac.iter().map(|mac| (SIGNATURE_PROPERTY, &mac[..])));
        header.user_properties = &properties;
        write(&header)
    }
}

/// Returns whether a user property is reserved for entries, so that no client can set it.
fn is_reserved(name: &str) -> bool {
    [
        KIND_PROPERTY,
        SERVER_PROPERTY,
        CLIENT_PROPERTY,
        USER_PROPERTY,
        SIGNATURE_PROPERTY,
    ]
    .contains(&name)
}

/// The header of an entry that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryHeader<'a> {
    pub(super) kind: EntryKind,
    pub(super) server: &'a str,
    pub(super) client: Option<&'a str>,
    pub(super) user: Option<&'a str>,
}

/// Reads an entry. Returns `None` if no server of the group has published it.
pub(super) fn parse_entry<'a>(
    publish: &'a Publish,
    key: Option<&IdentityKey>,
) -> Option<EntryHeader<'a>> {
    let one = |name: &str| {
        let mut found = publish.user_properties().filter(|(its, _)| *its == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    };
    let header = EntryHeader {
        kind: EntryKind::parse(one(KIND_PROPERTY)?)?,
        server: one(SERVER_PROPERTY)?,
        client: one(CLIENT_PROPERTY),
        user: one(USER_PROPERTY),
    };
    if let Some(key) = key {
        let mut signed = SignatureContext::new(key);
        signed.field(SIGNATURE_DOMAIN);
        signed.message(
            publish.topic(),
            publish.response_topic().unwrap_or_default(),
            publish.correlation_data().unwrap_or_default(),
            publish.payload_bytes(),
        );
        for (name, value) in publish.user_property_bytes() {
            if name != SIGNATURE_PROPERTY.as_bytes() {
                signed.property(name, value);
            }
        }
        if !signed.verify_hex(one(SIGNATURE_PROPERTY)?) {
            return None;
        }
    }
    Some(header)
}

/// Appends a name to a payload.
pub(super) fn push_name(name: &[u8], payload: &mut BytesMut) {
    // A packet of MQTT has at most 256 MiB, so the length of a name fits.
    payload.put_u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
    payload.extend_from_slice(name);
}

/// Returns the names in a payload, up to the first malformed one.
pub(super) fn names(mut payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = payload.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (name, rest) = rest.split_at_checked(length)?;
        payload = rest;
        Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use statestore_protocol::mqtt::{Packet, PacketId, decode};

    fn key(byte: u8) -> IdentityKey {
        IdentityKey::new(&[byte; 32]).unwrap()
    }

    fn publish(header: &PublishHeader<'_>, payload: &[u8]) -> Publish {
        let header = PublishHeader {
            packet_id: PacketId::new(1),
            ..*header
        };
        let mut out = BytesMut::new();
        header
            .encode(u32::MAX, &mut out, payload.len(), |out| {
                out.extend_from_slice(payload);
            })
            .unwrap();
        match decode(&mut out, u32::MAX).unwrap() {
            Some(Packet::Publish(publish)) => publish,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn entries_round_trip() {
        let heartbeat = Heartbeat {
            term: 1,
            is_leader: true,
            synced_term: 2,
            is_synced: false,
            sent_ms: 3,
            sequence: 4,
            sees_changes: true,
        };
        let campaign = Campaign {
            term: 4,
            sent_ms: 5,
            after_heartbeat_ms: 6,
            previous_term: 3,
        };
        for kind in [
            EntryKind::Election(Message::Heartbeat(heartbeat)),
            EntryKind::Election(Message::Campaign(campaign)),
            EntryKind::Election(Message::Join),
            EntryKind::Election(Message::Leave),
            EntryKind::Election(Message::Resign { blind_ms: 8 }),
            EntryKind::Request { expiry_s: None },
            EntryKind::Request { expiry_s: Some(6) },
            EntryKind::WatchSnapshot { is_last: true },
            EntryKind::WatchesEnded { requests: 7 },
            EntryKind::ClientsAlive,
        ] {
            assert_eq!(EntryKind::parse(&kind.text()), Some(kind));
        }
        for text in [
            "",
            "beat",
            "beat 1 2",
            "claim x 1 1 1",
            "join 1",
            "request -1",
        ] {
            assert_eq!(EntryKind::parse(text), None, "{text:?}");
        }
        let mut payload = BytesMut::new();
        for name in [&b"one"[..], b"", b"\xff"] {
            push_name(name, &mut payload);
        }
        let read: Vec<_> = names(&payload).collect();
        assert_eq!(read, [&b"one"[..], b"", b"\xff"]);
        assert_eq!(names(&payload[..6]).count(), 0);
    }

    #[test]
    fn an_entry_needs_a_valid_signature_and_excludes_client_properties() {
        let request_header = PublishHeader {
            topic: topic::REQUEST,
            response_topic: Some("clients/me/x"),
            correlation_data: Some(b"c"),
            user_properties: &[
                ("__ts", "t"),
                (USER_PROPERTY, "root"),
                (KIND_PROPERTY, "gone"),
                ("identity", "mac 2 me ann"),
            ],
            ..PublishHeader::default()
        };
        let request = publish(&request_header, b"payload");
        let entry = Entry {
            client: Some("me"),
            user: Some("ann"),
            payload: b"payload",
            request: Some((&request, 1)),
            ..Entry::new(EntryKind::Request { expiry_s: None })
        };
        let topic = log_topic("nodes");
        let write = |key: Option<&IdentityKey>, payload: &[u8]| {
            entry.write("a", &topic, (key, Some("identity")), |header| {
                publish(header, payload)
            })
        };
        let written = write(Some(&key(1)), b"payload");
        let header = parse_entry(&written, Some(&key(1))).unwrap();
        assert_eq!((header.client, header.user), (Some("me"), Some("ann")));
        assert_eq!(written.response_topic(), Some("clients/me/x"));
        assert!(
            written
                .user_properties()
                .any(|property| property == ("__ts", "t"))
        );
        // The broker would remove it, and the signature would not match any more.
        assert!(
            written
                .user_properties()
                .all(|(name, _)| name != "identity")
        );
        assert_eq!(
            parse_entry(&written, Some(&key(2))),
            None,
            "of another group"
        );
        let changed = write(Some(&key(1)), b"other");
        assert_eq!(parse_entry(&changed, Some(&key(1))), None);
        let unsigned = write(None, b"payload");
        assert_eq!(parse_entry(&unsigned, Some(&key(1))), None);
        assert!(parse_entry(&unsigned, None).is_some());
    }
}
