//! Properties of the protocol's codecs and clocks, on generated input.
use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, option, prelude::*};
use statestore_protocol::{
    Capabilities, Clock, Command, Condition, Event, Hlc, Notification, PageEntry, Rejection, Reply,
    ServiceError, SetOptions, TransactionOperation, Version,
    hlc::{MAX_SKEW_MS, next_version},
    mqtt::PublishHeader,
    property::{
        EncodedTimestamp, RequestPairs, RequestProperties, ResponseProperties, client_pairs,
        response_pairs,
    },
    topic,
};
use std::num::NonZeroU64;

/// Any bytes, and often the protocol's own ones.
fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        vec(any::<u8>(), 0..64).prop_map(Bytes::from),
        "[*$:+\\-]{0,3}[0-9]{0,3}(\r\n)?[*$ -~]{0,8}(\r\n)?".prop_map(Bytes::from),
    ]
}

fn key() -> impl Strategy<Value = Bytes> {
    any_bytes().prop_filter("a key is not empty", |key| !key.is_empty())
}

fn set_options() -> impl Strategy<Value = SetOptions> {
    let condition = prop_oneof![
        Just(Condition::Always),
        Just(Condition::IfAbsent),
        Just(Condition::IfAbsentOrEqual),
        version().prop_map(Condition::IfVersion),
    ];
    let expires_in_ms =
        option::of((1..=u64::MAX).prop_map(|ms| NonZeroU64::MIN.saturating_add(ms - 1)));
    (condition, expires_in_ms).prop_map(|(condition, expires_in_ms)| SetOptions {
        condition,
        expires_in_ms,
    })
}

fn version() -> impl Strategy<Value = Version> {
    let number = || prop_oneof![0..4_u64, any::<u64>()];
    (number(), number()).prop_map(|(wall, counter)| Version::new(wall, counter))
}

fn operation() -> impl Strategy<Value = TransactionOperation> {
    prop_oneof![
        (any_bytes(), any_bytes(), set_options(), option::of(hlc())).prop_map(
            |(key, value, options, token)| TransactionOperation::Set {
                key,
                value,
                options,
                token,
            }
        ),
        (any_bytes(), option::of(version()), option::of(hlc())).prop_map(
            |(key, if_version, token)| TransactionOperation::Del {
                key,
                if_version,
                token,
            }
        ),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        (key(), any_bytes(), set_options()).prop_map(|(key, value, options)| Command::Set {
            key,
            value,
            options
        }),
        (key(), any::<bool>(), any::<bool>()).prop_map(|(key, remaining, eventual)| Command::Get {
            key,
            remaining,
            eventual,
        }),
        (key(), option::of(version()))
            .prop_map(|(key, if_version)| Command::Del { key, if_version }),
        (key(), any_bytes(), option::of(version())).prop_map(|(key, value, if_version)| {
            Command::Vdel {
                key,
                value,
                if_version,
            }
        }),
        key().prop_map(|key| Command::Watch { key }),
        key().prop_map(|key| Command::Unwatch { key }),
        key().prop_map(|pattern| Command::WatchPattern { pattern }),
        key().prop_map(|pattern| Command::UnwatchPattern { pattern }),
        (any_bytes(), option::of(any_bytes()), any::<bool>()).prop_map(
            |(pattern, token, values)| Command::Scan {
                pattern,
                token,
                values,
            }
        ),
        vec(key(), 1..9).prop_map(|keys| Command::GetMany { keys }),
        Just(Command::Capabilities),
        vec(operation(), 1..6).prop_map(|operations| Command::Transact { operations }),
    ]
}

/// An error as decoding gives it: a known text, or one that begins and ends as no framing does.
fn service_error() -> impl Strategy<Value = ServiceError> {
    vec(any::<u8>(), 0..40).prop_map(|text| {
        let text = Bytes::from(text);
        let begin = text.iter().take_while(|&&byte| byte == b' ').count();
        let text = text.slice(begin..);
        ServiceError::from_text(&if text.ends_with(b"\r\n") {
            Bytes::new()
        } else {
            text
        })
    })
}

fn rejection() -> impl Strategy<Value = Rejection> {
    prop_oneof![
        option::of(version()).prop_map(Rejection::Condition),
        service_error().prop_map(Rejection::Error),
    ]
}

fn page_entry() -> impl Strategy<Value = PageEntry> {
    let expires_in_ms = option::of(any::<u64>());
    (key(), any_bytes(), version(), expires_in_ms).prop_map(
        |(key, value, version, expires_in_ms)| PageEntry {
            key,
            value,
            version,
            expires_in_ms,
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Ok),
        Just(Reply::NotApplied),
        Just(Reply::Nil),
        any_bytes().prop_map(Reply::Value),
        any::<u64>().prop_map(Reply::Count),
        (vec(key(), 0..8), option::of(any_bytes()))
            .prop_map(|(keys, token)| Reply::Page { keys, token }),
        (vec(page_entry(), 1..6), option::of(any_bytes()))
            .prop_map(|(entries, token)| Reply::EntryPage { entries, token }),
        (
            vec(option::of((any_bytes(), version())), 1..6),
            any::<u64>()
        )
            .prop_map(|(entries, omitted)| Reply::Entries { entries, omitted }),
        (any_bytes(), option::of(any::<u64>())).prop_map(|(value, expires_in_ms)| {
            Reply::ValueAndTime {
                value,
                expires_in_ms,
            }
        }),
        (
            any::<[bool; 5]>(),
            option::of(1..=u64::MAX),
            option::of(1..=u64::MAX),
        )
            .prop_map(|(flags, transactions, max_get_keys)| {
                let mut capabilities = Capabilities::default();
                [
                    capabilities.conditions,
                    capabilities.remaining_time,
                    capabilities.eventual,
                    capabilities.scan_values,
                    capabilities.observe_matching,
                ] = flags;
                capabilities.transactions = transactions;
                capabilities.max_get_keys = max_get_keys;
                Reply::Capabilities(capabilities)
            }),
        vec(option::of(version()), 1..6).prop_map(Reply::Transacted),
        (any::<u64>(), rejection())
            .prop_map(|(operation, reason)| Reply::Rejected { operation, reason }),
        service_error().prop_map(Reply::Error),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Deleted),
        Just(Event::Resync),
        any_bytes().prop_map(Event::Set)
    ]
}

fn hlc() -> impl Strategy<Value = Hlc> {
    // Small numbers, so that equal wall clocks and counters occur; and the greatest ones.
    let number = || prop_oneof![0..4_u64, any::<u64>(), u64::MAX - 2..=u64::MAX];
    (number(), number(), "[^:]{1,30}")
        .prop_map(|(wall, counter, node)| Hlc::new(wall, counter, &node).expect("a valid node id"))
}

/// Cuts, repeats or changes a byte of a well-formed payload.
fn damaged(payload: impl Strategy<Value = BytesMut>) -> impl Strategy<Value = Bytes> {
    (payload, any::<prop::sample::Index>(), any::<u8>(), 0..4).prop_map(
        |(mut payload, at, byte, how)| {
            let at = at.index(payload.len());
            match how {
                0 => payload.truncate(at),
                1 => payload[at] = byte,
                2 => payload.extend_from_slice(&[byte]),
                _ => {
                    let tail = payload.split_off(at);
                    payload.extend_from_slice(&tail[tail.len().min(1)..]);
                }
            }
            payload.freeze()
        },
    )
}

fn encoded(encode: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    encode(&mut out);
    out
}

/// Whatever a decoder accepts, it gives the same again after encoding.
fn decoding_is_stable(payload: &Bytes) {
    if let Ok(command) = Command::decode(payload) {
        let again = encoded(|out| command.encode(out)).freeze();
        assert_eq!(Command::decode(&again), Ok(command));
    }
    if let Ok(reply) = Reply::decode(payload) {
        let again = encoded(|out| reply.encode(out)).freeze();
        assert_eq!(Reply::decode(&again), Ok(reply));
    }
    if let Ok(event) = Event::decode(payload) {
        let again = encoded(|out| event.encode(out)).freeze();
        assert_eq!(Event::decode(&again), Ok(event));
    }
}

proptest! {
    #[test]
    fn commands_round_trip(command in command()) {
        let payload = encoded(|out| command.encode(out));
        prop_assert_eq!(payload.len(), command.encoded_len());
        prop_assert_eq!(Command::decode(&payload.freeze()), Ok(command));
    }

    #[test]
    fn replies_round_trip(reply in reply()) {
        let payload = encoded(|out| reply.encode(out));
        prop_assert_eq!(payload.len(), reply.encoded_len());
        prop_assert_eq!(Reply::decode(&payload.freeze()), Ok(reply));
    }

    #[test]
    fn notifications_round_trip(
        client in "\\PC{1,20}", key in key(), version in hlc(), event in event(),
    ) {
        let payload = encoded(|out| event.encode(out));
        prop_assert_eq!(payload.len(), event.encoded_len());
        let topic = topic::notification(&client, &key);
        let filter = topic::notification_filter(&client);
        prop_assert!(topic.starts_with(filter.trim_end_matches('+')));
        let read = Notification::decode(&client, &topic, Some(&version.to_string()), &payload.freeze());
        prop_assert_eq!(read, Ok(Notification { key, version, event }));
    }

    #[test]
    fn decoding_arbitrary_bytes_does_not_panic(payload in any_bytes()) {
        decoding_is_stable(&payload);
        let _ = ServiceError::from_text(&payload);
    }

    #[test]
    fn decoding_damaged_commands_does_not_panic(
        payload in damaged(command().prop_map(|command| encoded(|out| command.encode(out)))),
    ) {
        decoding_is_stable(&payload);
    }

    #[test]
    fn decoding_damaged_replies_does_not_panic(
        payload in damaged(reply().prop_map(|reply| encoded(|out| reply.encode(out)))),
    ) {
        decoding_is_stable(&payload);
    }

    #[test]
    fn decoding_damaged_notifications_does_not_panic(
        payload in damaged(event().prop_map(|event| encoded(|out| event.encode(out)))),
    ) {
        decoding_is_stable(&payload);
    }

    #[test]
    fn cut_requests_are_syntax_errors(command in command(), at in any::<prop::sample::Index>()) {
        let payload = encoded(|out| command.encode(out)).freeze();
        let cut = payload.slice(..at.index(payload.len()));
        prop_assert_eq!(Command::decode(&cut), Err(ServiceError::Syntax));
    }

    #[test]
    fn parsing_arbitrary_topics_does_not_panic(client in "\\PC{0,8}", topic in "\\PC{0,40}", tail in "\\PC{0,10}") {
        let own = format!("{}{tail}", topic::notification_filter(&client).trim_end_matches('+'));
        for topic in [topic, own] {
            let _ = topic::is_forbidden_response(&topic);
            if let Some(key) = topic::notification_key(&client, &topic) {
                let again = topic::notification(&client, &key);
                prop_assert!(again.eq_ignore_ascii_case(&topic));
            }
        }
    }

    #[test]
    fn timestamps_round_trip(hlc in hlc()) {
        let mut text = Vec::new();
        hlc.write_text(&mut text);
        prop_assert_eq!(text.len(), hlc.text_len());
        prop_assert_eq!(String::from_utf8(text.clone()).ok(), Some(hlc.to_string()));
        prop_assert_eq!(
            hlc.to_string(),
            format!("{:015}:{:05}:{}", hlc.wall_ms(), hlc.counter(), hlc.node_id())
        );
        prop_assert_eq!(Hlc::parse(&text), Ok(hlc.clone()));
        let unpadded = format!("{}:{}:{}", hlc.wall_ms(), hlc.counter(), hlc.node_id());
        prop_assert_eq!(unpadded.parse(), Ok(hlc));
    }

    #[test]
    fn versions_are_the_timestamps_of_stores(version in version(), other in hlc()) {
        let hlc = Hlc::from(version);
        prop_assert_eq!(version.to_string(), hlc.to_string());
        prop_assert_eq!(Version::parse(version.to_string().as_bytes()), Some(version));
        let is_of_a_store = other.node_id() == "StateStore";
        let read = Version::parse(other.to_string().as_bytes());
        prop_assert_eq!(read, is_of_a_store.then(|| Version::from(&other)));
    }

    #[test]
    fn parsing_arbitrary_timestamps_does_not_panic(text in prop_oneof![
        vec(any::<u8>(), 0..40),
        "[0-9:+ -]{0,30}[:a-z]{0,5}".prop_map(String::into_bytes),
    ]) {
        if let Ok(hlc) = Hlc::parse(&text) {
            prop_assert_eq!(hlc.to_string().parse(), Ok(hlc));
        }
    }

    #[test]
    fn timestamps_are_ordered_by_wall_clock_counter_and_node_bytes(one in hlc(), other in hlc()) {
        let parts = |hlc: &Hlc| (hlc.wall_ms(), hlc.counter(), hlc.node_id().as_bytes().to_vec());
        prop_assert_eq!(one.cmp(&other), parts(&one).cmp(&parts(&other)));
        prop_assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
        prop_assert_eq!(one.partial_cmp(&other), Some(one.cmp(&other)));
        prop_assert_eq!(one == other, one.cmp(&other).is_eq());
    }

    #[test]
    fn padded_texts_sort_as_timestamps_do(
        one in (0..10_u64.pow(15), 0..100_000_u64, "[a-z]{1,3}"),
        other in (0..10_u64.pow(15), 0..100_000_u64, "[a-z]{1,3}"),
    ) {
        let hlc = |(wall, counter, node): &(u64, u64, String)| Hlc::new(*wall, *counter, node).unwrap();
        let (one, other) = (hlc(&one), hlc(&other));
        prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
    }

    #[test]
    fn a_version_is_greater_than_request_and_previous_version(
        now in any::<u64>(), request in hlc(), previous in option::of(hlc()),
    ) {
        let greatest = (u64::MAX, u64::MAX);
        let pair = |hlc: &Hlc| (hlc.wall_ms(), hlc.counter());
        let previous = previous.map(|hlc| pair(&hlc));
        prop_assume!(pair(&request) != greatest && previous != Some(greatest));
        let version = next_version(now, &request, previous);
        prop_assert!(version.0 >= now);
        prop_assert!(version > pair(&request));
        prop_assert!(Hlc::store_version(version) > request);
        if let Some(previous) = previous {
            prop_assert!(version > previous);
            prop_assert!(Hlc::store_version(version) > Hlc::store_version(previous));
        }
    }

    #[test]
    fn a_clock_rises_until_it_is_too_far_ahead(steps in vec((0..200_000_u64, option::of((0..400_000_u64, any::<u64>()))), 1..40)) {
        let mut clock = Clock::new("c").unwrap();
        let mut floor = Hlc::new(0, 0, "c").unwrap();
        for (now, received) in steps {
            let forgets = floor.check_skew(now).is_err();
            if forgets {
                floor = Hlc::new(0, 0, "c").unwrap();
            }
            if let Some((wall, counter)) = received {
                let received = Hlc::new(wall, counter, "other").unwrap();
                let is_ahead = clock.is_ahead_of(&received);
                prop_assert_eq!(is_ahead, clock.is_ahead_of(&Hlc::new(wall, counter, "x").unwrap()));
                let (mut merged, mut unmerged) = (clock.clone(), clock.clone());
                if merged.merge(&received, now).is_ok() && is_ahead && !forgets {
                    prop_assert_eq!(merged.tick(now), unmerged.tick(now));
                    prop_assert!(unmerged.is_ahead_of(&received));
                }
                match clock.merge(&received, now) {
                    Ok(()) => floor = floor.max(received),
                    Err(skew) => {
                        prop_assert_eq!(skew.ahead_ms, wall - now);
                        prop_assert!(skew.ahead_ms > MAX_SKEW_MS);
                    }
                }
            }
            let tick = clock.tick(now);
            prop_assert!(tick > floor);
            prop_assert!(tick.wall_ms() >= now);
            // Another millisecond if a full counter was merged.
            prop_assert!(tick.wall_ms() <= now + MAX_SKEW_MS + 1);
            prop_assert_eq!(tick.node_id(), "c");
            // The clock is ahead of the timestamps that it has issued, and of no later one.
            prop_assert!(clock.is_ahead_of(&tick));
            prop_assert!(!clock.is_ahead_of(&tick.at(tick.wall_ms() + 1, 0)));
            floor = tick;
        }
    }

    #[test]
    fn request_properties_round_trip(timestamp in hlc(), token in option::of(hlc()), persist: bool) {
        let (timestamp_text, token_text) = (timestamp.to_string(), token.as_ref().map(Hlc::to_string));
        let pairs = RequestPairs {
            timestamp: &timestamp_text,
            fencing_token: token_text.as_deref(),
            persist,
        };
        let read = RequestProperties::parse(client_pairs("client").into_iter().chain(pairs.iter()));
        prop_assert_eq!(read.timestamp, Some(Ok(timestamp)));
        prop_assert_eq!(read.fencing_token, token.map(Ok));
        prop_assert_eq!(read.persist, persist);
    }

    #[test]
    fn reusing_an_encoded_timestamp_encodes_like_a_new_one(
        all in vec(hlc().prop_filter("MQTT has no U+0000", |hlc| !hlc.node_id().contains('\0')), 1..6),
    ) {
        let mut property = EncodedTimestamp::default();
        for timestamp in all {
            let text = timestamp.to_string();
            let bytes = |header: PublishHeader<'_>| {
                let mut out = BytesMut::new();
                header.encode(u32::MAX, &mut out, 0, |_| {}).unwrap();
                out
            };
            let whole = bytes(PublishHeader { user_properties: &[("__ts", &text)], ..PublishHeader::default() });
            let encoded = property.encode(&timestamp).unwrap();
            prop_assert_eq!(bytes(PublishHeader { encoded_last: Some(encoded), ..PublishHeader::default() }), whole);
        }
    }

    #[test]
    fn response_properties_round_trip(version in option::of(hlc())) {
        let text = version.as_ref().map(Hlc::to_string);
        let read = ResponseProperties::parse(response_pairs(text.as_deref()));
        prop_assert_eq!(read, Ok(ResponseProperties { version, version_error: None }));
    }

    #[test]
    fn an_rpc_error_round_trips_its_text(status in option::of("\\PC{0,5}"), text in "\\PC{1,20}") {
        let pairs = status.as_deref().map(|status| ("__stat", status));
        let pairs = pairs.into_iter().chain([("__stMsg", text.as_str())]);
        if let Err(error) = ResponseProperties::parse(pairs) {
            prop_assert!(error.message.contains(&text));
            prop_assert!(error.to_string().contains(&text));
        }
    }
}
