//! Faults that the model must find, so that it is known to look.
use crate::model::{Scenario, run};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Registers are never read.
    RegisterUnread,
    /// A register forgets at once that its transaction was aborted.
    AbortForgotten,
    /// The register is deleted as soon as all values are in place.
    RegisterDeleted,
    /// As above, and a reader that finds no register does not read the key again.
    NoSecondLook,
    /// A deleted key is deleted, with its fence.
    DelForTombstone,
    /// Values are put in place with the token of the intent, instead of a higher one.
    SameToken,
    /// Values are put in place with a token that has nothing to do with what was read.
    FinishByClock,
}

fn assert_detected(fault: Fault) {
    const MOST: u64 = 60_000;
    let found = (0..MOST).find(|seed| {
        let plan = Scenario::random(*seed);
        run(&plan, fault).is_err()
    });
    assert!(found.is_some(), "{fault:?} is not found in {MOST} runs");
    println!("{fault:?} is found in run {found:?}");
}

#[test]
fn an_unread_register_is_detected() {
    assert_detected(Fault::RegisterUnread);
}

#[test]
fn a_forgotten_abort_is_detected() {
    assert_detected(Fault::AbortForgotten);
}

#[test]
fn an_early_deletion_of_the_register_is_detected() {
    assert_detected(Fault::RegisterDeleted);
}

#[test]
fn a_missing_second_read_is_detected() {
    assert_detected(Fault::NoSecondLook);
}

#[test]
fn a_deletion_without_a_tombstone_is_detected() {
    assert_detected(Fault::DelForTombstone);
}

#[test]
fn a_value_written_with_the_token_of_the_intent_is_detected() {
    assert_detected(Fault::SameToken);
}

#[test]
fn a_value_written_without_a_check_is_detected() {
    assert_detected(Fault::FinishByClock);
}
