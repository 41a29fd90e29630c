//! The operations of a transaction.
use super::set::expires_in_ms;
use super::{DelOptions, SetOptions};
use crate::AsBytes;
use bytes::Bytes;
use statestore_protocol::TransactionOperation;

/// A list of SETs and DELs that are executed together or not at all.
///
/// Operations are executed in their order, and a later one sees the changes of an earlier one to the same key. Only the options
/// that define the operation apply: condition, expiry and fencing token. The others are options of the [whole
/// request](crate::TransactOptions).
///
/// ```
/// use statestore::{Condition, DelOptions, SetOptions, Transaction};
///
/// let new = SetOptions::new().condition(Condition::IfAbsent);
/// let transaction = Transaction::new()
///     .set("order/7", "paid", &SetOptions::default())
///     .set("receipt/7", "…", &new)
///     .del("cart/7", &DelOptions::default());
/// assert_eq!(transaction.len(), 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    pub(super) operations: Vec<TransactionOperation>,
    /// Index of the first invalid operation, and the reason.
    pub(super) first_invalid: Option<(usize, &'static str)>,
}

impl Transaction {
    /// Creates a transaction without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a SET.
    #[must_use]
    pub fn set(mut self, key: impl AsBytes, value: impl AsBytes, options: &SetOptions) -> Self {
        let key = self.key(key.as_ref());
        let expires_in_ms = expires_in_ms(options).unwrap_or_else(|reason| {
            self.mark_invalid(reason);
            None
        });
        self.operations.push(TransactionOperation::Set {
            key,
            value: Bytes::copy_from_slice(value.as_ref()),
            options: statestore_protocol::SetOptions {
                condition: options.condition,
                expires_in_ms,
            },
            token: options.fencing_token.clone(),
        });
        self
    }

    /// Adds a DEL. An absent key is no failure, unless the DEL has a version.
    #[must_use]
    pub fn del(mut self, key: impl AsBytes, options: &DelOptions) -> Self {
        let key = self.key(key.as_ref());
        self.operations.push(TransactionOperation::Del {
            key,
            if_version: options.if_version,
            token: options.fencing_token.clone(),
        });
        self
    }

    /// Returns the operations, as they are sent.
    pub fn operations(&self) -> &[TransactionOperation] {
        &self.operations
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn key(&mut self, key: &[u8]) -> Bytes {
        if key.is_empty() {
            self.mark_invalid("the key is empty");
        }
        Bytes::copy_from_slice(key)
    }

    /// Records that the next operation is invalid. The first mistake counts.
    fn mark_invalid(&mut self, reason: &'static str) {
        let operation = self.operations.len();
        self.first_invalid.get_or_insert((operation, reason));
    }
}
