//! Received WebSocket frames as a stream of bytes.
use super::frame::{Header, Opcode, Role, apply_mask};
use bytes::{Buf, BytesMut};

/// The reason why the peer closes the WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseFrame {
    /// The code (section 7.4); `None` if there is none.
    pub code: Option<u16>,
    /// Reason text, in UTF-8 if the peer follows the specification.
    pub reason: Vec<u8>,
}

/// Frames from one peer. The caller's buffer holds their bytes until they are [taken](Self::take_payload).
#[derive(Debug)]
pub struct FrameDecoder {
    sender: Role,
    /// How much is still to come of a binary frame.
    payload_left: u64,
    /// Masking key, rotated to the next byte of the frame.
    mask: Option<[u8; 4]>,
    /// A message has begun and not ended.
    in_message: bool,
    close: Option<CloseFrame>,
    /// Payload of the last ping.
    pending_pong: Option<Vec<u8>>,
}

impl FrameDecoder {
    /// Creates a reader for frames of this side.
    pub fn new(sender: Role) -> Self {
        Self {
            sender,
            payload_left: 0,
            mask: None,
            in_message: false,
            close: None,
            pending_pong: None,
        }
    }

    /// Decodes headers and control frames from the beginning of `input`, up to payload or to the end. Returns whether it got
    /// that far; otherwise more bytes must be read.
    ///
    /// # Errors
    /// Something breaks the rules; what it is.
    pub fn advance(&mut self, input: &mut BytesMut) -> Result<bool, &'static str> {
        while self.payload_left == 0 && self.close.is_none() {
            let Some((header, length)) = Header::parse(input, self.sender)? else {
                return Ok(false);
            };
            match header.opcode {
                Opcode::Binary | Opcode::Continuation => {
                    if (header.opcode == Opcode::Continuation) != self.in_message {
                        return Err("messages that are mixed up");
                    }
                    self.in_message = !header.is_final;
                    self.payload_left = header.payload_len;
                    self.mask = header.mask;
                    input.advance(length);
                }
                Opcode::Close | Opcode::Ping | Opcode::Pong => {
                    let Ok(payload) = usize::try_from(header.payload_len) else {
                        return Ok(false);
                    };
                    if input.len() < length + payload {
                        return Ok(false);
                    }
                    input.advance(length);
                    let mut control_payload = input[..payload].to_vec();
                    input.advance(payload);
                    if let Some(mask) = header.mask {
                        apply_mask(&mut control_payload, mask);
                    }
                    self.handle_control(header.opcode, control_payload);
                }
            }
        }
        Ok(true)
    }

    fn handle_control(&mut self, kind: Opcode, payload: Vec<u8>) {
        match kind {
            // Only the last ping needs an answer (section 5.5.3), so that pings take no memory.
            Opcode::Ping => self.pending_pong = Some(payload),
            Opcode::Close => {
                let code = payload.first_chunk().copied().map(u16::from_be_bytes);
                self.close = Some(CloseFrame {
                    code,
                    reason: payload.get(2..).unwrap_or_default().to_vec(),
                });
            }
            _ => {}
        }
    }

    /// Takes payload from the begin of `input`, no more than `max_len` bytes, without its mask. Empty if there is none yet.
    pub fn take_payload(&mut self, input: &mut BytesMut, max_len: usize) -> BytesMut {
        let length = usize::try_from(self.payload_left).unwrap_or(usize::MAX);
        let length = length.min(max_len).min(input.len());
        let mut taken = input.split_to(length);
        if let Some(mask) = &mut self.mask {
            apply_mask(&mut taken, *mask);
            mask.rotate_left(length % 4);
        }
        self.payload_left -= length as u64;
        taken
    }

    /// Returns why the peer closes the WebSocket, once it does.
    pub fn close(&self) -> Option<&CloseFrame> {
        self.close.as_ref()
    }

    /// Returns whether a ping waits for its answer.
    pub fn has_ping(&self) -> bool {
        self.pending_pong.is_some()
    }

    /// Takes the payload of the answer to a ping; each is returned once.
    pub fn take_pong(&mut self) -> Option<Vec<u8>> {
        self.pending_pong.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::put_frame;
    use super::*;
    use proptest::prelude::*;

    /// Returns the output for input in pieces of `piece` bytes, taken in pieces of `max_len` bytes.
    fn read(bytes: &[u8], sender: Role, piece: usize, max_len: usize) -> (Vec<u8>, FrameDecoder) {
        let mut incoming = FrameDecoder::new(sender);
        let mut input = BytesMut::new();
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            while incoming.advance(&mut input).unwrap() && incoming.close().is_none() {
                let taken = incoming.take_payload(&mut input, max_len);
                if taken.is_empty() {
                    break;
                }
                out.extend_from_slice(&taken);
            }
        }
        (out, incoming)
    }

    #[test]
    fn payloads_form_one_stream_for_any_fragmentation() {
        for (sender, mask) in [(Role::Client, Some([9, 8, 7, 6])), (Role::Server, None)] {
            let mut bytes = BytesMut::new();
            put_frame(&mut bytes, Opcode::Binary, b"one, ", mask);
            put_frame(&mut bytes, Opcode::Ping, b"?", mask);
            put_frame(&mut bytes, Opcode::Binary, b"", mask);
            put_frame(&mut bytes, Opcode::Binary, &[7; 300], mask);
            let begin = bytes.len();
            put_frame(&mut bytes, Opcode::Binary, b"in ", mask);
            // Not its last.
            bytes[begin] &= 0x7F;
            put_frame(&mut bytes, Opcode::Pong, b"", mask);
            put_frame(&mut bytes, Opcode::Continuation, b"parts", mask);
            put_frame(&mut bytes, Opcode::Close, b"\x03\xE8bye", mask);
            let expected = [b"one, ", &[7; 300][..], b"in parts"].concat();
            for piece in [1, 3, 7, 1000] {
                for max_len in [1, 5, 1000] {
                    let (out, mut incoming) = read(&bytes, sender, piece, max_len);
                    assert_eq!(out, expected);
                    assert!(incoming.has_ping());
                    assert_eq!(incoming.take_pong().unwrap(), b"?");
                    assert!(!incoming.has_ping());
                    let close = incoming.close().unwrap();
                    assert_eq!((close.code, &close.reason[..]), (Some(1000), &b"bye"[..]));
                }
            }
        }
    }

    #[test]
    fn interleaved_messages_are_rejected() {
        for kinds in [
            &[Opcode::Continuation][..],
            &[Opcode::Binary, Opcode::Binary],
        ] {
            let mut bytes = BytesMut::new();
            for kind in kinds {
                let begin = bytes.len();
                put_frame(&mut bytes, *kind, b"", None);
                bytes[begin] &= 0x7F;
            }
            let error = FrameDecoder::new(Role::Server)
                .advance(&mut bytes)
                .unwrap_err();
            assert_eq!(error, "messages that are mixed up");
        }
    }

    /// Returns the output for arbitrary bytes, and the error in them.
    fn drain(bytes: &[u8], sender: Role, piece: usize) -> (Vec<u8>, Option<&'static str>) {
        let mut incoming = FrameDecoder::new(sender);
        let mut input = BytesMut::new();
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            loop {
                match incoming.advance(&mut input) {
                    Err(problem) => return (out, Some(problem)),
                    Ok(is_there) if !is_there || incoming.close().is_some() => break,
                    Ok(_) => {}
                }
                let taken = incoming.take_payload(&mut input, usize::MAX);
                if taken.is_empty() {
                    break;
                }
                out.extend_from_slice(&taken);
            }
        }
        (out, None)
    }

    /// Arbitrary bytes that often form frames.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let first =
            prop::sample::select(vec![0x82, 0x02, 0x00, 0x80, 0x88, 0x89, 0x8A, 0x81, 0xC2]);
        let frame = (first, 0..=8_u8, any::<bool>(), any::<[u8; 12]>()).prop_map(
            |(first, length, is_masked, rest)| {
                let mask = if is_masked { 0x80 } else { 0 };
                let used = usize::from(length) + if is_masked { 4 } else { 0 };
                [&[first, mask | length], &rest[..used]].concat()
            },
        );
        let garbage = prop::collection::vec(any::<u8>(), 0..20);
        prop::collection::vec(prop_oneof![8 => frame, 1 => garbage], 0..12)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn decoding_does_not_depend_on_fragmentation(bytes in frames(), piece in 1..20_usize) {
            for sender in [Role::Client, Role::Server] {
                prop_assert_eq!(drain(&bytes, sender, piece), drain(&bytes, sender, usize::MAX));
            }
        }
    }
}
