//! Limits of each user, and of all users together.
use crate::world::{Client, HubSimulation, command, connect, id, message, request, resume, set};
use statestore_protocol::mqtt::{Connect, ReasonCode};
use statestored_access::{Authenticator, RateLimits, UserLimits, UserLimitsMap, Users};
use statestored_broker::hub::{HubConfig, HubLimits};
use statestored_store::keyspace::PrefixLimit;
use statestored_store::service::ServiceConfig;

fn users() -> Authenticator {
    let mut users = Users::default();
    for name in ["ann", "bob"] {
        assert!(users.add(name, b"1"));
    }
    Authenticator::from(users)
}

fn limits(of_ann: &str) -> UserLimitsMap {
    let named = [("ann".into(), UserLimits::parse(of_ann).unwrap())];
    UserLimitsMap {
        named: named.into(),
        ..UserLimitsMap::default()
    }
}

fn world(of_ann: &str) -> HubSimulation {
    HubSimulation::with_service(
        HubConfig {
            authenticator: users(),
            limits: HubLimits {
                users: limits(of_ann),
                ..HubLimits::default()
            },
            ..HubConfig::default()
        },
        ServiceConfig {
            users: limits(of_ann),
            ..ServiceConfig::default()
        },
    )
}

fn with_user(user: &str, connect: Connect) -> Connect {
    Connect {
        user_name: Some(user.into()),
        password: Some("1".into()),
        ..connect
    }
}

fn reason(world: &mut HubSimulation, connect: &Connect) -> ReasonCode {
    world.try_join(connect).1.reason
}

/// Sends this many requests at once and returns how many are answered at once.
fn burst(world: &mut HubSimulation, client: &mut Client, count: usize) -> usize {
    for _ in 0..count {
        world.publish(client, &request(id(9)), &command(&["GET", "k"]));
    }
    answers(world, client)
}

fn answers(world: &mut HubSimulation, client: &Client) -> usize {
    world.packets(client).len() / 2
}

#[test]
fn a_user_has_no_more_connections_than_allowed() {
    let mut world = world("connections=2");
    let (first, _) = world.join(&with_user("ann", resume("a")));
    assert_eq!(
        reason(&mut world, &with_user("ann", connect("b"))),
        ReasonCode::SUCCESS
    );
    assert_eq!(
        reason(&mut world, &with_user("ann", connect("c"))),
        ReasonCode::QUOTA_EXCEEDED
    );
    assert_eq!(
        reason(&mut world, &with_user("bob", connect("d"))),
        ReasonCode::SUCCESS
    );
    assert_eq!(
        reason(&mut world, &with_user("ann", connect("b"))),
        ReasonCode::SUCCESS,
        "taken over"
    );
    world.drop_connection(&first);
    assert_eq!(
        reason(&mut world, &with_user("ann", connect("c"))),
        ReasonCode::SUCCESS
    );
    assert_eq!(
        reason(&mut world, &with_user("ann", resume("a"))),
        ReasonCode::QUOTA_EXCEEDED
    );
}

#[test]
fn a_user_has_no_more_sessions_than_allowed() {
    let mut world = world("sessions=2");
    let (first, _) = world.join(&with_user("ann", resume("a")));
    let (_second, _) = world.join(&with_user("ann", resume("b")));
    assert_eq!(
        reason(&mut world, &with_user("ann", resume("c"))),
        ReasonCode::QUOTA_EXCEEDED
    );
    world.drop_connection(&first);
    assert_eq!(
        reason(&mut world, &with_user("ann", resume("c"))),
        ReasonCode::SUCCESS,
        "for that of `a`"
    );
    assert_eq!(world.hub.metrics().sessions, 2);
    assert_eq!(
        reason(&mut world, &with_user("bob", resume("a"))),
        ReasonCode::SUCCESS
    );
}

#[test]
fn a_rate_limited_client_is_delayed_without_loss() {
    let mut world = world("requests=10");
    let (mut ann, _) = world.join(&with_user("ann", connect("a")));
    let (mut bob, _) = world.join(&with_user("bob", connect("b")));
    assert_eq!(
        burst(&mut world, &mut ann, 30),
        11,
        "a second's worth, and the one that is too many"
    );
    assert!(!world.hub.accepts_input(ann.connection));
    assert_eq!(burst(&mut world, &mut bob, 30), 30);
    let mut answered = 11;
    while answered < 30 {
        world.advance(100);
        world.bytes(&mut ann, &[]);
        let more = answers(&mut world, &ann);
        assert!(more <= 1, "{more} at once");
        answered += more;
    }
    assert_eq!(world.now.mono_ms % 100, 0);
    world.advance(10_000);
    assert_eq!(burst(&mut world, &mut ann, 8), 8);
    assert!(world.hub.metrics().pauses >= 19);
}

#[test]
fn a_rate_limit_pause_does_not_trigger_keep_alive() {
    let mut world = world("bytes=1000");
    let (mut ann, _) = world.join(&Connect {
        keep_alive_s: 1,
        ..with_user("ann", connect("a"))
    });
    // Ten seconds' worth.
    world.publish(&mut ann, &message("t", 1), &[0; 11_000]);
    world.packets(&ann);
    world.advance(9_000);
    assert!(!world.hub.accepts_input(ann.connection));
    world.advance(2_000);
    assert!(world.hub.accepts_input(ann.connection));
    world.assert_alive(&mut ann);
    world.advance(1_600);
    assert_eq!(world.disconnected(&ann), ReasonCode::KEEP_ALIVE_TIMEOUT);
}

#[test]
fn the_total_rate_is_limited() {
    let mut world = HubSimulation::limited(HubLimits {
        rates: RateLimits {
            requests: Some(10),
            bytes: None,
        },
        ..HubLimits::default()
    });
    let mut a = world.client("a");
    let mut b = world.client("b");
    assert_eq!(burst(&mut world, &mut a, 10), 10);
    assert_eq!(burst(&mut world, &mut b, 10), 1);
}

#[test]
fn a_user_over_the_memory_limit_receives_no_more_messages() {
    let mut world = world("held=40000");
    let (mut ann, _) = world.join(&with_user("ann", resume("a")));
    world.subscribe(&mut ann, "t");
    world.drop_connection(&ann);
    let (mut other, _) = world.join(&with_user("ann", resume("other")));
    world.subscribe(&mut other, "t");
    world.drop_connection(&other);
    let (mut bob, _) = world.join(&with_user("bob", resume("b")));
    for number in 1..=10 {
        world.publish(&mut bob, &message("t", number), &[0; 10_000]);
        world.puback(&bob, id(number));
    }
    let statistics = world.hub.metrics();
    assert!(statistics.dropped_full >= 14, "{statistics:?}");
    assert!(statistics.dropped_full < 20, "{statistics:?}");
}

fn prefixes(texts: &[&str]) -> ServiceConfig {
    let parsed = texts.iter().map(|text| PrefixLimit::parse(text).unwrap());
    ServiceConfig {
        prefixes: parsed.collect(),
        ..ServiceConfig::default()
    }
}

fn store(world: &mut HubSimulation, client: &mut Client, key: &str, value: &str) -> bool {
    let answer = world.request(client, &set(key, value)).1;
    match answer.payload_bytes() {
        b"+OK\r\n" => true,
        b"-ERR the quota has been exceeded\r\n" => false,
        other => panic!("{}", other.escape_ascii()),
    }
}

#[test]
fn prefix_limits_apply_also_after_a_reload() {
    let mut world = HubSimulation::with_service(HubConfig::default(), prefixes(&["a/ keys=2"]));
    let mut client = world.client("me");
    for (key, fits) in [
        ("a/1", true),
        ("a/2", true),
        ("a/3", false),
        ("b/1", true),
        ("a/2", true),
    ] {
        assert_eq!(store(&mut world, &mut client, key, "v"), fits, "{key}");
    }
    world.request(&mut client, &command(&["DEL", "a/1"]));
    assert!(store(&mut world, &mut client, "a/3", "v"));

    let other = prefixes(&["a/ keys=3", "b/ bytes=500"]);
    world.hub.set_limits(HubLimits::default(), &other);
    assert!(store(&mut world, &mut client, "a/4", "v"));
    assert!(
        !store(&mut world, &mut client, "a/5", "v"),
        "the others were counted anew"
    );
    assert!(!store(&mut world, &mut client, "b/1", &"v".repeat(600)));
    assert!(store(&mut world, &mut client, "b/1", &"v".repeat(100)));
    world.hub.set_limits(HubLimits::default(), &prefixes(&[]));
    assert!(store(&mut world, &mut client, "b/1", &"v".repeat(600)));
}
