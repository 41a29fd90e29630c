//! Framing: a stream of bytes becomes packets.
use super::publish_cache::{CommonPrefix, PublishCache};
use super::wire::{self, Reader};
use super::{
    Auth, ConnAck, Connect, DecodeError, Disconnect, PacketId, PubAck, Publish, SubAck, Subscribe,
    UnsubAck, Unsubscribe,
};
use bytes::{Buf, BufMut, BytesMut};

/// A received packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// CONNECT
    Connect(Box<Connect>),
    /// CONNACK
    ConnAck(Box<ConnAck>),
    /// PUBLISH
    Publish(Publish),
    /// PUBACK
    PubAck(PubAck),
    /// SUBSCRIBE
    Subscribe(Subscribe),
    /// SUBACK
    SubAck(SubAck),
    /// UNSUBSCRIBE
    Unsubscribe(Unsubscribe),
    /// UNSUBACK
    UnsubAck(UnsubAck),
    /// PINGREQ
    PingReq,
    /// PINGRESP
    PingResp,
    /// DISCONNECT
    Disconnect(Disconnect),
    /// AUTH
    Auth(Auth),
}

/// The fixed header of a packet.
#[derive(Debug, Clone, Copy)]
struct FixedHeader {
    first: u8,
    /// Bytes of the fixed header itself.
    len: usize,
    /// Bytes after it.
    remaining: usize,
}

impl FixedHeader {
    /// Reads and checks it; `None` if it is not complete.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let Some((&first, rest)) = bytes.split_first() else {
            return Ok(None);
        };
        let flags = first & 0x0F;
        match first >> 4 {
            0 => return Err(DecodeError::Malformed("packet type 0")),
            5..=7 => return Err(DecodeError::Protocol("QoS 2 is not supported")),
            8 | 10 if flags != 0b0010 => {
                return Err(DecodeError::Malformed(
                    "the flags of the packet type are not 0010",
                ));
            }
            1 | 2 | 4 | 9 | 11..=15 if flags != 0 => {
                return Err(DecodeError::Malformed(
                    "the flags of the packet type are not 0000",
                ));
            }
            _ => {}
        }
        Ok(wire::varint(rest)?.map(|(remaining, width)| Self {
            first,
            len: 1 + width,
            remaining: remaining as usize,
        }))
    }
}

/// A decoder for the packets of one connection.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    cache: PublishCache,
    common_prefix: CommonPrefix,
}

impl Decoder {
    /// Returns the heap memory of the decoder in bytes: its cache of former packets, a few kilobytes at most.
    pub fn bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Returns the part of the last PUBLISH's properties that former ones had too.
    pub fn common_prefix(&self) -> CommonPrefix {
        self.common_prefix
    }

    /// Takes the first packet out of `stream`; `None` if it has not arrived completely.
    ///
    /// A packet larger than `max_packet_bytes`, header included, is rejected as soon as its header has arrived. Malformed
    /// headers are rejected at once as well. While a packet is incomplete, a call reads only its header.
    ///
    /// # Errors
    /// See [`DecodeError`]. The stream cannot be read on after an error.
    pub fn decode(
        &mut self,
        stream: &mut BytesMut,
        max_packet_bytes: u32,
    ) -> Result<Option<Packet>, DecodeError> {
        // Half of all packets are a PUBACK without a reason.
        if let Some(&[0x40, 2, high, low]) = stream.first_chunk()
            && let Some(packet_id) = PacketId::new(u16::from_be_bytes([high, low]))
            && max_packet_bytes >= 4
        {
            stream.advance(4);
            return Ok(Some(Packet::PubAck(PubAck::success(packet_id))));
        }
        let Some(header) = FixedHeader::decode(stream)? else {
            return Ok(None);
        };
        let size = header.len + header.remaining;
        if size > max_packet_bytes as usize {
            return Err(DecodeError::TooLarge {
                size: size as u64,
                max: max_packet_bytes,
            });
        }
        if stream.len() < size {
            return Ok(None);
        }
        if header.first >> 4 == 3 {
            let frame = stream.split_to(size).freeze();
            let (publish, recognized) = Publish::decode(frame, header.len, &mut self.cache)?;
            self.common_prefix = recognized;
            return Ok(Some(Packet::Publish(publish)));
        }
        let packet = decode_other(&stream[..size], header)?;
        stream.advance(size);
        Ok(Some(packet))
    }
}

/// Decodes a packet that is no PUBLISH.
#[cold]
fn decode_other(frame: &[u8], header: FixedHeader) -> Result<Packet, DecodeError> {
    let mut reader = Reader::new(frame, header.len);
    let packet = match header.first >> 4 {
        1 => Packet::Connect(Box::new(Connect::decode(&mut reader)?)),
        2 => Packet::ConnAck(Box::new(ConnAck::decode(&mut reader)?)),
        4 => Packet::PubAck(PubAck::decode(&mut reader)?),
        8 => Packet::Subscribe(Subscribe::decode(&mut reader)?),
        9 => Packet::SubAck(SubAck::decode(&mut reader)?),
        10 => Packet::Unsubscribe(Unsubscribe::decode(&mut reader)?),
        11 => Packet::UnsubAck(UnsubAck::decode(&mut reader)?),
        12 => Packet::PingReq,
        13 => Packet::PingResp,
        14 => Packet::Disconnect(Disconnect::decode(&mut reader)?),
        15 => Packet::Auth(Auth::decode(&mut reader)?),
        _ => return Err(DecodeError::Malformed("an unknown packet type")),
    };
    reader.expect_end()?;
    Ok(packet)
}

/// Decodes a packet like [`Decoder::decode`], without a cache.
///
/// # Errors
/// See [`DecodeError`]. The stream cannot be read on after an error.
pub fn decode(stream: &mut BytesMut, max_packet_bytes: u32) -> Result<Option<Packet>, DecodeError> {
    Decoder::default().decode(stream, max_packet_bytes)
}

/// Returns the length of the first packet in `stream`, header included. `None` if its header is incomplete, or if [`decode`]
/// would reject such a packet.
pub fn announced_len(stream: &[u8], max_packet_bytes: u32) -> Option<usize> {
    let header = FixedHeader::decode(stream).ok()??;
    let size = header.len + header.remaining;
    (size <= max_packet_bytes as usize).then_some(size)
}

/// Appends a PINGREQ.
pub fn encode_pingreq(out: &mut BytesMut) {
    out.put_slice(&[0xC0, 0]);
}

/// Appends a PINGRESP.
pub fn encode_pingresp(out: &mut BytesMut) {
    out.put_slice(&[0xD0, 0]);
}
