//! What a transaction is to do.
use super::set::expires_in_ms;
use super::{DelOptions, SetOptions};
use crate::AsBytes;
use bytes::Bytes;
use statestore_protocol::TransactionOperation;

/// Several SETs and DELs, of which all are carried out or none.
///
/// They are carried out in their order, and a later one sees what an earlier one did to the same key. Of the options only those
/// count that say what the operation is: condition, expiry and fencing token. The others are those of the [whole
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
    pub(crate) operations: Vec<TransactionOperation>,
    /// Why it cannot be carried out: which operation cannot, and why.
    pub(super) mistake: Option<(usize, &'static str)>,
}

impl Transaction {
    /// One without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a SET.
    #[must_use]
    pub fn set(mut self, key: impl AsBytes, value: impl AsBytes, options: &SetOptions) -> Self {
        let key = self.key(key.as_ref());
        let expires_in_ms = expires_in_ms(options).unwrap_or_else(|mistake| {
            self.mistaken(mistake);
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

    /// Adds a DEL. An absent key is no failure, unless the DEL is for a version.
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

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn key(&mut self, key: &[u8]) -> Bytes {
        if key.is_empty() {
            self.mistaken("the key is empty");
        }
        Bytes::copy_from_slice(key)
    }

    /// The next operation cannot be carried out. The first mistake counts.
    fn mistaken(&mut self, mistake: &'static str) {
        let operation = self.operations.len();
        self.mistake.get_or_insert((operation, mistake));
    }
}
