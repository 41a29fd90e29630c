//! Drains, and disconnections by an operator.
use crate::world::{HubSimulation, command, connect, resume};
use statestore_protocol::mqtt::ReasonCode;
use statestored_broker::hub::inspect_clients::{ConnectionFilter, ConnectionOrder};

#[test]
fn a_drain_disconnects_clients_evenly_and_refuses_others() {
    let mut world = HubSimulation::new();
    let clients = ["a", "b", "c", "d"].map(|name| world.client(name));
    world.hub.begin_drain(4_000, world.now);
    assert!(world.hub.is_draining());
    let (_, refused) = world.try_join(&connect("e"));
    assert_eq!(refused.reason, ReasonCode::USE_ANOTHER_SERVER);
    for (left, client) in clients.iter().enumerate().rev() {
        world.advance(1_000);
        assert_eq!(world.hub.connected_clients(), left);
        assert_eq!(world.disconnected(client), ReasonCode::USE_ANOTHER_SERVER);
    }
    world.hub.end_drain();
    world.client("e");
}

#[test]
fn the_end_of_a_drain_keeps_the_remaining_clients() {
    let mut world = HubSimulation::new();
    let mut first = world.client("first");
    world.join(&resume("second"));
    world.hub.begin_drain(2_000, world.now);
    world.advance(1_000);
    world.hub.end_drain();
    world.advance(2_000);
    assert_eq!(world.hub.connected_clients(), 1);
    world.assert_alive(&mut first);
    let (_, connack) = world.join(&resume("second"));
    assert!(connack.session_present);
}

#[test]
fn a_drain_without_time_disconnects_all_clients_at_once() {
    let mut world = HubSimulation::new();
    for number in 0..1_000 {
        world.client(&number.to_string());
    }
    world.hub.begin_drain(0, world.now);
    world.advance(1);
    assert_eq!(world.hub.connected_clients(), 0);
}

#[test]
fn connections_are_sorted_by_their_recent_requests() {
    let mut world = HubSimulation::new();
    let mut clients = ["idle", "busy", "slow"].map(|name| world.client(name));
    for (client, requests) in clients.iter_mut().zip([0, 9, 3]) {
        for _ in 0..requests {
            world.request(client, &command(&["GET", "key"]));
        }
    }
    let filter = ConnectionFilter::default();
    let order = ConnectionOrder::RequestRate;
    let (found, is_complete) = world.hub.top_connections(&filter, order, world.now);
    let found: Vec<_> = found.iter().map(|it| (&*it.client, it.requests)).collect();
    assert_eq!(found, [("busy", 9), ("slow", 3), ("idle", 0)]);
    assert!(is_complete);
    world.advance(60_000);
    let (found, _) = world.hub.top_connections(&filter, order, world.now);
    assert!(found.iter().all(|it| it.requests_per_1000_s == 0));
}
