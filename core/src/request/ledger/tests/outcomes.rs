//! Outcomes of requests at their end.
use super::{
    Again, ErrorKind, Ledger, ORIGIN, Outcome, PacketId, RequestId, Waker, end, failure, granted,
    packed, queue, response, room, submission, submit,
};
use statestore_protocol::mqtt::ReasonCode;

/// Adds a request that was sent, with a deadline of 100.
fn sent(ledger: &mut Ledger) -> RequestId {
    let (id, _) = submit(ledger, 1, 100).unwrap();
    ledger.sent(id, PacketId::MIN);
    id
}

#[test]
fn what_was_taken_back_was_certainly_not_done() {
    for (taken_back, outcome, in_flight) in
        [(true, Outcome::NotDone, 0), (false, Outcome::Unknown, 1)]
    {
        let mut ledger = Ledger::new(ORIGIN, 10, 10);
        let mut wakers = Vec::new();
        let forgotten = sent(&mut ledger);
        assert_eq!(ledger.forget(forgotten, |_, _| taken_back), outcome);
        assert_eq!(ledger.in_flight(), in_flight);
        let (late, unseen) = (sent(&mut ledger), sent(&mut ledger));
        ledger.expire(100, true, &mut wakers, |_, _| taken_back);
        let expected = Some((ErrorKind::TimedOut, outcome));
        assert_eq!(failure(end(&mut ledger, late)), expected);
        assert_eq!(ledger.forget(unseen, |_, _| true), outcome);
        let open = sent(&mut ledger);
        ledger.close(ErrorKind::Closed, "enough", &mut wakers, |_, _| taken_back);
        let expected = Some((ErrorKind::Closed, outcome));
        assert_eq!(failure(end(&mut ledger, open)), expected);
    }
}

#[test]
fn what_the_broker_refuses_is_not_done_unless_its_code_or_another_delivery_leaves_that_open() {
    for (reason, resent, expected) in [
        (ReasonCode::SUCCESS, false, None),
        (
            ReasonCode::NO_MATCHING_SUBSCRIBERS,
            false,
            Some((ErrorKind::NoStore, Outcome::NotDone)),
        ),
        (
            ReasonCode::NOT_AUTHORIZED,
            false,
            Some((ErrorKind::Rejected, Outcome::NotDone)),
        ),
        (
            ReasonCode::NOT_AUTHORIZED,
            true,
            Some((ErrorKind::Rejected, Outcome::Unknown)),
        ),
        (
            ReasonCode::UNSPECIFIED_ERROR,
            false,
            Some((ErrorKind::Rejected, Outcome::Unknown)),
        ),
    ] {
        let mut ledger = Ledger::new(ORIGIN, 10, 10);
        let id = sent(&mut ledger);
        let ended = ledger.acknowledged(id, reason, None, resent, &mut Vec::new());
        assert_eq!(ended, expected.is_some(), "{reason}");
        assert_eq!(failure(end(&mut ledger, id)), expected, "{reason}");
    }
}

#[test]
fn only_a_request_that_waits_is_superseded() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let sent = sent(&mut ledger);
    let queued = queue(&mut ledger);
    assert!(!ledger.supersede(sent, &mut wakers));
    assert!(ledger.supersede(queued, &mut wakers));
    assert_eq!(
        failure(end(&mut ledger, queued)),
        Some((ErrorKind::Superseded, Outcome::NotDone))
    );
    let next = queue(&mut ledger);
    assert_eq!(next.index, queued.index);
    assert!(
        !ledger.supersede(queued, &mut wakers),
        "it is another's slot"
    );
    assert!(ledger.is_queued(next));
}

#[test]
fn what_a_lost_session_may_have_executed_is_unknown_for_ever() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let submission = submission(10, Again::Risky, 100);
    let (id, _) = ledger.submit(submission, room(1), Waker::noop()).unwrap();
    assert_eq!(ledger.unsent_outcome(id), Outcome::NotDone);
    ledger.sent(id, PacketId::MIN);
    ledger.keep(id, packed());
    assert_eq!(ledger.session_lost([], &mut Vec::new()), 1);
    assert_eq!(ledger.unsent_outcome(id), Outcome::Unknown);
    assert!(!ledger.is_queued(id), "it may not be superseded");
    assert_eq!(ledger.attempts(id), 1);
    assert_eq!(granted(&mut ledger, 1), [id]);
    assert_eq!(ledger.attempts(id), 2);
    assert_eq!(ledger.forget(id, |_, _| true), Outcome::Unknown);
}

#[test]
fn only_what_could_not_be_sent_again_needs_its_session() {
    for (again, needs) in [
        (Again::No, true),
        (Again::Risky, true),
        (Again::Harmless, false),
    ] {
        let mut ledger = Ledger::new(ORIGIN, 10, 10);
        let submission = submission(10, again, 100);
        let (id, _) = ledger.submit(submission, room(1), Waker::noop()).unwrap();
        assert!(!ledger.needs_session(), "{again:?} before it is sent");
        ledger.sent(id, PacketId::MIN);
        assert_eq!(ledger.needs_session(), needs, "{again:?}");
        // The caller stops waiting.
        ledger.forget(id, |_, _| false);
        assert!(!ledger.needs_session(), "{again:?}");
    }
}

#[test]
fn what_was_answered_may_have_been_done_also_if_nobody_has_seen_the_answer() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let id = sent(&mut ledger);
    let correlation = ledger.correlation(id);
    assert!(ledger.respond(&correlation, response(), &mut Vec::new()));
    assert_eq!(ledger.forget(id, |_, _| true), Outcome::Unknown);
}

#[test]
fn what_has_its_turn_and_is_not_encoded_yet_waits_until_it_is() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let (id, _) = submit(&mut ledger, 0, 100).unwrap();
    assert_eq!(granted(&mut ledger, 1), []);
    ledger.supply(id, packed());
    assert_eq!(granted(&mut ledger, 1), [id]);
}

#[test]
fn nothing_is_left_of_what_nobody_wants_when_its_session_is_lost() {
    let mut ledger = Ledger::new(ORIGIN, 10, 10);
    let submission = submission(10, Again::Harmless, 100);
    let (id, _) = ledger.submit(submission, room(1), Waker::noop()).unwrap();
    ledger.sent(id, PacketId::MIN);
    ledger.forget(id, |_, _| false);
    assert_eq!(ledger.in_flight(), 1, "its place is taken");
    assert_eq!(ledger.session_lost([], &mut Vec::new()), 0);
    assert_eq!((ledger.in_flight(), ledger.queued()), (0, 0));
    let next = queue(&mut ledger);
    assert_eq!(next.index, id.index);
}
