//! Accuracy of the memory budgets: the counted bytes are no less than the allocated bytes, and not much more.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "../hub/store.rs"]
mod store;
#[path = "../hub/world.rs"]
#[allow(dead_code, reason = "the tests of the hub use more of it")]
mod world;

use allocation_counter::measure;
use bytes::BytesMut;
use statestore_protocol::mqtt::{Packet, PublishHeader, ReasonCode};
use statestore_protocol::property::RequestProperties;
use statestored_access::Principal;
use statestored_store::service::{Request, RequestEnvelope, Service, ServiceConfig};
use world::{Client, HubSimulation, START_WALL_MS, command, connect, id, message, request, resume};

/// Runs `work` and checks that the bytes which it has allocated and not freed are counted. The count may be less by `slack`, and more by
/// a factor of `excess` plus `slack`. Up to 4 KiB a connection are not counted at every step.
fn assert_counted(
    what: &str,
    slack: usize,
    excess: usize,
    counted: impl Fn() -> usize,
    work: impl FnOnce(),
) {
    let before = counted();
    let allocated = usize::try_from(measure(work).bytes_current).unwrap();
    let counted = counted() - before;
    println!("{what}: {allocated} bytes allocated, {counted} counted");
    assert!(
        counted + slack >= allocated,
        "{what}: {counted} of {allocated}"
    );
    assert!(
        counted <= excess * allocated + slack,
        "{what}: {counted} for {allocated}"
    );
}

#[test]
fn entries_are_counted_at_their_allocated_size() {
    for (size, lives) in [
        (0, false),
        (10, true),
        (100, false),
        (1_000, true),
        (100_000, false),
    ] {
        let service = std::cell::RefCell::new(Service::embedded(ServiceConfig::default()));
        let client = "c".into();
        let value = "v".repeat(size);
        let counted = || usize::try_from(service.borrow().size().bytes).unwrap();
        assert_counted(&format!("entries of {size}"), 20_000, 2, counted, || {
            for key in 0..20_000_000 / (size + 1_000) {
                let key = key.to_string();
                let parts = ["SET", &key, &value, "PX", "100000"];
                let payload = command(&parts[..if lives { 5 } else { 3 }]);
                let timestamp = statestore_protocol::Hlc::new(START_WALL_MS, 0, "c").unwrap();
                let request = Request {
                    client: &client,
                    principal: &Principal::default(),
                    rights: None,
                    correlation: b"1",
                    payload: &payload,
                    properties: RequestProperties {
                        timestamp: Some(Ok(timestamp)),
                        ..RequestProperties::default()
                    },
                    may_be_redelivered: false,
                };
                let now = statestored_common::ClockReading {
                    wall_ms: START_WALL_MS,
                    mono_ms: 0,
                };
                let envelope = RequestEnvelope {
                    request,
                    deadline_ms: None,
                    has_capacity: true,
                    max_reply_bytes: usize::MAX,
                    is_shared: false,
                };
                service.borrow_mut().submit(&envelope, now);
            }
        });
    }
}

fn held(world: &HubSimulation) -> usize {
    usize::try_from(world.hub.metrics().held_bytes).unwrap()
}

/// Checks that the memory which `work` takes in a world is counted.
fn assert_held(what: &str, excess: usize, work: impl FnOnce(&mut HubSimulation)) {
    let world = std::cell::RefCell::new(HubSimulation::new());
    assert_counted(
        what,
        40_000,
        excess,
        || held(&world.borrow()),
        || {
            work(&mut world.borrow_mut());
        },
    );
}

fn offline(world: &mut HubSimulation, client_id: &str, filter: &str) {
    let (mut client, _) = world.join(&resume(client_id));
    world.subscribe(&mut client, filter);
    world.drop_connection(&client);
}

#[test]
fn sessions_and_connections_are_counted_at_their_allocated_size() {
    assert_held("sessions", 4, |world| {
        for number in 0..2_000 {
            let (client, _) = world.join(&resume(&format!("client-{number}")));
            world.drop_connection(&client);
        }
    });
    // The tasks and sockets of the clients are not in this process.
    assert_held("connections", 16, |world| {
        for _ in 0..1_000 {
            world.open();
        }
    });
}

#[test]
fn filters_are_counted_at_their_allocated_size() {
    for (levels, end, excess) in [
        (1, "", 5),
        (100, "", 5),
        // Filters with the same last level share its tree; each is counted as if it had a tree of its own.
        (1, "/+", 6),
        (4, "/+", 5),
        (100, "/#", 5),
    ] {
        let what = format!("filters of {levels} levels and {end:?}");
        assert_held(&what, excess, |world| {
            for session in 0..20 {
                let (mut client, _) = world.join(&resume(&format!("client-{session}")));
                for number in 0..100 {
                    let mut filter = format!("{session}/{number}");
                    filter.push_str(&"/a".repeat(levels - 1));
                    filter.push_str(end);
                    world.subscribe(&mut client, &filter);
                }
                world.drop_connection(&client);
            }
        });
    }
    assert_held("long filters", 4, |world| {
        let (mut client, _) = world.join(&resume("me"));
        for number in 0..15 {
            world.subscribe(&mut client, &format!("{number}{}", "f".repeat(60_000)));
        }
        world.drop_connection(&client);
    });
}

#[test]
fn queues_are_counted_at_their_allocated_size_and_shared_messages_once() {
    for (size, count) in [(0, 2_000), (1_000, 1_000), (100_000, 20)] {
        assert_held(&format!("messages of {size}"), 3, |world| {
            for session in 0..10 {
                offline(world, &format!("client-{session}"), "a");
            }
            let mut publisher = world.client("publisher");
            for _ in 0..count {
                world.publish(&mut publisher, &message("a", 1), &vec![0; size]);
                world.output(&publisher);
            }
            world.drop_connection(&publisher);
        });
    }
}

#[test]
fn in_flight_and_remembered_messages_are_counted_at_their_size() {
    assert_held("unacknowledged responses", 3, |world| {
        for number in 0..20u16 {
            let (mut client, _) = world.join(&resume(&format!("client-{number}")));
            for number in 1..=1_000u16 {
                let correlation = number.to_be_bytes();
                let header = PublishHeader {
                    correlation_data: Some(&correlation),
                    ..request(id(number))
                };
                world.publish(&mut client, &header, &command(&["DEL", "k"]));
            }
            world.output(&client);
            world.drop_connection(&client);
        }
    });
}

#[test]
fn acknowledged_messages_take_no_memory() {
    let world = std::cell::RefCell::new(HubSimulation::new());
    let leftover = measure(|| {
        let mut world = world.borrow_mut();
        for number in 0..20u16 {
            let (mut client, _) = world.join(&resume(&format!("client-{number}")));
            for number in 1..=1_000u16 {
                world.publish(&mut client, &request(id(number)), &command(&["DEL", "k"]));
            }
            for packet in world.packets(&client) {
                if let Packet::Publish(response) = packet {
                    world.acknowledge(&mut client, response.packet_id().unwrap());
                }
            }
            world.drop_connection(&client);
        }
    });
    assert!(
        leftover.bytes_current < 20 * 6_000,
        "{}",
        leftover.bytes_current
    );
    assert!(held(&world.borrow()) < 20 * 6_000);
}

/// Does the driver's part: lets the hub work, takes the connections with output, and takes the batches to be stored.
fn drive(world: &mut HubSimulation) {
    while world.hub.has_work() {
        world.hub.work(world.now);
    }
    while world.hub.next_dirty().is_some() {}
    while let Some((sequence, _)) = world.hub.take_batch() {
        world.hub.mark_durable(sequence);
    }
}

/// Connects clients one after the other, each with its own name. Each subscribes, writes, watches and locks. They disconnect cleanly,
/// lose the connection, or leave a session that expires later.
fn connect_and_disconnect(world: &mut HubSimulation, names: std::ops::Range<u32>) {
    for number in names {
        let name = format!("client-{number}");
        let keeps = number % 3 == 0;
        let connect = if keeps { resume(&name) } else { connect(&name) };
        let (mut client, _) = world.join(&connect);
        world.subscribe(&mut client, &format!("clients/{name}/#"));
        let (key, lock) = (
            format!("key-{}", number % 50),
            format!("lock-{}", number % 5),
        );
        for parts in [
            &["SET", &key, &name][..],
            &["KEYNOTIFY", &key],
            &["GET", &key],
            &["SET", &lock, &name, "NEX", "PX", "1000"],
            &["VDEL", &lock, &name],
            &["DEL", &key],
        ] {
            // Notifications beside the response are not checked here.
            world.publish(&mut client, &request(id(9)), &command(parts));
            for packet in world.packets(&client) {
                if let Packet::Publish(publish) = packet
                    && let Some(packet_id) = publish.packet_id()
                {
                    world.acknowledge(&mut client, packet_id);
                }
            }
        }
        drive(world);
        if number % 3 == 1 {
            world.disconnect(client, ReasonCode::SUCCESS);
        } else {
            world.drop_connection(&client);
        }
    }
    // The sessions that were kept end, and so do leases.
    world.advance(120_000);
    drive(world);
}

#[test]
fn disconnected_clients_leave_no_memory_behind() {
    let world = std::cell::RefCell::new(HubSimulation::new());
    let come_and_go = |thousands: std::ops::Range<u32>| {
        for thousand in thousands {
            let first = thousand * 1_000;
            connect_and_disconnect(&mut world.borrow_mut(), first..first + 1_000);
        }
    };
    // Lets tables grow to the size that this number of sessions needs.
    come_and_go(0..2);
    let leftover = measure(|| come_and_go(2..12)).bytes_current;
    println!("10,000 clients: {leftover} bytes");
    // Ten bytes of each are less than any name takes: tables may be made anew for the same number of sessions.
    assert!(leftover < 10_000 * 10, "{leftover} bytes");
    let statistics = world.borrow().hub.metrics();
    assert_eq!((statistics.sessions, statistics.connections), (0, 0));
}

#[test]
fn watches_aliases_and_partial_packets_are_counted_at_their_allocated_size() {
    for size in [1, 100, 10_000] {
        assert_held(&format!("watches of {size}"), 3, |world| {
            for number in 0..10 {
                let mut client = world.client(&format!("client-{number}"));
                for key in 0..300 {
                    let key = format!("{number}-{key}-{}", "k".repeat(size));
                    world.request(&mut client, &command(&["KEYNOTIFY", &key]));
                }
            }
        });
    }
    assert_held("aliases", 3, |world| {
        for number in 0..10 {
            let mut client = world.client(&format!("client-{number}"));
            for alias in 1..=60 {
                let header = PublishHeader {
                    topic: &format!("{alias}{}", "t".repeat(10_000)),
                    topic_alias: Some(alias),
                    ..message("", 3)
                };
                world.publish(&mut client, &header, b"");
                world.output(&client);
            }
        }
    });
    let kept: std::cell::RefCell<Vec<Client>> = std::cell::RefCell::default();
    assert_held("what follows a large packet", 12, |world| {
        for number in 0..10 {
            let mut client = world.client(&format!("client-{number}"));
            let payload = vec![0; 500_000];
            let write = |out: &mut BytesMut| out.extend_from_slice(&payload);
            let header = message("a", 1);
            header
                .encode(u32::MAX, &mut client.unread, payload.len(), write)
                .unwrap();
            // The begin of the next one.
            world.bytes(&mut client, &[0x32]);
            world.output(&client);
            assert_eq!(client.unread.len(), 1);
            kept.borrow_mut().push(client);
        }
    });
    let begin = [&[0x32, 0x80, 0x89, 0x7A][..], &vec![0; 500_000]].concat();
    assert_held("partial packets", 3, |world| {
        for number in 0..10 {
            let mut client = world.client(&format!("client-{number}"));
            client.unread = BytesMut::with_capacity(begin.len());
            world.bytes(&mut client, &begin);
            kept.borrow_mut().push(client);
        }
    });
}
