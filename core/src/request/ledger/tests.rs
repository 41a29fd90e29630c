//! The ledger against a simple model, under simulated time.
mod outcomes;

use super::super::{Outgoing, Packed};
use super::{Again, Completion, Failure, Ledger, Look, RequestId, Room, Submission, Turn};
use crate::error::{ErrorKind, Outcome};
use bytes::BytesMut;
use proptest::prelude::*;
use statestore_protocol::CommandRef;
use statestore_protocol::mqtt::{Limits, Packet, PacketId, Publish, PublishHeader, decode};
use std::task::Waker;

const ORIGIN: [u8; 8] = *b"originXY";

fn response() -> Publish {
    let mut bytes = BytesMut::new();
    let header = PublishHeader {
        topic: "t",
        ..PublishHeader::default()
    };
    header
        .encode(Limits::MAX_PACKET_BYTES, &mut bytes, 0, |_| {})
        .unwrap();
    match decode(&mut bytes, Limits::MAX_PACKET_BYTES) {
        Ok(Some(Packet::Publish(publish))) => publish,
        other => panic!("{other:?}"),
    }
}

fn room(publishes: usize) -> Room {
    Room {
        publishes,
        buffered_bytes: 0,
        max_buffered_bytes: 1000,
        unsent_bytes: 0,
        max_unsent_bytes: 100_000,
    }
}

fn submission(bytes: usize, again: Again, deadline_ms: u64) -> Submission {
    Submission {
        bytes,
        again,
        waits: true,
        deadline_ms,
    }
}

fn submit(
    ledger: &mut Ledger,
    publishes: usize,
    deadline_ms: u64,
) -> Result<(RequestId, Turn), Failure> {
    ledger.submit(
        submission(10, Again::No, deadline_ms),
        room(publishes),
        Waker::noop(),
    )
}

/// Returns the result of a request, if it has ended.
fn end(ledger: &mut Ledger, id: RequestId) -> Option<Completion> {
    match ledger.look(id, Waker::noop()) {
        Look::Ended(completion) => Some(completion),
        _ => None,
    }
}

/// Returns the encoding of a request.
#[allow(clippy::unnecessary_box_returns, reason = "so it is handed over")]
fn packed() -> Box<Packed> {
    Box::new(Packed::new(
        &Outgoing::new(CommandRef::Get {
            key: b"k",
            remaining: false,
            eventual: false,
        }),
        &"1:0:n".parse().unwrap(),
    ))
}

/// Adds a request that has to wait.
fn queue(ledger: &mut Ledger) -> RequestId {
    let (id, turn) = submit(ledger, 0, 100).unwrap();
    assert_eq!(turn, Turn::Later);
    ledger.supply(id, packed());
    id
}

/// Sends the requests whose turn comes with this capacity, and returns them.
fn granted(ledger: &mut Ledger, publishes: usize) -> Vec<RequestId> {
    let turns = (0..publishes).rev().map_while(|left| {
        let (id, _, _) = ledger.next_turn(room(left + 1))?;
        ledger.sent(id, PacketId::MIN);
        Some(id)
    });
    turns.collect()
}

fn failure(completion: Option<Completion>) -> Option<(ErrorKind, Outcome)> {
    match completion {
        Some(Completion::Failed(failure)) => Some((failure.kind, failure.outcome)),
        _ => None,
    }
}

#[test]
fn a_response_finds_its_request_and_no_other() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let (id, turn) = submit(&mut ledger, 1, 100).unwrap();
    assert_eq!(turn, Turn::Now);
    ledger.sent(id, PacketId::MIN);
    let correlation = ledger.correlation(id);
    let mut wakers = Vec::new();
    for index in 0..16 {
        let mut other = correlation;
        other[index] ^= 0x80;
        assert!(
            !ledger.respond(&other, response(), &mut wakers),
            "byte {index}"
        );
    }
    assert!(!ledger.respond(&correlation[..15], response(), &mut wakers));
    assert!(ledger.respond(&correlation, response(), &mut wakers));
    assert_eq!(wakers.len(), 1);
    assert!(
        !ledger.respond(&correlation, response(), &mut wakers),
        "it ends once"
    );
    assert!(matches!(
        end(&mut ledger, id),
        Some(Completion::Response { .. })
    ));
    // The slot is reused under another id.
    let (next, _) = submit(&mut ledger, 1, 100).unwrap();
    ledger.sent(next, PacketId::MIN);
    assert_ne!(ledger.correlation(next), correlation);
    assert!(!ledger.respond(&correlation, response(), &mut wakers));
}

#[test]
fn deadlines_are_met_to_the_millisecond_and_say_whether_it_was_sent() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    assert_eq!(ledger.wake_at_ms(), None);
    let (sent, _) = submit(&mut ledger, 1, 50).unwrap();
    ledger.sent(sent, PacketId::MIN);
    let (queued, turn) = submit(&mut ledger, 0, 40).unwrap();
    assert_eq!((turn, ledger.wake_at_ms()), (Turn::Later, Some(40)));
    assert_eq!(ledger.expire(39, true, &mut wakers, |_, _| false), 0);
    assert_eq!(ledger.expire(40, true, &mut wakers, |_, _| false), 1);
    assert_eq!(
        failure(end(&mut ledger, queued)),
        Some((ErrorKind::TimedOut, Outcome::NotDone))
    );
    assert_eq!(ledger.wake_at_ms(), Some(50));
    assert_eq!(ledger.expire(50, true, &mut wakers, |_, _| false), 1);
    assert_eq!(
        failure(end(&mut ledger, sent)),
        Some((ErrorKind::TimedOut, Outcome::Unknown))
    );
    assert_eq!(
        (ledger.wake_at_ms(), ledger.in_flight(), ledger.queued()),
        (None, 0, 0)
    );
}

#[test]
fn turns_are_given_in_order_and_a_newcomer_waits_behind() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let first = queue(&mut ledger);
    let second = queue(&mut ledger);
    // There is capacity now, but earlier requests come first.
    let (third, turn) = submit(&mut ledger, 5, 100).unwrap();
    assert_eq!(turn, Turn::Later);
    ledger.supply(third, packed());
    // One request leaves without its turn, which passes to the next one.
    assert_eq!(ledger.forget(first, |_, _| false), Outcome::NotDone);
    assert_eq!(granted(&mut ledger, 1), [second]);
    // There is no capacity for two requests, whichever caller polls.
    let (fourth, turn) = submit(&mut ledger, 5, 100).unwrap();
    assert_eq!(turn, Turn::Later);
    ledger.supply(fourth, packed());
    assert_eq!(granted(&mut ledger, 5), [third, fourth]);
    assert_eq!((ledger.queued(), ledger.in_flight()), (0, 3));
}

#[test]
fn what_a_lost_session_did_not_send_goes_first_and_who_must_be_asked_again_stops_nobody() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let mut sent = |again| {
        let submission = submission(10, again, 100);
        let (id, _) = ledger.submit(submission, room(5), Waker::noop()).unwrap();
        ledger.sent(id, PacketId::MIN);
        id
    };
    let (write, read, risky) = (sent(Again::No), sent(Again::Harmless), sent(Again::Risky));
    ledger.keep(risky, packed());
    ledger.keep(write, packed());
    let later = queue(&mut ledger);
    // The write certainly did not reach the broker.
    let unsent = [(write, packed())];
    assert_eq!(ledger.session_lost(unsent, &mut wakers), 3);
    assert_eq!(wakers.len(), 1, "what is there need not be made anew");
    assert_eq!((ledger.queued(), ledger.in_flight()), (4, 0));
    assert_eq!(granted(&mut ledger, 5), [write, risky, later]);
    assert!(matches!(ledger.look(read, Waker::noop()), Look::Lacks));
    // The recalled request does not block others, and others do not block it.
    let (another, turn) = submit(&mut ledger, 5, 100).unwrap();
    assert_eq!(turn, Turn::Now);
    ledger.sent(another, PacketId::MIN);
    ledger.supply(read, packed());
    assert_eq!(granted(&mut ledger, 5), [read]);
    assert_eq!((ledger.queued(), ledger.in_flight()), (0, 5));
}

#[test]
fn bytes_are_limited_except_for_a_single_request() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let mut submit = |bytes, buffered_bytes| {
        let room = Room {
            publishes: 5,
            buffered_bytes,
            max_buffered_bytes: 1000,
            unsent_bytes: 0,
            max_unsent_bytes: 100_000,
        };
        let (id, turn) = ledger
            .submit(submission(bytes, Again::No, 100), room, Waker::noop())
            .unwrap();
        ledger.forget(id, |_, _| false);
        turn
    };
    assert_eq!(submit(1000, 0), Turn::Now);
    assert_eq!(submit(5000, 0), Turn::Now);
    assert_eq!(submit(1000, 1), Turn::Later);
    assert_eq!(submit(999, 1), Turn::Now);
}

#[test]
fn nothing_more_is_sent_while_as_much_as_may_waits_to_be_written() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    for (unsent_bytes, expected) in [(99, Turn::Now), (100, Turn::Later)] {
        let room = Room {
            unsent_bytes,
            max_unsent_bytes: 100,
            ..room(5)
        };
        let (id, turn) = ledger
            .submit(submission(10, Again::No, 100), room, Waker::noop())
            .unwrap();
        assert_eq!(turn, expected);
        ledger.forget(id, |_, _| false);
    }
}

#[test]
fn requests_that_come_and_go_while_nothing_can_be_sent_take_no_memory() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let waiting = queue(&mut ledger);
    for _ in 0..10_000 {
        let (id, _) = submit(&mut ledger, 0, 100).unwrap();
        ledger.forget(id, |_, _| false);
    }
    assert_eq!(ledger.queued(), 1);
    assert!(ledger.slots.len() <= 2 && ledger.queue.len() < 100);
    assert_eq!(granted(&mut ledger, 1), [waiting]);
}

#[test]
fn a_closed_ledger_ends_everything_for_its_first_reason() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let (sent, _) = submit(&mut ledger, 1, 100).unwrap();
    ledger.sent(sent, PacketId::MIN);
    let (queued, _) = submit(&mut ledger, 0, 100).unwrap();
    ledger.close(ErrorKind::Closed, "enough", &mut wakers, |_, _| false);
    ledger.close(ErrorKind::Closed, "again", &mut wakers, |_, _| false);
    assert_eq!(
        failure(end(&mut ledger, sent)),
        Some((ErrorKind::Closed, Outcome::Unknown))
    );
    assert_eq!(
        failure(end(&mut ledger, queued)),
        Some((ErrorKind::Closed, Outcome::NotDone))
    );
    let refused = submit(&mut ledger, 1, 100).unwrap_err();
    assert_eq!(
        (refused.outcome, &*refused.reason),
        (Outcome::NotDone, "enough")
    );
}

/// A simulated event; the numbers select a request.
#[derive(Debug, Clone)]
enum Step {
    Submit { again: Again, for_ms: u64 },
    Look(usize),
    Respond(usize),
    Forget(usize),
    Pass(u64),
    Grant(usize),
    LoseSession { unsent: Vec<usize> },
}

fn again() -> impl Strategy<Value = Again> {
    prop_oneof![Just(Again::No), Just(Again::Harmless), Just(Again::Risky)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (again(), 1u64..50).prop_map(|(again, for_ms)| Step::Submit { again, for_ms }),
        4 => (0usize..20).prop_map(Step::Look),
        3 => (0usize..20).prop_map(Step::Respond),
        1 => (0usize..20).prop_map(Step::Forget),
        2 => (0u64..20).prop_map(Step::Pass),
        3 => (0usize..4).prop_map(Step::Grant),
        1 => proptest::collection::vec(0usize..20, 0..5).prop_map(|unsent| Step::LoseSession { unsent }),
    ]
}

proptest! {
    #[test]
    fn each_request_ends_once_whatever_happens(steps in proptest::collection::vec(step(), 0..200)) {
        let mut ledger = Ledger::new(ORIGIN, 4, 6);
        let mut wakers = Vec::new();
        let mut now_ms = 0;
        // Requests with a waiting caller.
        let mut waiting: Vec<RequestId> = Vec::new();
        let (mut begun, mut ended) = (0, 0);
        let pick = |waiting: &[RequestId], number: usize| waiting.get(number % waiting.len().max(1)).copied();
        for step in steps {
            match step {
                Step::Submit { again, for_ms } => {
                    let submission = submission(10, again, now_ms + for_ms);
                    let result = ledger.submit(submission, room(2), Waker::noop());
                    if let Ok((id, turn)) = result {
                        begun += 1;
                        waiting.push(id);
                        if turn == Turn::Now {
                            ledger.sent(id, PacketId::MIN);
                            ledger.keep(id, packed());
                        } else {
                            ledger.supply(id, packed());
                        }
                    }
                }
                Step::Look(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        match ledger.look(id, Waker::noop()) {
                            Look::Lacks => ledger.supply(id, packed()),
                            Look::Waits => {}
                            Look::Ended(_) => prop_assert!(false, "its end was seen before"),
                        }
                    }
                }
                Step::Respond(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        let correlation = ledger.correlation(id);
                        ledger.respond(&correlation, response(), &mut wakers);
                    }
                }
                Step::Forget(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        ledger.forget(id, |_, _| false);
                        waiting.retain(|other| *other != id);
                        ended += 1;
                    }
                }
                Step::Pass(ms) => {
                    now_ms += ms;
                    ledger.expire(now_ms, true, &mut wakers, |_, _| false);
                }
                Step::Grant(publishes) => {
                    granted(&mut ledger, publishes);
                }
                Step::LoseSession { unsent } => {
                    let unsent = unsent.iter().filter_map(|number| Some((pick(&waiting, *number)?, packed())));
                    ledger.session_lost(unsent, &mut wakers);
                }
            }
            waiting.retain(|id| {
                let over = end(&mut ledger, *id).is_some();
                ended += usize::from(over);
                !over
            });
            prop_assert_eq!(begun, ended + waiting.len());
            prop_assert!(ledger.in_flight() <= 4, "{}", ledger.in_flight());
            prop_assert!(ledger.wake_at_ms().is_none_or(|at| at > now_ms || waiting.is_empty()));
        }
        ledger.expire(now_ms + 100, true, &mut wakers, |_, _| false);
        for id in waiting {
            prop_assert!(end(&mut ledger, id).is_some(), "its time is up");
        }
        prop_assert_eq!((ledger.in_flight(), ledger.queued(), ledger.wake_at_ms()), (0, 0, None));
    }
}
