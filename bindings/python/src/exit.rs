//! Closing clients when the interpreter ends.
use crate::client::Client;
use pyo3::prelude::*;
use statestore_embed::WaitError;
use std::time::{Duration, Instant};

/// Ends the callbacks of a client that is about to be collected, before its garbage is taken apart.
#[pyfunction]
#[pyo3(signature = (client, /))]
pub(crate) fn drop_callbacks(client: &Bound<'_, Client>) {
    client.get().shared.callbacks.clear();
}

/// Closes clients, one after the other, and returns those that a callback keeps from that for so many seconds together.
#[pyfunction]
#[pyo3(signature = (clients, seconds, /))]
pub(crate) fn close_each<'py>(
    py: Python<'py>,
    clients: Vec<Bound<'py, Client>>,
    seconds: f64,
) -> Vec<Bound<'py, Client>> {
    let timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let until = Instant::now() + timeout;
    let is_left = |client: &Bound<'py, Client>| {
        let client = client.get().shared.client.clone();
        let closed = py.detach(|| client.close_within(until));
        matches!(closed, Err(WaitError::TimedOut))
    };
    clients.into_iter().filter(is_left).collect()
}
