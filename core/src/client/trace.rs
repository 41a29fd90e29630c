//! A span of `tracing` for each request, if a subscriber enables it.
use crate::error::Error;
use std::fmt;
use tokio::time::Instant;
use tracing::field::{Empty, display};
use tracing::{Level, Span};

/// Target of the spans, by which a subscriber can select them. Their level is DEBUG.
const TARGET: &str = "statestore::request";

/// The span of one request, from its first poll to its end. It contains no key and no value, since those may be secret.
#[derive(Debug)]
pub(super) struct Trace {
    span: Span,
    started_at: Instant,
    attempts: u32,
}

impl Trace {
    /// Begins the span. Returns `None` if no subscriber enables it, which costs only that check.
    pub(super) fn start(verb: &'static str, key: &[u8]) -> Option<Box<Self>> {
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
            started_at: Instant::now(),
            attempts: 0,
        }
    }

    /// Records how often the request was sent so far.
    pub(super) fn attempts(&mut self, attempts: u32) {
        self.attempts = self.attempts.max(attempts);
    }

    /// Ends the span with success or the kind of the error.
    #[cold]
    pub(super) fn end<T>(self, result: &Result<T, Error>) {
        match result {
            Ok(_) => self.close("ok"),
            Err(error) => self.close(error.kind()),
        }
    }

    /// Ends the span of a request whose future was dropped.
    #[cold]
    pub(super) fn cancel(self) {
        self.close("cancelled");
    }

    fn close(&self, outcome: impl fmt::Display) {
        let latency = self.started_at.elapsed().as_micros();
        self.span.record("attempts", self.attempts);
        self.span
            .record("latency_us", u64::try_from(latency).unwrap_or(u64::MAX));
        self.span.record("outcome", display(outcome));
    }
}
