//! Outcomes of requests at their end.
use super::{
    ErrorKind, ORIGIN, Outcome, PacketId, RequestId, RequestTable, ResendPolicy, Waker, capacity,
    encoded_request, end, failure, granted, queue, response, submission, submit,
};
use statestore_protocol::mqtt::ReasonCode;

/// Adds a request that was sent, with a deadline of 100.
fn sent(ledger: &mut RequestTable) -> RequestId {
    let (id, _) = submit(ledger, 1, 100).unwrap();
    ledger.sent(id, PacketId::MIN);
    id
}

#[test]
fn a_withdrawn_request_is_not_done() {
    for (taken_back, outcome, in_flight) in
        [(true, Outcome::NotDone, 0), (false, Outcome::Unknown, 1)]
    {
        let mut ledger = RequestTable::new(ORIGIN, 10, 10);
        let mut wakers = Vec::new();
        let forgotten = sent(&mut ledger);
        assert_eq!(ledger.abandon(forgotten, |_, _| taken_back), outcome);
        assert_eq!(ledger.in_flight(), in_flight);
        let (late, unseen) = (sent(&mut ledger), sent(&mut ledger));
        ledger.expire(100, true, &mut wakers, |_, _| taken_back);
        let expected = Some((ErrorKind::TimedOut, outcome));
        assert_eq!(failure(end(&mut ledger, late)), expected);
        assert_eq!(ledger.abandon(unseen, |_, _| true), outcome);
        let open = sent(&mut ledger);
        ledger.close(ErrorKind::Closed, "enough", &mut wakers, |_, _| taken_back);
        let expected = Some((ErrorKind::Closed, outcome));
        assert_eq!(failure(end(&mut ledger, open)), expected);
    }
}

#[test]
fn a_rejected_request_is_not_done_unless_its_code_or_an_earlier_delivery_is_ambiguous() {
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
        let mut ledger = RequestTable::new(ORIGIN, 10, 10);
        let id = sent(&mut ledger);
        let ended = ledger.handle_puback(id, reason, None, resent, &mut Vec::new());
        assert_eq!(ended, expected.is_some(), "{reason}");
        assert_eq!(failure(end(&mut ledger, id)), expected, "{reason}");
    }
}

#[test]
fn only_a_queued_request_is_superseded() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
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
fn a_request_repeated_after_a_lost_session_has_an_unknown_outcome() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let submission = submission(10, ResendPolicy::Risky, 100);
    let (id, _) = ledger
        .submit(submission, capacity(1), Waker::noop())
        .unwrap();
    assert_eq!(ledger.unsent_outcome(id), Outcome::NotDone);
    ledger.sent(id, PacketId::MIN);
    ledger.keep_encoding(id, encoded_request());
    assert_eq!(ledger.session_lost([], &mut Vec::new()), 1);
    assert_eq!(ledger.unsent_outcome(id), Outcome::Unknown);
    assert!(!ledger.is_queued(id), "it may not be superseded");
    assert_eq!(ledger.attempts(id), 1);
    assert_eq!(granted(&mut ledger, 1), [id]);
    assert_eq!(ledger.attempts(id), 2);
    assert_eq!(ledger.abandon(id, |_, _| true), Outcome::Unknown);
}

#[test]
fn only_requests_without_resend_need_their_session() {
    for (again, needs) in [
        (ResendPolicy::Never, true),
        (ResendPolicy::Risky, true),
        (ResendPolicy::Idempotent, false),
    ] {
        let mut ledger = RequestTable::new(ORIGIN, 10, 10);
        let submission = submission(10, again, 100);
        let (id, _) = ledger
            .submit(submission, capacity(1), Waker::noop())
            .unwrap();
        assert!(!ledger.needs_session(), "{again:?} before it is sent");
        ledger.sent(id, PacketId::MIN);
        assert_eq!(ledger.needs_session(), needs, "{again:?}");
        // The caller stops waiting.
        ledger.abandon(id, |_, _| false);
        assert!(!ledger.needs_session(), "{again:?}");
    }
}

#[test]
fn an_unread_response_leaves_the_outcome_unknown() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let id = sent(&mut ledger);
    let correlation = ledger.correlation(id);
    assert!(ledger.handle_response(&correlation, response(), &mut Vec::new()));
    assert_eq!(ledger.abandon(id, |_, _| true), Outcome::Unknown);
}

#[test]
fn an_unencoded_request_waits_for_its_encoding() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let (id, _) = submit(&mut ledger, 0, 100).unwrap();
    assert_eq!(granted(&mut ledger, 1), []);
    ledger.supply(id, encoded_request());
    assert_eq!(granted(&mut ledger, 1), [id]);
}

#[test]
fn a_lost_session_removes_abandoned_requests() {
    let mut ledger = RequestTable::new(ORIGIN, 10, 10);
    let submission = submission(10, ResendPolicy::Idempotent, 100);
    let (id, _) = ledger
        .submit(submission, capacity(1), Waker::noop())
        .unwrap();
    ledger.sent(id, PacketId::MIN);
    ledger.abandon(id, |_, _| false);
    assert_eq!(ledger.in_flight(), 1, "its place is taken");
    assert_eq!(ledger.session_lost([], &mut Vec::new()), 0);
    assert_eq!((ledger.in_flight(), ledger.queued()), (0, 0));
    let next = queue(&mut ledger);
    assert_eq!(next.index, id.index);
}
