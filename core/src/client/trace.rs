//! A span of `tracing` for each request, for a subscriber that wants it.
use crate::error::Error;
use std::fmt;
use tokio::time::Instant;
use tracing::field::{Empty, display};
use tracing::{Level, Span};

/// By what a subscriber tells them from the rest; each is of level DEBUG.
const TARGET: &str = "statestore::request";

/// The span of one request, from when it is first polled to its end. It has no key and no value: those may be secret.
#[derive(Debug)]
pub(super) struct Trace {
    span: Span,
    began: Instant,
    attempts: u32,
}

impl Trace {
    /// None if nobody wants it; then that was all that it costs.
    pub(super) fn begin(verb: &'static str, key: &[u8]) -> Option<Box<Self>> {
        if tracing::span_enabled!(target: TARGET, Level::DEBUG) {
            Some(Box::new(Self::new(verb, key)))
        } else {
            None
        }
    }

    #[cold]
    fn new(verb: &'static str, key: &[u8]) -> Self {
        let span = tracing::debug_span!(
            target: TARGET,
            "request",
            verb,
            key_bytes = key.len(),
            attempts = Empty,
            latency_us = Empty,
            outcome = Empty,
        );
        Self {
            span,
            began: Instant::now(),
            attempts: 0,
        }
    }

    /// How often it was sent so far.
    pub(super) fn attempts(&mut self, attempts: u32) {
        self.attempts = self.attempts.max(attempts);
    }

    /// It has ended: well, or with a kind of error.
    #[cold]
    pub(super) fn end<T>(self, result: &Result<T, Error>) {
        match result {
            Ok(_) => self.close("ok"),
            Err(error) => self.close(error.kind()),
        }
    }

    /// Nobody waits for it any more.
    #[cold]
    pub(super) fn cancel(self) {
        self.close("cancelled");
    }

    fn close(&self, outcome: impl fmt::Display) {
        let latency = self.began.elapsed().as_micros();
        self.span.record("attempts", self.attempts);
        self.span
            .record("latency_us", u64::try_from(latency).unwrap_or(u64::MAX));
        self.span.record("outcome", display(outcome));
    }
}
