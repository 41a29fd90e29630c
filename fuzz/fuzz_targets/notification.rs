//! A message of any topic, timestamp and payload: a notification or an error, and the same message again.
#![no_main]
use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use statestore_protocol::{Event, Notification, topic};

fuzz_target!(|message: (&str, &str, Option<&str>, &[u8])| {
    let (client_id, level, timestamp, payload) = message;
    let payload = Bytes::copy_from_slice(payload);
    let filter = topic::notification_filter(client_id);
    let own = filter.replace('+', level);
    for topic in [level, &own] {
        let Ok(notification) = Notification::decode(client_id, topic, timestamp, &payload) else {
            continue;
        };
        let mut out = BytesMut::new();
        notification.event.encode(&mut out);
        assert_eq!(out.len(), notification.event.encoded_len());
        assert_eq!(
            Event::decode(&out.freeze()).as_ref(),
            Ok(&notification.event)
        );
        let again = topic::notification(client_id, &notification.key);
        assert!(again.eq_ignore_ascii_case(topic));
    }
});
