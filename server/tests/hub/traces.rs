//! Requests as operators see them.
use crate::world::{HubSimulation, command, id, request, set};
use statestore_protocol::glob::Glob;
use statestored_broker::hub::request_trace::RequestFilter;
use statestored_broker::hub::{HubConfig, HubLimits};

fn everything() -> RequestFilter {
    RequestFilter {
        sample: 1_000_000,
        verb: None,
        client: None,
        user: None,
        key: None,
        with_values: false,
    }
}

#[test]
fn a_slow_request_is_listed_with_its_duration() {
    let mut world = HubSimulation::new();
    let mut client = world.client("pump");
    world.hub.set_time_us(0);
    world.request(&mut client, &command(&["GET", "fast"]));
    world.hub.set_time_us(9_999);
    world.request(&mut client, &command(&["GET", "slow"]));
    world.hub.set_time_us(19_999);
    let slow = world.hub.slow_requests();
    assert_eq!(slow.len(), 1, "{slow:?}");
    assert_eq!((&*slow[0].client, slow[0].verb), ("pump", "get"));
    assert_eq!(slow[0].key.as_deref(), Some(&b"slow"[..]));
    assert_eq!((slow[0].result, slow[0].duration_us), ("absent", 10_000));
    assert_eq!(slow[0].at_ms, world.now.wall_ms);
}

#[test]
fn a_slow_disk_makes_requests_slow() {
    let mut world = HubSimulation::durable(HubConfig::default());
    let mut client = world.client("pump");
    world.hub.set_time_us(0);
    world.publish(&mut client, &request(id(9)), &set("key", "value"));
    let (sequence, _) = world.hub.take_batch().unwrap();
    world.hub.set_time_us(50_000);
    assert!(world.hub.slow_requests().is_empty());
    world.hub.mark_durable(sequence);
    let slow = world.hub.slow_requests();
    assert_eq!(slow.len(), 1);
    assert_eq!((slow[0].verb, slow[0].duration_us), ("set", 50_000));
    assert_eq!(slow[0].value_bytes, Some(5));
    assert_eq!(slow[0].value, None);
}

#[test]
fn the_list_of_slow_requests_is_bounded() {
    let mut world = HubSimulation::limited(HubLimits {
        slow_request_ms: 0,
        ..HubLimits::default()
    });
    let mut client = world.client("pump");
    for number in 0..300 {
        world.hub.set_time_us(number);
        world.request(&mut client, &command(&["GET", &number.to_string()]));
    }
    world.hub.set_time_us(300);
    let slow = world.hub.slow_requests();
    assert_eq!(slow.len(), 128);
    assert_eq!(slow[0].key.as_deref(), Some(&b"299"[..]));
}

#[test]
fn a_viewer_gets_the_selected_requests() {
    let mut world = HubSimulation::new();
    let (mut pump, mut valve) = (world.client("pump"), world.client("valve"));
    let filters = [
        everything(),
        RequestFilter {
            verb: Some("set".into()),
            client: Some("pump".into()),
            key: Some(Glob::new(b"line1/*")),
            with_values: true,
            ..everything()
        },
        RequestFilter {
            sample: 0,
            ..everything()
        },
        RequestFilter {
            user: Some("ann".into()),
            ..everything()
        },
    ];
    let viewers = filters.map(|filter| world.hub.add_viewer(filter, world.now).unwrap());
    assert_eq!(world.hub.add_viewer(everything(), world.now), None);
    world.hub.set_time_us(0);
    world.request(&mut pump, &set("line1/a", "value"));
    world.request(&mut pump, &set("line2/a", "value"));
    world.request(&mut valve, &set("line1/b", "value"));
    world.request(&mut valve, &command(&["GET", "line1/a"]));
    world.hub.set_time_us(10);
    let taken = viewers.map(|viewer| world.hub.take_viewed(viewer, world.now).unwrap());
    let counts = taken
        .each_ref()
        .map(|(requests, left_out)| (requests.len(), *left_out));
    assert_eq!(counts, [(4, 0), (1, 0), (0, 0), (0, 0)]);
    assert_eq!(taken[0].0[0].value, None);
    assert_eq!(taken[1].0[0].value.as_deref(), Some(&b"value"[..]));
    world.hub.remove_viewer(viewers[0]);
    assert_eq!(world.hub.take_viewed(viewers[0], world.now), None);
    assert!(world.hub.add_viewer(everything(), world.now).is_some());
    assert_eq!(world.hub.add_viewer(everything(), world.now), None);
    world.advance(60_000);
    let replacement = world.hub.add_viewer(everything(), world.now);
    assert!(replacement.is_some(), "no viewer has taken anything lately");
}

#[test]
fn a_slow_viewer_learns_how_many_requests_were_left_out() {
    let mut world = HubSimulation::new();
    let mut client = world.client("pump");
    let viewer = world.hub.add_viewer(everything(), world.now).unwrap();
    for number in 0..1_100 {
        world.hub.set_time_us(number);
        world.request(&mut client, &command(&["GET", "key"]));
    }
    world.hub.set_time_us(2_000);
    let (requests, left_out) = world.hub.take_viewed(viewer, world.now).unwrap();
    assert_eq!((requests.len(), left_out), (1_024, 76));
}

#[test]
fn frequent_keys_are_estimated_from_a_sample() {
    let mut world = HubSimulation::new();
    let mut client = world.client("pump");
    world.hub.set_time_us(0);
    for number in 0..4_000 {
        let key = if number % 4 == 0 { "cold" } else { "hot" };
        world.request(&mut client, &command(&["GET", key]));
        world.hub.set_time_us(number);
    }
    let hot = world.hub.hot_keys(world.now);
    assert_eq!(hot[0].key, "hot");
    assert!((1_500..6_000).contains(&hot[0].requests), "{hot:?}");
}
