//! Reads of several keys: MGET where the store has it, single GETs elsewhere.
use crate::capabilities::{answer_capabilities, play, reject_capabilities};
use crate::support::{Broker, Peer, value, version, within};
use crate::{again, connack};
use bytes::Bytes;
use statestore::{
    Capabilities, Client, ConnectionState, Entries, Entry, Error, ErrorKind, GetOptions, Outcome,
    ServiceError, TransactionRecord, Version,
};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Command, Rejection, Reply};
use std::time::Duration;

/// Capabilities of a store with this maximum number of keys in an MGET.
fn with_max_keys(keys: Option<u64>) -> Capabilities {
    let mut store = Capabilities::ALL;
    store.max_get_keys = keys;
    store
}

/// A client of a store whose capabilities are known.
async fn connect(broker: &Broker, capabilities: Capabilities) -> (Client, Peer) {
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let asked = play(client.capabilities(), &mut peer, async |peer| {
        answer_capabilities(peer, capabilities).await;
    });
    asked.await.unwrap();
    (client, peer)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is an element of a list with absent ones"
)]
fn found(text: &'static str, at: u64) -> Option<(Bytes, Version)> {
    Some((Bytes::from_static(text.as_bytes()), Version::new(at, 0)))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is an element of a list with absent ones"
)]
fn entry(text: &'static str, at: u64) -> Option<Entry> {
    Some(Entry::new(text, version(at)))
}

/// Answers an MGET of exactly these keys.
async fn answer_get_many(
    peer: &mut Peer,
    keys: &[&'static str],
    entries: Vec<Option<(Bytes, Version)>>,
    omitted: u64,
) {
    let reply = Reply::Entries { entries, omitted };
    let request = peer.answer(&reply, None).await;
    assert_eq!(request.command, get_many(keys));
}

fn get_many(keys: &[&'static str]) -> Command {
    let keys = keys.iter().map(|key| Bytes::from_static(key.as_bytes()));
    Command::GetMany {
        keys: keys.collect(),
    }
}

/// Answers GETs of these keys, which are absent.
async fn answer_gets(peer: &mut Peer, keys: &[&'static str], eventual: bool) {
    for key in keys {
        let request = peer.answer(&Reply::Nil, None).await;
        let expected = Command::Get {
            key: Bytes::from_static(key.as_bytes()),
            remaining: false,
            eventual,
        };
        assert_eq!(request.command, expected);
    }
}

#[tokio::test]
async fn entries_of_one_response_are_a_snapshot() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let read = play(client.get_many(["a", "b", "a"]), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        let entries = vec![found("1", 7), None, found("1", 7)];
        let reply = Reply::Entries {
            entries,
            omitted: 0,
        };
        let request = peer.answer(&reply, None).await;
        assert_eq!(
            request.publish.payload(),
            &b"*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\na\r\n"[..]
        );
    });
    let expected = Entries::new(vec![entry("1", 7), None, entry("1", 7)], true);
    assert_eq!(read.await.unwrap(), expected);

    // The capabilities are known by now.
    let read = play(client.get_many(["b"]), &mut peer, async |peer| {
        answer_get_many(peer, &["b"], vec![None], 0).await;
    });
    assert_eq!(read.await.unwrap(), Entries::new(vec![None], true));
    assert_eq!(client.counters().sent, 3);
}

#[tokio::test]
async fn no_keys_are_a_snapshot_without_a_request() {
    let broker = Broker::start().await;
    let (client, _peer) = broker.connect(broker.settings()).await;
    let none: [&str; 0] = [];
    let read = client.get_many(none).await.unwrap();
    assert!(read.is_empty() && read.is_snapshot());
    assert_eq!(client.counters().sent, 0);
}

#[tokio::test]
async fn omitted_keys_are_requested_again_without_resending_all_of_them() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let keys = ["a", "b", "c", "d", "e", "f"];
    let read = play(client.get_many(keys), &mut peer, async |peer| {
        answer_get_many(peer, &keys, vec![found("1", 1)], 5).await;
        answer_get_many(peer, &["b", "c"], vec![None, found("3", 3)], 0).await;
        answer_get_many(peer, &["d", "e"], vec![found("4", 4)], 1).await;
        answer_get_many(peer, &["f"], vec![None], 0).await;
        answer_get_many(peer, &["e"], vec![found("5", 5)], 0).await;
    });
    let read = read.await.unwrap();
    let expected = [
        entry("1", 1),
        None,
        entry("3", 3),
        entry("4", 4),
        entry("5", 5),
        None,
    ];
    assert_eq!(read, expected);
    assert!(!read.is_snapshot());
}

#[tokio::test]
async fn more_keys_than_the_store_accepts_need_several_requests() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, with_max_keys(Some(2))).await;
    let keys = ["a", "b", "c", "d", "e"];
    let read = play(client.get_many(keys), &mut peer, async |peer| {
        // The client does not wait for a response before it sends the next request.
        let mut requests = Vec::new();
        for expected in [&keys[..2], &keys[2..4], &keys[4..]] {
            let request = peer.request().await;
            assert_eq!(request.command, get_many(expected));
            requests.push(request);
        }
        for (request, count) in requests.iter().zip([2, 2, 1]).rev() {
            peer.acknowledge(request, ReasonCode::SUCCESS).await;
            let reply = Reply::Entries {
                entries: vec![found("v", count); usize::try_from(count).unwrap()],
                omitted: 0,
            };
            peer.respond(request, &reply, None).await;
        }
    });
    let read = read.await.unwrap();
    let (two, one) = (entry("v", 2), entry("v", 1));
    assert_eq!(read, [two.clone(), two.clone(), two.clone(), two, one]);
    assert!(!read.is_snapshot());

    let read = play(client.get_many(["a", "b"]), &mut peer, async |peer| {
        answer_get_many(peer, &["a", "b"], vec![None; 2], 0).await;
    });
    assert!(read.await.unwrap().is_snapshot());
}

#[tokio::test]
async fn keys_above_the_packet_limit_of_the_broker_need_several_requests() {
    let broker = Broker::start().await;
    let small = connack(|it| it.limits.max_packet_bytes = 4_096);
    let (client, mut peer) = broker.connect_with(broker.settings(), small).await;
    let keys = ["a", "b", "c", "d"].map(|key| key.repeat(1_000));
    let read = play(client.get_many(&keys), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        for expected in [3, 1] {
            let entries = vec![None; expected];
            let reply = Reply::Entries {
                entries,
                omitted: 0,
            };
            let request = peer.answer(&reply, None).await;
            let Command::GetMany { keys } = &request.command else {
                panic!("{:?}", request.command);
            };
            assert_eq!(keys.len(), expected);
        }
    });
    let read = read.await.unwrap();
    assert_eq!(read, [None, None, None, None]);
    assert!(!read.is_snapshot());

    let error = within(client.get_many(["k".repeat(5_000)])).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TooLarge, Outcome::NotDone)
    );
}

#[tokio::test]
async fn a_client_that_accepts_only_small_packets_sends_single_gets() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_packet_bytes(1024 * 1024);
    let (client, mut peer) = broker.connect(settings).await;
    let read = play(client.get_many(["a", "b"]), &mut peer, async |peer| {
        answer_capabilities(peer, Capabilities::ALL).await;
        answer_gets(peer, &["a", "b"], false).await;
    });
    assert!(!read.await.unwrap().is_snapshot());
}

#[tokio::test]
async fn a_store_without_capabilities_is_queried_once_and_gets_single_gets() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let read = play(client.get_many(["a", "b"]), &mut peer, async |peer| {
        reject_capabilities(peer).await;
        peer.answer(&value("1"), Some(&version(1))).await;
        peer.answer(&Reply::Nil, None).await;
    });
    let expected = Entries::new(vec![entry("1", 1), None], false);
    assert_eq!(read.await.unwrap(), expected);
    let read = play(client.get_many(["c"]), &mut peer, async |peer| {
        answer_gets(peer, &["c"], false).await;
    });
    assert_eq!(read.await.unwrap(), Entries::new(vec![None], false));
    assert_eq!(client.counters().sent, 4);
}

#[tokio::test]
async fn a_store_with_other_capabilities_gets_single_gets() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, with_max_keys(None)).await;
    let read = play(client.get_many(["a", "b"]), &mut peer, async |peer| {
        answer_gets(peer, &["a", "b"], false).await;
    });
    assert!(!read.await.unwrap().is_snapshot());
}

#[tokio::test]
async fn options_that_mget_lacks_need_single_gets() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let eventual = GetOptions::new().eventual(true);
    let keys = ["a", "b"];
    let read = client.get_many_with(keys, &eventual);
    let read = play(read, &mut peer, async |peer| {
        answer_gets(peer, &keys, true).await;
    });
    assert!(!read.await.unwrap().is_snapshot());

    let remaining = GetOptions::new().remaining(true);
    let read = client.get_many_with(keys, &remaining);
    let read = play(read, &mut peer, async |peer| {
        for _ in keys {
            let request = peer.answer(&Reply::Nil, None).await;
            let is_get = matches!(
                request.command,
                Command::Get {
                    remaining: true,
                    ..
                }
            );
            assert!(is_get);
        }
    });
    assert!(!read.await.unwrap().is_snapshot());

    // The other options are those of any request.
    let patient = GetOptions::new().timeout(Duration::from_millis(6_500));
    let read = client.get_many_with(["a"], &patient);
    let read = play(read, &mut peer, async |peer| {
        let entries = vec![None];
        let reply = Reply::Entries {
            entries,
            omitted: 0,
        };
        let request = peer.answer(&reply, None).await;
        assert_eq!(request.publish.message_expiry(), Some(7));
    });
    assert!(read.await.unwrap().is_snapshot());
}

#[tokio::test]
async fn a_new_connection_queries_the_store_again() {
    let broker = Broker::start().await;
    let (client, peer) = connect(&broker, Capabilities::ALL).await;
    let mut state = client.state();
    drop(peer);
    let (mut peer, _) = again(&broker, connack(|_| {})).await;
    within(state.wait_for(|state| !state.is_connected()))
        .await
        .unwrap();
    within(state.wait_for(ConnectionState::is_connected))
        .await
        .unwrap();
    let read = play(client.get_many(["a", "b"]), &mut peer, async |peer| {
        reject_capabilities(peer).await;
        answer_gets(peer, &["a", "b"], false).await;
    });
    assert!(!read.await.unwrap().is_snapshot());
}

#[tokio::test]
async fn a_request_that_is_repeated_on_a_store_without_mget_becomes_single_gets() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let answer = async {
        assert_eq!(peer.request().await.command, get_many(&["a", "b"]));
        drop(peer);
        let (mut peer, _) = again(&broker, connack(|_| {})).await;
        let unknown = Reply::Error(ServiceError::UnknownCommand);
        let request = peer.answer(&unknown, None).await;
        assert_eq!(request.command, get_many(&["a", "b"]));
        reject_capabilities(&mut peer).await;
        answer_gets(&mut peer, &["a", "b"], false).await;
        peer
    };
    let read = client.get_many(["a", "b"]);
    let (read, _peer) = within(async { tokio::join!(read, answer) }).await;
    assert_eq!(read.unwrap(), Entries::new(vec![None, None], false));
}

#[tokio::test]
async fn a_transaction_record_is_the_error_of_its_key() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let record = [&TransactionRecord::PREFIX[..], b"rest"].concat();
    let record = Bytes::from(record);
    let read = play(client.get_many(["a", "b"]), &mut peer, async |peer| {
        let entries = vec![found("1", 1), Some((record.clone(), Version::new(2, 0)))];
        answer_get_many(peer, &["a", "b"], entries, 0).await;
    });
    let error = read.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unsupported, Outcome::NotDone)
    );
    assert!(error.to_string().starts_with("GET \"b\": "), "{error}");
    let found = TransactionRecord::of(&error).unwrap();
    assert_eq!((&found.value, &found.version), (&record, &version(2)));
}

async fn answered_with(client: &Client, peer: &mut Peer, reply: Reply) -> Error {
    let read = client.get_many(["a", "b"]);
    let read = play(read, peer, async |peer| {
        peer.answer(&reply, Some(&version(1))).await;
    });
    read.await.unwrap_err()
}

#[tokio::test]
async fn responses_that_do_not_match_the_keys_are_invalid() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let entries = |count, omitted| Reply::Entries {
        entries: vec![None; count],
        omitted,
    };
    for reply in [
        entries(1, 0),
        entries(3, 0),
        entries(2, 1),
        entries(1, u64::MAX),
        entries(0, 2),
        Reply::Ok,
        Reply::Nil,
        value("1"),
        Reply::Page {
            keys: vec!["a".into(), "b".into()],
            token: None,
        },
        Reply::Rejected {
            operation: 0,
            reason: Rejection::Condition(None),
        },
        Reply::Rejected {
            operation: 0,
            reason: Rejection::Error(ServiceError::QuotaExceeded),
        },
    ] {
        let error = answered_with(&client, &mut peer, reply).await;
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidResponse, Outcome::Unknown),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.starts_with("MGET \"a\" and 1 more: "), "{text}");
    }
}

#[tokio::test]
async fn a_rejected_mget_is_the_error_of_all_keys() {
    let broker = Broker::start().await;
    let (client, mut peer) = connect(&broker, Capabilities::ALL).await;
    let refused = Reply::Error(ServiceError::NotAuthorized);
    let error = answered_with(&client, &mut peer, refused).await;
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::NotAuthorized, Outcome::NotDone)
    );
    assert!(
        error.to_string().starts_with("MGET \"a\" and 1 more: "),
        "{error}"
    );
}
