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

fn submission(bytes: usize, resend_policy: ResendPolicy, deadline_ms: u64) -> NewRequest {
    NewRequest {
        bytes,
        resend_policy,
        may_wait: true,
        deadline_ms,
    }
}

fn submit(
    table: &mut RequestTable,
    publishes: usize,
    deadline_ms: u64,
) -> Result<(RequestId, Admission), Failure> {
    table.submit(
        submission(10, ResendPolicy::Never, deadline_ms),
        capacity(publishes),
        Waker::noop(),
    )
}

/// Returns the result of a request, if it has ended.
fn end(table: &mut RequestTable, id: RequestId) -> Option<Completion> {
    match table.poll(id, Waker::noop()) {
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
fn queue(table: &mut RequestTable) -> RequestId {
    let (id, admission) = submit(table, 0, 100).unwrap();
    assert_eq!(admission, Admission::Queued);
    table.supply(id, encoded_request());
    id
}

/// Sends the requests whose turn comes with this capacity, and returns them.
fn granted(table: &mut RequestTable, publishes: usize) -> Vec<RequestId> {
    let admitted = (0..publishes).rev().map_while(|left| {
        let (id, _, _) = table.pop_ready(capacity(left + 1))?;
        table.sent(id, PacketId::MIN);
        Some(id)
    });
    admitted.collect()
}

fn failure(completion: Option<Completion>) -> Option<(ErrorKind, Outcome)> {
    match completion {
        Some(Completion::Failed(failure)) => Some((failure.kind, failure.outcome)),
        _ => None,
    }
}

#[test]
fn a_response_completes_only_its_request() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let (id, admission) = submit(&mut table, 1, 100).unwrap();
    assert_eq!(admission, Admission::Granted);
    table.sent(id, PacketId::MIN);
    let correlation = table.correlation(id);
    let mut wakers = Vec::new();
    for index in 0..16 {
        let mut other = correlation;
        other[index] ^= 0x80;
        assert!(
            !table.handle_response(&other, response(), &mut wakers),
            "byte {index}"
        );
    }
    assert!(!table.handle_response(&correlation[..15], response(), &mut wakers));
    assert!(table.handle_response(&correlation, response(), &mut wakers));
    assert_eq!(wakers.len(), 1);
    assert!(
        !table.handle_response(&correlation, response(), &mut wakers),
        "it ends once"
    );
    assert!(matches!(
        end(&mut table, id),
        Some(Completion::Response { .. })
    ));
    // The slot is reused under another id.
    let (next, _) = submit(&mut table, 1, 100).unwrap();
    table.sent(next, PacketId::MIN);
    assert_ne!(table.correlation(next), correlation);
    assert!(!table.handle_response(&correlation, response(), &mut wakers));
}

#[test]
fn requests_expire_at_their_deadline_and_report_whether_they_were_sent() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    assert_eq!(table.wake_at_ms(), None);
    let (sent, _) = submit(&mut table, 1, 50).unwrap();
    table.sent(sent, PacketId::MIN);
    let (queued, admission) = submit(&mut table, 0, 40).unwrap();
    assert_eq!(
        (admission, table.wake_at_ms()),
        (Admission::Queued, Some(40))
    );
    assert_eq!(table.expire(39, true, &mut wakers, |_, _| false), 0);
    assert_eq!(table.expire(40, true, &mut wakers, |_, _| false), 1);
    assert_eq!(
        failure(end(&mut table, queued)),
        Some((ErrorKind::TimedOut, Outcome::NotDone))
    );
    assert_eq!(table.wake_at_ms(), Some(50));
    assert_eq!(table.expire(50, true, &mut wakers, |_, _| false), 1);
    assert_eq!(
        failure(end(&mut table, sent)),
        Some((ErrorKind::TimedOut, Outcome::Unknown))
    );
    assert_eq!(
        (table.wake_at_ms(), table.in_flight(), table.queued()),
        (None, 0, 0)
    );
}

#[test]
fn queued_requests_are_sent_in_order_before_new_ones() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let first = queue(&mut table);
    let second = queue(&mut table);
    // There is capacity now, but earlier requests come first.
    let (third, admission) = submit(&mut table, 5, 100).unwrap();
    assert_eq!(admission, Admission::Queued);
    table.supply(third, encoded_request());
    // One request leaves without its turn, which passes to the next one.
    assert_eq!(table.abandon(first, |_, _| false), Outcome::NotDone);
    assert_eq!(granted(&mut table, 1), [second]);
    // There is no capacity for two requests, whichever caller polls.
    let (fourth, admission) = submit(&mut table, 5, 100).unwrap();
    assert_eq!(admission, Admission::Queued);
    table.supply(fourth, encoded_request());
    assert_eq!(granted(&mut table, 5), [third, fourth]);
    assert_eq!((table.queued(), table.in_flight()), (0, 3));
}

#[test]
fn unsent_requests_of_a_lost_session_go_first_and_unencoded_ones_block_no_others() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let mut sent = |resend_policy| {
        let submission = submission(10, resend_policy, 100);
        let (id, _) = table
            .submit(submission, capacity(5), Waker::noop())
            .unwrap();
        table.sent(id, PacketId::MIN);
        id
    };
    let (write, read, conditional) = (
        sent(ResendPolicy::Never),
        sent(ResendPolicy::Idempotent),
        sent(ResendPolicy::Risky),
    );
    table.keep_encoding(conditional, encoded_request());
    table.keep_encoding(write, encoded_request());
    let later = queue(&mut table);
    // The write certainly did not reach the broker.
    let unsent = [(write, encoded_request())];
    assert_eq!(table.session_lost(unsent, &mut wakers), 3);
    assert_eq!(wakers.len(), 1, "what is there need not be made anew");
    assert_eq!((table.queued(), table.in_flight()), (4, 0));
    assert_eq!(granted(&mut table, 5), [write, conditional, later]);
    assert!(matches!(
        table.poll(read, Waker::noop()),
        RequestStatus::NeedsEncoding
    ));
    // The recalled request does not block others, and others do not block it.
    let (another, admission) = submit(&mut table, 5, 100).unwrap();
    assert_eq!(admission, Admission::Granted);
    table.sent(another, PacketId::MIN);
    table.supply(read, encoded_request());
    assert_eq!(granted(&mut table, 5), [read]);
    assert_eq!((table.queued(), table.in_flight()), (0, 5));
}

#[test]
fn buffered_bytes_are_limited_except_for_a_single_request() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let mut submit = |bytes, buffered_bytes| {
        let capacity = SendCapacity {
            publishes: 5,
            buffered_bytes,
            max_buffered_bytes: 1000,
            unsent_bytes: 0,
            max_unsent_bytes: 100_000,
        };
        let (id, admission) = table
            .submit(
                submission(bytes, ResendPolicy::Never, 100),
                capacity,
                Waker::noop(),
            )
            .unwrap();
        table.abandon(id, |_, _| false);
        admission
    };
    assert_eq!(submit(1000, 0), Admission::Granted);
    assert_eq!(submit(5000, 0), Admission::Granted);
    assert_eq!(submit(1000, 1), Admission::Queued);
    assert_eq!(submit(999, 1), Admission::Granted);
}

#[test]
fn no_request_is_sent_while_the_unsent_bytes_are_at_their_limit() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    for (unsent_bytes, expected) in [(99, Admission::Granted), (100, Admission::Queued)] {
        let capacity = SendCapacity {
            unsent_bytes,
            max_unsent_bytes: 100,
            ..capacity(5)
        };
        let (id, admission) = table
            .submit(
                submission(10, ResendPolicy::Never, 100),
                capacity,
                Waker::noop(),
            )
            .unwrap();
        assert_eq!(admission, expected);
        table.abandon(id, |_, _| false);
    }
}

#[test]
fn abandoned_queued_requests_release_their_memory() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let waiting = queue(&mut table);
    for _ in 0..10_000 {
        let (id, _) = submit(&mut table, 0, 100).unwrap();
        table.abandon(id, |_, _| false);
    }
    assert_eq!(table.queued(), 1);
    assert!(table.slots.len() <= 2 && table.queue.len() < 100);
    assert_eq!(granted(&mut table, 1), [waiting]);
}

#[test]
fn a_closed_table_ends_all_requests_with_its_first_reason() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let (sent, _) = submit(&mut table, 1, 100).unwrap();
    table.sent(sent, PacketId::MIN);
    let (queued, _) = submit(&mut table, 0, 100).unwrap();
    table.close(ErrorKind::Closed, "enough", &mut wakers, |_, _| false);
    table.close(ErrorKind::Closed, "again", &mut wakers, |_, _| false);
    assert_eq!(
        failure(end(&mut table, sent)),
        Some((ErrorKind::Closed, Outcome::Unknown))
    );
    assert_eq!(
        failure(end(&mut table, queued)),
        Some((ErrorKind::Closed, Outcome::NotDone))
    );
    let refused = submit(&mut table, 1, 100).unwrap_err();
    assert_eq!(
        (refused.outcome, &*refused.reason),
        (Outcome::NotDone, "enough")
    );
}

/// A simulated event; the numbers select a request.
#[derive(Debug, Clone)]
enum SimulatedEvent {
    Submit {
        resend_policy: ResendPolicy,
        for_ms: u64,
    },
    Poll(usize),
    Respond(usize),
    Abandon(usize),
    Advance(u64),
    SendQueued(usize),
    LoseSession {
        unsent: Vec<usize>,
    },
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
        4 => (resend_policy(), 1u64..50).prop_map(|(resend_policy, for_ms)| SimulatedEvent::Submit { resend_policy, for_ms }),
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
        let mut table = RequestTable::new(ORIGIN, 4, 6);
        let mut wakers = Vec::new();
        let mut now_ms = 0;
        // Requests with a waiting caller.
        let mut waiting: Vec<RequestId> = Vec::new();
        let (mut begun, mut ended) = (0, 0);
        let pick = |waiting: &[RequestId], number: usize| waiting.get(number % waiting.len().max(1)).copied();
        for step in steps {
            match step {
                SimulatedEvent::Submit { resend_policy, for_ms } => {
                    let submission = submission(10, resend_policy, now_ms + for_ms);
                    let result = table.submit(submission, capacity(2), Waker::noop());
                    if let Ok((id, admission)) = result {
                        begun += 1;
                        waiting.push(id);
                        if admission == Admission::Granted {
                            table.sent(id, PacketId::MIN);
                            table.keep_encoding(id, encoded_request());
                        } else {
                            table.supply(id, encoded_request());
                        }
                    }
                }
                SimulatedEvent::Poll(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        match table.poll(id, Waker::noop()) {
                            RequestStatus::NeedsEncoding => table.supply(id, encoded_request()),
                            RequestStatus::Pending => {}
                            RequestStatus::Completed(_) => prop_assert!(false, "its end was seen before"),
                        }
                    }
                }
                SimulatedEvent::Respond(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        let correlation = table.correlation(id);
                        table.handle_response(&correlation, response(), &mut wakers);
                    }
                }
                SimulatedEvent::Abandon(number) => {
                    if let Some(id) = pick(&waiting, number) {
                        table.abandon(id, |_, _| false);
                        waiting.retain(|other| *other != id);
                        ended += 1;
                    }
                }
                SimulatedEvent::Advance(ms) => {
                    now_ms += ms;
                    table.expire(now_ms, true, &mut wakers, |_, _| false);
                }
                SimulatedEvent::SendQueued(publishes) => {
                    granted(&mut table, publishes);
                }
                SimulatedEvent::LoseSession { unsent } => {
                    let unsent = unsent.iter().filter_map(|number| Some((pick(&waiting, *number)?, encoded_request())));
                    table.session_lost(unsent, &mut wakers);
                }
            }
            waiting.retain(|id| {
                let over = end(&mut table, *id).is_some();
                ended += usize::from(over);
                !over
            });
            prop_assert_eq!(begun, ended + waiting.len());
            prop_assert!(table.in_flight() <= 4, "{}", table.in_flight());
            prop_assert!(table.wake_at_ms().is_none_or(|at| at > now_ms || waiting.is_empty()));
        }
        table.expire(now_ms + 100, true, &mut wakers, |_, _| false);
        for id in waiting {
            prop_assert!(end(&mut table, id).is_some(), "its time is up");
        }
        prop_assert_eq!((table.in_flight(), table.queued(), table.wake_at_ms()), (0, 0, None));
    }
}
