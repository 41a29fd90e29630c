//! A waiting request in encoded form.
use super::OutgoingRequest;
use bytes::BytesMut;
use statestore_protocol::Hlc;
use statestore_protocol::mqtt::Publish;
use statestore_protocol::property::{self, RequestPairs};

/// An encoded request, which can be sent without its caller.
#[derive(Debug)]
pub(crate) struct EncodedRequest {
    /// The timestamp, the fencing token and the payload, concatenated.
    bytes: Box<[u8]>,
    timestamp_len: usize,
    /// Length of the fencing token, if there is one.
    token_len: Option<usize>,
    persist: bool,
    pub(super) is_harmless: bool,
}

impl EncodedRequest {
    pub(crate) fn new(request: &OutgoingRequest<'_>, timestamp: &Hlc) -> Self {
        let token = request.fencing_token.unwrap_or_default();
        let timestamp_len = timestamp.text_len();
        let len = timestamp_len + token.len() + request.command.encoded_len();
        let mut bytes = BytesMut::with_capacity(len);
        timestamp.write_text(&mut bytes);
        bytes.extend_from_slice(token.as_bytes());
        request.command.encode(&mut bytes);
        Self {
            bytes: Vec::from(bytes).into_boxed_slice(),
            timestamp_len,
            token_len: request.fencing_token.map(str::len),
            persist: request.persist,
            is_harmless: request.is_harmless(),
        }
    }

    /// Restores a request that was not sent before its session was lost.
    pub(super) fn from_publish(publish: &Publish, is_harmless: bool) -> Self {
        let user = |name: &str| {
            let mut pairs = publish.user_properties();
            pairs.find_map(|(other, value)| (other == name).then_some(value))
        };
        let timestamp = user(property::TIMESTAMP).unwrap_or_default();
        let token = user(property::FENCING_TOKEN);
        let payload = publish.payload_bytes();
        let parts = [
            timestamp.as_bytes(),
            token.unwrap_or_default().as_bytes(),
            payload,
        ];
        Self {
            bytes: parts.concat().into_boxed_slice(),
            timestamp_len: timestamp.len(),
            token_len: token.map(str::len),
            persist: user(property::PERSIST).is_some(),
            is_harmless,
        }
    }

    pub(super) fn pairs(&self) -> RequestPairs<'_> {
        let (timestamp, rest) = self.bytes.split_at(self.timestamp_len);
        // Both were valid text when they were encoded.
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        RequestPairs {
            timestamp: text(timestamp),
            fencing_token: self.token_len.map(|len| text(&rest[..len])),
            persist: self.persist,
        }
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.timestamp_len + self.token_len.unwrap_or_default()..]
    }
}
