//! The properties of a PUBLISH (MQTT 5, section 3.3.2.3): values and positions.
use super::DecodeError;
use super::property::{self, Properties, Property, SeenProperties};
use super::wire::{self, Reader};

/// Where a field lies in the frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        // A frame has at most 268,435,460 bytes.
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            start: offset(start),
            end: offset(end),
        }
    }
    pub(super) fn slice(self, frame: &[u8]) -> &[u8] {
        frame
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// The properties of a PUBLISH. Positions count from the first property.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PublishProperties {
    pub(super) response_topic: Option<Span>,
    pub(super) correlation_data: Option<Span>,
    pub(super) content_type: Option<Span>,
    pub(super) message_expiry: Option<u32>,
    pub(super) topic_alias: Option<u16>,
    pub(super) payload_is_utf8: Option<bool>,
    pub(super) has_subscription_ids: bool,
    seen: SeenProperties,
}

impl PublishProperties {
    /// Reads the properties of `section` from the offset `at` on; the properties before it were read already.
    pub(super) fn read(&mut self, section: &[u8], at: usize) -> Result<(), DecodeError> {
        let at = self.read_frequent(section, at);
        if at == section.len() {
            return Ok(());
        }
        let mut properties = Properties::resume(Reader::new(section, at), self.seen);
        while self.read_next(&mut properties)? {}
        self.seen = properties.seen();
        Ok(())
    }

    /// Reads the properties that differ between requests, until an unusual one; returns the position that it reached.
    #[inline]
    fn read_frequent(&mut self, section: &[u8], mut at: usize) -> usize {
        while let Some((&id, rest)) = section.get(at..).and_then(<[u8]>::split_first) {
            let left = match id {
                property::USER_PROPERTY => {
                    let Some((name, rest)) = wire::split_binary(rest) else {
                        break;
                    };
                    let Some((value, rest)) = wire::split_binary(rest) else {
                        break;
                    };
                    if !(wire::is_ascii_text(name) && wire::is_ascii_text(value)) {
                        break;
                    }
                    rest.len()
                }
                property::CORRELATION_DATA => {
                    let Some((data, rest)) = wire::split_binary(rest) else {
                        break;
                    };
                    if !self.seen.insert(id) {
                        break;
                    }
                    let end = section.len() - rest.len();
                    self.correlation_data = Some(Span::new(end - data.len(), end));
                    rest.len()
                }
                property::MESSAGE_EXPIRY => {
                    let Some((seconds, rest)) = rest.split_first_chunk() else {
                        break;
                    };
                    if !self.seen.insert(id) {
                        break;
                    }
                    self.message_expiry = Some(u32::from_be_bytes(*seconds));
                    rest.len()
                }
                property::TOPIC_ALIAS => {
                    let Some((alias, rest)) = rest.split_first_chunk() else {
                        break;
                    };
                    let alias = u16::from_be_bytes(*alias);
                    if alias == 0 || !self.seen.insert(id) {
                        break;
                    }
                    self.topic_alias = Some(alias);
                    rest.len()
                }
                _ => break,
            };
            at = section.len() - left;
        }
        at
    }

    /// Reads the whole properties of `section` that fit in its first `max_len` bytes; returns their length in bytes too.
    pub(super) fn decode_prefix(
        section: &[u8],
        max_len: usize,
    ) -> Result<(usize, Self), DecodeError> {
        let mut properties = Properties::resume(Reader::new(section, 0), SeenProperties::default());
        let (mut end, mut whole, mut fields) = (0, Self::default(), Self::default());
        while fields.read_next(&mut properties)? && properties.position() <= max_len {
            fields.seen = properties.seen();
            (end, whole) = (properties.position(), fields);
        }
        Ok((end, whole))
    }

    /// Reads one more property; whether there was one.
    #[inline(never)]
    fn read_next(&mut self, properties: &mut Properties<'_>) -> Result<bool, DecodeError> {
        let Some(id) = properties.id()? else {
            return Ok(false);
        };
        let value = properties.value();
        let span = |field: &[u8], end| Some(Span::new(end - field.len(), end));
        match id {
            property::USER_PROPERTY => {
                value.text()?;
                value.text()?;
            }
            property::RESPONSE_TOPIC => {
                let text = value.text()?;
                property::check_response_topic(text)?;
                self.response_topic = span(text, value.position());
            }
            property::CONTENT_TYPE => {
                let text = value.text()?;
                self.content_type = span(text, value.position());
            }
            property::CORRELATION_DATA => {
                let data = value.binary()?;
                self.correlation_data = span(data, value.position());
            }
            _ => match property::read(id, value)? {
                Property::PayloadFormat(utf8) => self.payload_is_utf8 = Some(utf8),
                Property::MessageExpiry(seconds) => self.message_expiry = Some(seconds),
                Property::TopicAlias(alias) => self.topic_alias = Some(alias),
                Property::SubscriptionId(_) => self.has_subscription_ids = true,
                _ => return Err(property::NOT_ALLOWED),
            },
        }
        Ok(true)
    }
}
