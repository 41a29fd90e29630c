//! Outcomes of requests at their end.
use super::{
    ErrorKind, ORIGIN, Outcome, PacketId, RequestId, RequestTable, ResendPolicy, Waker, capacity,
    encoded_request, end, failure, granted, queue, response, submission, submit,
};
use statestore_protocol::mqtt::ReasonCode;

/// Adds a request that was sent, with a deadline of 100.
fn sent(table: &mut RequestTable) -> RequestId {
    let (id, _) = submit(table, 1, 100).unwrap();
    table.sent(id, PacketId::MIN);
    id
}

#[test]
fn a_withdrawn_request_is_not_done() {
    for (taken_back, outcome, in_flight) in
        [(true, Outcome::NotDone, 0), (false, Outcome::Unknown, 1)]
    {
        let mut table = RequestTable::new(ORIGIN, 10, 10);
        let mut wakers = Vec::new();
        let forgotten = sent(&mut table);
        assert_eq!(table.abandon(forgotten, |_, _| taken_back), outcome);
        assert_eq!(table.in_flight(), in_flight);
        let (late, unseen) = (sent(&mut table), sent(&mut table));
        table.expire(100, true, &mut wakers, |_, _| taken_back);
        let expected = Some((ErrorKind::TimedOut, outcome));
        assert_eq!(failure(end(&mut table, late)), expected);
        assert_eq!(table.abandon(unseen, |_, _| true), outcome);
        let open = sent(&mut table);
        table.close(ErrorKind::Closed, "enough", &mut wakers, |_, _| taken_back);
        let expected = Some((ErrorKind::Closed, outcome));
        assert_eq!(failure(end(&mut table, open)), expected);
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
        let mut table = RequestTable::new(ORIGIN, 10, 10);
        let id = sent(&mut table);
        let ended = table.handle_puback(id, reason, None, resent, &mut Vec::new());
        assert_eq!(ended, expected.is_some(), "{reason}");
        assert_eq!(failure(end(&mut table, id)), expected, "{reason}");
    }
}

#[test]
fn only_a_queued_request_is_superseded() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let mut wakers = Vec::new();
    let sent = sent(&mut table);
    let queued = queue(&mut table);
    assert!(!table.supersede(sent, &mut wakers));
    assert!(table.supersede(queued, &mut wakers));
    assert_eq!(
        failure(end(&mut table, queued)),
        Some((ErrorKind::Superseded, Outcome::NotDone))
    );
    let next = queue(&mut table);
    assert_eq!(next.index, queued.index);
    assert!(
        !table.supersede(queued, &mut wakers),
        "it is another's slot"
    );
    assert!(table.is_queued(next));
}

#[test]
fn a_request_repeated_after_a_lost_session_has_an_unknown_outcome() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let submission = submission(10, ResendPolicy::Risky, 100);
    let (id, _) = table
        .submit(submission, capacity(1), Waker::noop())
        .unwrap();
    assert_eq!(table.unsent_outcome(id), Outcome::NotDone);
    table.sent(id, PacketId::MIN);
    table.keep_encoding(id, encoded_request());
    assert_eq!(table.session_lost([], &mut Vec::new()), 1);
    assert_eq!(table.unsent_outcome(id), Outcome::Unknown);
    assert!(!table.is_queued(id), "it may not be superseded");
    assert_eq!(table.attempts(id), 1);
    assert_eq!(granted(&mut table, 1), [id]);
    assert_eq!(table.attempts(id), 2);
    assert_eq!(table.abandon(id, |_, _| true), Outcome::Unknown);
}

#[test]
fn only_requests_without_resend_need_their_session() {
    for (resend_policy, needs) in [
        (ResendPolicy::Never, true),
        (ResendPolicy::Risky, true),
        (ResendPolicy::Idempotent, false),
    ] {
        let mut table = RequestTable::new(ORIGIN, 10, 10);
        let submission = submission(10, resend_policy, 100);
        let (id, _) = table
            .submit(submission, capacity(1), Waker::noop())
            .unwrap();
        assert!(
            !table.needs_session(),
            "{resend_policy:?} before it is sent"
        );
        table.sent(id, PacketId::MIN);
        assert_eq!(table.needs_session(), needs, "{resend_policy:?}");
        // The caller stops waiting.
        table.abandon(id, |_, _| false);
        assert!(!table.needs_session(), "{resend_policy:?}");
    }
}

#[test]
fn an_unread_response_leaves_the_outcome_unknown() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let id = sent(&mut table);
    let correlation = table.correlation(id);
    assert!(table.handle_response(&correlation, response(), &mut Vec::new()));
    assert_eq!(table.abandon(id, |_, _| true), Outcome::Unknown);
}

#[test]
fn an_unencoded_request_waits_for_its_encoding() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let (id, _) = submit(&mut table, 0, 100).unwrap();
    assert_eq!(granted(&mut table, 1), []);
    table.supply(id, encoded_request());
    assert_eq!(granted(&mut table, 1), [id]);
}

#[test]
fn a_lost_session_removes_abandoned_requests() {
    let mut table = RequestTable::new(ORIGIN, 10, 10);
    let submission = submission(10, ResendPolicy::Idempotent, 100);
    let (id, _) = table
        .submit(submission, capacity(1), Waker::noop())
        .unwrap();
    table.sent(id, PacketId::MIN);
    table.abandon(id, |_, _| false);
    assert_eq!(table.in_flight(), 1, "its place is taken");
    assert_eq!(table.session_lost([], &mut Vec::new()), 0);
    assert_eq!((table.in_flight(), table.queued()), (0, 0));
    let next = queue(&mut table);
    assert_eq!(next.index, id.index);
}
