//! Keep-alive and PINGREQ.
use crate::world::{World, connect};
use statestore::mqtt::{Connect, ReasonCode};
use statestored::front::Closing;

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
    assert_eq!(world.front.closing(client.connection), Closing::No);
    world.pass(1);
    assert_eq!(world.disconnected(&client), ReasonCode::KEEP_ALIVE_TIMEOUT);
    world.pass(1_000);
    assert_eq!(
        world.front.closing(client.connection),
        Closing::Now,
        "it had time to leave"
    );
}

#[test]
fn without_keep_alive_nothing_is_due() {
    let mut world = World::new();
    let mut client = world.client("me");
    assert_eq!(world.front.next_wakeup(), None);
    world.pass(100_000_000);
    world.assert_alive(&mut client);
}
