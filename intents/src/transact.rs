//! A transaction, as a series of attempts.
use super::calls::{Backoff, Calls};
use super::transaction_attempt::{AttemptOutcome, TransactionAttempt};
use super::{MAX_DURATION, MAX_OPERATIONS, MIN_EXPIRY, REGISTERS, Store};
use bytes::Bytes;
use statestore::{Error, ErrorKind, Outcome, Transaction, TransactionOutcome};
use statestore_protocol::TransactionOperation;
use std::collections::BTreeMap;
use std::time::Duration;

/// Executes all operations of a transaction, or none.
///
/// Operations must not have a fencing token, since the transaction uses its own tokens. Operations on one key get one version.
///
/// Dropping the future between two requests is like the end of the program: other clients abort or finish the transaction.
///
/// # Errors
/// - [`ErrorKind::InvalidArgument`] and [`ErrorKind::Unsupported`]: the transaction is not possible through intents.
/// - The errors of the requests.
/// - [`ErrorKind::TimedOut`]: the transaction took too long.
///
/// The outcome is [`Outcome::Unknown`] only if the content of the register is not known.
pub async fn transact<S: Store>(
    store: &S,
    transaction: &Transaction,
    timeout: Duration,
) -> Result<TransactionOutcome, Error> {
    let operations = transaction.operations();
    let groups = groups(operations)?;
    if timeout > MAX_DURATION {
        let reason = format!("it may take {MAX_DURATION:?} at most");
        return Err(refused(ErrorKind::InvalidArgument, reason));
    }
    let calls = Calls::new(store, timeout);
    let mut delays = Backoff::default();
    loop {
        if let AttemptOutcome::Completed(result) = TransactionAttempt::new(&calls, operations)
            .run(&groups)
            .await
        {
            return result;
        }
        if calls.remaining().is_zero() {
            return Err(calls.timeout_error(ACTION, None));
        }
        calls.back_off(&mut delays).await;
    }
}

const ACTION: &str = "a transaction through intents";

/// Groups the operations by key, in their order. All transactions use the same order of keys, so that no two wait for each
/// other.
fn groups(operations: &[TransactionOperation]) -> Result<Vec<Vec<usize>>, Error> {
    if operations.is_empty() || operations.len() > MAX_OPERATIONS {
        let reason = format!("it has from 1 to {MAX_OPERATIONS} operations");
        return Err(refused(ErrorKind::InvalidArgument, reason));
    }
    let mut groups: BTreeMap<&Bytes, Vec<usize>> = BTreeMap::new();
    for (index, operation) in operations.iter().enumerate() {
        let (key, token, expires_in_ms) = match operation {
            TransactionOperation::Set {
                key,
                options,
                token,
                ..
            } => (key, token, options.expires_in_ms),
            TransactionOperation::Del { key, token, .. } => (key, token, None),
        };
        let problem = if token.is_some() {
            Some((
                ErrorKind::Unsupported,
                "it takes a fencing token of its own",
            ))
        } else if expires_in_ms.is_some_and(|ms| u128::from(ms.get()) < MIN_EXPIRY.as_millis()) {
            let reason = "a key that expires within half a minute may be gone before all of them are written";
            Some((ErrorKind::InvalidArgument, reason))
        } else if key.starts_with(REGISTERS) {
            let reason = "transactions keep their registers under this key";
            Some((ErrorKind::InvalidArgument, reason))
        } else {
            None
        };
        if let Some((kind, reason)) = problem {
            return Err(refused(kind, reason).with_operation(index));
        }
        groups.entry(key).or_default().push(index);
    }
    Ok(groups.into_values().collect())
}

fn refused(kind: ErrorKind, reason: impl Into<String>) -> Error {
    Error::new(kind, Outcome::NotDone, ACTION, reason)
}
