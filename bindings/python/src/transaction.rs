//! Several SETs and DELs, all of which are executed or none.
use crate::options;
use crate::shared::Shared;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

type OptionalArgument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Several writes, of which `Client.transact` executes all or none.
#[pyclass(frozen, subclass, module = "statestore._native")]
#[derive(Debug, Clone)]
pub(crate) struct Transaction {
    shared: Arc<Shared>,
    inner: Arc<Mutex<statestore::Transaction>>,
}

impl Transaction {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            inner: Arc::default(),
        }
    }

    /// Returns the operations so far.
    pub(crate) fn operations(&self) -> statestore::Transaction {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, statestore::Transaction> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, add: impl FnOnce(statestore::Transaction) -> statestore::Transaction) {
        let mut inner = self.lock();
        let operations = std::mem::take(&mut *inner);
        *inner = add(operations);
    }
}

#[pymethods]
impl Transaction {
    #[new]
    fn new(source: &Bound<'_, Self>) -> Self {
        source.get().clone()
    }

    fn __repr__(&self) -> String {
        format!("<Transaction of {}>", self.lock().len())
    }

    fn __len__(&self) -> usize {
        self.lock().len()
    }

    /// Adds a SET, with the options of `Client.set`. Returns the transaction, so that you can chain calls.
    #[pyo3(
        signature = (key, value, *, condition=None, expires_in=None, fencing_token=None),
        text_signature = "($self, key, value, *, condition='always', expires_in=None, fencing_token=None)"
    )]
    fn set<'a, 'py>(
        slf: &'a Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        condition: OptionalArgument<'_, 'py>,
        expires_in: OptionalArgument<'_, 'py>,
        fencing_token: OptionalArgument<'_, 'py>,
    ) -> PyResult<&'a Bound<'py, Self>> {
        let this = slf.get();
        let codec = &this.shared.codec;
        let (key, value) = (codec.read("key", key)?, codec.read("value", value)?);
        let options = options::SetArguments {
            condition,
            expires_in,
            fencing_token,
            persist: None,
            coalesce: None,
            timeout: None,
            retry: None,
        };
        let options = options.read()?;
        this.add(|operations| operations.set(key, value, &options));
        Ok(slf)
    }

    /// Adds a DEL. An absent key is no failure without ``if_version``. Returns the transaction.
    #[pyo3(signature = (key, *, fencing_token=None, if_version=None))]
    fn delete<'a, 'py>(
        slf: &'a Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        fencing_token: OptionalArgument<'_, 'py>,
        if_version: OptionalArgument<'_, 'py>,
    ) -> PyResult<&'a Bound<'py, Self>> {
        let this = slf.get();
        let key = this.shared.codec.read("key", key)?;
        let options = options::del(fencing_token, if_version, None, None)?;
        this.add(|operations| operations.del(key, &options));
        Ok(slf)
    }
}
