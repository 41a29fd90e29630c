use super::{BUFFER_FROM_IN_FLIGHT, MAX_BUFFERED_MS, MAX_IN_FLIGHT};
use crate::scripted_link::{KEY, Node, VALUE, key_state, record, value};
use crate::{CommitOutcome, EngineError, EngineEvent, EngineRequest, EngineRequestId, Revision};
use bytes::Bytes;
use statestored_store::keyspace::{Completion, Keyspace};

static OTHER: Bytes = Bytes::from_static(b"another value");

/// Returns a node that watches up to revision 5, and knows that the key has had its value since revision 4. The engine counts its
/// revisions.
fn node() -> Node {
    let mut node = Node::new();
    node.remote.link.counts_revisions = true;
    node
}

/// Makes a read. Returns the request for the engine's revision.
fn start_read(node: &mut Node, at_ms: u64) -> EngineRequestId {
    add_reads(node, at_ms, 1);
    node.take_request(&EngineRequest::Revision)
}

/// Makes two such requests, until the third millisecond.
fn start_two_reads(node: &mut Node) -> [EngineRequestId; 2] {
    let first = start_read(node, 1);
    add_reads(node, 1, 1);
    assert_eq!(node.advance(1 + MAX_BUFFERED_MS, []), []);
    [first, node.take_request(&EngineRequest::Revision)]
}

/// Makes this many reads in one turn.
fn add_reads(node: &mut Node, at_ms: u64, count: usize) {
    for _ in 0..count {
        assert_eq!(node.get_now(at_ms), None);
    }
    node.remote.flush_gathered();
}

/// Answers the read of the key from the engine, which ends one read.
fn answer_read(node: &mut Node, at_ms: u64) {
    let look = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
    let read = EngineEvent::Read(look, Ok(vec![key_state(4, &VALUE)]));
    assert_eq!(node.advance(at_ms, [read]), [value(4, &VALUE)]);
}

fn changed(node: &Node, at: u64, value: &Bytes) -> EngineEvent {
    let change = (KEY.clone(), Some(record(at, value)));
    EngineEvent::Changes(node.watch, Revision(at), vec![change])
}

#[test]
fn a_read_of_a_cached_key_requests_only_the_revision_of_the_engine() {
    let mut node = node();
    let ask = start_read(&mut node, 1);
    let events = EngineEvent::Revision(ask, Ok(Revision(5)));
    assert_eq!(node.advance(2, [events]), [value(4, &VALUE)]);
    assert_eq!(
        node.remote
            .engine_metrics()
            .map(|it| it.confirmed_cache_hits),
        Some(1)
    );
    assert!(node.remote.link.requests.is_empty());
}

#[test]
fn one_revision_request_confirms_all_earlier_reads_and_no_later_one() {
    let mut node = node();
    for count in 1..4 {
        assert_eq!(node.get_now(1), None);
        assert_eq!(node.remote.gathered(), count);
    }
    assert!(node.remote.link.requests.is_empty());
    node.remote.flush_gathered();
    let first = node.take_request(&EngineRequest::Revision);
    let mut last = first;
    for _ in 1..BUFFER_FROM_IN_FLIGHT {
        last = start_read(&mut node, 1);
    }
    add_reads(&mut node, 1, 2);
    assert_eq!(node.remote.gathered(), 0);
    assert!(node.remote.link.requests.is_empty(), "some are under way");
    let events = EngineEvent::Revision(first, Ok(Revision(5)));
    assert_eq!(node.advance(2, [events]), vec![value(4, &VALUE); 3]);
    assert_eq!(node.remote.gathered(), 2);
    node.remote.flush_gathered();
    let events = EngineEvent::Revision(last, Ok(Revision(5)));
    assert_eq!(node.advance(2, [events]).len(), BUFFER_FROM_IN_FLIGHT - 1);
    let next = node.take_request(&EngineRequest::Revision);
    let events = EngineEvent::Revision(next, Ok(Revision(5)));
    assert_eq!(node.advance(2, [events]).len(), 2);
}

#[test]
fn reads_are_buffered_for_a_limited_time_while_requests_are_in_flight() {
    let mut node = node();
    for number in 0..MAX_IN_FLIGHT as u64 {
        let at_ms = 1 + 2 * number * MAX_BUFFERED_MS;
        assert_eq!(node.get_now(at_ms), None);
        let until_ms = at_ms + MAX_BUFFERED_MS;
        assert_eq!(node.remote.next_ms(), Some(until_ms));
        assert_eq!(node.advance(until_ms - 1, []), []);
        assert!(node.remote.link.requests.is_empty());
        assert_eq!(node.advance(until_ms, []), []);
        node.take_request(&EngineRequest::Revision);
    }
    assert_eq!(node.get_now(1_000), None);
    assert_eq!(node.advance(1_010, []), []);
    assert!(node.remote.link.requests.is_empty());
}

#[test]
fn a_revision_also_confirms_the_reads_of_earlier_requests() {
    let mut node = node();
    let [first, second] = start_two_reads(&mut node);
    let events = EngineEvent::Revision(second, Ok(Revision(5)));
    assert_eq!(node.advance(4, [events]).len(), 2);
    let events = EngineEvent::Revision(first, Ok(Revision(5)));
    assert_eq!(node.advance(5, [events]), []);
}

#[test]
fn a_read_waits_for_the_changes_that_the_engine_had_made() {
    let mut node = node();
    let ask = start_read(&mut node, 1);
    assert_eq!(
        node.advance(2, [EngineEvent::Revision(ask, Ok(Revision(7)))]),
        []
    );
    let change = changed(&node, 6, &VALUE);
    assert_eq!(node.advance(3, [change]), []);
    let change = changed(&node, 7, &OTHER);
    assert_eq!(node.advance(4, [change]), [value(7, &OTHER)]);
}

#[test]
fn a_read_waits_briefly_for_a_late_watch_and_later_reads_do_not_wait() {
    let mut node = node();
    let ask = start_read(&mut node, 1);
    assert_eq!(
        node.advance(2, [EngineEvent::Revision(ask, Ok(Revision(7)))]),
        []
    );
    assert_eq!(node.remote.next_ms(), Some(22));
    assert_eq!(node.advance(21, []), []);
    assert!(node.remote.link.requests.is_empty());
    assert_eq!(node.advance(22, []), []);
    let look = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
    let read = EngineEvent::Read(look, Ok(vec![key_state(7, &OTHER)]));
    assert_eq!(node.advance(23, [read]), [value(7, &OTHER)]);
    assert_eq!(node.get_now(24), None);
    let look = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
    let read = EngineEvent::Read(look, Ok(vec![key_state(7, &OTHER)]));
    assert_eq!(node.advance(25, [read]).len(), 1);
    // The watch has caught up.
    let change = changed(&node, 7, &OTHER);
    assert_eq!(node.advance(26, [change]), []);
    start_read(&mut node, 27);
}

#[test]
fn without_an_answer_or_a_watch_the_engine_is_read() {
    for error in [None, Some(EngineError::Foreign("counter".into()))] {
        let mut node = node();
        let ask = start_read(&mut node, 1);
        assert_eq!(
            node.advance(2, [EngineEvent::Revision(ask, Err(error))]),
            []
        );
        node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
    }
    let mut node = node();
    let [first, second] = start_two_reads(&mut node);
    let events = EngineEvent::Revision(first, Ok(Revision(7)));
    assert_eq!(node.advance(3, [events]), []);
    let lost = EngineEvent::WatchLost(node.watch, None);
    assert_eq!(node.advance(3, [lost]), []);
    answer_read(&mut node, 4);
    let events = EngineEvent::Revision(second, Ok(Revision(7)));
    assert_eq!(node.advance(5, [events]), []);
    answer_read(&mut node, 6);
}

#[test]
fn a_record_evicted_meanwhile_is_read_from_the_engine() {
    let mut node = node();
    let ask = start_read(&mut node, 1);
    let purged = EngineEvent::Changes(node.watch, Revision(6), vec![(KEY.clone(), None)]);
    let events = EngineEvent::Revision(ask, Ok(Revision(6)));
    assert_eq!(node.advance(2, [purged, events]), []);
    node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
}

#[test]
fn a_cached_read_does_not_overtake_an_engine_read() {
    let mut node = node();
    let [first, second] = start_two_reads(&mut node);
    let purged = EngineEvent::Changes(node.watch, Revision(6), vec![(KEY.clone(), None)]);
    let events = EngineEvent::Revision(first, Ok(Revision(6)));
    assert_eq!(node.advance(4, [purged, events]), []);
    let look_of_first = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
    // The state of the key is known again, since the key is followed.
    assert_eq!(node.follow(5), None);
    let read = node.take_request(&EngineRequest::Read([KEY.clone()].into_iter().collect()));
    let found = EngineEvent::Read(read, Ok(vec![key_state(7, &OTHER)]));
    assert_eq!(node.advance(6, [found]).len(), 1);
    let events = EngineEvent::Revision(second, Ok(Revision(6)));
    assert_eq!(node.advance(7, [events]), []);
    let read = EngineEvent::Read(look_of_first, Ok(vec![key_state(7, &OTHER)]));
    assert_eq!(node.advance(8, [read]), [value(7, &OTHER)]);
    let look_of_second = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
    let read = EngineEvent::Read(look_of_second, Ok(vec![key_state(7, &OTHER)]));
    assert_eq!(node.advance(9, [read]), [value(7, &OTHER)]);
}

#[test]
fn an_unanswered_revision_request_sends_earlier_reads_to_the_engine() {
    let mut node = node();
    let [first, second] = start_two_reads(&mut node);
    let events = EngineEvent::Revision(first, Ok(Revision(7)));
    assert_eq!(node.advance(4, [events]), []);
    assert_eq!(
        node.advance(5, [EngineEvent::Revision(second, Err(None))]),
        []
    );
    // The first read goes to the engine, and the second one follows it.
    let change = changed(&node, 7, &OTHER);
    assert_eq!(node.advance(6, [change]), []);
    for at_ms in [7, 8] {
        let look = node.take_request(&EngineRequest::ReadRecord(KEY.clone()));
        assert!(node.remote.link.requests.is_empty());
        let read = EngineEvent::Read(look, Ok(vec![key_state(7, &OTHER)]));
        assert_eq!(node.advance(at_ms, [read]), [value(7, &OTHER)]);
    }
}

#[test]
fn operations_on_one_key_complete_in_order() {
    let mut node = node();
    let [_, ask] = start_two_reads(&mut node);
    assert_eq!(node.set(3), None);
    assert_eq!(node.get_now(1), None);
    answer_read(&mut node, 2);
    answer_read(&mut node, 3);
    let (commit, context) = node.remote.link.requests.pop().unwrap();
    assert!(matches!(context, EngineRequest::Commit(_)), "{context:?}");
    let events = EngineEvent::Revision(ask, Ok(Revision(5)));
    assert_eq!(node.advance(4, [events]), []);
    let made = EngineEvent::Committed(commit, CommitOutcome::Committed(Revision(6)));
    assert_eq!(node.advance(5, [made]).len(), 1);
    answer_read(&mut node, 6);
    assert!(node.remote.link.requests.is_empty());
}

#[test]
fn reads_expire_at_their_deadline() {
    let mut node = node();
    let ask = start_read(&mut node, 1);
    assert_eq!(node.remote.next_ms(), Some(60_001));
    assert_eq!(node.advance(60_000, []), []);
    assert_eq!(node.advance(60_001, []), [Completion::Expired]);
    let events = EngineEvent::Revision(ask, Ok(Revision(5)));
    assert_eq!(node.advance(60_002, [events]), []);
}

#[test]
fn reads_are_rejected_while_the_engine_is_unavailable() {
    let mut node = node();
    start_read(&mut node, 1);
    for at_ms in [2, 2_000] {
        let silent = EngineEvent::Clocks(EngineRequestId(u64::MAX), Err(None));
        let ended = node.advance(at_ms, [silent]);
        let expected = if at_ms == 2 {
            vec![]
        } else {
            vec![Completion::Unavailable]
        };
        assert_eq!(ended, expected);
    }
}
