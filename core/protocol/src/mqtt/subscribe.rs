//! SUBSCRIBE and SUBACK (MQTT 5, sections 3.8 and 3.9).
use super::property::{self, NOT_ALLOWED, Properties, Property, PropertyWriter};
use super::wire::{self, Reader, put_string};
use super::{DecodeError, EncodeError, PacketId, QoS, ReasonCode};
use bytes::{BufMut, BytesMut};

/// Asks for messages. User properties are checked and dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// For the SUBACK.
    pub packet_id: PacketId,
    /// Subscription identifier, which each message that matches one of the filters carries; not 0.
    pub subscription_id: Option<u32>,
    /// Requested subscriptions; not empty.
    pub subscriptions: Vec<Subscription>,
}

/// A topic filter with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The topic filter. Its syntax is not checked here: a server answers a wrong one in the SUBACK.
    pub filter: String,
    /// The highest quality of service in which messages are wanted.
    pub qos: QoS,
    /// Leave out the messages that this client published.
    pub no_local: bool,
    /// Keep the RETAIN flag of forwarded messages.
    pub retain_as_published: bool,
    /// Retained messages: 0 send them now, 1 only for a new subscription, 2 never.
    pub retain_handling: u8,
}

impl Subscription {
    /// Creates a subscription with QoS 1 and without retained messages.
    pub fn at_least_once(filter: impl Into<String>) -> Self {
        Self {
            filter: filter.into(),
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: 2,
        }
    }
}

impl Subscribe {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let mut subscription_id = None;
        let mut properties = Properties::new(reader)?;
        while let Some(property) = properties.next()? {
            match property {
                Property::SubscriptionId(_) if subscription_id.is_some() => {
                    return Err(DecodeError::Protocol(
                        "a SUBSCRIBE has two subscription identifiers",
                    ));
                }
                Property::SubscriptionId(id) => subscription_id = Some(id),
                Property::User(..) => {}
                _ => return Err(NOT_ALLOWED),
            }
        }
        let mut subscriptions = Vec::new();
        while !reader.is_empty() {
            let filter = reader.string()?.to_owned();
            let options = reader.u8()?;
            let retain_handling = options >> 4 & 3;
            if options & 0xC0 != 0 {
                return Err(DecodeError::Malformed(
                    "reserved subscription options are set",
                ));
            }
            if retain_handling == 3 {
                return Err(DecodeError::Protocol("retain handling 3"));
            }
            subscriptions.push(Subscription {
                filter,
                qos: QoS::from_bits(options & 3)
                    .ok_or(DecodeError::Protocol("a subscription with QoS 3"))?,
                no_local: options & 0x04 != 0,
                retain_as_published: options & 0x08 != 0,
                retain_handling,
            });
        }
        if subscriptions.is_empty() {
            return Err(DecodeError::Protocol("a SUBSCRIBE without topic filters"));
        }
        Ok(Self {
            packet_id,
            subscription_id,
            subscriptions,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let mut body = BytesMut::with_capacity(128);
        body.put_u16(self.packet_id.get());
        let mut properties = PropertyWriter::default();
        if let Some(id) = self.subscription_id {
            properties.varint(property::SUBSCRIPTION_ID, id);
        }
        properties.finish(&mut body)?;
        for subscription in &self.subscriptions {
            put_string(&mut body, "a topic filter", &subscription.filter)?;
            body.put_u8(
                subscription.qos as u8
                    | u8::from(subscription.no_local) << 2
                    | u8::from(subscription.retain_as_published) << 3
                    | (subscription.retain_handling & 3) << 4,
            );
        }
        wire::put_packet(out, 0x82, &body, max_packet_bytes)
    }
}

/// Answers a SUBSCRIBE, one reason for each filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAck {
    /// Packet identifier of the SUBSCRIBE.
    pub packet_id: PacketId,
    /// Granted QoS or failure, in the order of the filters.
    pub reasons: Vec<ReasonCode>,
    /// Text for people.
    pub reason_string: Option<String>,
}

impl SubAck {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (packet_id, reasons, reason_string) = decode_reasons(reader)?;
        Ok(Self {
            packet_id,
            reasons,
            reason_string,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, max_packet_bytes: u32, out: &mut BytesMut) -> Result<(), EncodeError> {
        let text = self.reason_string.as_deref();
        encode_reasons(
            0x90,
            self.packet_id,
            &self.reasons,
            text,
            max_packet_bytes,
            out,
        )
    }
}

/// Decodes the common form of SUBACK and UNSUBACK.
pub(super) fn decode_reasons(
    reader: &mut Reader<'_>,
) -> Result<(PacketId, Vec<ReasonCode>, Option<String>), DecodeError> {
    let packet_id = reader.packet_id()?;
    let mut reason_string = None;
    let mut properties = Properties::new(reader)?;
    while let Some(property) = properties.next()? {
        match property {
            Property::ReasonString(text) => reason_string = Some(text.to_owned()),
            Property::User(..) => {}
            _ => return Err(NOT_ALLOWED),
        }
    }
    let reasons: Vec<_> = reader.rest().iter().copied().map(ReasonCode).collect();
    if reasons.is_empty() {
        return Err(DecodeError::Protocol(
            "an acknowledgement without reason codes",
        ));
    }
    Ok((packet_id, reasons, reason_string))
}

/// Encodes the common form of SUBACK and UNSUBACK.
pub(super) fn encode_reasons(
    first_byte: u8,
    packet_id: PacketId,
    reasons: &[ReasonCode],
    reason_string: Option<&str>,
    max_packet_bytes: u32,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let mut body = BytesMut::with_capacity(16);
    body.put_u16(packet_id.get());
    let mut properties = PropertyWriter::default();
    if let Some(text) = reason_string {
        properties.string(property::REASON_STRING, "the reason string", text)?;
    }
    properties.finish(&mut body)?;
    body.extend(reasons.iter().map(|reason| reason.0));
    wire::put_packet(out, first_byte, &body, max_packet_bytes)
}
