//! The user properties of one client's requests, read one after the other.
use super::Hlc;
use super::mqtt::{CommonPrefix, Publish};
use super::property::RequestProperties;

/// A reader of the user properties of requests on one connection. It decodes the properties that all requests share
/// only once.
///
/// ```
/// use bytes::BytesMut;
/// use statestore_protocol::RequestReader;
/// use statestore_protocol::mqtt::{Decoder, Packet, PublishHeader};
/// use statestore_protocol::property::RequestProperties;
///
/// let (mut decoder, mut reader) = (Decoder::default(), RequestReader::default());
/// for counter in 0..100 {
///     let timestamp = format!("001696374425000:{counter:05}:me");
///     let users = [("__protVer", "1.0"), ("__ts", &timestamp)];
///     let header = PublishHeader { topic: "requests", user_properties: &users, ..PublishHeader::default() };
///     let mut stream = BytesMut::new();
///     header.encode(u32::MAX, &mut stream, 0, |_| {})?;
///     if let Some(Packet::Publish(publish)) = decoder.decode(&mut stream, u32::MAX)? {
///         let read = reader.read(&publish, decoder.common_prefix());
///         assert_eq!(read, RequestProperties::parse(publish.user_properties()));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RequestReader {
    /// Number of the shared properties that were decoded.
    prefix_id: u32,
    /// Whether the shared properties contain nothing that a server reads.
    prefix_is_irrelevant: bool,
    /// The first good timestamp since then.
    timestamp: Option<Hlc>,
}

impl RequestReader {
    /// Reads the user properties of a request like [`RequestProperties::parse`]. `common_prefix` is the
    /// [result](super::mqtt::Decoder::common_prefix) of this connection's decoder for this PUBLISH.
    pub fn read(&mut self, publish: &Publish, recognized: CommonPrefix) -> RequestProperties {
        if recognized.id == 0 {
            return RequestProperties::parse(publish.user_property_bytes());
        }
        let [common, others] = publish.split_user_property_bytes(recognized);
        if self.prefix_id != recognized.id {
            self.prefix_id = recognized.id;
            self.timestamp = None;
            self.prefix_is_irrelevant = !common
                .into_iter()
                .any(|(name, _)| RequestProperties::is_known(name));
        }
        if !self.prefix_is_irrelevant {
            return RequestProperties::parse(publish.user_property_bytes());
        }
        let properties = RequestProperties::parse_with_hint(others, self.timestamp.as_ref());
        if let (None, Some(Ok(timestamp))) = (&self.timestamp, &properties.timestamp) {
            self.timestamp = Some(timestamp.clone());
        }
        properties
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::{Decoder, Packet, PublishHeader};
    use bytes::BytesMut;
    use proptest::prelude::*;

    /// Properties of a request: some that all of a sender's have alike, and its own.
    fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
        let name = prop_oneof![
            Just("__ts"),
            Just("__ft"),
            Just("aio-persistence"),
            Just("__srcId"),
        ];
        let value = prop_oneof![
            "00169637442500[0-9]:0000[0-9]:(me|you|StateStore)",
            "[0-9]{1,16}:[0-9]{1,6}:[a-c:]{0,2}",
            "true|false|x",
        ];
        prop::collection::vec((name.prop_map(str::to_owned), value), 0..4)
    }

    fn received(decoder: &mut Decoder, pairs: &[(String, String)]) -> Publish {
        let users: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let header = PublishHeader {
            topic: "t",
            user_properties: &users,
            ..PublishHeader::default()
        };
        let mut stream = BytesMut::new();
        header.encode(u32::MAX, &mut stream, 0, |_| {}).unwrap();
        match decoder.decode(&mut stream, u32::MAX) {
            Ok(Some(Packet::Publish(publish))) => publish,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn timestamps_of_one_connection_may_come_from_several_nodes() {
        let (mut decoder, mut reader) = (Decoder::default(), RequestReader::default());
        for turn in 0..200 {
            let node = ["me", "you", "StateStore", "me"][turn % 4];
            let pairs = [
                ("__srcId".to_owned(), "me".to_owned()),
                (
                    "__ts".to_owned(),
                    format!("001696374425000:{turn:05}:{node}"),
                ),
            ];
            let publish = received(&mut decoder, &pairs);
            let read = reader.read(&publish, decoder.common_prefix());
            assert_eq!(read, RequestProperties::parse(publish.user_properties()));
        }
        assert_ne!(decoder.common_prefix(), CommonPrefix::default());
    }

    proptest! {
        #[test]
        fn a_common_prefix_does_not_change_what_is_read(common in pairs(), own in prop::collection::vec(pairs(), 1..4)) {
            let (mut decoder, mut reader) = (Decoder::default(), RequestReader::default());
            let mut has_recognized = false;
            for turn in 0..200 {
                let pairs = [&common[..], &own[turn / 40 % own.len()]].concat();
                let publish = received(&mut decoder, &pairs);
                has_recognized |= decoder.common_prefix() != CommonPrefix::default();
                let read = reader.read(&publish, decoder.common_prefix());
                prop_assert_eq!(read, RequestProperties::parse(publish.user_properties()));
            }
            prop_assert!(has_recognized || common.is_empty());
        }
    }
}
