//! Faults that the model must find, so that it is known to look.
use crate::model::{Plan, run};

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

fn assert_found(fault: Fault) {
    const MOST: u64 = 60_000;
    let found = (0..MOST).find(|seed| {
        let plan = Plan::random(*seed);
        run(&plan, fault).is_err()
    });
    assert!(found.is_some(), "{fault:?} is not found in {MOST} runs");
    println!("{fault:?} is found in run {found:?}");
}

#[test]
fn a_register_that_nobody_looks_at_is_found() {
    assert_found(Fault::RegisterUnread);
}

#[test]
fn an_abort_that_is_forgotten_is_found() {
    assert_found(Fault::AbortForgotten);
}

#[test]
fn a_register_that_is_deleted_at_once_is_found() {
    assert_found(Fault::RegisterDeleted);
}

#[test]
fn a_reader_who_does_not_look_twice_is_found() {
    assert_found(Fault::NoSecondLook);
}

#[test]
fn a_deletion_without_a_tombstone_is_found() {
    assert_found(Fault::DelForTombstone);
}

#[test]
fn a_value_put_in_place_with_the_token_of_the_intent_is_found() {
    assert_found(Fault::SameToken);
}

#[test]
fn a_value_put_in_place_whatever_stands_there_is_found() {
    assert_found(Fault::FinishByClock);
}
