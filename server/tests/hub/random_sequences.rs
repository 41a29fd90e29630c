//! Bytes and packets in any order: no panic, and no effect on other clients.
use crate::world::{HubSimulation, MAX, connect, id, message, request, resume};
use bytes::BytesMut;
use proptest::prelude::*;
use statestore_protocol::mqtt::{
    Connect, Disconnect, PubAck, PublishHeader, ReasonCode, Subscribe, Subscription, Unsubscribe,
};

/// A step of a client; some come at the wrong time.
#[derive(Debug, Clone)]
enum ClientStep {
    Connect { resume: bool },
    Subscribe(u8),
    Unsubscribe(u8),
    Publish { topic: u8, qos: bool },
    Request(Vec<u8>),
    Acknowledge(u16),
    Disconnect(bool),
    Bytes(Vec<u8>),
    Damage { offset: usize, byte: u8 },
    Read,
    Lose,
    Pass(u64),
}

fn step() -> impl Strategy<Value = ClientStep> {
    prop_oneof![
        3 => any::<bool>().prop_map(|resume| ClientStep::Connect { resume }),
        2 => (0..4_u8).prop_map(ClientStep::Subscribe),
        1 => (0..4_u8).prop_map(ClientStep::Unsubscribe),
        4 => (0..4_u8, any::<bool>()).prop_map(|(topic, qos)| ClientStep::Publish { topic, qos }),
        4 => "\\*3\r\n\\$3\r\nSET\r\n\\$1\r\n[ab]\r\n\\$1\r\nv\r\n|\\*2\r\n\\$9\r\nKEYNOTIFY\r\n\\$1\r\n[ab]\r\n"
            .prop_map(|text| ClientStep::Request(text.into_bytes())),
        3 => (1..6_u16).prop_map(ClientStep::Acknowledge),
        1 => any::<bool>().prop_map(ClientStep::Disconnect),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(ClientStep::Bytes),
        2 => (0..60_usize, any::<u8>()).prop_map(|(offset, byte)| ClientStep::Damage { offset, byte }),
        3 => Just(ClientStep::Read),
        1 => Just(ClientStep::Lose),
        2 => (0..40_000_u64).prop_map(ClientStep::Pass),
    ]
}

const TOPICS: [&str; 4] = ["a", "a/b", "$x", "b"];
const FILTERS: [&str; 4] = ["#", "a/+", "+", "b"];

fn encode(step: &ClientStep, out: &mut BytesMut) {
    match step {
        ClientStep::Connect { resume: true } => resume("me").encode(MAX, out).unwrap(),
        ClientStep::Connect { resume: false } => {
            Connect {
                keep_alive_s: 10,
                ..connect("me")
            }
            .encode(MAX, out)
            .unwrap();
        }
        ClientStep::Subscribe(filter) => {
            let filter = FILTERS[usize::from(*filter)];
            let subscriptions = vec![Subscription::at_least_once(filter)];
            let packet = Subscribe {
                packet_id: id(1),
                subscription_id: Some(3),
                subscriptions,
            };
            packet.encode(MAX, out).unwrap();
        }
        ClientStep::Unsubscribe(filter) => {
            let filters = vec![FILTERS[usize::from(*filter)].into()];
            Unsubscribe {
                packet_id: id(1),
                filters,
            }
            .encode(MAX, out)
            .unwrap();
        }
        ClientStep::Publish { topic, qos } => {
            let packet_id = qos.then(|| id(2));
            let header = PublishHeader {
                packet_id,
                ..message(TOPICS[usize::from(*topic)], 2)
            };
            header
                .encode(MAX, out, 1, |out| out.extend_from_slice(b"x"))
                .unwrap();
        }
        ClientStep::Request(payload) => {
            request(id(3))
                .encode(MAX, out, payload.len(), |out| {
                    out.extend_from_slice(payload);
                })
                .unwrap();
        }
        ClientStep::Acknowledge(number) => PubAck::success(id(*number)).encode(MAX, out).unwrap(),
        ClientStep::Disconnect(good) => {
            let reason = if *good {
                ReasonCode::SUCCESS
            } else {
                ReasonCode::DISCONNECT_WITH_WILL
            };
            Disconnect::new(reason).encode(MAX, out).unwrap();
        }
        ClientStep::Bytes(bytes) => out.extend_from_slice(bytes),
        ClientStep::Damage { offset, byte } => {
            request(id(3)).encode(MAX, out, 0, |_| ()).unwrap();
            out[*offset] = *byte;
        }
        ClientStep::Read | ClientStep::Lose | ClientStep::Pass(_) => {}
    }
}

proptest! {
    #[test]
    fn any_sequence_does_not_affect_other_clients(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = HubSimulation::new();
        let mut other = world.client("other");
        let alone = world.hub.metrics().held_bytes;
        let mut client = world.open();
        for step in &steps {
            match step {
                ClientStep::Lose => {
                    world.drop_connection(&client);
                    client = world.open();
                }
                ClientStep::Read => {
                    world.output(&client);
                }
                ClientStep::Pass(milliseconds) => world.advance(*milliseconds),
                step => world.send(&mut client, |out| {
                    encode(step, out);
                    Ok(())
                }),
            }
        }
        world.drop_connection(&client);
        world.assert_alive(&mut other);
        world.advance(100_000);
        prop_assert_eq!(world.hub.metrics().connections, 1);
        prop_assert_eq!(world.hub.metrics().sessions, 1);
        prop_assert_eq!(world.hub.metrics().held_bytes, alone);
    }
}
