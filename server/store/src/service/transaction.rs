//! Checks of the operations of a transaction before the keyspace executes them.
use crate::keyspace::rules::{self, Operation, Version};
use bytes::Bytes;
use statestore_protocol::{Hlc, Rejection, Reply, ServiceError, TransactionOperation};

/// Returns the rejection of the first operation that has an error.
pub(super) fn first_rejected(
    operations: &[TransactionOperation],
    error_of: impl Fn(&TransactionOperation) -> Option<ServiceError>,
) -> Option<Reply> {
    let mut errors = operations.iter().map(error_of).zip(0..);
    errors.find_map(|(error, operation)| {
        let reason = Rejection::Error(error?);
        Some(Reply::Rejected { operation, reason })
    })
}

/// Returns the rejection of the first operation whose fencing token is too far ahead.
pub(super) fn first_skewed_token(
    operations: &[TransactionOperation],
    wall_ms: u64,
    highest: Version,
) -> Option<Reply> {
    first_rejected(operations, |operation| {
        let token = operation.token()?;
        rules::is_too_far_ahead(token, wall_ms, highest).then_some(ServiceError::FencingTokenSkew)
    })
}

/// Returns the operations in the form that the keyspace executes.
pub(super) fn operations<'a>(
    operations: &'a [TransactionOperation],
    timestamp: &'a Hlc,
) -> Vec<(&'a Bytes, Operation<'a>)> {
    let operation = |it: &'a TransactionOperation| (it.key(), Operation::of(it, timestamp));
    operations.iter().map(operation).collect()
}
