//! The TXN request.
use super::action::{operation_action, operation_command};
use super::call::{Call, check_value, invalid_argument};
use super::capabilities::unsupported;
use super::{Client, Deadline, Transaction};
use crate::Retry;
use crate::error::{Error, ErrorKind, Outcome};
use crate::request::OutgoingRequest;
use statestore_protocol::{Capabilities, CommandRef, Hlc, Rejection, Reply, TransactionOperation};
use std::time::Duration;

/// Options of [`Client::transact_with`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TransactOptions {
    /// Time limit of the request; [`Settings::request_timeout`](crate::Settings::request_timeout) by default.
    pub timeout: Option<Duration>,
    /// Whether the store is asked to keep the keys on disk.
    pub persist: bool,
    /// Whether the request is sent again if the session is lost before its response arrives.
    pub retry: Retry,
}

impl TransactOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`timeout`](Self#structfield.timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`persist`](Self#structfield.persist).
    #[must_use]
    pub fn persist(mut self, persist: bool) -> Self {
        self.persist = persist;
        self
    }

    /// Sets [`retry`](Self#structfield.retry).
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

/// Result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// All operations were executed.
    ///
    /// The versions are those of the changes, in the order of the operations; `None` for a DEL of an absent key.
    Applied(Vec<Option<Hlc>>),
    /// The condition of an operation was not met, and nothing changed.
    NotApplied {
        /// Index of the operation, from 0.
        operation: usize,
        /// Current version of its key; `None` if the key is absent.
        version: Option<Hlc>,
    },
}

impl TransactionOutcome {
    /// Returns whether the operations were executed.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

impl Client {
    /// Executes all operations, or none. Other clients see all of them or none.
    ///
    /// Dropping the future withdraws the request if it was not sent; otherwise it may still be executed.
    ///
    /// ```no_run
    /// # async fn example(client: &statestore::Client) -> Result<(), statestore::Error> {
    /// use statestore::{Condition, DelOptions, SetOptions, Transaction};
    ///
    /// let Some(entry) = client.get("stock/bolts").await? else { return Ok(()) };
    /// let unchanged = SetOptions::new().condition(Condition::IfVersion((&entry.version).into()));
    /// let transaction = Transaction::new()
    ///     .set("stock/bolts", "41", &unchanged)
    ///     .del("wish/bolts", &DelOptions::default());
    /// if !client.transact(&transaction).await?.is_applied() {
    ///     println!("somebody else has changed the stock");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::Unsupported`]: the store has no transactions ([`Capabilities::transactions`]).
    /// - [`ErrorKind::InvalidArgument`]: the transaction has no operations, more than the
    ///   store accepts, or an invalid one.
    /// - The errors of [`set`](Self::set) and [`del`](Self::del).
    ///
    /// If a single operation is invalid or was rejected by the store, [`Error::operation`] returns its index.
    pub async fn transact(&self, transaction: &Transaction) -> Result<TransactionOutcome, Error> {
        self.transact_with(transaction, &TransactOptions::default())
            .await
    }

    /// Like [`transact`](Self::transact), with options.
    pub async fn transact_with(
        &self,
        transaction: &Transaction,
        options: &TransactOptions,
    ) -> Result<TransactionOutcome, Error> {
        let operations = &transaction.operations;
        let command = CommandRef::Transact { operations };
        if let Some((operation, reason)) = transaction.first_invalid {
            let action = operation_action(operations, operation);
            let error = Error::new(ErrorKind::InvalidArgument, Outcome::NotDone, action, reason);
            return Err(error.with_operation(operation));
        }
        if operations.is_empty() {
            return Err(invalid_argument(command, "it has no operation"));
        }
        for (index, operation) in operations.iter().enumerate() {
            if let TransactionOperation::Set { value, .. } = operation {
                check_value(self.shared(), operation_command(operation), value)
                    .map_err(|error| error.with_operation(index))?;
            }
        }
        let deadline = Deadline::after(options.timeout.unwrap_or(self.shared().request_timeout()));
        let transact = |timeout, ()| self.send_transaction(operations, timeout, options);
        let permits = |store: &Capabilities| match store.transactions {
            None => {
                let reason = "the store has no transactions; the crate statestore-intents makes them of single requests";
                Err(unsupported(command, reason))
            }
            Some(limit) if operations.len() as u64 > limit => {
                let reason = format!("the store takes {limit} operations at most");
                Err(invalid_argument(command, reason))
            }
            Some(_) => Ok(()),
        };
        self.call_if_supported(&deadline, true, command, permits, transact)
            .await
    }

    async fn send_transaction(
        &self,
        operations: &[TransactionOperation],
        timeout: Duration,
        options: &TransactOptions,
    ) -> Result<TransactionOutcome, Error> {
        let request = OutgoingRequest {
            persist: options.persist,
            retry: options.retry,
            ..OutgoingRequest::new(CommandRef::Transact { operations })
        };
        let mut transact = Call::new(self.shared(), request, Some(timeout));
        match (&mut transact).await?.reply {
            Reply::Transacted(versions) if versions.len() == operations.len() => {
                let versions: Vec<_> = versions
                    .into_iter()
                    .map(|version| version.map(Hlc::from))
                    .collect();
                if let Some(newest) = versions.iter().flatten().max() {
                    self.shared().merge(newest);
                }
                Ok(TransactionOutcome::Applied(versions))
            }
            Reply::Rejected {
                operation,
                reason: Rejection::Condition(version),
            } if operation < operations.len() as u64 => Ok(TransactionOutcome::NotApplied {
                operation: usize::try_from(operation).unwrap_or(usize::MAX),
                version: version.map(Hlc::from),
            }),
            _ => Err(transact.invalid("the response is not one to TXN")),
        }
    }
}
