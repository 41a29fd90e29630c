//! A cache of the common beginning of one sender's PUBLISHes: decoded once, then recognized by comparing bytes.
//!
//! A client repeats the topic, the response topic and the protocol version in each of its requests. Bytes that passed
//! validation once are valid again, and the positions of their fields are known.
use super::DecodeError;
use super::fields::Fields;

/// Number of PUBLISHes before the cache is filled: a connection with few PUBLISHes needs no memory for it.
const FIRST_AFTER: u8 = 16;
/// Number of unrecognized PUBLISHes before the cache is replaced.
const AGAIN_AFTER: u8 = 64;
/// Longer topics and properties are not remembered.
const MAX_BYTES: usize = 1024;

/// The part of a PUBLISH's properties that former ones on the same connection had too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recognized {
    /// Number of the common part: equal numbers mean equal bytes; 0 means that there is none.
    pub(crate) number: u32,
    /// Length of the common part in bytes, in whole properties.
    pub(crate) bytes: u32,
}

/// The topic and the first properties of former PUBLISHes on the same connection.
#[derive(Debug, Clone)]
pub(super) struct Familiar {
    known: Option<Box<Known>>,
    /// Unfamiliar PUBLISHes until the next is remembered.
    countdown: u8,
}

#[derive(Debug, Clone, Default)]
struct Known {
    topic: Vec<u8>,
    /// The properties of one PUBLISH.
    properties: Vec<u8>,
    /// Number of their bytes that another PUBLISH had too, in whole properties.
    alike: usize,
    /// Number that identifies these bytes.
    number: u32,
    /// Fields decoded from these bytes.
    fields: Fields,
}

impl Default for Familiar {
    fn default() -> Self {
        Self {
            known: None,
            countdown: FIRST_AFTER,
        }
    }
}

impl Familiar {
    /// Returns the memory of the cache in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.known.as_ref().map_or(0, |known| {
            size_of::<Known>() + known.topic.capacity() + known.properties.capacity()
        })
    }

    /// Returns whether this topic was checked before.
    pub(super) fn is_topic(&self, topic: &[u8]) -> bool {
        match &self.known {
            Some(known) => known.topic == topic,
            None => false,
        }
    }

    /// Returns how many bytes of this section the cache recognizes, and the fields in these bytes.
    pub(super) fn recognize(&self, section: &[u8]) -> (Recognized, Fields) {
        match &self.known {
            Some(known)
                if known.alike > 0 && section.starts_with(&known.properties[..known.alike]) =>
            {
                let recognized = Recognized {
                    number: known.number,
                    // At most `MAX_BYTES`.
                    bytes: u32::try_from(known.alike).unwrap_or_default(),
                };
                (recognized, known.fields)
            }
            _ => (Recognized::default(), Fields::default()),
        }
    }

    /// Offers a valid PUBLISH that the cache did not recognize.
    #[inline(never)]
    pub(super) fn met(&mut self, topic: &[u8], section: &[u8]) -> Result<(), DecodeError> {
        if let Some(known) = &mut self.known
            && known.alike == 0
        {
            let pairs = known.properties.iter().zip(section);
            let alike = pairs.take_while(|(one, other)| one == other).count();
            (known.alike, known.fields) = Fields::of_whole_properties(section, alike)?;
            if known.alike > 0 {
                known.number = known.number.wrapping_add(1).max(1);
                return Ok(());
            }
        }
        if self.countdown > 0 {
            self.countdown -= 1;
        } else if topic.len() <= MAX_BYTES && section.len() <= MAX_BYTES {
            // Later PUBLISHes are compared with this one.
            self.countdown = AGAIN_AFTER;
            let known = self.known.get_or_insert_default();
            known.topic.clear();
            known.topic.extend_from_slice(topic);
            known.properties.clear();
            known.properties.extend_from_slice(section);
            known.alike = 0;
        }
        Ok(())
    }
}
