//! The ledger against a simple model, under simulated time.
mod outcomes;

use super::super::{EncodedRequest, OutgoingRequest};
use super::{
    Admission, Completion, Failure, NewRequest, RequestId, RequestStatus, RequestTable,
    ResendPolicy, SendCapacity,
};
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

fn capacity(publishes: usize) -> SendCapacity {
    SendCapacity {
        publishes,
        buffered_bytes: 0,
        max_buffered_bytes: 1000,
        unsent_bytes: 0,
        max_unsent_bytes: 100_000,
    }
}

fn submission(bytes: usize, again: ResendPolicy, deadline_ms: u64) -> NewRequest {
    NewRequest {
        bytes,
        resend_policy: again,
        may_wait: true,
        deadline_ms,
    }
}

fn submit(
    ledger: &mut RequestTable,
    publishes: usize,
    deadline_ms: u64,
) -> Result<(RequestId, Admission), Failure> {
    ledger.submit(
        submission(10, ResendPolicy::Never, deadline_ms),
        capacity(publishes),
        Waker::noop(),
    )
}

/// Returns the result of a request, if it has ended.
fn end(ledger: &mut RequestTable, id: RequestId) -> Option<Completion> {
    match ledger.poll(id, Waker::noop()) {
        RequestStatus::Completed(completion) => Some(completion),
        _ => None,
    }
}

/// Returns the encoding of a request.
#[allow(clippy::unnecessary_box_returns, reason = "so it is handed over")]
fn encoded_request() -> Box<EncodedRequest> {
    Box::new(EncodedRequest::new(
        &OutgoingRequest::new(CommandRef::Get {
            key: b"k",
            remaining: false,
            eventual: false,
        }),
        &"1:0:n".parse().unwrap(),
    ))
}

/// Adds a request that has to wait.
fn queue(ledger: &mut RequestTable) -> RequestId {
    let (id, turn) = submit(ledger, 0, 100).unwrap();
    assert_eq!(turn, Admission::Queued);
    ledger.supply(id, encoded_request());
    id
}

/// Sends the requests whose turn comes with this capacity, and returns them.
fn granted(ledger: &mut RequestTable, publishes: usize) -> Vec<RequestId> {
    let turns = (0..publishes).rev().map_while(|left| {
        let (id, _, _) = ledger.pop_ready(capacity(left + 1))?;
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
fn a_response_completes_only_its_request() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let (id, turn) = submit(&mut ledger, 1, 100).unwrap();
    assert_eq!(turn, Admission::Granted);
    ledger.sent(id, PacketId::MIN);
    let correlation = ledger.correlation(id);
    let mut wakers = Vec::new();
    for index in 0..16 {
        let mut other = correlation;
        other[index] ^= 0x80;
        assert!(
            !ledger.handle_response(&other, response(), &mut wakers),
            "byte {index}"
        );
    }
    assert!(!ledger.handle_response(&correlation[..15], response(), &mut wakers));
    assert!(ledger.handle_response(&correlation, response(), &mut wakers));
    assert_eq!(wakers.len(), 1);
    assert!(
        !ledger.handle_response(&correlation, response(), &mut wakers),
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
    assert!(!ledger.handle_response(&correlation, response(), &mut wakers));
}

#[test]
fn requests_expire_at_their_deadline_and_report_whether_they_were_sent() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    assert_eq!(ledger.wake_at_ms(), None);
    let (sent, _) = submit(&mut ledger, 1, 50).unwrap();
    ledger.sent(sent, PacketId::MIN);
    let (queued, turn) = submit(&mut ledger, 0, 40).unwrap();
    assert_eq!((turn, ledger.wake_at_ms()), (Admission::Queued, Some(40)));
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
fn queued_requests_are_sent_in_order_before_new_ones() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let first = queue(&mut ledger);
    let second = queue(&mut ledger);
    // There is capacity now, but earlier requests come first.
    let (third, turn) = submit(&mut ledger, 5, 100).unwrap();
    assert_eq!(turn, Admission::Queued);
    ledger.supply(third, encoded_request());
    // One request leaves without its turn, which passes to the next one.
    assert_eq!(ledger.abandon(first, |_, _| false), Outcome::NotDone);
    assert_eq!(granted(&mut ledger, 1), [second]);
    // There is no capacity for two requests, whichever caller polls.
    let (fourth, turn) = submit(&mut ledger, 5, 100).unwrap();
    assert_eq!(turn, Admission::Queued);
    ledger.supply(fourth, encoded_request());
    assert_eq!(granted(&mut ledger, 5), [third, fourth]);
    assert_eq!((ledger.queued(), ledger.in_flight()), (0, 3));
}

#[test]
fn unsent_requests_of_a_lost_session_go_first_and_unencoded_ones_block_no_others() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let mut sent = |again| {
        let submission = submission(10, again, 100);
        let (id, _) = ledger
            .submit(submission, capacity(5), Waker::noop())
            .unwrap();
        ledger.sent(id, PacketId::MIN);
        id
    };
    let (write, read, risky) = (
        sent(ResendPolicy::Never),
        sent(ResendPolicy::Idempotent),
        sent(ResendPolicy::Risky),
    );
    ledger.keep_encoding(risky, encoded_request());
    ledger.keep_encoding(write, encoded_request());
    let later = queue(&mut ledger);
    // The write certainly did not reach the broker.
    let unsent = [(write, encoded_request())];
    assert_eq!(ledger.session_lost(unsent, &mut wakers), 3);
    assert_eq!(wakers.len(), 1, "what is there need not be made anew");
    assert_eq!((ledger.queued(), ledger.in_flight()), (4, 0));
    assert_eq!(granted(&mut ledger, 5), [write, risky, later]);
    assert!(matches!(
        ledger.poll(read, Waker::noop()),
        RequestStatus::NeedsEncoding
    ));
    // The recalled request does not block others, and others do not block it.
    let (another, turn) = submit(&mut ledger, 5, 100).unwrap();
    assert_eq!(turn, Admission::Granted);
    ledger.sent(another, PacketId::MIN);
    ledger.supply(read, encoded_request());
    assert_eq!(granted(&mut ledger, 5), [read]);
    assert_eq!((ledger.queued(), ledger.in_flight()), (0, 5));
}

#[test]
fn buffered_bytes_are_limited_except_for_a_single_request() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let mut submit = |bytes, buffered_bytes| {
        let room = SendCapacity {
            publishes: 5,
            buffered_bytes,
            max_buffered_bytes: 1000,
            unsent_bytes: 0,
            max_unsent_bytes: 100_000,
        };
        let (id, turn) = ledger
            .submit(
                submission(bytes, ResendPolicy::Never, 100),
                room,
                Waker::noop(),
            )
            .unwrap();
        ledger.abandon(id, |_, _| false);
        turn
    };
    assert_eq!(submit(1000, 0), Admission::Granted);
    assert_eq!(submit(5000, 0), Admission::Granted);
    assert_eq!(submit(1000, 1), Admission::Queued);
    assert_eq!(submit(999, 1), Admission::Granted);
}

#[test]
fn no_request_is_sent_while_the_unsent_bytes_are_at_their_limit() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    for (unsent_bytes, expected) in [(99, Admission::Granted), (100, Admission::Queued)] {
        let room = SendCapacity {
            unsent_bytes,
            max_unsent_bytes: 100,
            ..capacity(5)
        };
        let (id, turn) = ledger
            .submit(
                submission(10, ResendPolicy::Never, 100),
                room,
                Waker::noop(),
            )
            .unwrap();
        assert_eq!(turn, expected);
        ledger.abandon(id, |_, _| false);
    }
}

#[test]
fn abandoned_queued_requests_release_their_memory() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let waiting = queue(&mut ledger);
    for _ in 0..10_000 {
        let (id, _) = submit(&mut ledger, 0, 100).unwrap();
        ledger.abandon(id, |_, _| false);
    }
    assert_eq!(ledger.queued(), 1);
    assert!(ledger.slots.len() <= 2 && ledger.queue.len() < 100);
    assert_eq!(granted(&mut ledger, 1), [waiting]);
}

#[test]
fn a_closed_table_ends_all_requests_with_its_first_reason() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
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
enum SimulatedEvent {
    Submit { again: ResendPolicy, for_ms: u64 },
    Poll(usize),
    Respond(usize),
    Abandon(usize),
    Advance(u64),
    SendQueued(usize),
    LoseSession { unsent: Vec<usize> },
}

fn resend_policy() -> impl Strategy<Value = ResendPolicy> {
    prop_oneof![
        Just(ResendPolicy::Never),
        Just(ResendPolicy::Idempotent),
        Just(ResendPolicy::Risky)
    ]
}

fn step() -> impl Strategy<Value = SimulatedEvent> {
    prop_oneof![
        4 => (resend_policy(), 1u64..50).prop_map(|(again, for_ms)| SimulatedEvent::Submit { again, for_ms }),
        4 => (0usize..20).prop_map(SimulatedEvent::Poll),
        3 => (0usize..20).prop_map(SimulatedEvent::Respond),
        1 => (0usize..20).prop_map(SimulatedEvent::Abandon),
        2 => (0u64..20).prop_map(SimulatedEvent::Advance),
        3 => (0usize..4).prop_map(SimulatedEvent::SendQueued),
        1 => proptest::collection::vec(0usize..20, 0..5).prop_map(|unsent| SimulatedEvent::LoseSession { unsent }),
    ]
}

proptest! {
    #[test]
    fn each_request_ends_exactly_once(steps in proptest::collection::vec(step(), 0..200)) {
        let mut ledger = RequestTable::new(ORIGIN, 4, 6);
        let mut wakers = Vec::new();
        let mut now_ms = 0;
        // Requests with a waiting caller.
        let mut waiting: Vec<RequestId> = Vec::new();
        let (mut begun, mut ended) = (0, 0);
        let pick = |waiting: &[RequestId], number: usize| waiting.get(number % waiting.len().max(1)).copied();
        for step in steps {
            match step {
                SimulatedEvent::Submit { again, for_ms } => {
                    let submission = submission(10, again, now_ms + for_ms);
                    let result = ledger.submit(submission, capacity(2), Waker::noop());
                    if let Ok((id, turn)) = result {
                        begun += 1;
                        waiting.push(id);
                        if turn == Admission::Granted {
                            ledger.sent(id, PacketId::MIN);
                            ledger.keep_encoding(id, encoded_request());
                        } else {
                            ledger.supply(id, encoded_request());
                        }
                    }
                }
                SimulatedEvent::Poll(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        match ledger.poll(id, Waker::noop()) {
                            RequestStatus::NeedsEncoding => ledger.supply(id, encoded_request()),
                            RequestStatus::Pending => {}
                            RequestStatus::Completed(_) => prop_assert!(false, "its end was seen before"),
                        }
                    }
                }
                SimulatedEvent::Respond(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        let correlation = ledger.correlation(id);
                        ledger.handle_response(&correlation, response(), &mut wakers);
                    }
                }
                SimulatedEvent::Abandon(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        ledger.abandon(id, |_, _| false);
                        waiting.retain(|other| *other != id);
                        ended += 1;
                    }
                }
                SimulatedEvent::Advance(ms) => {
                    now_ms += ms;
                    ledger.expire(now_ms, true, &mut wakers, |_, _| false);
                }
                SimulatedEvent::SendQueued(publishes) => {
                    granted(&mut ledger, publishes);
                }
                SimulatedEvent::LoseSession { unsent } => {
                    let unsent = unsent.iter().filter_map(|number| Some((pick(&waiting, *number)?, encoded_request())));
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
