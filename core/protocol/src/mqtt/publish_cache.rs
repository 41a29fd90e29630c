//! A cache of the common beginning of one sender's PUBLISHes: decoded once, then recognized by comparing bytes.
//!
//! A client repeats the topic, the response topic and the protocol version in each of its requests. Bytes that passed
//! validation once are valid again, and the positions of their fields are known.
use super::DecodeError;
use super::publish_properties::PublishProperties;

/// Number of PUBLISHes before the cache is filled: a connection with few PUBLISHes needs no memory for it.
const FILL_AFTER: u8 = 16;
/// Number of unrecognized PUBLISHes before the cache is replaced.
const REFILL_AFTER: u8 = 64;
/// Longer topics and properties are not remembered.
const MAX_BYTES: usize = 1024;

/// The part of a PUBLISH's properties that former ones on the same connection had too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommonPrefix {
    /// Number of the common part: equal numbers mean equal bytes; 0 means that there is none.
    pub(crate) id: u32,
    /// Length of the common part in bytes, in whole properties.
    pub(crate) len: u32,
}

/// The topic and the first properties of former PUBLISHes on the same connection.
#[derive(Debug, Clone)]
pub(super) struct PublishCache {
    cached: Option<Box<CachedPublish>>,
    /// Unfamiliar PUBLISHes until the next is remembered.
    countdown: u8,
}

#[derive(Debug, Clone, Default)]
struct CachedPublish {
    topic: Vec<u8>,
    /// The properties of one PUBLISH.
    properties: Vec<u8>,
    /// Number of their bytes that another PUBLISH had too, in whole properties.
    common_len: usize,
    /// Number that identifies these bytes.
    prefix_id: u32,
    /// Fields decoded from these bytes.
    fields: PublishProperties,
}

impl Default for PublishCache {
    fn default() -> Self {
        Self {
            cached: None,
            countdown: FILL_AFTER,
        }
    }
}

impl PublishCache {
    /// Returns the memory of the cache in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.cached.as_ref().map_or(0, |known| {
            size_of::<CachedPublish>() + known.topic.capacity() + known.properties.capacity()
        })
    }

    /// Returns whether this topic was checked before.
    pub(super) fn has_topic(&self, topic: &[u8]) -> bool {
        match &self.cached {
            Some(known) => known.topic == topic,
            None => false,
        }
    }

    /// Returns how many bytes of this section the cache recognizes, and the fields in these bytes.
    pub(super) fn match_prefix(&self, section: &[u8]) -> (CommonPrefix, PublishProperties) {
        match &self.cached {
            Some(known)
                if known.common_len > 0
                    && section.starts_with(&known.properties[..known.common_len]) =>
            {
                let recognized = CommonPrefix {
                    id: known.prefix_id,
                    // At most `MAX_BYTES`.
                    len: u32::try_from(known.common_len).unwrap_or_default(),
                };
                (recognized, known.fields)
            }
            _ => (CommonPrefix::default(), PublishProperties::default()),
        }
    }

    /// Offers a valid PUBLISH that the cache did not recognize.
    #[inline(never)]
    pub(super) fn offer(&mut self, topic: &[u8], section: &[u8]) -> Result<(), DecodeError> {
        if let Some(known) = &mut self.cached
            && known.common_len == 0
        {
            let pairs = known.properties.iter().zip(section);
            let matching_len = pairs.take_while(|(one, other)| one == other).count();
            (known.common_len, known.fields) =
                PublishProperties::decode_prefix(section, matching_len)?;
            if known.common_len > 0 {
                known.prefix_id = known.prefix_id.wrapping_add(1).max(1);
                return Ok(());
            }
        }
        if self.countdown > 0 {
            self.countdown -= 1;
        } else if topic.len() <= MAX_BYTES && section.len() <= MAX_BYTES {
            // Later PUBLISHes are compared with this one.
            self.countdown = REFILL_AFTER;
            let known = self.cached.get_or_insert_default();
            known.topic.clear();
            known.topic.extend_from_slice(topic);
            known.properties.clear();
            known.properties.extend_from_slice(section);
            known.common_len = 0;
        }
        Ok(())
    }
}
