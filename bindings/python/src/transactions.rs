//! Calls of a client that not every store supports.
use crate::argument::OptionalArgument;
use crate::keys::Keys;
use crate::options;
use crate::outcome;
use crate::shared::Shared;
use crate::transaction::Transaction;
use pyo3::prelude::*;
use std::sync::Arc;

/// The part of a client that needs a store that can do more than all stores.
#[pyclass(
    name = "Client",
    frozen,
    subclass,
    extends = Keys,
    module = "statestore._native"
)]
#[derive(Debug)]
pub(crate) struct Transactions {
    shared: Arc<Shared>,
}

impl Transactions {
    pub(crate) fn of(shared: &Arc<Shared>) -> PyClassInitializer<Self> {
        let shared = Arc::clone(shared);
        Keys::of(&shared).add_subclass(Self { shared })
    }
}

#[pymethods]
impl Transactions {
    /// Returns the optional features of the store: `Capabilities`. The client asks once for each connection.
    ///
    ///     >>> client.capabilities()  # doctest: +NORMALIZE_WHITESPACE
    ///     Capabilities(conditions=True, remaining_time=True, transactions=10000, eventual=True, max_get_keys=10000,
    ///                  scan_values=True, observe_matching=True)
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let capabilities = self.shared.client.capabilities();
        self.shared.run(py, "CAPS", capabilities, |py, _, store| {
            outcome::capabilities(py, store)
        })
    }

    /// Creates an empty `Transaction` for `transact`. Nothing is sent.
    fn transaction(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let transaction = Transaction::of(&self.shared);
        self.shared.wrap(py, "Transaction", transaction)
    }

    /// Executes all operations of a transaction, in their order, or none: a `TransactionOutcome`, which is true if they were
    /// executed. If the store rejects one, the error has its index in ``operation``, and nothing was done. Not every store has
    /// transactions (`Capabilities.transactions`).
    ///
    ///     >>> transaction = client.transaction().set("a", "1").set("b", "2", condition="if_absent").delete("c")
    ///     >>> client.transact(transaction).versions  # doctest: +ELLIPSIS
    ///     [Hlc('...'), Hlc('...'), None]
    ///     >>> outcome = client.transact(transaction)
    ///     >>> outcome.applied, outcome.operation
    ///     (False, 1)
    #[pyo3(
        signature = (transaction, *, persist=None, timeout=None, retry=None),
        text_signature = "($self, transaction, *, persist=False, timeout=None, retry='safe')"
    )]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        transaction: &Bound<'py, Transaction>,
        persist: OptionalArgument<'_, 'py>,
        timeout: OptionalArgument<'_, 'py>,
        retry: OptionalArgument<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = options::transact(persist, timeout, retry)?;
        let operations = transaction.get().operations();
        let transact = self.shared.client.transact(operations, options);
        self.shared.run(py, "TXN", transact, |py, _, outcome| {
            outcome::transaction(py, &outcome)
        })
    }
}
