//! The sender of a request, as the broker names it in a user property that its plugin signs (`packaging/mosquitto`).
use ring::hmac::{self, HMAC_SHA256};
use statestore_protocol::mqtt::Publish;
use std::fmt::{self, Write as _};

/// Minimum length of a key in bytes, so that it cannot be guessed.
const MIN_KEY_BYTES: usize = 32;

/// The key with which the broker signs the sender of a request.
#[derive(Clone)]
pub struct IdentityKey(hmac::Key);

impl IdentityKey {
    /// Creates a key from the bytes that the plugin has too. Returns `None` if they are too few.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= MIN_KEY_BYTES).then(|| Self(hmac::Key::new(HMAC_SHA256, bytes)))
    }
}

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityKey")
    }
}

/// The reason for which the sender of a request is not proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum IdentityError {
    #[error("the broker has not added the identity of its sender")]
    Missing,
    #[error("it has the identity of its sender more than once")]
    Duplicate,
    #[error("the identity of its sender is malformed")]
    Malformed,
    #[error("its response topic names another client than its sender")]
    WrongClient,
    #[error("the identity of its sender is not signed with the key of this server")]
    InvalidSignature,
}

/// The client id and the response topic of a request.
pub(super) type RequestOrigin<'a> = (&'a str, &'a str);

/// Returns the user who sent a request with this response topic, if it has a name.
///
/// # Errors
/// The sender is not proven to be the client.
pub(super) fn sender<'a>(
    publish: &'a Publish,
    property: &str,
    key: &IdentityKey,
    (client_id, response_topic): RequestOrigin<'_>,
) -> Result<Option<&'a str>, IdentityError> {
    let mut values = publish
        .user_property_bytes()
        .filter(|(name, _)| *name == property.as_bytes());
    let (_, value) = values.next().ok_or(IdentityError::Missing)?;
    if values.next().is_some() {
        return Err(IdentityError::Duplicate);
    }
    let value = std::str::from_utf8(value).map_err(|_| IdentityError::Malformed)?;
    let (mac, client, user) = parse(value).ok_or(IdentityError::Malformed)?;
    let mut signed = SignatureContext::new(key);
    signed.field(client.as_bytes());
    signed.field(user.unwrap_or_default().as_bytes());
    signed.message(
        publish.topic(),
        response_topic,
        publish.correlation_data().unwrap_or_default(),
        publish.payload_bytes(),
    );
    for (name, value) in publish.user_property_bytes() {
        if name != property.as_bytes() {
            signed.property(name, value);
        }
    }
    match (signed.verify_hex(mac), client == client_id) {
        (false, _) => Err(IdentityError::InvalidSignature),
        (true, false) => Err(IdentityError::WrongClient),
        (true, true) => Ok(user),
    }
}

/// The data to be signed: fields, each after its length.
pub(super) struct SignatureContext(hmac::Context);

impl SignatureContext {
    pub(super) fn new(key: &IdentityKey) -> Self {
        Self(hmac::Context::with_key(&key.0))
    }

    pub(super) fn field(&mut self, field: &[u8]) {
        // A packet of MQTT has at most 256 MiB.
        let length = u32::try_from(field.len()).unwrap_or(u32::MAX);
        self.0.update(&length.to_be_bytes());
        self.0.update(field);
    }

    pub(super) fn message(
        &mut self,
        topic: &str,
        response_topic: &str,
        correlation_data: &[u8],
        payload: &[u8],
    ) {
        self.field(topic.as_bytes());
        self.field(response_topic.as_bytes());
        self.field(correlation_data);
        self.field(payload);
    }

    pub(super) fn property(&mut self, name: &[u8], value: &[u8]) {
        self.field(name);
        self.field(value);
    }

    /// Returns the signature in hexadecimal digits.
    pub(super) fn finish_hex(self) -> String {
        let mac = self.0.sign();
        mac.as_ref().iter().fold(String::new(), |mut digits, byte| {
            // Writing to a string does not fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    }

    /// Returns whether `digits` is the signature, in hexadecimal digits.
    pub(super) fn verify_hex(self, digits: &str) -> bool {
        let signed = self.0.sign();
        decode_hex(digits)
            .is_some_and(|mac| bool::from(subtle::ConstantTimeEq::ct_eq(signed.as_ref(), &mac[..])))
    }
}

/// Parses `MAC LENGTH CLIENT[ USER]`.
fn parse(value: &str) -> Option<(&str, &str, Option<&str>)> {
    let (digits, rest) = value.split_once(' ')?;
    let (length, rest) = rest.split_once(' ')?;
    let (client, user) = rest.split_at_checked(length.parse().ok()?)?;
    let user = match user {
        "" => None,
        user => Some(user.strip_prefix(' ').filter(|user| !user.is_empty())?),
    };
    decode_hex(digits)?;
    Some((digits, client, user))
}

fn decode_hex(digits: &str) -> Option<[u8; 32]> {
    let mut mac = [0; 32];
    if digits.len() != 2 * mac.len() {
        return None;
    }
    for (byte, pair) in mac.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_valid_form() {
        let mac = "0a".repeat(32);
        let read = |rest: &str| {
            let value = format!("{mac}{rest}");
            parse(&value).map(|(mac, client, user)| {
                assert_eq!(decode_hex(mac), Some([10; 32]));
                (client.to_owned(), user.map(str::to_owned))
            })
        };
        assert_eq!(read(" 2 me"), Some(("me".into(), None)));
        assert_eq!(
            read(" 4 me 2 ann"),
            Some(("me 2".into(), Some("ann".into())))
        );
        assert_eq!(read(" 2 me a b"), Some(("me".into(), Some("a b".into()))));
        for rest in [
            "", " ", " 2", " 2 m", " 2 me ", " 2 mex", " x me", " 1 é", "00 2 me",
        ] {
            assert_eq!(read(rest), None, "{rest:?}");
        }
        assert!(parse(&format!("{} 2 me", "0g".repeat(32))).is_none());
        assert!(IdentityKey::new(&[0; 31]).is_none());
    }
}
