//! Requests as operators see them: the slow ones, live ones for viewers, and the keys with most of them.
//!
//! Each request leaves a trace of fixed size until its response may leave. Only a trace of a slow request, or one that a viewer selects, is
//! made readable. Nothing is traced while requests are not measured.
use super::{Hub, SessionId};
use bytes::Bytes;
use statestore_protocol::glob::Glob;
use statestored_access::Principal;
use statestored_common::ClockReading;
use statestored_store::keyspace::ByTicket;
use statestored_store::service::hot_keys::{HotKey, HotKeys};
use statestored_store::service::request_head::{ParsedHead, RequestHead, parse};
use statestored_store::service::{Outcome, RequestProgress, Ticket, result_name};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of slow requests that are listed.
const MAX_SLOW: usize = 128;
/// Maximum number of traces. Further requests are not traced.
const MAX_TRACES: usize = 4_096;
/// Maximum number of viewers.
const MAX_VIEWERS: usize = 4;
/// Time after which a viewer that takes nothing makes room for another one, in milliseconds.
const VIEWER_TIMEOUT_MS: u64 = 60_000;
/// Maximum number of requests that wait for a viewer. Further ones are left out.
const MAX_VIEWED: usize = 1_024;

/// A request that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedRequest {
    /// Time of the request, in Unix milliseconds.
    pub at_ms: u64,
    /// Client id.
    pub client: Arc<str>,
    /// User; `None` is an anonymous client.
    pub user: Option<String>,
    /// Verb in lower case.
    pub verb: &'static str,
    /// First key or pattern, or its beginning.
    pub key: Option<Bytes>,
    /// Bytes of the value of a SET, as far as they are known.
    pub value_bytes: Option<usize>,
    /// Beginning of the value of a SET, for viewers that want values.
    pub value: Option<Bytes>,
    /// Result, as metrics name it.
    pub result: &'static str,
    /// Microseconds until the response could leave.
    pub duration_us: u64,
}

/// A selection of requests. A criterion that is absent selects all.
#[derive(Debug)]
pub struct RequestFilter {
    /// Selected part of the requests, in millionths.
    pub sample: u32,
    /// Verb in lower case.
    pub verb: Option<String>,
    /// Client id.
    pub client: Option<String>,
    /// User.
    pub user: Option<String>,
    /// Pattern of the first key.
    pub key: Option<Glob>,
    /// Whether values are wanted.
    pub with_values: bool,
}

/// A viewer of requests, and those that wait for it.
#[derive(Debug)]
struct Viewer {
    id: u64,
    filter: RequestFilter,
    waiting: Vec<ExecutedRequest>,
    left_out: u64,
    /// Time at which requests were last taken.
    taken_ms: u64,
    random: u32,
}

/// The trace of a request whose response may not leave yet.
#[derive(Debug)]
struct RequestTrace {
    session: SessionId,
    wall_ms: u64,
    taken_us: u64,
    /// The commit that the response waits for; 0 is the end of the turn.
    commit_index: u64,
    result: &'static str,
    head: RequestHead,
}

/// A slow request.
#[derive(Debug)]
struct SlowRequest {
    trace: RequestTrace,
    client: Arc<str>,
    principal: Principal,
    duration_us: u64,
}

/// Traces, viewers and the list of slow requests.
#[derive(Debug, Default)]
pub(super) struct RequestTracer {
    /// Requests of this turn whose responses wait for nothing.
    turn: Vec<RequestTrace>,
    /// Requests whose responses wait for a commit.
    waiting: Vec<RequestTrace>,
    /// Requests that have no outcome yet.
    pending: ByTicket<RequestTrace>,
    viewers: Vec<Viewer>,
    next_viewer: u64,
    /// Slow requests, oldest first, in memory that is allocated once: many small allocations would divide the free memory.
    slow: VecDeque<SlowRequest>,
    hot_keys: HotKeys,
}

impl Viewer {
    /// Returns whether the request is one of the sample.
    fn samples_next(&mut self) -> bool {
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        u64::from(self.random) * 1_000_000 < u64::from(self.filter.sample) << 32
    }

    fn selects(&self, request: &ExecutedRequest) -> bool {
        let filter = &self.filter;
        filter.verb.as_deref().is_none_or(|it| it == request.verb)
            && filter
                .client
                .as_deref()
                .is_none_or(|it| it == &*request.client)
            && filter
                .user
                .as_deref()
                .is_none_or(|it| request.user.as_deref() == Some(it))
            && filter
                .key
                .as_ref()
                .is_none_or(|glob| request.key.as_ref().is_some_and(|key| glob.matches(key)))
    }

    fn show(&mut self, request: &ExecutedRequest) {
        if !self.selects(request) || !self.samples_next() {
            return;
        }
        if self.waiting.len() >= MAX_VIEWED {
            self.left_out += 1;
            return;
        }
        self.waiting.push(ExecutedRequest {
            value: request.value.clone().filter(|_| self.filter.with_values),
            ..request.clone()
        });
    }
}

impl Hub {
    /// Traces a request that was submitted, before its response is sent.
    #[inline]
    pub(super) fn trace_request(
        &mut self,
        session: SessionId,
        payload: &[u8],
        progress: &RequestProgress,
        now: ClockReading,
    ) {
        let Some(taken_us) = self.service.measured_us() else {
            return;
        };
        let tracer = &mut self.tracer;
        if tracer.hot_keys.samples_next() {
            tracer.count_key(payload, now);
        }
        let trace = RequestTrace {
            session,
            wall_ms: now.wall_ms,
            taken_us,
            commit_index: 0,
            result: "",
            head: RequestHead::new(payload, !tracer.viewers.is_empty()),
        };
        match progress {
            RequestProgress::Complete(outcome) => tracer.push(trace.with_outcome(outcome)),
            RequestProgress::Pending(ticket) if tracer.pending.len() < MAX_TRACES => {
                tracer.pending.insert(*ticket, trace);
            }
            RequestProgress::Pending(_) => {}
        }
    }

    /// Continues the trace of a request whose outcome has arrived.
    pub(super) fn trace_outcome(&mut self, ticket: Ticket, outcome: &Outcome) {
        let Some(trace) = self.tracer.pending.remove(&ticket) else {
            return;
        };
        let trace = trace.with_outcome(outcome);
        match self.service.measured_us() {
            Some(now_us) if trace.commit_index == 0 => self.end_trace(&trace, now_us),
            _ => self.tracer.push(trace),
        }
    }

    /// Ends the traces of the requests whose responses leave with this turn.
    pub(super) fn end_turn_traces(&mut self, now_us: u64) {
        if self.tracer.turn.is_empty() {
            return;
        }
        let mut turn = std::mem::take(&mut self.tracer.turn);
        for trace in turn.drain(..) {
            self.end_trace(&trace, now_us);
        }
        self.tracer.turn = turn;
    }

    /// Ends the traces of the requests whose responses waited for commits up to this one.
    pub(super) fn end_commit_traces(&mut self, commit_index: u64) {
        let Some(now_us) = self.service.measured_us() else {
            return;
        };
        if self.tracer.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.tracer.waiting);
        waiting.retain(|trace| {
            let is_waiting = trace.commit_index > commit_index;
            if !is_waiting {
                self.end_trace(trace, now_us);
            }
            is_waiting
        });
        self.tracer.waiting = waiting;
    }

    fn end_trace(&mut self, trace: &RequestTrace, now_us: u64) {
        let duration_us = now_us.saturating_sub(trace.taken_us);
        let is_slow = duration_us >= self.limits.slow_request_ms.saturating_mul(1_000);
        if is_slow || !self.tracer.viewers.is_empty() {
            self.report_request(trace, duration_us, is_slow);
        }
    }

    #[cold]
    fn report_request(&mut self, trace: &RequestTrace, duration_us: u64, is_slow: bool) {
        let Some(session) = self.sessions.get(trace.session) else {
            return;
        };
        let tracer = &mut self.tracer;
        if !tracer.viewers.is_empty() {
            let request = trace.describe(&session.client, &session.principal, duration_us);
            tracer.viewers.iter_mut().for_each(|it| it.show(&request));
        }
        if is_slow {
            tracer.slow.reserve_exact(MAX_SLOW - tracer.slow.len());
            if tracer.slow.len() >= MAX_SLOW {
                tracer.slow.pop_front();
            }
            tracer.slow.push_back(SlowRequest {
                trace: trace.without_viewed(),
                client: Arc::clone(&session.client),
                principal: session.principal.clone(),
                duration_us,
            });
        }
    }

    /// Returns the last slow requests, newest first.
    pub fn slow_requests(&self) -> Vec<ExecutedRequest> {
        let slow = self.tracer.slow.iter().rev();
        slow.map(|it| ExecutedRequest {
            value: None,
            ..it.trace.describe(&it.client, &it.principal, it.duration_us)
        })
        .collect()
    }

    /// Returns the keys with most requests.
    pub fn hot_keys(&mut self, now: ClockReading) -> Vec<HotKey> {
        self.tracer.hot_keys.list(now.mono_ms)
    }

    /// Adds a viewer of requests from now on; `None` if there are too many.
    pub fn add_viewer(&mut self, filter: RequestFilter, now: ClockReading) -> Option<u64> {
        let tracer = &mut self.tracer;
        let is_alive = |it: &Viewer| now.mono_ms < it.taken_ms + VIEWER_TIMEOUT_MS;
        tracer.viewers.retain(is_alive);
        if tracer.viewers.len() >= MAX_VIEWERS {
            return None;
        }
        tracer.next_viewer += 1;
        let id = tracer.next_viewer;
        tracer.viewers.push(Viewer {
            id,
            filter,
            waiting: Vec::new(),
            left_out: 0,
            taken_ms: now.mono_ms,
            random: 0x9E37_79B9,
        });
        Some(id)
    }

    /// Takes the requests that wait for a viewer, and the number of those that were left out; `None` if the viewer was removed.
    pub fn take_viewed(
        &mut self,
        viewer: u64,
        now: ClockReading,
    ) -> Option<(Vec<ExecutedRequest>, u64)> {
        let mut viewers = self.tracer.viewers.iter_mut();
        let viewer = viewers.find(|it| it.id == viewer)?;
        viewer.taken_ms = now.mono_ms;
        let left_out = std::mem::take(&mut viewer.left_out);
        Some((std::mem::take(&mut viewer.waiting), left_out))
    }

    /// Removes a viewer.
    pub fn remove_viewer(&mut self, viewer: u64) {
        self.tracer.viewers.retain(|it| it.id != viewer);
    }
}

impl RequestTrace {
    /// Returns a copy without what is kept for viewers.
    fn without_viewed(&self) -> Self {
        Self {
            session: self.session,
            wall_ms: self.wall_ms,
            taken_us: self.taken_us,
            commit_index: self.commit_index,
            result: self.result,
            head: self.head.without_viewed(),
        }
    }

    /// Makes the trace readable.
    fn describe(
        &self,
        client: &Arc<str>,
        principal: &Principal,
        duration_us: u64,
    ) -> ExecutedRequest {
        let ParsedHead {
            verb,
            key,
            value_bytes,
            value,
        } = self.head.parse();
        ExecutedRequest {
            at_ms: self.wall_ms,
            client: Arc::clone(client),
            user: principal.name().map(str::to_owned),
            verb,
            key: key.map(Bytes::copy_from_slice),
            value_bytes,
            value: value.map(Bytes::copy_from_slice),
            result: self.result,
            duration_us,
        }
    }

    fn with_outcome(self, outcome: &Outcome) -> Self {
        let commit_index = match outcome {
            Outcome::Replied(response) => response.commit_index,
            Outcome::Refused(_) | Outcome::Unknown => 0,
        };
        Self {
            commit_index,
            result: result_name(outcome),
            ..self
        }
    }
}

impl RequestTracer {
    fn push(&mut self, trace: RequestTrace) {
        let traces = match trace.commit_index {
            0 => &mut self.turn,
            _ => &mut self.waiting,
        };
        if traces.len() < MAX_TRACES {
            traces.push(trace);
        }
    }

    #[cold]
    fn count_key(&mut self, payload: &[u8], now: ClockReading) {
        if let Some(key) = parse(payload).key {
            self.hot_keys.count(key, now.mono_ms);
        }
    }
}
