//! Transactions, and the features that are reported to daprd.
use crate::instance::{Instance, STALE, translate_delete};
use crate::proto::transactional_state_operation::Request;
use crate::proto::{TransactionalStateOperation, TransactionalStateRequest};
use crate::status::{mismatch, with_location};
use statestore::{Transaction, TransactionOutcome};
use statestore_intents::MAX_OPERATIONS;
use tonic::Status;

/// Names in daprd of the features of a state store.
const ETAG: &str = "ETAG";
const TRANSACTIONAL: &str = "TRANSACTIONAL";
const EXPIRY: &str = "TTL";

impl Instance {
    /// Returns the features that daprd may use.
    pub(crate) async fn features(&self) -> Result<Vec<String>, Status> {
        // Features that a store lacks are built from those that every store has. The request only checks that the store is
        // reachable.
        self.capabilities().await?;
        Ok([ETAG, TRANSACTIONAL, EXPIRY].map(str::to_owned).into())
    }

    /// Returns the maximum number of operations of a transaction.
    pub(crate) async fn max_operations(&self) -> Result<u64, Status> {
        let transactions = self.capabilities().await?.transactions;
        Ok(transactions.unwrap_or(MAX_OPERATIONS as u64))
    }

    /// Executes all operations of a transaction or none.
    pub(crate) async fn transact(&self, request: TransactionalStateRequest) -> Result<(), Status> {
        let max = self.max_operations().await?;
        let operations = request.operations;
        let count = operations.len();
        if count == 0 {
            return Ok(());
        }
        if count as u64 > max {
            return Err(Status::invalid_argument(format!(
                "a transaction of {count} operations; the maximum is {max}"
            )));
        }
        let mut transaction = Transaction::new();
        let mut reasons = Vec::with_capacity(count);
        for (number, operation) in (1..).zip(operations) {
            let (extended, if_not) = self
                .extended(transaction, operation)
                .map_err(|status| with_operation(number, count, &status))?;
            transaction = extended;
            reasons.push(if_not);
        }
        match self.execute(&transaction).await? {
            TransactionOutcome::Applied(_) => Ok(()),
            TransactionOutcome::NotApplied { operation, .. } => {
                let if_not = reasons.get(operation).copied().unwrap_or(STALE);
                Err(with_operation(operation + 1, count, &mismatch(if_not)))
            }
        }
    }

    /// Returns the transaction with a further operation, and the error for an unmet condition of that operation.
    fn extended(
        &self,
        transaction: Transaction,
        operation: TransactionalStateOperation,
    ) -> Result<(Transaction, &'static str), Status> {
        match operation.request {
            Some(Request::Set(request)) => {
                let set = self.translate_set(request)?;
                let transaction = transaction.set(set.key, set.value, &set.options);
                Ok((transaction, set.conflict_message))
            }
            Some(Request::Delete(request)) => {
                let options = translate_delete(&request)?;
                Ok((transaction.del(request.key, &options), STALE))
            }
            None => Err(Status::invalid_argument(
                "it is neither a write nor a deletion",
            )),
        }
    }
}

/// Returns the failure of one operation as the failure of the transaction.
fn with_operation(number: usize, count: usize, status: &Status) -> Status {
    with_location(&format!("operation {number} of {count}"), status)
}
