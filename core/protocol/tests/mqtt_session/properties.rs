//! Invariants of a session under any sequence of events.
use super::{SessionHarness, tag};
use proptest::prelude::*;
use statestore_protocol::mqtt::session::Event;
use statestore_protocol::mqtt::{ConnAck, Publish, ReasonCode};
use std::collections::VecDeque;

/// An event of a session.
#[derive(Debug, Clone)]
enum SessionStep {
    Publish,
    /// The transport takes what there is.
    Write,
    /// The broker acknowledges the n-th of what it has.
    Acknowledge(usize),
    /// The connection is cut and made again; whether the session is kept, and the new Receive Maximum.
    Reconnect(bool, u16),
}

fn steps() -> impl Strategy<Value = Vec<SessionStep>> {
    let step = prop_oneof![
        4 => Just(SessionStep::Publish),
        3 => Just(SessionStep::Write),
        4 => (0usize..8).prop_map(SessionStep::Acknowledge),
        1 => (any::<bool>(), 1u16..6).prop_map(|(kept, maximum)| SessionStep::Reconnect(kept, maximum)),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn each_publish_ends_once_and_in_order(steps in steps()) {
        let mut bench = SessionHarness::ready();
        let mut limit = 65_535;
        let mut next_tag = 0;
        // Messages that the broker has and did not acknowledge, in the order of arrival.
        let mut unacknowledged: VecDeque<Publish> = VecDeque::new();
        let mut ended = Vec::new();
        // Requests that did not end, in the order of the first sending.
        let mut open: Vec<u32> = Vec::new();
        // An end, so that every publish can end.
        let end = [SessionStep::Reconnect(true, 65_535), SessionStep::Write];
        for step in steps.into_iter().chain(end) {
            match step {
                SessionStep::Publish => {
                    if bench.session.capacity() > 0 {
                        bench.publish(next_tag, 1_000_000);
                        open.push(next_tag);
                        next_tag += 1;
                    }
                }
                SessionStep::Write => unacknowledged.extend(bench.sent_publishes()),
                SessionStep::Acknowledge(index) => {
                    if let Some(publish) = unacknowledged.remove(index) {
                        bench.acknowledge(publish.packet_id().unwrap());
                    }
                }
                SessionStep::Reconnect(kept, maximum) => {
                    unacknowledged.clear();
                    limit = usize::from(maximum);
                    bench.session.connection_lost();
                    let mut connack = ConnAck::new(ReasonCode::SUCCESS);
                    connack.session_present = kept;
                    connack.limits.receive_maximum = maximum;
                    bench.connect(&connack);
                    let again: Vec<_> = bench.sent_publishes();
                    let tags: Vec<_> = again.iter().map(tag).collect();
                    let expected: &[u32] = if kept { &open[..open.len().min(limit)] } else { &[] };
                    prop_assert_eq!(tags, expected);
                    unacknowledged.extend(again);
                }
            }
            for event in bench.events.drain(..) {
                if let Event::Acknowledged { tag, .. } | Event::Lost { tag, .. } | Event::TooLarge { tag, .. } = event {
                    ended.push(tag);
                    open.retain(|other| *other != tag);
                }
            }
            prop_assert!(unacknowledged.len() <= limit);
            prop_assert_eq!(bench.session.unacknowledged(), open.len());
        }
        while let Some(publish) = unacknowledged.pop_front() {
            bench.acknowledge(publish.packet_id().unwrap());
            unacknowledged.extend(bench.sent_publishes());
        }
        for event in &bench.events {
            if let Event::Acknowledged { tag, .. } = event {
                ended.push(*tag);
            }
        }
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..next_tag).collect::<Vec<_>>());
        prop_assert_eq!(bench.session.buffered_bytes(), 0);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        connected in any::<bool>(),
    ) {
        let mut bench = if connected { SessionHarness::ready() } else { SessionHarness::new() };
        if !connected {
            bench.session.connect(0).unwrap();
        }
        let _ = bench.send(&bytes);
    }
}
