use super::{Raw, load};
use bytes::BytesMut;
use serde::Deserialize;
use statestore_protocol::{Event, Notification, NotificationError, resp, topic};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Extensions {
    notifications: Vec<Message>,
}

/// The messages of the protocol, and of what there is besides.
fn messages() -> impl Iterator<Item = Message> {
    let protocol = load::<File>("notifications.json").messages;
    let extensions = load::<Extensions>("extensions.json").notifications;
    protocol.into_iter().chain(extensions)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    name: String,
    #[serde(rename = "source")]
    _source: String,
    client_id: Raw,
    topic: Raw,
    timestamp: Option<Raw>,
    payload: Raw,
    decode: Decoded,
    encode: Option<Encoded>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Decoded {
    Error {
        error: String,
    },
    Notification {
        key: Raw,
        version: Raw,
        #[serde(flatten)]
        event: Wanted,
    },
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Wanted {
    Set { value: Raw },
    Deleted,
    Resync,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    topic: Raw,
    payload: Raw,
}

#[test]
fn messages_decode_to_notifications_or_to_an_error_and_back() {
    for case in messages() {
        let client_id = case.client_id.text();
        let decoded = Notification::decode(
            client_id,
            case.topic.text(),
            case.timestamp.as_ref().map(Raw::text),
            &case.payload.0,
        );
        match case.decode {
            Decoded::Error { error } => {
                let name = match decoded {
                    Err(NotificationError::Topic) => "topic",
                    Err(NotificationError::Payload(_)) => "payload",
                    Err(NotificationError::Timestamp) => "timestamp",
                    other => panic!("{}: {other:?}", case.name),
                };
                assert_eq!(name, error, "{}", case.name);
            }
            Decoded::Notification {
                key,
                version,
                event,
            } => {
                let event = match event {
                    Wanted::Set { value } => Event::Set(value.0),
                    Wanted::Deleted => Event::Deleted,
                    Wanted::Resync => Event::Resync,
                };
                let wanted = Notification {
                    key: key.0,
                    version: version.hlc(),
                    event,
                };
                assert_eq!(decoded.as_ref(), Ok(&wanted), "{}", case.name);

                let encoded = case.encode.unwrap_or(Encoded {
                    topic: case.topic,
                    payload: case.payload,
                });
                let mut out = BytesMut::new();
                wanted.event.encode(&mut out);
                assert_eq!(out, encoded.payload.0, "{}", case.name);
                assert_eq!(out.len(), wanted.event.encoded_len(), "{}", case.name);
                let topic = topic::notification(client_id, &wanted.key);
                assert_eq!(topic, encoded.topic.text(), "{}", case.name);
            }
        }
    }
}

#[test]
fn an_invalid_notification_payload_is_reported_with_its_reason() {
    for (arguments, reason) in [
        (&[][..], "it does not begin with NOTIFY"),
        (&["KEYNOTIFY", "DELETE"], "it does not begin with NOTIFY"),
        (&["NOTIFY"], "the operation is missing"),
        (
            &["NOTIFY", "GET"],
            "the operation is none of SET, DELETE and RESYNC",
        ),
        (&["NOTIFY", "DELETE", "x"], "a delete carries nothing else"),
        (&["NOTIFY", "DEL", "x"], "a delete carries nothing else"),
        (&["NOTIFY", "RESYNC", "x"], "a resync carries nothing else"),
        (
            &["NOTIFY", "SET", "VALUE"],
            "a set carries VALUE and the value",
        ),
        (
            &["NOTIFY", "SET", "value", "x"],
            "a set carries VALUE and the value",
        ),
    ] {
        let mut payload = BytesMut::new();
        resp::put_array(arguments.len(), &mut payload);
        for argument in arguments {
            resp::put_bulk(argument.as_bytes(), &mut payload);
        }
        let read = Event::decode(&payload.freeze());
        assert_eq!(
            read,
            Err(NotificationError::Payload(reason)),
            "{arguments:?}"
        );
    }
}
