//! Concurrent calls of bulk requests.
use crate::status::{is_etag_error, with_location};
use futures_util::stream::{self, StreamExt as _};
use std::collections::{HashMap, HashSet};
use tokio::sync::{Mutex, MutexGuard};
use tonic::{Code, Status};

/// Number of calls of a bulk request that run concurrently, unless daprd requests another one.
const DEFAULT_CONCURRENCY: usize = 128;

/// Maximum that daprd may request.
const MAX_CONCURRENCY: i64 = 1024;

/// Starts calls in their order, some of them concurrently, and returns their results in that order. A call that starts first is
/// also first in any queue. If several items on a key take [turns](KeyLocks), the last item is therefore the last write.
pub(crate) async fn join_all<T, F: Future>(
    items: Vec<T>,
    parallelism: Option<i64>,
    call: impl Fn(T) -> F,
) -> Vec<F::Output> {
    let at_a_time = match parallelism {
        Some(requested) if requested > 0 => {
            usize::try_from(requested.min(MAX_CONCURRENCY)).unwrap_or(DEFAULT_CONCURRENCY)
        }
        _ => DEFAULT_CONCURRENCY,
    };
    let calls = stream::iter(items).map(call);
    calls.buffered(at_a_time).collect().await
}

/// The order of calls on keys that occur several times in a bulk request. A single request may become several on some stores, and
/// the requests of two calls must not interleave.
#[derive(Debug)]
pub(crate) struct KeyLocks(HashMap<String, Mutex<()>>);

impl KeyLocks {
    /// Creates the locks for the repeated keys of a bulk request.
    pub(crate) fn for_repeated<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut seen = HashSet::new();
        let repeated = keys.filter(|key| !seen.insert(*key));
        Self(
            repeated
                .map(|key| (key.to_owned(), Mutex::default()))
                .collect(),
        )
    }

    /// Waits for the turn on this key, after all earlier waiters. The turn ends when the result is dropped.
    pub(crate) async fn lock(&self, key: &str) -> Option<MutexGuard<'_, ()>> {
        match self.0.get(key) {
            Some(mutex) => Some(mutex.lock().await),
            None => None,
        }
    }
}

/// Returns the error of a bulk request: its worst failure, and the number of failures. daprd attributes an `ETag` error to the
/// caller, so any other error is worse. A malformed `ETag` is worse than a stale one.
pub(crate) fn bulk_result(done: Vec<Result<(), Status>>, what: &str) -> Result<(), Status> {
    let all = done.len();
    let failures: Vec<_> = done.into_iter().filter_map(Result::err).collect();
    let rank = |status: &&Status| {
        let is_mismatch = status.code() == Code::FailedPrecondition;
        (is_etag_error(status), is_mismatch)
    };
    let Some(worst) = failures.iter().min_by_key(rank) else {
        return Ok(());
    };
    if all == 1 {
        return Err(worst.clone());
    }
    let place = format!("{} of {all} {what} failed", failures.len());
    Err(with_location(&place, worst))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::mismatch;
    use tonic_types::StatusExt as _;

    #[test]
    fn a_bulk_fails_with_its_worst_failure() {
        assert!(bulk_result(vec![Ok(()), Ok(())], "writes").is_ok());
        assert!(bulk_result(Vec::new(), "writes").is_ok());
        let stale = || Err(mismatch("stale"));
        let status = bulk_result(vec![Ok(()), stale(), stale()], "writes").unwrap_err();
        assert_eq!(status.message(), "2 of 3 writes failed: stale");
        assert!(status.get_details_bad_request().is_some());
        let lost = Err(Status::unavailable("lost"));
        let status = bulk_result(vec![stale(), lost], "writes").unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "2 of 2 writes failed: lost");
    }
}
