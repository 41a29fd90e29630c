//! Inputs that the protocol's codecs reject because they exceed a bound, and the parts of a payload that decoded values
//! share.
use bytes::{Bytes, BytesMut};
use statestore_protocol::{
    Clock, Command, Hlc, HlcError, Reply, ServiceError, TransactionOperation,
    command::{MAX_KEYS, MAX_OPERATIONS},
    mqtt::EncodedProperties,
    property::EncodedTimestamp,
};

fn encoded(encode: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    encode(&mut out);
    out
}

#[test]
fn decoded_parts_share_the_memory_of_the_payload() {
    let payload = Bytes::from(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n".to_vec());
    let range = payload.as_ptr_range();
    let Ok(Command::Set { key, value, .. }) = Command::decode(&payload) else {
        panic!("a SET");
    };
    assert!(range.contains(&key.as_ptr()) && range.contains(&value.as_ptr()));

    let payload = Bytes::from(b"$5\r\nvalue\r\n".to_vec());
    let Ok(Reply::Value(value)) = Reply::decode(&payload) else {
        panic!("a value");
    };
    assert!(payload.as_ptr_range().contains(&value.as_ptr()));
}

#[test]
fn a_transaction_is_limited_to_ten_thousand_operations() {
    let transaction = |count| {
        let operation = TransactionOperation::Del {
            key: "k".into(),
            if_version: None,
            token: None,
        };
        let operations = vec![operation; count];
        encoded(|out| Command::Transact { operations }.encode(out))
    };
    let read = |payload: BytesMut| Command::decode(&payload.freeze());
    let Ok(Command::Transact { operations }) = read(transaction(MAX_OPERATIONS)) else {
        panic!("a TXN");
    };
    assert_eq!(operations.len(), 10_000);
    let too_long = transaction(MAX_OPERATIONS + 1);
    let error = read(too_long.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a transaction has at most 10000 operations"
    );
    let mut cut = too_long.clone();
    cut.truncate(too_long.len() - 1);
    let mut longer = too_long;
    longer.extend_from_slice(b"$0\r\n\r\n");
    for malformed in [cut, longer] {
        assert_eq!(read(malformed), Err(ServiceError::Syntax));
    }
}

#[test]
fn an_mget_is_limited_to_ten_thousand_keys() {
    let encoded_get = |keys: Vec<Bytes>| encoded(|out| Command::GetMany { keys }.encode(out));
    let read = |payload: BytesMut| Command::decode(&payload.freeze());
    let most = vec![Bytes::from_static(b"k"); MAX_KEYS];
    let Ok(Command::GetMany { keys }) = read(encoded_get(most.clone())) else {
        panic!("an MGET");
    };
    assert_eq!(keys.len(), 10_000);
    let mut too_many = most;
    too_many.push(Bytes::new());
    let too_long = encoded_get(too_many);
    let error = read(too_long.clone()).unwrap_err();
    assert_eq!(error.to_string(), "an MGET has at most 10000 keys");
    let mut cut = too_long.clone();
    cut.truncate(too_long.len() - 1);
    let mut longer = too_long;
    longer.extend_from_slice(b"$0\r\n\r\n");
    for malformed in [cut, longer] {
        assert_eq!(read(malformed), Err(ServiceError::Syntax));
    }
}

#[test]
fn a_node_id_is_not_empty_and_has_no_colon() {
    for node_id in ["", ":", "a:b", "a:"] {
        assert_eq!(
            Hlc::new(1, 0, node_id),
            Err(HlcError::NodeId),
            "{node_id:?}"
        );
        assert!(Clock::new(node_id).is_err(), "{node_id:?}");
    }
}

#[test]
fn a_timestamp_too_long_for_a_property_leaves_the_buffer_unchanged() {
    let mut property = EncodedTimestamp::default();
    let longest = 65_535 - "000000000000001:00000:".len();
    for (length, fits) in [(longest, true), (longest + 1, false), (2, true)] {
        let timestamp = Hlc::new(1, 0, &"n".repeat(length)).unwrap();
        let encoded = property.encode(&timestamp).map(EncodedProperties::len).ok();
        let expected = 1 + 2 + "__ts".len() + 2 + timestamp.text_len();
        assert_eq!(encoded, fits.then_some(expected), "{length}");
    }
}
