//! Keep-alive and PINGREQ.
use crate::world::{World, connect};
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored::hub::Closing;

#[test]
fn silence_of_one_and_a_half_keep_alives_ends_the_connection() {
    let mut world = World::new();
    let (mut client, _) = world.join(&Connect {
        keep_alive_s: 10,
        ..connect("me")
    });
    world.pass(14_000);
    world.assert_alive(&mut client);
    world.pass(14_999);
    assert_eq!(world.hub.closing(client.connection), Closing::No);
    world.pass(1);
    assert_eq!(world.disconnected(&client), ReasonCode::KEEP_ALIVE_TIMEOUT);
    world.pass(1_000);
    assert_eq!(
        world.hub.closing(client.connection),
        Closing::Now,
        "it had time to leave"
    );
}

#[test]
fn without_keep_alive_nothing_is_due() {
    let mut world = World::new();
    let mut client = world.client("me");
    assert_eq!(world.hub.next_wakeup(), None);
    world.pass(100_000_000);
    world.assert_alive(&mut client);
}

#[test]
fn a_slow_packet_is_waited_for_and_one_that_never_ends_is_not() {
    let mut world = World::new();
    let keep_alive = |name| Connect {
        keep_alive_s: 10,
        ..connect(name)
    };
    // A QoS 0 message of 60,000 bytes, of which 2,000 come each second.
    let mut slow = world.join(&keep_alive("slow")).0;
    world.bytes(&mut slow, b"\x30\xE0\xD4\x03\0\x01t\0");
    for _ in 0..29 {
        world.bytes(&mut slow, &[0; 2_000]);
        world.pass(1_000);
    }
    world.bytes(&mut slow, &[0; 1_996]);
    world.assert_alive(&mut slow);
    // The same message, a byte now and then.
    let mut idler = world.join(&keep_alive("idler")).0;
    world.bytes(&mut idler, b"\x30\xE0\xD4\x03\0\x01t\0");
    for _ in 0..15 {
        assert_eq!(world.hub.closing(idler.connection), Closing::No);
        world.bytes(&mut idler, b"\0");
        world.pass(1_000);
    }
    world.pass(100);
    assert_eq!(world.disconnected(&idler), ReasonCode::KEEP_ALIVE_TIMEOUT);
}
