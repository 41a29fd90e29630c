//! Several requests in one call.
use super::call::{Call, Response};
use super::cancellation_recorder::UnknownOutcomeGuard;
use super::shared::Shared;
use crate::error::{Error, Outcome};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Maximum number of requests of one call under way.
const MAX_CONCURRENT: usize = 256;

/// Reason why a call for several keys cannot have a condition on a version.
pub(super) const SINGLE_KEY_VERSION: &str =
    "a version is that of one key; write it alone or in a transaction";

/// A request that was started, or its result if nothing had to be sent.
pub(super) enum MaybeDone<'a, T> {
    Running(Call<'a>),
    Done(T),
}

/// Sends requests in their order, without waiting for each other, and returns their results in that order. `read` interprets a
/// response. An error of `read`, or of a request that cannot start, ends the call and cancels the requests under way.
pub(super) async fn join_all<'a, T, E>(
    shared: &Shared,
    mut requests: impl Iterator<Item = Result<MaybeDone<'a, T>, E>>,
    read: impl Fn(&Call<'a>, Result<Response, Error>) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    // Waiting requests of one call must not fill the queue.
    let at_a_time = MAX_CONCURRENT
        .min(shared.settings.max_queued as usize)
        .max(1);
    let mut done = Vec::with_capacity(requests.size_hint().0);
    let mut under_way: VecDeque<MaybeDone<'a, T>> = VecDeque::new();
    let mut doubt = UnknownOutcomeGuard::default();
    let result = poll_fn(|context| {
        loop {
            // Every request is polled whenever one may have progressed: each may have to send itself when its turn comes.
            for begun in &mut under_way {
                begun.poll(context, &read, &mut doubt)?;
            }
            while let Some(MaybeDone::Done(_)) = under_way.front() {
                if let Some(MaybeDone::Done(result)) = under_way.pop_front() {
                    done.push(result);
                }
            }
            let started = under_way.len();
            for begun in requests.by_ref().take(at_a_time - started) {
                under_way.push_back(begun?);
            }
            if under_way.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if under_way.len() == started {
                return Poll::Pending;
            }
        }
    })
    .await;
    doubt.disarm();
    result.map(|()| done)
}

impl<'a, T> MaybeDone<'a, T> {
    fn poll<E>(
        &mut self,
        context: &mut Context<'_>,
        read: &impl Fn(&Call<'a>, Result<Response, Error>) -> Result<T, E>,
        doubt: &mut UnknownOutcomeGuard,
    ) -> Result<(), E> {
        if let Self::Running(call) = self
            && let Poll::Ready(response) = Pin::new(&mut *call).poll(context)
        {
            if !call.is_harmless() && !is_not_done(&response) {
                doubt.arm();
            }
            let result = read(call, response)?;
            *self = Self::Done(result);
        }
        Ok(())
    }
}

/// Returns whether a request was certainly not executed.
fn is_not_done(response: &Result<Response, Error>) -> bool {
    matches!(response, Err(error) if error.outcome() == Outcome::NotDone)
}

impl<'a, T> From<Result<Call<'a>, Error>> for MaybeDone<'a, Result<T, Error>> {
    /// Takes the failure to start a request as its result.
    fn from(begun: Result<Call<'a>, Error>) -> Self {
        match begun {
            Ok(call) => Self::Running(call),
            Err(error) => Self::Done(Err(error)),
        }
    }
}
