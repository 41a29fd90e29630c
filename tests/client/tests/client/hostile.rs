//! A broker that means harm: no panic, no hang, no memory without bound; what breaks the protocol ends the connection and
//! is counted, and the client comes back.
use crate::support::{Broker, CLIENT_ID, Peer, Request, session_present, value, version, within};
use bytes::BytesMut;
use statestore::{Client, ErrorKind, Hlc, Observation, Observer};
use statestore_protocol::mqtt::{ConnAck, Connect, Packet, PublishHeader, ReasonCode, UnsubAck};
use statestore_protocol::{Command, Event, Reply, property, topic};

const YEAR_MS: u64 = 365 * 24 * 3_600_000;

async fn observe(client: &Client, peer: &mut Peer) -> Observer {
    let answer = peer.answer(&Reply::Ok, None);
    within(async { tokio::join!(client.observe("k"), answer) })
        .await
        .0
        .unwrap()
}

/// The next connection, with the session kept if it may be.
async fn reconnect(broker: &Broker) -> Peer {
    crate::again(broker, session_present()).await.0
}

/// Sends a request and answers it correctly.
async fn serve(client: &Client, peer: &mut Peer) {
    let (reply, version) = (value("v"), version(1));
    let answer = peer.answer(&reply, Some(&version));
    let (entry, _) = within(async { tokio::join!(client.get("k"), answer) }).await;
    assert_eq!(entry.unwrap().unwrap().value, "v");
}

#[tokio::test]
async fn many_user_properties_are_ignored() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer).await;
    let timestamp = version(2).to_string();
    let mut users = vec![("name", "value"); 50_000];
    users.push((property::STATUS, "200"));
    users.push((property::TIMESTAMP, &timestamp));
    // The first value of a repeated name counts.
    users.extend(vec![(property::STATUS, "500"); 10_000]);
    let answer = async {
        let request = peer.request().await;
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        peer.respond_with(&request, b"$1\r\nv\r\n", &users).await;
    };
    let (entry, ()) = within(async { tokio::join!(client.get("k"), answer) }).await;
    assert_eq!(entry.unwrap().unwrap().version, version(2));

    let header = PublishHeader {
        topic: &topic::notification(CLIENT_ID, b"k"),
        user_properties: &users,
        ..PublishHeader::default()
    };
    let mut payload = BytesMut::new();
    Event::Deleted.encode(&mut payload);
    peer.publish(&header, &payload).await;
    assert_eq!(
        within(observer.next()).await,
        Some(Observation::Deleted {
            version: Some(version(2))
        })
    );
}

#[tokio::test]
async fn more_user_properties_than_a_packet_may_have_end_the_connection() {
    let broker = Broker::start().await;
    let settings = broker.settings().max_packet_bytes(10_000);
    let (client, mut peer) = broker.connect(settings).await;
    let header = PublishHeader {
        topic: &topic::response(CLIENT_ID),
        user_properties: &vec![("name", "value"); 1_000],
        ..PublishHeader::default()
    };
    peer.publish(&header, b"").await;
    match peer.packet().await {
        Packet::Disconnect(end) => assert_eq!(end.reason, ReasonCode::PACKET_TOO_LARGE),
        other => panic!("a DISCONNECT was expected: {other:?}"),
    }
    let mut peer = reconnect(&broker).await;
    assert_eq!(client.counters().protocol_errors, 1);
    serve(&client, &mut peer).await;
}

#[tokio::test]
async fn a_timestamp_a_year_ahead_is_reported_and_not_merged() {
    let broker = Broker::start().await;
    let (client, mut peer) = broker.connect(broker.settings()).await;
    let mut observer = observe(&client, &mut peer).await;
    let far = |wall_ms| Hlc::new(wall_ms, u64::MAX, "StateStore").unwrap();
    let now_ms = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis();
    let now_ms = u64::try_from(now_ms).unwrap();
    let far_version = far(now_ms + YEAR_MS);
    peer.notify(b"k", &Event::Deleted, &far_version).await;
    // Any client of the broker could have published that. A version in a response of the store itself is reported.
    peer.answer(&value("v"), Some(&far_version)).await;
    assert_eq!(within(observer.next()).await, Some(Observation::Resync));
    assert_eq!(
        within(observer.next()).await,
        Some(Observation::Set {
            value: "v".into(),
            version: far_version
        })
    );
    assert_eq!(client.counters().clock_skews, 2);
    let request = async {
        let request = peer.request().await;
        let sent: Hlc = request.user(property::TIMESTAMP).unwrap().parse().unwrap();
        assert!(sent.wall_ms() < now_ms + YEAR_MS / 2, "{sent}");
        peer.acknowledge(&request, ReasonCode::SUCCESS).await;
        peer.respond(&request, &Reply::Ok, Some(&far(u64::MAX)))
            .await;
    };
    let (set, ()) = within(async { tokio::join!(client.set("k", "v"), request) }).await;
    assert_eq!(set.unwrap().version(), Some(&far(u64::MAX)));
    assert_eq!(client.counters().clock_skews, 3);
}

#[tokio::test]
async fn messages_before_the_suback_are_not_queued() {
    let broker = Broker::start().await;
    let accept = async {
        let mut peer = broker.accept().await;
        peer.connect().await;
        peer.send_connack(ConnAck::new(ReasonCode::SUCCESS)).await;
        for number in 1..2_000 {
            peer.notify(b"k", &Event::Deleted, &version(number)).await;
        }
        // The messages arrive between the SUBSCRIBE and the responses.
        peer.subscribe().await;
        peer
    };
    let (client, mut peer) =
        within(async { tokio::join!(Client::connect(broker.settings()), accept) }).await;
    let client = client.unwrap();
    serve(&client, &mut peer).await;
    assert_eq!(client.counters().stale_notifications, 0);
}

#[tokio::test]
async fn an_unusable_assigned_client_id_is_rejected() {
    let broker = Broker::start().await;
    for id in ["+".to_owned(), "a/#".into(), "x".repeat(40_000)] {
        let settings = broker.settings().client_id("");
        let accept = async {
            let mut peer = broker.accept().await;
            peer.connect().await;
            peer.send_connack(ConnAck {
                assigned_client_id: Some(id.clone()),
                ..ConnAck::new(ReasonCode::SUCCESS)
            })
            .await;
            match peer.packet().await {
                Packet::Disconnect(end) => assert_eq!(end.reason, ReasonCode::PROTOCOL_ERROR),
                other => panic!("a DISCONNECT was expected: {other:?}"),
            }
        };
        let (client, ()) = within(async { tokio::join!(Client::connect(settings), accept) }).await;
        assert_eq!(client.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}

/// Numbers that look random and are the same in each run.
struct PacketNoise(u64);

impl PacketNoise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
    /// A good packet with some bytes changed, or no packet at all.
    fn bytes(&mut self) -> Vec<u8> {
        let mut out = BytesMut::new();
        let topic = topic::response(CLIENT_ID);
        let header = PublishHeader {
            topic: &topic,
            correlation_data: Some(&[7; 16]),
            user_properties: &[("__stat", "200")],
            ..PublishHeader::default()
        };
        match self.below(4) {
            0 => session_present().encode(u32::MAX, &mut out).unwrap(),
            1 => Connect::default().encode(u32::MAX, &mut out).unwrap(),
            2 => header
                .encode(u32::MAX, &mut out, 5, |out| {
                    out.extend_from_slice(b"+OK\r\n");
                })
                .unwrap(),
            _ => out.extend((0..self.below(60)).map(|_| self.next().to_le_bytes()[0])),
        }
        for _ in 0..self.below(4) {
            if !out.is_empty() {
                let place = self.below(out.len());
                out[place] = self.next().to_le_bytes()[0];
            }
        }
        out.to_vec()
    }
}

#[tokio::test]
async fn arbitrary_input_in_every_phase_is_survived() {
    let broker = Broker::start().await;
    let (client, peer) = broker.connect(broker.settings()).await;
    drop(peer);
    let mut noise = PacketNoise(0x5EED);
    for round in 0..300 {
        let mut peer = broker.accept().await;
        peer.connect().await;
        if round % 3 != 0 {
            peer.send_connack(session_present()).await;
        }
        for _ in 0..noise.below(4) {
            // The client may have closed the connection already.
            let _ = peer.try_send(&noise.bytes()).await;
        }
    }
    let mut peer = reconnect(&broker).await;
    // The noise may have cost the session.
    let answer = async {
        loop {
            match peer.packet().await {
                Packet::Subscribe(subscribe) => {
                    let granted = [ReasonCode::GRANTED_QOS_1; 2];
                    peer.send_suback(&subscribe, &granted).await;
                }
                Packet::Unsubscribe(unsubscribe) => {
                    let mut out = BytesMut::new();
                    let unsuback = UnsubAck {
                        packet_id: unsubscribe.packet_id,
                        reasons: vec![ReasonCode::SUCCESS],
                        reason_string: None,
                    };
                    unsuback.encode(u32::MAX, &mut out).unwrap();
                    peer.send_bytes(&out).await;
                }
                Packet::Publish(publish) => {
                    let command = Command::decode(&publish.payload()).unwrap();
                    let request = Request { publish, command };
                    peer.acknowledge(&request, ReasonCode::SUCCESS).await;
                    peer.respond(&request, &Reply::Nil, None).await;
                    return;
                }
                _ => {}
            }
        }
    };
    let (entry, ()) = within(async { tokio::join!(client.get("k"), answer) }).await;
    assert_eq!(entry.unwrap(), None);
    let counters = client.counters();
    assert!(counters.protocol_errors > 50, "{counters:?}");
    assert_eq!((counters.in_flight, counters.queued), (0, 0));
}
