//! A node over an engine whose events a test scripts.
use super::engine::{
    BUCKETS, ClockReadings, EngineEvent, EngineRequest, EngineRequestId, KeyState, KeyedRecord,
    RecordPage, Revision, bucket_of,
};
use super::record::{Record, RecordContent};
use super::{Completion, Link, SharedKeyspace, SharedKeyspaceConfig, WriteId};
use bytes::Bytes;
use smallvec::smallvec;
use statestore_protocol::{Hlc, Reply, SetOptions};
use statestored_common::ClockReading;
use statestored_store::keyspace::rules::Operation;
use statestored_store::keyspace::{
    ChangeEvent, EventSink, Keyspace, PageRequest, RequestContext, RequestDigest, Ticket,
};
use std::collections::VecDeque;
use std::task::{Context, Poll};

pub(super) static KEY: Bytes = Bytes::from_static(b"key");
pub(super) static VALUE: Bytes = Bytes::from_static(b"value");

/// An engine that reports the events that the test queues.
#[derive(Debug, Default)]
pub(super) struct ScriptedLink {
    pub(super) requests: Vec<(EngineRequestId, EngineRequest)>,
    events: VecDeque<EngineEvent>,
    pub(super) counts_revisions: bool,
}

impl Link for ScriptedLink {
    fn store_secret(&self) -> &[u8] {
        b"secret"
    }

    fn request(&mut self, id: EngineRequestId, ask: EngineRequest) {
        self.requests.push((id, ask));
    }

    fn next_event(&mut self) -> Option<EngineEvent> {
        self.events.pop_front()
    }

    fn sends_once(&self) -> bool {
        true
    }

    fn counts_revisions(&self) -> bool {
        self.counts_revisions
    }

    fn poll_events(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

#[derive(Default)]
struct CompletionSink(Vec<Completion>);

impl EventSink for CompletionSink {
    fn changed(&mut self, _change: &ChangeEvent<'_>) {}

    fn completed(&mut self, _ticket: Ticket, end: Completion) {
        self.0.push(end);
    }

    fn add_work(&mut self, _steps: usize) {}
}

/// A sink that collects what is reported of followed patterns: the versions of changes, and `None` for missed changes.
#[derive(Default)]
struct PatternSink(Vec<Option<u64>>);

impl EventSink for PatternSink {
    fn changed(&mut self, change: &ChangeEvent<'_>) {
        self.changed_unfollowed(change);
    }

    fn changed_unfollowed(&mut self, change: &ChangeEvent<'_>) {
        self.0.push(Some(change.version.0));
    }

    fn changes_missed(&mut self) {
        self.0.push(None);
    }

    fn completed(&mut self, _ticket: Ticket, _end: Completion) {}

    fn add_work(&mut self, _steps: usize) {}
}

pub(super) struct Node {
    pub(super) remote: SharedKeyspace<ScriptedLink>,
    pub(super) watch: EngineRequestId,
    /// The request's digest if other servers may receive the request as well.
    pub(super) request: Option<RequestDigest>,
}

impl Node {
    /// Creates a node that watches and has read the key, at time zero.
    pub(super) fn new() -> Self {
        let config = SharedKeyspaceConfig {
            process: 1,
            removal_delay_ms: 0,
            tombstone_lifetime_ms: 1_000,
            max_page_keys: 10,
            max_operations: 10,
            max_read_keys: 10,
            cache_bytes: 10_000,
            max_staleness_ms: 10_000,
            max_clock_lead_ms: 60_000,
            clock_interval_ms: 1_000_000,
        };
        let remote = SharedKeyspace::new(config, ScriptedLink::default());
        let mut node = Self {
            remote,
            watch: EngineRequestId(0),
            request: Some(RequestDigest([7; 16])),
        };
        node.advance(0, []);
        let clocks = node.take_request(&EngineRequest::Clocks {
            process: 1,
            reading_ms: now(0).wall_ms,
        });
        node.advance(
            0,
            [EngineEvent::Clocks(clocks, Ok(ClockReadings::default()))],
        );
        node.watch = node.take_request(&EngineRequest::Watch);
        let floors = vec![(0, 0); usize::from(BUCKETS)];
        node.advance(0, [EngineEvent::Synced(node.watch, Revision(5), floors)]);
        assert_eq!(node.get(0), None);
        let read = node.take_request(&EngineRequest::Read(smallvec![KEY.clone()]));
        let ended = node.advance(0, [EngineEvent::Read(read, Ok(vec![key_state(4, &VALUE)]))]);
        assert_eq!(ended, [value(4, &VALUE)]);
        node
    }

    pub(super) fn advance<const N: usize>(
        &mut self,
        mono_ms: u64,
        news: [EngineEvent; N],
    ) -> Vec<Completion> {
        self.remote.link.events.extend(news);
        let mut ear = CompletionSink::default();
        self.remote.advance(N, now(mono_ms), &mut ear);
        ear.0
    }

    /// Advances like [`advance`](Self::advance). Returns the versions of the reported changes, and `None` for missed changes.
    pub(super) fn reports<const N: usize>(
        &mut self,
        mono_ms: u64,
        news: [EngineEvent; N],
    ) -> Vec<Option<u64>> {
        self.remote.link.events.extend(news);
        let mut sink = PatternSink::default();
        self.remote.advance(N, now(mono_ms), &mut sink);
        sink.0
    }

    /// Follows a pattern. Returns the outcome if there is one at once.
    pub(super) fn follow_pattern(&mut self, mono_ms: u64, pattern: &[u8]) -> Option<Completion> {
        let context = request_context(mono_ms, None);
        self.remote
            .follow_pattern(&context, &Bytes::copy_from_slice(pattern))
    }

    /// Takes the last engine request, which must equal `expected`. Returns its id.
    pub(super) fn take_request(&mut self, expected: &EngineRequest) -> EngineRequestId {
        let (id, ask) = self.remote.link.requests.pop().unwrap();
        assert_eq!(format!("{ask:?}"), format!("{expected:?}"));
        id
    }

    pub(super) fn operate(
        &mut self,
        mono_ms: u64,
        operation: &Operation<'_>,
    ) -> Option<Completion> {
        let context = request_context(mono_ms, self.request);
        self.remote
            .operate(&context, &KEY, operation, &mut CompletionSink::default())
    }

    pub(super) fn set(&mut self, mono_ms: u64) -> Option<Completion> {
        let timestamp = Hlc::new(1_000_000, 0, "client").unwrap();
        let set = Operation::Set {
            value: &VALUE,
            options: SetOptions::default(),
            timestamp: &timestamp,
            token: None,
        };
        self.operate(mono_ms, &set)
    }

    /// Follows the key. Returns the outcome if there is one at once.
    pub(super) fn follow(&mut self, mono_ms: u64) -> Option<Completion> {
        let context = request_context(mono_ms, self.request);
        self.remote.follow(&context, &KEY)
    }

    /// Requests a page of the records that the engine has.
    pub(super) fn page(&mut self, request: &PageRequest, records: &[KeyedRecord]) -> Completion {
        let context = request_context(0, None);
        if let Some(end) = self
            .remote
            .page(&context, request, &mut CompletionSink::default())
        {
            return end;
        }
        loop {
            let Some((id, EngineRequest::Page { after, limit: most })) =
                self.remote.link.requests.pop()
            else {
                panic!("no page is asked for");
            };
            let position = |found: &KeyedRecord| (bucket_of(&found.key), found.key.clone());
            let behind =
                |found: &&KeyedRecord| after.as_ref().is_none_or(|it| position(found) > *it);
            let mut found: Vec<_> = records.iter().filter(behind).cloned().collect();
            found.sort_by_key(position);
            let has_more = found.len() > most;
            found.truncate(most);
            let page = RecordPage {
                records: found,
                has_more,
            };
            if let Some(end) = self.advance(0, [EngineEvent::Page(id, Ok(page))]).pop() {
                return end;
            }
        }
    }

    /// Reads the current state of the key.
    pub(super) fn get_now(&mut self, mono_ms: u64) -> Option<Completion> {
        let get = Operation::Get {
            remaining: false,
            eventual: false,
        };
        self.operate(mono_ms, &get)
    }

    pub(super) fn get(&mut self, mono_ms: u64) -> Option<Completion> {
        let get = Operation::Get {
            remaining: false,
            eventual: true,
        };
        self.operate(mono_ms, &get)
    }
}

fn request_context(mono_ms: u64, request: Option<RequestDigest>) -> RequestContext {
    RequestContext {
        ticket: Ticket(0),
        now: now(mono_ms),
        deadline_ms: None,
        digest: request,
    }
}

pub(super) fn now(mono_ms: u64) -> ClockReading {
    ClockReading {
        wall_ms: 1_000_000,
        mono_ms,
    }
}

pub(super) fn record(version: u64, value: &Bytes) -> Record {
    Record {
        version: (version, 0),
        write: WriteId {
            process: 2,
            number: version,
        },
        content: RecordContent::Entry {
            value: value.clone(),
            token: None,
            expiry: None,
        },
    }
}

pub(super) fn key_state(at: u64, value: &Bytes) -> KeyState {
    KeyState {
        record: Some((record(at, value), Revision(at))),
        floor: ((0, 0), Revision(0)),
    }
}

pub(super) fn value(version: u64, value: &Bytes) -> Completion {
    Completion::Answered {
        reply: Reply::Value(value.clone()),
        version: Some((version, 0)),
    }
}
