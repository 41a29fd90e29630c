//! The request that each call sends, and its result for each response.
use crate::support::{Broker, CLIENT_ID, Peer, Request, value, version, within};
use statestore::{
    Client, Condition, DelOptions, DelOutcome, Entry, Error, ErrorKind, GetOptions, Outcome,
    SetOptions, SetOutcome, VdelOutcome,
};
use statestore_protocol::mqtt::ReasonCode;
use statestore_protocol::{Command, Reply, ServiceError, property, topic};
use std::time::Duration;

/// Makes a call and answers its one request.
async fn call<T>(
    client: &Client,
    peer: &mut Peer,
    future: impl Future<Output = Result<T, Error>>,
    reply: &Reply,
    with_version: Option<u64>,
) -> (Result<T, Error>, Request) {
    assert!(client.state().borrow().is_connected());
    let version = with_version.map(version);
    within(async { tokio::join!(future, peer.answer(reply, version.as_ref())) }).await
}

#[tokio::test]
async fn a_request_carries_the_required_properties() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let token = version(7);
    let options = SetOptions::new()
        .condition(Condition::IfAbsentOrEqual)
        .expires_in(Duration::from_micros(1_500))
        .fencing_token(token.clone())
        .persist(true)
        .timeout(Duration::from_millis(2_001));
    let set = client.set_with("key", b"\0\xFF", &options);
    let (result, request) = call(&client, &mut peer, set, &Reply::Ok, Some(9)).await;
    assert_eq!(
        result.unwrap(),
        SetOutcome::Applied {
            version: version(9)
        }
    );

    let publish = &request.publish;
    assert_eq!(publish.topic(), topic::REQUEST);
    assert_eq!(
        publish.response_topic(),
        Some(topic::response(CLIENT_ID).as_str())
    );
    assert_eq!(publish.correlation_data().unwrap().len(), 16);
    assert_eq!(
        publish.message_expiry(),
        Some(3),
        "whole seconds, rounded up"
    );
    assert_eq!(publish.content_type(), Some("application/octet-stream"));
    assert!(!publish.dup() && !publish.retain() && publish.payload_is_utf8().is_none());
    assert_eq!(
        publish.payload(),
        &b"*6\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\n\0\xFF\r\n$3\r\nNEX\r\n$2\r\nPX\r\n$1\r\n2\r\n"[..]
    );
    assert_eq!(
        request.user(property::FENCING_TOKEN),
        Some(token.to_string().as_str())
    );
    assert_eq!(request.user(property::SOURCE_ID), Some(CLIENT_ID));
    assert_eq!(request.user(property::PROTOCOL_VERSION), Some("1.0"));
    assert_eq!(request.user(property::PARTITION), Some(CLIENT_ID));
    assert_eq!(request.user(property::PERSIST), Some("true"));
    request
        .user(property::TIMESTAMP)
        .unwrap()
        .parse::<statestore::Hlc>()
        .unwrap();
}

#[tokio::test]
async fn timestamps_increase_and_follow_the_clock_of_the_store() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let timestamp = |request: Request| -> statestore::Hlc {
        request.user(property::TIMESTAMP).unwrap().parse().unwrap()
    };
    let (_, request) = call(&client, &mut peer, client.get("key"), &Reply::Nil, None).await;
    let first = timestamp(request);
    // Half a minute ahead is taken over.
    let ahead = first.wall_ms() + 30_000;
    let (_, request) = call(
        &client,
        &mut peer,
        client.set("key", ""),
        &Reply::Ok,
        Some(ahead),
    )
    .await;
    assert!(timestamp(request) > first);
    let (_, request) = call(&client, &mut peer, client.get("key"), &Reply::Nil, None).await;
    let second = timestamp(request);
    assert_eq!((second.wall_ms(), second.counter()), (ahead, 1));
    assert_eq!(client.counters().clock_skews, 0);

    // An hour ahead is not, and the operation succeeds nevertheless.
    let far = first.wall_ms() + 3_600_000;
    let (result, _) = call(
        &client,
        &mut peer,
        client.set("key", ""),
        &Reply::Ok,
        Some(far),
    )
    .await;
    assert_eq!(
        result.unwrap(),
        SetOutcome::Applied {
            version: version(far)
        }
    );
    assert_eq!(client.counters().clock_skews, 1);
    let (_, request) = call(&client, &mut peer, client.get("key"), &Reply::Nil, None).await;
    assert_eq!(timestamp(request).wall_ms(), ahead);
}

#[tokio::test]
async fn each_reply_maps_to_its_result() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let peer = &mut peer;

    let (result, _) = call(&client, peer, client.get("k"), &value("v"), Some(3)).await;
    assert_eq!(result.unwrap(), Some(Entry::new("v", version(3))));
    let (result, _) = call(&client, peer, client.get("k"), &Reply::Nil, None).await;
    assert_eq!(result.unwrap(), None);

    let (result, _) = call(
        &client,
        peer,
        client.set("k", "v"),
        &Reply::NotApplied,
        Some(4),
    )
    .await;
    assert_eq!(
        result.unwrap(),
        SetOutcome::NotApplied {
            version: Some(version(4))
        }
    );

    let (result, request) = call(&client, peer, client.del("k"), &Reply::Count(1), Some(5)).await;
    assert_eq!(
        result.unwrap(),
        DelOutcome::Deleted {
            version: Some(version(5))
        }
    );
    assert_eq!(
        request.command,
        Command::Del {
            key: "k".into(),
            if_version: None
        }
    );
    let (result, _) = call(&client, peer, client.del("k"), &Reply::Count(0), None).await;
    assert_eq!(result.unwrap(), DelOutcome::Absent);

    let (result, request) = call(
        &client,
        peer,
        client.vdel("k", "v"),
        &Reply::Count(1),
        Some(5),
    )
    .await;
    assert_eq!(
        result.unwrap(),
        VdelOutcome::Deleted {
            version: Some(version(5))
        }
    );
    assert_eq!(
        request.command,
        Command::Vdel {
            key: "k".into(),
            value: "v".into(),
            if_version: None
        }
    );
    let (result, _) = call(&client, peer, client.vdel("k", "v"), &Reply::Count(0), None).await;
    assert_eq!(result.unwrap(), VdelOutcome::Absent);
    let (result, _) = call(
        &client,
        peer,
        client.vdel("k", "v"),
        &Reply::NotApplied,
        Some(5),
    )
    .await;
    let unasked = VdelOutcome::Mismatch { version: None };
    assert_eq!(result.unwrap(), unasked);

    let options = DelOptions::new().fencing_token(version(1));
    let (_, request) = call(
        &client,
        peer,
        client.del_with("k", &options),
        &Reply::Count(0),
        None,
    )
    .await;
    assert_eq!(
        request.user(property::FENCING_TOKEN),
        Some(version(1).to_string().as_str())
    );
}

#[tokio::test]
async fn errors_of_the_store_map_to_their_kinds() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for (service_error, kind) in [
        (
            ServiceError::FencingTokenLower,
            ErrorKind::FencingTokenLower,
        ),
        (ServiceError::QuotaExceeded, ErrorKind::QuotaExceeded),
        (ServiceError::NotAuthorized, ErrorKind::NotAuthorized),
        (
            ServiceError::Other("out of cheese".into()),
            ErrorKind::OtherRefusal,
        ),
    ] {
        let reply = Reply::Error(service_error.clone());
        let (result, _) = call(&client, &mut peer, client.set("lock/1", "v"), &reply, None).await;
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
        assert_eq!(error.service_error(), Some(&service_error));
        assert_eq!(
            error.to_string(),
            format!("SET \"lock/1\": the store refused: {service_error}")
        );
    }
}

#[tokio::test]
async fn malformed_responses_are_invalid() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    // Responses of another command, without the mandatory version, or unknown to the protocol.
    for (reply, with_version) in [
        (Reply::Count(1), Some(1)),
        (value("v"), None),
        (Reply::Ok, None),
    ] {
        let (result, _) = call(&client, &mut peer, client.get("k"), &reply, with_version).await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidResponse, Outcome::Unknown)
        );
    }
    for (payload, users, kind, outcome) in [
        (
            &b""[..],
            &[("__stat", "200")][..],
            ErrorKind::InvalidResponse,
            Outcome::Unknown,
        ),
        (
            b"$-5\r\n",
            &[("__stat", "200")],
            ErrorKind::InvalidResponse,
            Outcome::Unknown,
        ),
        (b"", &[], ErrorKind::Rpc, Outcome::Unknown),
        (
            b"",
            &[("__stat", "500"), ("__apErr", "true")],
            ErrorKind::Rpc,
            Outcome::Unknown,
        ),
        (
            b"",
            &[("__stat", "400"), ("__stMsg", "no timestamp")],
            ErrorKind::Rpc,
            Outcome::NotDone,
        ),
    ] {
        let answer = async {
            let request = peer.request().await;
            peer.acknowledge(&request, ReasonCode::SUCCESS).await;
            peer.respond_with(&request, payload, users).await;
        };
        let (result, ()) = within(async { tokio::join!(client.set("k", "v"), answer) }).await;
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (kind, outcome),
            "{users:?}"
        );
    }
}

#[tokio::test]
async fn a_request_that_the_store_cannot_parse_is_not_retryable() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for (status, retryable) in [
        ("400", false),
        ("408", true),
        ("415", false),
        ("500", true),
        ("503", true),
        ("505", false),
    ] {
        let mut answer = async || {
            let request = peer.request().await;
            peer.acknowledge(&request, ReasonCode::SUCCESS).await;
            peer.respond_with(&request, b"", &[("__stat", status)])
                .await;
        };
        let (result, ()) = within(async { tokio::join!(client.set("k", "v"), answer()) }).await;
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rpc);
        assert_eq!(error.is_retryable(), retryable, "{status}");
        if !retryable {
            // Waiting for a lock of such a store fails.
            let (guard, ()) = within(async { tokio::join!(client.lock("k"), answer()) }).await;
            assert_eq!(guard.unwrap_err().kind(), ErrorKind::Rpc);
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_rejected_without_a_request() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let no_time = SetOptions::new().expires_in(Duration::ZERO);
    for error in [
        client.get("").await.unwrap_err(),
        client.set("", "v").await.unwrap_err(),
        client.del("").await.unwrap_err(),
        client.vdel("", "v").await.unwrap_err(),
        client.observe("").await.unwrap_err(),
        client.get_many(&["a", ""]).await.unwrap_err(),
        client.set_with("k", "v", &no_time).await.unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidArgument, Outcome::NotDone)
        );
    }
    let in_no_time = GetOptions::new().timeout(Duration::ZERO);
    let error = client.get_with("k", &in_no_time).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::TimedOut, Outcome::NotDone)
    );
    // The first thing that the broker sees is the next good request.
    let (_, request) = call(&client, &mut peer, client.get("last"), &Reply::Nil, None).await;
    assert_eq!(request.key(), b"last");
}

#[tokio::test]
async fn a_scan_follows_its_tokens() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let page = |keys: &[&'static str], token: Option<&'static str>| Reply::Page {
        keys: keys.iter().map(|key| (*key).into()).collect(),
        token: token.map(Into::into),
    };
    let answer = async {
        let first = peer.answer(&page(&["a"], Some("\0t1")), None).await;
        assert_eq!(
            first.command,
            Command::Scan {
                pattern: "*".into(),
                token: None,
                values: false
            }
        );
        let second = peer.answer(&page(&[], Some("t2")), None).await;
        assert_eq!(
            second.command,
            Command::Scan {
                pattern: "*".into(),
                token: Some("\0t1".into()),
                values: false
            }
        );
        peer.answer(&page(&["b", "c"], None), None).await;
    };
    let scan = async {
        let mut scan = client.scan("*");
        let mut keys = Vec::new();
        while let Some(key) = scan.next().await.unwrap() {
            keys.push(key);
        }
        assert_eq!(scan.next_page().await.unwrap(), None);
        keys
    };
    let (keys, ()) = within(async { tokio::join!(scan, answer) }).await;
    assert_eq!(keys, ["a", "b", "c"]);

    // A store that runs in circles is not followed.
    let circle = page(&[], Some("t"));
    let mut scan = client.scan("*");
    let (page_1, _) =
        within(async { tokio::join!(scan.next_page(), peer.answer(&circle, None)) }).await;
    assert_eq!(page_1.unwrap(), Some(vec![]));
    let (page_2, _) =
        within(async { tokio::join!(scan.next_page(), peer.answer(&circle, None)) }).await;
    assert_eq!(page_2.unwrap_err().kind(), ErrorKind::InvalidResponse);

    // Nor is one whose tokens take turns.
    let mut scan = client.scan("*");
    let answer = async {
        for token in ["one", "two"].into_iter().cycle() {
            peer.answer(&page(&[], Some(token)), None).await;
        }
    };
    let pages = async {
        loop {
            if let Err(error) = scan.next_page().await {
                return error;
            }
        }
    };
    let error = within(async {
        tokio::select! {
            error = pages => error,
            () = answer => unreachable!(),
        }
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::InvalidResponse);
    assert!(client.counters().sent < 20);
}
