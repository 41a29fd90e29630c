//! A decoder that knows what a sender's PUBLISHes begin with finds in each what one finds that knows nothing.
use crate::{MAX, encoded, id};
use bytes::BytesMut;
use proptest::prelude::*;
use statestore_protocol::mqtt::{CommonPrefix, Decoder, Packet, PublishHeader, decode};

/// A PUBLISH as some sender would write it: much is the same in all of one sender.
fn publish(sender: u8, number: u16, is_aliased: bool) -> BytesMut {
    let name = format!("sender-{sender}");
    let answers = format!("answers/{name}/{}", "x".repeat(usize::from(sender) * 20));
    let constant = [("__srcId", name.as_str()), ("__protVer", "1.0")];
    let stamp = format!("{number}:0:{name}");
    let users = match sender % 3 {
        // The property that changes comes first.
        0 => vec![("__ts", stamp.as_str()), constant[0], constant[1]],
        _ => vec![constant[0], constant[1], ("__ts", stamp.as_str())],
    };
    let correlation = number.to_be_bytes();
    let header = PublishHeader {
        topic: if is_aliased { "" } else { "requests" },
        packet_id: Some(id(number)),
        topic_alias: is_aliased.then_some(1),
        message_expiry: Some(u32::from(number % 7)),
        content_type: (sender != 1).then_some("text/plain"),
        response_topic: Some(&answers),
        correlation_data: (sender != 2).then_some(&correlation),
        user_properties: &users,
        ..PublishHeader::default()
    };
    encoded(|out| header.encode(MAX, out, 2, |out| out.extend_from_slice(b"ab")))
}

proptest! {
    #[test]
    fn a_used_decoder_decodes_like_a_new_one(
        packets in prop::collection::vec(
            (
                prop_oneof![6 => Just(4_u8), 1 => 0_u8..4],
                1..u16::MAX,
                any::<bool>(),
                prop_oneof![
                    4 => Just(None),
                    1 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(Some)
                ],
            ),
            0..300,
        )
    ) {
        let mut experienced = Decoder::default();
        for (sender, number, is_aliased, damage) in packets {
            let mut packet = publish(sender, number, is_aliased);
            if let Some((at, byte)) = damage {
                // Behind the fixed header, so that it is still a whole packet.
                let at = 3 + at.index(packet.len() - 3);
                packet[at] = byte;
            }
            let fresh = decode(&mut packet.clone(), MAX);
            prop_assert_eq!(experienced.decode(&mut packet.clone(), MAX), fresh.clone());
            if let (Ok(Some(Packet::Publish(publish))), None) = (fresh, damage) {
                let stamp = format!("{number}:0:sender-{sender}");
                prop_assert!(publish.user_properties().any(|pair| pair == ("__ts", stamp.as_str())));
                prop_assert_eq!(publish.user_properties().count(), 3);
            }
        }
    }
}

/// Returns what a decoder recognizes of the next packet.
fn recognized(decoder: &mut Decoder, mut packet: BytesMut) -> CommonPrefix {
    decoder.decode(&mut packet, MAX).unwrap().unwrap();
    decoder.common_prefix()
}

#[test]
fn a_common_prefix_is_recognized_after_some_publishes() {
    let nothing = CommonPrefix::default();
    // The first of their properties, which rises with the number, is the same every seventh time.
    let next = |decoder: &mut Decoder, sender, number: u16| {
        recognized(decoder, publish(sender, 7 * number, false))
    };
    let mut decoder = Decoder::default();
    for number in 1..=16 {
        assert_eq!(next(&mut decoder, 1, number), nothing);
        assert_eq!(decoder.bytes(), 0, "after {number}");
    }
    // The first is remembered, the next one shows what both have, and from then on it is known.
    for number in 17..=18 {
        assert_eq!(next(&mut decoder, 1, number), nothing);
    }
    let first = next(&mut decoder, 1, 19);
    assert_ne!(first, nothing);
    assert_eq!(next(&mut decoder, 1, 20), first);
    // Another sender takes its place only when it has sent many.
    for number in 1..=64 {
        assert_eq!(next(&mut decoder, 4, number), nothing);
    }
    assert_eq!(next(&mut decoder, 1, 21), first);
    for number in 65..=66 {
        assert_eq!(next(&mut decoder, 4, number), nothing);
    }
    let second = next(&mut decoder, 4, 67);
    assert!(second != nothing && second != first, "{second:?}");
    assert_eq!(next(&mut decoder, 1, 22), nothing);
}

#[test]
fn a_publish_without_a_common_prefix_is_evicted() {
    let mut decoder = Decoder::default();
    // The last of these is remembered, and its first property is another one than that of all the others.
    for number in [7; 16].into_iter().chain([1]).chain([7; 66]) {
        let seen = recognized(&mut decoder, publish(1, number, false));
        assert_eq!(seen, CommonPrefix::default());
    }
    let seen = recognized(&mut decoder, publish(1, 7, false));
    assert_ne!(seen, CommonPrefix::default());
}

/// Returns the bytes that a decoder holds after 30 packets with this topic and this value of a user property.
fn cached_bytes(topic: &str, value: &str) -> usize {
    let header = PublishHeader {
        topic,
        user_properties: &[("name", value)],
        ..PublishHeader::default()
    };
    let mut decoder = Decoder::default();
    for _ in 0..30 {
        let packet = encoded(|out| header.encode(MAX, out, 0, |_| {}));
        recognized(&mut decoder, packet);
    }
    decoder.bytes()
}

#[test]
fn cached_bytes_are_counted() {
    let ten = "0123456789";
    let least = cached_bytes(ten, ten);
    assert!(least > 40, "{least}");
    assert_eq!(cached_bytes(&ten.repeat(2), ten), least + 10);
    assert_eq!(cached_bytes(ten, &ten.repeat(2)), least + 10);
}

#[test]
fn long_publishes_are_not_cached() {
    let long = "x".repeat(1024);
    assert!(cached_bytes(&long, "") > 0);
    assert_eq!(cached_bytes(&format!("{long}x"), ""), 0);
    assert_eq!(cached_bytes("t", &long), 0);
}
