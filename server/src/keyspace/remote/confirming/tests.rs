use super::{GATHERING_MS, OVERLAPPING, UNDER_WAY};
use crate::keyspace::remote::scripted::{KEY, Node, VALUE, record, seen, value};
use crate::keyspace::remote::{Ask, AskId, EngineError, News, Revision, Verdict};
use crate::keyspace::{End, Keyspace};
use bytes::Bytes;

static OTHER: Bytes = Bytes::from_static(b"another value");

/// Returns a node that watches up to revision 5, and knows that the key has had its value since revision 4. The engine counts its
/// revisions.
fn node() -> Node {
    let mut node = Node::new();
    node.remote.link.counts_revisions = true;
    node
}

/// Makes a read. Returns the request for the engine's revision.
fn asking(node: &mut Node, at_ms: u64) -> AskId {
    gather(node, at_ms, 1);
    node.asked(&Ask::Revision)
}

/// Makes two such requests, until the third millisecond.
fn two_asking(node: &mut Node) -> [AskId; 2] {
    let first = asking(node, 1);
    gather(node, 1, 1);
    assert_eq!(node.advance(1 + GATHERING_MS, []), []);
    [first, node.asked(&Ask::Revision)]
}

/// Makes this many reads in one turn.
fn gather(node: &mut Node, at_ms: u64, count: usize) {
    for _ in 0..count {
        assert_eq!(node.get_now(at_ms), None);
    }
    node.remote.ask_gathered();
}

/// Answers the read of the key from the engine, which ends one read.
fn look(node: &mut Node, at_ms: u64) {
    let look = node.asked(&Ask::Look(KEY.clone()));
    let read = News::Read(look, Ok(vec![seen(4, &VALUE)]));
    assert_eq!(node.advance(at_ms, [read]), [value(4, &VALUE)]);
}

fn changed(node: &Node, at: u64, value: &Bytes) -> News {
    let change = (KEY.clone(), Some(record(at, value)));
    News::Changes(node.watch, Revision(at), vec![change])
}

#[test]
fn a_read_of_what_is_known_asks_only_how_far_the_engine_is() {
    let mut node = node();
    let ask = asking(&mut node, 1);
    let told = News::Revision(ask, Ok(Revision(5)));
    assert_eq!(node.advance(2, [told]), [value(4, &VALUE)]);
    assert_eq!(node.remote.engine().map(|it| it.confirmed), Some(1));
    assert!(node.remote.link.asks.is_empty());
}

#[test]
fn one_question_is_for_all_that_came_before_it_and_for_no_other() {
    let mut node = node();
    for count in 1..4 {
        assert_eq!(node.get_now(1), None);
        assert_eq!(node.remote.gathered(), count);
    }
    assert!(node.remote.link.asks.is_empty());
    node.remote.ask_gathered();
    let first = node.asked(&Ask::Revision);
    let mut last = first;
    for _ in 1..OVERLAPPING {
        last = asking(&mut node, 1);
    }
    gather(&mut node, 1, 2);
    assert_eq!(node.remote.gathered(), 0);
    assert!(node.remote.link.asks.is_empty(), "some are under way");
    let told = News::Revision(first, Ok(Revision(5)));
    assert_eq!(node.advance(2, [told]), vec![value(4, &VALUE); 3]);
    assert_eq!(node.remote.gathered(), 2);
    node.remote.ask_gathered();
    let told = News::Revision(last, Ok(Revision(5)));
    assert_eq!(node.advance(2, [told]).len(), OVERLAPPING - 1);
    let next = node.asked(&Ask::Revision);
    let told = News::Revision(next, Ok(Revision(5)));
    assert_eq!(node.advance(2, [told]).len(), 2);
}

#[test]
fn reads_do_not_wait_long_for_others_or_for_an_answer_to_others() {
    let mut node = node();
    for number in 0..UNDER_WAY as u64 {
        let at_ms = 1 + 2 * number * GATHERING_MS;
        assert_eq!(node.get_now(at_ms), None);
        let until_ms = at_ms + GATHERING_MS;
        assert_eq!(node.remote.next_ms(), Some(until_ms));
        assert_eq!(node.advance(until_ms - 1, []), []);
        assert!(node.remote.link.asks.is_empty());
        assert_eq!(node.advance(until_ms, []), []);
        node.asked(&Ask::Revision);
    }
    assert_eq!(node.get_now(1_000), None);
    assert_eq!(node.advance(1_010, []), []);
    assert!(node.remote.link.asks.is_empty());
}

#[test]
fn an_answer_holds_for_those_who_asked_before() {
    let mut node = node();
    let [first, second] = two_asking(&mut node);
    let told = News::Revision(second, Ok(Revision(5)));
    assert_eq!(node.advance(4, [told]).len(), 2);
    let told = News::Revision(first, Ok(Revision(5)));
    assert_eq!(node.advance(5, [told]), []);
}

#[test]
fn a_read_waits_for_the_changes_that_the_engine_had_made() {
    let mut node = node();
    let ask = asking(&mut node, 1);
    assert_eq!(node.advance(2, [News::Revision(ask, Ok(Revision(7)))]), []);
    let change = changed(&node, 6, &VALUE);
    assert_eq!(node.advance(3, [change]), []);
    let change = changed(&node, 7, &OTHER);
    assert_eq!(node.advance(4, [change]), [value(7, &OTHER)]);
}

#[test]
fn a_read_does_not_wait_long_for_a_watch_that_is_late_and_the_next_ones_do_not_at_all() {
    let mut node = node();
    let ask = asking(&mut node, 1);
    assert_eq!(node.advance(2, [News::Revision(ask, Ok(Revision(7)))]), []);
    assert_eq!(node.remote.next_ms(), Some(22));
    assert_eq!(node.advance(21, []), []);
    assert!(node.remote.link.asks.is_empty());
    assert_eq!(node.advance(22, []), []);
    let look = node.asked(&Ask::Look(KEY.clone()));
    let read = News::Read(look, Ok(vec![seen(7, &OTHER)]));
    assert_eq!(node.advance(23, [read]), [value(7, &OTHER)]);
    assert_eq!(node.get_now(24), None);
    let look = node.asked(&Ask::Look(KEY.clone()));
    let read = News::Read(look, Ok(vec![seen(7, &OTHER)]));
    assert_eq!(node.advance(25, [read]).len(), 1);
    // The watch has caught up.
    let change = changed(&node, 7, &OTHER);
    assert_eq!(node.advance(26, [change]), []);
    asking(&mut node, 27);
}

#[test]
fn without_an_answer_or_a_watch_the_engine_is_read() {
    for error in [None, Some(EngineError::Foreign("counter".into()))] {
        let mut node = node();
        let ask = asking(&mut node, 1);
        assert_eq!(node.advance(2, [News::Revision(ask, Err(error))]), []);
        node.asked(&Ask::Look(KEY.clone()));
    }
    let mut node = node();
    let [first, second] = two_asking(&mut node);
    let told = News::Revision(first, Ok(Revision(7)));
    assert_eq!(node.advance(3, [told]), []);
    let lost = News::WatchLost(node.watch, None);
    assert_eq!(node.advance(3, [lost]), []);
    look(&mut node, 4);
    let told = News::Revision(second, Ok(Revision(7)));
    assert_eq!(node.advance(5, [told]), []);
    look(&mut node, 6);
}

#[test]
fn what_was_forgotten_meanwhile_is_read() {
    let mut node = node();
    let ask = asking(&mut node, 1);
    let purged = News::Changes(node.watch, Revision(6), vec![(KEY.clone(), None)]);
    let told = News::Revision(ask, Ok(Revision(6)));
    assert_eq!(node.advance(2, [purged, told]), []);
    node.asked(&Ask::Look(KEY.clone()));
}

#[test]
fn a_read_does_not_overtake_one_that_has_to_ask_the_engine() {
    let mut node = node();
    let [first, second] = two_asking(&mut node);
    let purged = News::Changes(node.watch, Revision(6), vec![(KEY.clone(), None)]);
    let told = News::Revision(first, Ok(Revision(6)));
    assert_eq!(node.advance(4, [purged, told]), []);
    let look_of_first = node.asked(&Ask::Look(KEY.clone()));
    // The state of the key is known again, since the key is followed.
    assert_eq!(node.follow(5), None);
    let read = node.asked(&Ask::Read([KEY.clone()].into_iter().collect()));
    let found = News::Read(read, Ok(vec![seen(7, &OTHER)]));
    assert_eq!(node.advance(6, [found]).len(), 1);
    let told = News::Revision(second, Ok(Revision(6)));
    assert_eq!(node.advance(7, [told]), []);
    let read = News::Read(look_of_first, Ok(vec![seen(7, &OTHER)]));
    assert_eq!(node.advance(8, [read]), [value(7, &OTHER)]);
    let look_of_second = node.asked(&Ask::Look(KEY.clone()));
    let read = News::Read(look_of_second, Ok(vec![seen(7, &OTHER)]));
    assert_eq!(node.advance(9, [read]), [value(7, &OTHER)]);
}

#[test]
fn a_question_without_an_answer_takes_those_before_it_along() {
    let mut node = node();
    let [first, second] = two_asking(&mut node);
    let told = News::Revision(first, Ok(Revision(7)));
    assert_eq!(node.advance(4, [told]), []);
    assert_eq!(node.advance(5, [News::Revision(second, Err(None))]), []);
    // The first read goes to the engine, and the second one follows it.
    let change = changed(&node, 7, &OTHER);
    assert_eq!(node.advance(6, [change]), []);
    for at_ms in [7, 8] {
        let look = node.asked(&Ask::Look(KEY.clone()));
        assert!(node.remote.link.asks.is_empty());
        let read = News::Read(look, Ok(vec![seen(7, &OTHER)]));
        assert_eq!(node.advance(at_ms, [read]), [value(7, &OTHER)]);
    }
}

#[test]
fn what_is_done_on_one_key_is_done_in_order() {
    let mut node = node();
    let [_, ask] = two_asking(&mut node);
    assert_eq!(node.set(3), None);
    assert_eq!(node.get_now(1), None);
    look(&mut node, 2);
    look(&mut node, 3);
    let (commit, asked) = node.remote.link.asks.pop().unwrap();
    assert!(matches!(asked, Ask::Commit(_)), "{asked:?}");
    let told = News::Revision(ask, Ok(Revision(5)));
    assert_eq!(node.advance(4, [told]), []);
    let made = News::Committed(commit, Verdict::Done(Revision(6)));
    assert_eq!(node.advance(5, [made]).len(), 1);
    look(&mut node, 6);
    assert!(node.remote.link.asks.is_empty());
}

#[test]
fn nobody_waits_for_longer_than_there_is_time() {
    let mut node = node();
    let ask = asking(&mut node, 1);
    assert_eq!(node.remote.next_ms(), Some(60_001));
    assert_eq!(node.advance(60_000, []), []);
    assert_eq!(node.advance(60_001, []), [End::Expired]);
    let told = News::Revision(ask, Ok(Revision(5)));
    assert_eq!(node.advance(60_002, [told]), []);
}

#[test]
fn nobody_waits_for_an_engine_that_is_away() {
    let mut node = node();
    asking(&mut node, 1);
    for at_ms in [2, 2_000] {
        let silent = News::Clocks(AskId(u64::MAX), Err(None));
        let ended = node.advance(at_ms, [silent]);
        let expected = if at_ms == 2 { vec![] } else { vec![End::Away] };
        assert_eq!(ended, expected);
    }
}
