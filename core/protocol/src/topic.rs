//! Topics of the state store ("State store system topic", "KEYNOTIFY notification topics and lifecycle").
use bytes::Bytes;
use std::borrow::Cow;

/// The GUID that names the state store in all its topics.
pub const STORE_GUID: &str = "FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";
/// Where requests are published.
pub const REQUEST: &str = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";

/// Prefix of the topics that the store itself publishes to clients.
const STORE_TO_CLIENTS: &str = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";
/// Suffix of response topics of the vendor's Go client, behind its client id in upper-case base 16.
const RESPONSE_SUFFIX: &str =
    "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response";
/// Level between client id and key in a notification topic.
const NOTIFY: &str = "/command/notify/";

/// Returns the response topic of this project's clients.
///
/// ```
/// use statestore_protocol::topic;
///
/// assert_eq!(topic::response("me"), "clients/me/services/statestore/_any_/command/invoke/response");
/// ```
pub fn response(client_id: &str) -> String {
    format!("clients/{client_id}/services/statestore/_any_/command/invoke/response")
}

/// Returns whether a request with this response topic must be answered with a DISCONNECT. Forbidden are the request topic
/// itself, and any topic with the prefix of the store's own topics.
pub fn is_forbidden_response(topic: impl AsRef<[u8]>) -> bool {
    let topic = topic.as_ref();
    topic == REQUEST.as_bytes() || topic.starts_with(STORE_TO_CLIENTS.as_bytes())
}

/// Returns the client id of a request that came through a broker. It is the first level below `clients/` of the
/// response topic, which the vendor's Go client writes in base 16. `None` if the topic has another form.
///
/// ```
/// use statestore_protocol::topic;
///
/// assert_eq!(topic::requester(&topic::response("me")).as_deref(), Some("me"));
/// let of_go = "clients/6D65/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response";
/// assert_eq!(topic::requester(of_go).as_deref(), Some("me"));
/// assert_eq!(topic::requester("clients/me"), None);
/// assert_eq!(topic::requester("answers/me/all"), None);
/// ```
pub fn requester(response_topic: &str) -> Option<Cow<'_, str>> {
    let (level, rest) = response_topic.strip_prefix("clients/")?.split_once('/')?;
    if level.is_empty() || rest.is_empty() {
        return None;
    }
    let in_hex = (rest == RESPONSE_SUFFIX).then(|| client_id_from_hex(level));
    Some(in_hex.flatten().map_or(Cow::Borrowed(level), Cow::Owned))
}

/// Decodes a client id from upper-case hex digits; `None` if they encode no valid id.
fn client_id_from_hex(digits: &str) -> Option<String> {
    if digits.bytes().any(|digit| digit.is_ascii_lowercase()) {
        return None;
    }
    let bytes = hex_bytes(digits.as_bytes())?.collect::<Option<Vec<u8>>>()?;
    let id = String::from_utf8(bytes).ok()?;
    (!id.contains(char::is_control)).then_some(id)
}

/// Returns whether only a store publishes to this topic: it carries notifications, or responses to a client in one of
/// the forms that clients use.
///
/// ```
/// use statestore_protocol::topic;
///
/// assert!(topic::is_from_store(&topic::response("somebody")));
/// assert!(topic::is_from_store(&topic::notification("somebody", b"key")));
/// assert!(!topic::is_from_store("clients/somebody/other"));
/// ```
pub fn is_from_store(topic: &str) -> bool {
    let Some(rest) = topic.strip_prefix("clients/") else {
        return false;
    };
    // A client id can have slashes itself. A filter for all below a topic matches that topic, too.
    rest.contains("/services/statestore/")
        || rest.ends_with("/services/statestore")
        || rest
            .match_indices("statestore/v1/")
            .any(|(at, name)| rest[at + name.len()..].starts_with(STORE_GUID))
}

/// Returns the topic of notifications about `key` to `client_id` (upper-case base 16).
///
/// ```
/// use statestore_protocol::topic;
///
/// assert_eq!(
///     topic::notification("client-id1", b"SOMEKEY"),
///     "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/636C69656E742D696431/command/notify/534F4D454B4559",
/// );
/// ```
pub fn notification(client_id: &str, key: &[u8]) -> String {
    notification_topic(client_id, key.len() * 2, |topic| push_hex(key, topic))
}

/// Returns the filter that matches all notifications to `client_id`.
pub fn notification_filter(client_id: &str) -> String {
    notification_topic(client_id, 1, |topic| topic.push('+'))
}

/// Returns the key of a notification topic of `client_id`; lower-case hex is accepted; `None` if it is not one.
pub fn notification_key(client_id: &str, topic: &str) -> Option<Bytes> {
    let rest = topic.strip_prefix(STORE_TO_CLIENTS)?.strip_prefix('/')?;
    let (client, rest) = rest.as_bytes().split_at_checked(client_id.len() * 2)?;
    let key = rest.strip_prefix(NOTIFY.as_bytes())?;
    if key.is_empty() || !hex_bytes(client)?.eq(client_id.bytes().map(Some)) {
        return None;
    }
    let mut bytes = Vec::with_capacity(key.len() / 2);
    for byte in hex_bytes(key)? {
        bytes.push(byte?);
    }
    Some(bytes.into())
}

fn notification_topic(
    client_id: &str,
    last_len: usize,
    push_last: impl FnOnce(&mut String),
) -> String {
    let len = STORE_TO_CLIENTS.len() + 1 + client_id.len() * 2 + NOTIFY.len() + last_len;
    let mut topic = String::with_capacity(len);
    topic.push_str(STORE_TO_CLIENTS);
    topic.push('/');
    push_hex(client_id.as_bytes(), &mut topic);
    topic.push_str(NOTIFY);
    push_last(&mut topic);
    topic
}

fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 0xF)]));
    }
}

/// Decodes pairs of hex digits. Returns `None` for an odd length; the iterator yields `None` for an invalid pair.
fn hex_bytes(digits: &[u8]) -> Option<impl Iterator<Item = Option<u8>>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |&[high, low]: &[u8; 2]| Some(hex_digit(high)? << 4 | hex_digit(low)?);
    rest.is_empty().then(|| pairs.iter().map(byte))
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
