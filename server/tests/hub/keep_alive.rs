//! Keep-alive and PINGREQ.
use crate::world::{HubSimulation, connect};
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored_broker::hub::CloseAction;

#[test]
fn silence_of_one_and_a_half_keep_alives_ends_the_connection() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&Connect {
        keep_alive_s: 10,
        ..connect("me")
    });
    world.advance(14_000);
    world.assert_alive(&mut client);
    world.advance(14_999);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::KeepOpen
    );
    world.advance(1);
    assert_eq!(world.disconnected(&client), ReasonCode::KEEP_ALIVE_TIMEOUT);
    world.advance(1_000);
    assert_eq!(
        world.hub.close_action(client.connection),
        CloseAction::Immediately,
        "it had time to leave"
    );
}

#[test]
fn without_keep_alive_there_is_no_timeout() {
    let mut world = HubSimulation::new();
    let mut client = world.client("me");
    assert_eq!(world.hub.next_wakeup(), None);
    world.advance(100_000_000);
    world.assert_alive(&mut client);
}

#[test]
fn a_slow_packet_is_accepted_and_an_endless_one_times_out() {
    let mut world = HubSimulation::new();
    let keep_alive = |name| Connect {
        keep_alive_s: 10,
        ..connect(name)
    };
    // A QoS 0 message of 60,000 bytes, of which 2,000 come each second.
    let mut slow = world.join(&keep_alive("slow")).0;
    world.bytes(&mut slow, b"\x30\xE0\xD4\x03\0\x01t\0");
    for _ in 0..29 {
        world.bytes(&mut slow, &[0; 2_000]);
        world.advance(1_000);
    }
    world.bytes(&mut slow, &[0; 1_996]);
    world.assert_alive(&mut slow);
    // The same message, a byte now and then.
    let mut idler = world.join(&keep_alive("idler")).0;
    world.bytes(&mut idler, b"\x30\xE0\xD4\x03\0\x01t\0");
    for _ in 0..15 {
        assert_eq!(
            world.hub.close_action(idler.connection),
            CloseAction::KeepOpen
        );
        world.bytes(&mut idler, b"\0");
        world.advance(1_000);
    }
    world.advance(100);
    assert_eq!(world.disconnected(&idler), ReasonCode::KEEP_ALIVE_TIMEOUT);
}
