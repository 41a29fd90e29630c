//! Messages over a good connection: acknowledgements, batches, topic aliases, values of any size.
use crate::support::{Broker, CLIENT_ID, session_present, version};
use crate::{again, connack, ended, spawn_get, spawn_set};
use bytes::BytesMut;
use statestore::{ErrorKind, Outcome};
use statestore_protocol::mqtt::{Packet, PacketId, PublishHeader, ReasonCode};
use statestore_protocol::{Reply, topic};

#[tokio::test]
async fn a_rejected_publish_ends_its_request() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for (reason, kind, retryable) in [
        (
            ReasonCode::NO_MATCHING_SUBSCRIBERS,
            ErrorKind::NoStore,
            true,
        ),
        (ReasonCode::QUOTA_EXCEEDED, ErrorKind::Rejected, true),
        (ReasonCode::NOT_AUTHORIZED, ErrorKind::Rejected, false),
        (ReasonCode(0xF0), ErrorKind::Rejected, false),
    ] {
        let set = spawn_set(&client, "k");
        let request = peer.request().await;
        peer.acknowledge(&request, reason).await;
        let error = ended(set).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotDone));
        assert_eq!(
            (error.mqtt_reason(), error.is_retryable()),
            (Some(reason), retryable)
        );
    }
}

#[tokio::test]
async fn batches_of_any_size_are_followed_by_the_next() {
    let broker = Broker::start().await;
    let (_client, mut peer) = broker.connect(broker.settings()).await;
    let response_topic = topic::response(CLIENT_ID);
    let header = |id| PublishHeader {
        topic: &response_topic,
        packet_id: PacketId::new(id),
        ..PublishHeader::default()
    };
    // Around the numbers of packets that are handled at a time.
    for count in [1, 63, 64, 65, 127, 128, 129, 256, 384] {
        let mut batch = BytesMut::new();
        for id in 1..=count {
            header(id).encode(u32::MAX, &mut batch, 0, |_| {}).unwrap();
        }
        peer.send_bytes(&batch).await;
        for _ in 0..count {
            assert!(matches!(peer.packet().await, Packet::PubAck(_)));
        }
    }
}

#[tokio::test]
async fn unmatched_responses_are_counted_and_acknowledged() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let response_topic = topic::response(CLIENT_ID);
    for correlation_data in [
        None,
        Some(&b""[..]),
        Some(b"short"),
        Some(&[0; 16]),
        Some(&[0; 70]),
    ] {
        peer.publish(
            &PublishHeader {
                topic: &response_topic,
                correlation_data,
                ..PublishHeader::default()
            },
            b"+OK\r\n",
        )
        .await;
        assert!(matches!(peer.packet().await, Packet::PubAck(_)));
    }
    assert_eq!(client.counters().unmatched_responses, 5);
}

#[tokio::test]
async fn topic_aliases_are_used_in_both_directions() {
    let broker = Broker::start().await;
    let aliases = connack(|it| it.limits.topic_alias_maximum = 1);
    let (client, mut peer) = broker.connect_with(broker.settings(), aliases).await;
    let response_topic = topic::response(CLIENT_ID);
    for number in 0..3 {
        let get = spawn_get(&client, "k");
        let request = peer.request().await;
        let expected = if number == 0 { topic::REQUEST } else { "" };
        assert_eq!(
            (request.publish.topic(), request.publish.topic_alias()),
            (expected, Some(1))
        );
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        let topic = if number == 0 {
            response_topic.as_str()
        } else {
            ""
        };
        let header = PublishHeader {
            topic,
            topic_alias: Some(16),
            correlation_data: request.publish.correlation_data(),
            user_properties: &[("__stat", "200")],
            ..PublishHeader::default()
        };
        peer.publish(&header, b"$-1\r\n").await;
        assert_eq!(ended(get).await.unwrap(), None);
    }
    // An unacknowledged request that was named by its alias is named in full on the next connection.
    let get = spawn_get(&client, "k");
    assert_eq!(peer.request().await.publish.topic(), "");
    drop(peer);
    let (mut peer, _) = again(&broker, session_present()).await;
    let request = peer.answer(&Reply::Nil, None).await;
    assert_eq!(
        (request.publish.topic(), request.publish.topic_alias()),
        (topic::REQUEST, None)
    );
    ended(get).await.unwrap();
}

#[tokio::test]
async fn values_of_any_size_are_transferred() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    for size in [0, 1, 127, 128, 16_384, 65_536, 3_000_000] {
        let bytes = vec![0xA5; size];
        let set = tokio::spawn({
            let (client, bytes) = (client.clone(), bytes.clone());
            async move { client.set("k", bytes).await }
        });
        let request = peer.answer(&Reply::Ok, Some(&version(1))).await;
        assert_eq!(
            request.publish.payload().len(),
            request.publish.payload_bytes().len()
        );
        ended(set).await.unwrap();
        let get = spawn_get(&client, "k");
        peer.answer(&Reply::Value(bytes.clone().into()), Some(&version(1)))
            .await;
        assert_eq!(ended(get).await.unwrap().unwrap().value, bytes);
    }
}
