//! Output waits until a crash cannot undo its change. All other output is sent at once.
use crate::world::{Client, HubSimulation, command, connect, id, message, request, resume, set};
use statestore_protocol::mqtt::{Connect, Limits, Packet, PublishHeader, ReasonCode};
use statestored_broker::hub::{HubConfig, HubLimits};
use statestored_storage::Write;
use statestored_store::service::ServiceConfig;

fn world() -> HubSimulation {
    HubSimulation::durable(HubConfig::default())
}

fn send(world: &mut HubSimulation, client: &mut Client, number: u16, payload: &[u8]) {
    let correlation = number.to_be_bytes();
    let header = PublishHeader {
        correlation_data: Some(&correlation),
        ..request(id(number))
    };
    world.publish(client, &header, payload);
}

fn kinds(packets: &[Packet]) -> String {
    let kind = |packet: &Packet| match packet {
        Packet::PubAck(_) => 'a',
        Packet::Publish(_) => 'p',
        Packet::PingResp => '.',
        Packet::Disconnect(_) => 'd',
        other => panic!("{other:?}"),
    };
    packets.iter().map(kind).collect()
}

#[test]
fn a_response_waits_for_preceding_writes() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut other, 1, &command(&["GET", "k"]));
    assert_eq!(kinds(&world.packets(&other)), "ap", "there is no write yet");

    send(&mut world, &mut client, 1, &set("k", "1"));
    send(&mut world, &mut other, 2, &command(&["GET", "k"]));
    assert!(world.packets(&client).is_empty() && world.packets(&other).is_empty());
    let (first, batch) = world.hub.take_batch().unwrap();
    assert_eq!(first, 1);
    assert!(matches!(batch.writes.as_slice(), [Write::Put(_)]));

    send(&mut world, &mut client, 2, &set("k", "2"));
    world.bytes(&mut client, &[0xC0, 0]);
    let (second, _) = world.hub.take_batch().unwrap();
    assert_eq!(world.hub.take_batch(), None);
    send(&mut world, &mut other, 3, &command(&["GET", "k"]));

    assert_eq!(kinds(&world.packets(&client)), ".", "a ping never waits");
    world.hub.mark_durable(first);
    assert_eq!(kinds(&world.packets(&client)), "ap");
    let packets = world.packets(&other);
    assert_eq!(kinds(&packets), "ap");
    let Packet::Publish(get) = &packets[1] else {
        panic!()
    };
    assert_eq!(get.payload_bytes(), b"$1\r\n1\r\n");
    world.hub.mark_durable(second);
    assert_eq!(kinds(&world.packets(&client)), "ap");
    assert_eq!(kinds(&world.packets(&other)), "ap");
    send(&mut world, &mut other, 4, &command(&["GET", "k"]));
    assert_eq!(
        kinds(&world.packets(&other)),
        "ap",
        "everything is durable again"
    );
}

/// Makes everything durable that was written so far.
fn sync(world: &mut HubSimulation) {
    while let Some((sequence, _)) = world.hub.take_batch() {
        world.hub.mark_durable(sequence);
    }
}

/// The payload of the response to the request with this number, which is the only response among the packets.
fn response(packets: &[Packet], number: u16) -> Vec<u8> {
    let mut responses = packets.iter().filter_map(|packet| match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    });
    let response = responses.next().expect("a response");
    assert_eq!(responses.next(), None);
    assert_eq!(response.correlation_data(), Some(&number.to_be_bytes()[..]));
    response.payload_bytes().to_vec()
}

#[test]
fn responses_about_other_keys_do_not_wait() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut client, 1, &set("durable", "1"));
    send(&mut world, &mut client, 2, &set("deleted", "1"));
    send(&mut world, &mut client, 3, &command(&["DEL", "deleted"]));
    sync(&mut world);
    assert_eq!(kinds(&world.packets(&client)), "apapap");

    send(&mut world, &mut client, 4, &set("k", "2"));
    for (number, key, reply) in [
        (1, "durable", "$1\r\n1\r\n"),
        (2, "deleted", "$-1\r\n"),
        (3, "never", "$-1\r\n"),
    ] {
        send(&mut world, &mut other, number, &command(&["GET", key]));
        let packets = world.packets(&other);
        assert_eq!(kinds(&packets), "ap", "{key}");
        assert_eq!(response(&packets, number), reply.as_bytes());
    }

    // On the same connection, PUBACKs are in the order of their PUBLISHes [MQTT-4.6.0-2].
    send(&mut world, &mut client, 5, &command(&["GET", "durable"]));
    let packets = world.packets(&client);
    assert_eq!(kinds(&packets), "p");
    assert_eq!(response(&packets, 5), b"$1\r\n1\r\n");
    sync(&mut world);
    let packets = world.packets(&client);
    assert_eq!(kinds(&packets), "apa");
    assert_eq!(response(&packets, 4), b"+OK\r\n");
    let acknowledged = packets.iter().filter_map(|packet| match packet {
        Packet::PubAck(puback) => Some(puback.packet_id.get()),
        _ => None,
    });
    assert!(acknowledged.eq([4, 5]));
}

#[test]
fn a_read_waits_for_the_last_write_of_its_key() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut client, 1, &set("a", "1"));
    let (first, _) = world.hub.take_batch().unwrap();
    send(&mut world, &mut client, 2, &set("b", "1"));
    let (second, _) = world.hub.take_batch().unwrap();
    send(&mut world, &mut client, 3, &set("c", "1"));
    for (number, key) in [(1, "c"), (2, "b"), (3, "a")] {
        send(&mut world, &mut other, number, &command(&["GET", key]));
    }
    assert!(world.packets(&other).is_empty());
    world.hub.mark_durable(first);
    assert_eq!(response(&world.packets(&other), 3), b"$1\r\n1\r\n");
    world.hub.mark_durable(second);
    assert_eq!(response(&world.packets(&other), 2), b"$1\r\n1\r\n");
    sync(&mut world);
    let packets = world.packets(&other);
    assert_eq!(kinds(&packets), "apaa");
    assert_eq!(response(&packets, 1), b"$1\r\n1\r\n");
}

#[test]
fn a_read_of_several_keys_waits_for_the_newest_of_their_writes() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut client, 1, &set("a", "1"));
    let (first, _) = world.hub.take_batch().unwrap();
    send(&mut world, &mut client, 2, &set("b", "1"));
    let (second, _) = world.hub.take_batch().unwrap();
    send(&mut world, &mut client, 3, &set("c", "1"));
    let read = command(&["MGET", "b", "a", "never"]);
    send(&mut world, &mut other, 1, &read);
    assert!(world.packets(&other).is_empty());
    world.hub.mark_durable(first);
    assert!(world.packets(&other).is_empty());
    world.hub.mark_durable(second);
    let entries = response(&world.packets(&other), 1);
    assert!(entries.starts_with(b"*2\r\n:0\r\n*3\r\n*2\r\n$1\r\n1\r\n"));
    let read = command(&["MGET", "a", "never", "b"]);
    send(&mut world, &mut other, 2, &read);
    assert_eq!(kinds(&world.packets(&other)), "ap", "c is not read");
    let scan = command(&["SCAN", "a", "VALUES"]);
    send(&mut world, &mut other, 3, &scan);
    assert!(world.packets(&other).is_empty());
    sync(&mut world);
    assert_eq!(kinds(&world.packets(&other)), "ap");
}

#[test]
fn an_absent_key_waits_for_its_deletion() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut client, 1, &set("deleted", "1"));
    let expiring = command(&["SET", "expired", "1", "PX", "10"]);
    send(&mut world, &mut client, 2, &expiring);
    sync(&mut world);
    send(&mut world, &mut client, 3, &command(&["DEL", "deleted"]));
    world.advance(10);
    assert_eq!(kinds(&world.packets(&client)), "apap");
    for parts in [
        &["GET", "deleted"][..],
        &["GET", "expired"],
        &["MGET", "deleted"],
        &["MGET", "expired"],
        &["DEL", "deleted"],
        &["VDEL", "expired", "1"],
    ] {
        send(&mut world, &mut other, 1, &command(parts));
        assert!(world.packets(&other).is_empty(), "{parts:?}");
        other = world.client("other");
    }
    sync(&mut world);
    assert_eq!(kinds(&world.packets(&client)), "ap");
}

#[test]
fn refusals_wait_only_if_they_reveal_a_write() {
    let mut world = world();
    let mut client = world.client("me");
    let fenced = PublishHeader {
        user_properties: &[
            ("__ts", "001700000000000:00000:me"),
            ("__ft", "001700000000000:00000:me"),
        ],
        ..request(id(1))
    };
    world.publish(&mut client, &fenced, &set("k", "1"));
    for (parts, waits) in [
        (&["SET", "k", "2", "NX"][..], true),
        (&["SET", "k", "2"], true),
        (&["DEL", "k"], true),
        (&["VDEL", "k", "2"], true),
        (&["SCAN", "*"], true),
        (&["SET", "k"], false),
        (&["SET", "k", "2", "XX"], false),
        (&["NONSENSE"], false),
        (&["KEYNOTIFY", "k"], true),
        (&["KEYNOTIFY", "k", "STOP"], true),
        (&["KEYNOTIFY", "l"], false),
    ] {
        let mut other = world.client("other");
        send(&mut world, &mut other, 1, &command(parts));
        let expected = if waits { "" } else { "ap" };
        assert_eq!(kinds(&world.packets(&other)), expected, "{parts:?}");
    }
    let mut other = world.client("other");
    let untimed = PublishHeader {
        user_properties: &[],
        ..request(id(1))
    };
    world.publish(&mut other, &untimed, &set("k", "2"));
    assert_eq!(kinds(&world.packets(&other)), "ap");
}

#[test]
fn a_quota_error_waits_for_the_writes_that_filled_the_store() {
    let service = ServiceConfig {
        max_keys: 1,
        is_durable: true,
        ..ServiceConfig::default()
    };
    let mut world = HubSimulation::with_service(HubConfig::default(), service);
    let mut client = world.client("me");
    let mut other = world.client("other");
    send(&mut world, &mut client, 1, &set("k", "1"));
    send(&mut world, &mut other, 1, &set("l", "1"));
    assert!(world.packets(&other).is_empty());
    sync(&mut world);
    let refusal = response(&world.packets(&other), 1);
    assert!(refusal.starts_with(b"-ERR"), "{refusal:?}");
}

#[test]
fn a_repeated_response_waits_for_its_write() {
    let mut world = world();
    let (mut client, _) = world.join(&resume("me"));
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.drop_connection(&client);
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    send(&mut world, &mut client, 1, &set("k", "1"));
    let packets = world.packets(&client);
    assert!(
        matches!(packets.as_slice(), [Packet::ConnAck(_)]),
        "{packets:?}"
    );
    let (sequence, batch) = world.hub.take_batch().unwrap();
    assert_eq!(batch.writes.len(), 1, "it is not executed again");
    world.hub.mark_durable(sequence);
    assert_eq!(kinds(&world.packets(&client)), "pap");
}

#[test]
fn a_resent_message_waits_only_for_its_own_write() {
    let mut world = world();
    let (mut client, _) = world.join(&resume("me"));
    let mut other = world.client("other");
    world.subscribe(&mut client, "a");
    world.publish(&mut other, &message("a", 2), b"x");
    send(&mut world, &mut client, 1, &command(&["GET", "durable"]));
    world.drop_connection(&client);
    send(&mut world, &mut other, 1, &set("k", "1"));
    let mut client = world.open();
    world.send(&mut client, |out| resume("me").encode(u32::MAX, out));
    let packets = world.packets(&client);
    let again = packets.iter().filter_map(|packet| match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    });
    assert_eq!(again.filter(|publish| publish.dup()).count(), 2);
}

#[test]
fn connections_become_dirty_when_their_output_is_released() {
    let mut world = world();
    let mut client = world.client("me");
    while world.hub.next_dirty().is_some() {}
    send(&mut world, &mut client, 1, &set("k", "1"));
    assert_eq!(world.hub.next_dirty(), None);
    assert!(world.hub.has_batch());
    let (sequence, _) = world.hub.take_batch().unwrap();
    assert!(!world.hub.has_batch());
    world.hub.mark_durable(sequence);
    assert_eq!(world.hub.next_dirty(), Some(client.connection));
}

#[test]
fn a_refused_set_waits_for_the_write_it_observed() {
    let mut world = world();
    let mut client = world.client("me");
    send(&mut world, &mut client, 1, &set("k", "1"));
    send(
        &mut world,
        &mut client,
        2,
        &command(&["SET", "k", "2", "NX"]),
    );
    let (sequence, batch) = world.hub.take_batch().unwrap();
    assert_eq!(batch.writes.len(), 1);
    assert!(world.packets(&client).is_empty());
    world.hub.mark_durable(sequence);
    assert_eq!(kinds(&world.packets(&client)), "apap");
}

#[test]
fn notifications_wait_for_their_write() {
    let mut world = world();
    let mut watcher = world.client("watcher");
    let mut client = world.client("me");
    send(&mut world, &mut watcher, 1, &command(&["KEYNOTIFY", "k"]));
    assert_eq!(kinds(&world.packets(&watcher)), "ap");
    send(
        &mut world,
        &mut client,
        1,
        &command(&["SET", "k", "v", "PX", "100"]),
    );
    let (sequence, _) = world.hub.take_batch().unwrap();
    assert!(world.packets(&watcher).is_empty());
    world.hub.mark_durable(sequence);
    assert_eq!(kinds(&world.packets(&watcher)), "p");
    world.advance(100);
    assert!(
        world.packets(&watcher).is_empty(),
        "the deletion is not durable yet"
    );
    let (sequence, batch) = world.hub.take_batch().unwrap();
    assert!(matches!(batch.writes.as_slice(), [Write::Delete(_)]) && batch.clock.is_some());
    world.hub.mark_durable(sequence);
    assert_eq!(kinds(&world.packets(&watcher)), "p");
}

#[test]
fn a_queued_message_waits_for_its_write() {
    let mut world = world();
    let limits = Limits {
        receive_maximum: 1,
        ..Limits::default()
    };
    let asked = Connect {
        limits,
        ..resume("me")
    };
    let (mut client, _) = world.join(&asked);
    send(&mut world, &mut client, 1, &set("k", "1"));
    send(&mut world, &mut client, 2, &set("k", "2"));
    world.drop_connection(&client);
    let mut client = world.open();
    world.send(&mut client, |out| asked.encode(u32::MAX, out));
    let packets = world.packets(&client);
    assert!(
        matches!(packets.as_slice(), [Packet::ConnAck(_)]),
        "{packets:?}"
    );
    let (sequence, _) = world.hub.take_batch().unwrap();
    world.hub.mark_durable(sequence);
    let again = world.published(&client);
    assert!(again.len() == 1 && again[0].dup());
    world.acknowledge(&mut client, again[0].packet_id().unwrap());
    let next = world.published(&client);
    assert!(next.len() == 1 && !next[0].dup());
    assert_eq!(next[0].correlation_data(), Some(&2u16.to_be_bytes()[..]));
}

#[test]
fn ordinary_messages_do_not_wait() {
    let mut world = world();
    let mut client = world.client("me");
    let mut other = world.client("other");
    world.subscribe(&mut other, "a");
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.publish(&mut client, &message("a", 2), b"x");
    assert_eq!(world.published(&other).len(), 1);
    assert!(
        world.packets(&client).is_empty(),
        "its PUBACKs keep their order"
    );
}

#[test]
fn unsent_pubacks_count_against_receive_maximum() {
    let limits = HubLimits {
        receive_maximum: 3,
        ..HubLimits::default()
    };
    let mut world = HubSimulation::durable(HubConfig {
        limits,
        ..HubConfig::default()
    });
    let mut client = world.client("me");
    for number in 1..=3 {
        send(&mut world, &mut client, number, &set("k", "1"));
    }
    let (sequence, _) = world.hub.take_batch().unwrap();
    world.hub.mark_durable(sequence);
    assert_eq!(kinds(&world.packets(&client)), "apapap");
    for number in 1..=4 {
        send(&mut world, &mut client, number, &set("k", "2"));
    }
    assert_eq!(
        world.disconnected(&client),
        ReasonCode::RECEIVE_MAXIMUM_EXCEEDED
    );
}

#[test]
fn a_storage_failure_acknowledges_nothing_and_closes_all_connections() {
    let mut world = world();
    let mut client = world.client("me");
    let idle = world.client("idle");
    send(&mut world, &mut client, 1, &set("k", "1"));
    world.hub.take_batch().unwrap();
    world.hub.storage_failed(world.now);
    for client in [&client, &idle] {
        let packets = world.packets(client);
        assert_eq!(kinds(&packets), "d");
        let Packet::Disconnect(disconnect) = &packets[0] else {
            panic!()
        };
        assert_eq!(disconnect.reason, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR);
    }
}

#[test]
fn in_memory_nothing_waits_and_there_are_no_batches() {
    let mut world = HubSimulation::new();
    let (mut client, _) = world.join(&connect("me"));
    send(&mut world, &mut client, 1, &set("k", "1"));
    assert_eq!(kinds(&world.packets(&client)), "ap");
    assert!(!world.hub.has_batch());
    assert_eq!(world.hub.take_batch(), None);
}

#[test]
fn a_change_committed_during_fanout_reaches_all_watchers() {
    const WATCHERS: usize = 200;
    let mut world = world();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|number| {
            let mut client = world.client(&format!("watcher-{number}"));
            world.request(&mut client, &command(&["KEYNOTIFY", "k"]));
            client
        })
        .collect();
    let mut writer = world.client("writer");
    send(&mut world, &mut writer, 1, &set("k", "1"));
    let (commit, _) = world.hub.take_batch().unwrap();
    assert!(world.hub.has_work());
    world.hub.mark_durable(commit);
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    for watcher in &watchers {
        assert_eq!(kinds(&world.packets(watcher)), "p");
    }
}
