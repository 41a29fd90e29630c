//! Headers of frames (RFC 6455, section 5.2).
use bytes::{BufMut, BytesMut};

/// In the second byte of a header: a mask follows.
const MASKED: u8 = 0x80;
/// Length codes that announce a length field of so many bits.
const LENGTH_16: u8 = 0x7E;
const LENGTH_64: u8 = 0x7F;
/// The longest payload of a control frame.
const MAX_CONTROL_BYTES: usize = 125;

/// The opcode of a frame. Text frames are not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// More of a message.
    Continuation,
    /// A message, or the begin of one.
    Binary,
    /// The last frame of its sender.
    Close,
    /// To be answered with [`Pong`](Self::Pong) and the same payload.
    Ping,
    /// The answer.
    Pong,
}

/// The sender of a frame. A client masks its frames, and a server does not (section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The endpoint that opened the connection.
    Client,
    /// The endpoint that accepted the connection.
    Server,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Kind of the frame.
    pub opcode: Opcode,
    /// The message ends with it.
    pub is_final: bool,
    /// Bytes of payload behind it.
    pub payload_len: u64,
    /// Masking key of the payload, if a client sends it.
    pub mask: Option<[u8; 4]>,
}

impl Header {
    /// Parses the header at the beginning of `bytes`, which `sender` has sent. Also returns its length; `None` if it is not
    /// complete yet.
    ///
    /// # Errors
    /// It is no frame that may stand here; what it is instead.
    pub fn parse(bytes: &[u8], sender: Role) -> Result<Option<(Self, usize)>, &'static str> {
        let [first, second, rest @ ..] = bytes else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err("a frame with bits of an extension");
        }
        match (second & MASKED != 0, sender) {
            (true, Role::Server) => return Err("a frame that is masked"),
            (false, Role::Client) => return Err("a frame that is not masked"),
            _ => {}
        }
        let is_last = first & 0x80 != 0;
        let kind = match first & 0x0F {
            0 => Opcode::Continuation,
            1 => return Err("text instead of binary data"),
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return Err("a frame of an unknown kind"),
        };
        let (payload, length) = match second & !MASKED {
            LENGTH_16 => match rest.first_chunk() {
                Some(bytes) => (u16::from_be_bytes(*bytes).into(), 4),
                None => return Ok(None),
            },
            LENGTH_64 => match rest.first_chunk() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 10),
                None => return Ok(None),
            },
            short => (short.into(), 2),
        };
        if payload > i64::MAX.cast_unsigned() {
            return Err("a frame of more bytes than there are");
        }
        let is_control = matches!(kind, Opcode::Close | Opcode::Ping | Opcode::Pong);
        if is_control && (!is_last || payload > MAX_CONTROL_BYTES as u64) {
            return Err("a control frame that is too long or in parts");
        }
        let (mask, length) = match sender {
            Role::Server => (None, length),
            Role::Client => match bytes[length..].first_chunk() {
                Some(mask) => (Some(*mask), length + mask.len()),
                None => return Ok(None),
            },
        };
        let header = Self {
            opcode: kind,
            is_final: is_last,
            payload_len: payload,
            mask,
        };
        Ok(Some((header, length)))
    }
}

/// Appends a whole message in one frame; masked, if a client sends it.
pub fn put_frame(out: &mut BytesMut, kind: Opcode, payload: &[u8], mask: Option<[u8; 4]>) {
    let code = match kind {
        Opcode::Continuation => 0,
        Opcode::Binary => 2,
        Opcode::Close => 8,
        Opcode::Ping => 9,
        Opcode::Pong => 10,
    };
    out.reserve(14 + payload.len());
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.put_u8(0x80 | code);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..126), _) => out.put_u8(masked | short),
        (_, Ok(long)) => {
            out.put_u8(masked | LENGTH_16);
            out.put_u16(long);
        }
        _ => {
            out.put_u8(masked | LENGTH_64);
            out.put_u64(payload.len() as u64);
        }
    }
    let Some(mask) = mask else {
        out.put_slice(payload);
        return;
    };
    out.put_slice(&mask);
    let begin = out.len();
    out.put_slice(payload);
    apply_mask(&mut out[begin..], mask);
}

/// Masks, or takes the mask away.
pub(super) fn apply_mask(bytes: &mut [u8], mask: [u8; 4]) {
    // Eight at a time: the compiler makes vectors of them.
    let wide = u64::from_ne_bytes([
        mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3],
    ]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
    }
    let rest = chunks.into_remainder().iter_mut();
    rest.zip(mask.into_iter().cycle())
        .for_each(|(byte, mask)| *byte ^= mask);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_encoded_in_the_shortest_form() {
        for (length, expected) in [
            (0, &[0x82, 0x80][..]),
            (125, &[0x82, 0xFD]),
            (126, &[0x82, 0xFE, 0, 126]),
            (65_535, &[0x82, 0xFE, 0xFF, 0xFF]),
            (65_536, &[0x82, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = BytesMut::new();
            let payload = vec![0xA5; length];
            put_frame(&mut out, Opcode::Binary, &payload, Some([1, 2, 3, 4]));
            assert_eq!(&out[..expected.len()], expected);
            assert_eq!(out[expected.len()..][..4], [1, 2, 3, 4]);
            let masked = out[expected.len() + 4..].iter();
            let unmasked: Vec<_> = masked
                .zip([1, 2, 3, 4].into_iter().cycle())
                .map(|(byte, mask)| byte ^ mask)
                .collect();
            assert_eq!(unmasked, payload);
            let (header, length) = Header::parse(&out, Role::Client).unwrap().unwrap();
            assert_eq!(header.mask, Some([1, 2, 3, 4]));
            assert_eq!(out.len() - length, payload.len());
            let mut plain = BytesMut::new();
            put_frame(&mut plain, Opcode::Binary, &payload, None);
            assert_eq!(plain.len() + 4, out.len());
            let (header, length) = Header::parse(&plain, Role::Server).unwrap().unwrap();
            assert_eq!(header.mask, None);
            assert_eq!(plain[length..], payload);
        }
    }

    #[test]
    fn incomplete_headers_are_not_parsed() {
        for (bytes, kind, is_last, payload) in [
            (&[0x82, 0x05][..], Opcode::Binary, true, 5),
            (&[0x02, 0x7E, 1, 0], Opcode::Binary, false, 256),
            (
                &[0x80, 0x7F, 0, 0, 0, 1, 0, 0, 0, 0],
                Opcode::Continuation,
                true,
                1 << 32,
            ),
            (
                &[0x82, 0x7F, 0x7F, 255, 255, 255, 255, 255, 255, 255],
                Opcode::Binary,
                true,
                i64::MAX.cast_unsigned(),
            ),
            (&[0x89, 0x7D], Opcode::Ping, true, 125),
            (&[0x8A, 0], Opcode::Pong, true, 0),
            (&[0x88, 2], Opcode::Close, true, 2),
        ] {
            let header = Header {
                opcode: kind,
                is_final: is_last,
                payload_len: payload,
                mask: None,
            };
            assert_eq!(
                Header::parse(bytes, Role::Server),
                Ok(Some((header, bytes.len())))
            );
            for less in 0..bytes.len() {
                assert_eq!(Header::parse(&bytes[..less], Role::Server), Ok(None));
            }
        }
        for bytes in [
            &[0xC2, 0][..],
            &[0x82, 0x80],
            &[0x81, 0],
            &[0x83, 0],
            &[0x09, 0],
            &[0x89, 126, 0, 126],
            &[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(Header::parse(bytes, Role::Server).is_err(), "{bytes:?}");
        }
        let masked = [0x82, 0x85, 1, 2, 3, 4];
        for less in 0..masked.len() {
            assert_eq!(Header::parse(&masked[..less], Role::Client), Ok(None));
        }
        assert!(Header::parse(&masked, Role::Client).unwrap().is_some());
        assert!(Header::parse(&[0x82, 5], Role::Client).is_err());
        let text = Header::parse(&[0x81, 0], Role::Server);
        assert_eq!(text, Err("text instead of binary data"));
    }
}
