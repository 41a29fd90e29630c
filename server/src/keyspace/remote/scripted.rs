//! A node over an engine whose events a test scripts.
use super::clocks::FoundClocks;
use super::engine::{Ask, AskId, BUCKETS, Found, FoundPage, News, Revision, Seen, bucket_of};
use super::record::{Content, Record};
use super::{End, Link, Remote, RemoteConfig, WriteId};
use crate::clock::Now;
use crate::keyspace::{
    Asked, Changed, Keyspace, Operation, PageRequest, RequestDigest, Ticket, Told,
};
use bytes::Bytes;
use smallvec::smallvec;
use statestore_protocol::{Hlc, Reply, SetOptions};
use std::collections::VecDeque;
use std::task::{Context, Poll};

pub(super) static KEY: Bytes = Bytes::from_static(b"key");
pub(super) static VALUE: Bytes = Bytes::from_static(b"value");

/// An engine that reports the events that the test queues.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) asks: Vec<(AskId, Ask)>,
    news: VecDeque<News>,
    pub(super) counts_revisions: bool,
}

impl Link for Script {
    fn store_secret(&self) -> &[u8] {
        b"secret"
    }

    fn ask(&mut self, id: AskId, ask: Ask) {
        self.asks.push((id, ask));
    }

    fn news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    fn sends_once(&self) -> bool {
        true
    }

    fn counts_revisions(&self) -> bool {
        self.counts_revisions
    }

    fn poll_news(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

#[derive(Default)]
struct Ear(Vec<End>);

impl Told for Ear {
    fn changed(&mut self, _change: &Changed<'_>) {}

    fn ended(&mut self, _ticket: Ticket, end: End) {
        self.0.push(end);
    }

    fn worked(&mut self, _steps: usize) {}
}

pub(super) struct Node {
    pub(super) remote: Remote<Script>,
    pub(super) watch: AskId,
    /// The request's digest if other servers may receive the request as well.
    pub(super) request: Option<RequestDigest>,
}

impl Node {
    /// Creates a node that watches and has read the key, at time zero.
    pub(super) fn new() -> Self {
        let config = RemoteConfig {
            process: 1,
            patience_ms: 0,
            tombstone_ms: 1_000,
            page_keys: 10,
            max_operations: 10,
            guess_bytes: 10_000,
            trust_ms: 10_000,
            clock_limit_ms: 60_000,
            compare_ms: 1_000_000,
        };
        let remote = Remote::new(config, Script::default());
        let mut node = Self {
            remote,
            watch: AskId(0),
            request: Some(RequestDigest([7; 16])),
        };
        node.advance(0, []);
        let clocks = node.asked(&Ask::Clocks {
            process: 1,
            shown_ms: now(0).wall_ms,
        });
        node.advance(0, [News::Clocks(clocks, Ok(FoundClocks::default()))]);
        node.watch = node.asked(&Ask::Watch);
        let floors = vec![(0, 0); usize::from(BUCKETS)];
        node.advance(0, [News::Synced(node.watch, Revision(5), floors)]);
        assert_eq!(node.get(0), None);
        let read = node.asked(&Ask::Read(smallvec![KEY.clone()]));
        let ended = node.advance(0, [News::Read(read, Ok(vec![seen(4, &VALUE)]))]);
        assert_eq!(ended, [value(4, &VALUE)]);
        node
    }

    pub(super) fn advance<const N: usize>(&mut self, mono_ms: u64, news: [News; N]) -> Vec<End> {
        self.remote.link.news.extend(news);
        let mut ear = Ear::default();
        self.remote.advance(N, now(mono_ms), &mut ear);
        ear.0
    }

    /// Takes the last engine request, which must equal `expected`. Returns its id.
    pub(super) fn asked(&mut self, expected: &Ask) -> AskId {
        let (id, ask) = self.remote.link.asks.pop().unwrap();
        assert_eq!(format!("{ask:?}"), format!("{expected:?}"));
        id
    }

    pub(super) fn operate(&mut self, mono_ms: u64, operation: &Operation<'_>) -> Option<End> {
        let asked = asked(mono_ms, self.request);
        self.remote
            .operate(&asked, &KEY, operation, &mut Ear::default())
    }

    pub(super) fn set(&mut self, mono_ms: u64) -> Option<End> {
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
    pub(super) fn follow(&mut self, mono_ms: u64) -> Option<End> {
        let asked = asked(mono_ms, self.request);
        self.remote.follow(&asked, &KEY)
    }

    /// Requests a page of the records that the engine has.
    pub(super) fn page(&mut self, request: &PageRequest, records: &[Found]) -> End {
        let asked = asked(0, None);
        if let Some(end) = self.remote.page(&asked, request, &mut Ear::default()) {
            return end;
        }
        loop {
            let Some((id, Ask::Page { after, most })) = self.remote.link.asks.pop() else {
                panic!("no page is asked for");
            };
            let position = |found: &Found| (bucket_of(&found.key), found.key.clone());
            let behind = |found: &&Found| after.as_ref().is_none_or(|it| position(found) > *it);
            let mut found: Vec<_> = records.iter().filter(behind).cloned().collect();
            found.sort_by_key(position);
            let has_more = found.len() > most;
            found.truncate(most);
            let page = FoundPage {
                records: found,
                has_more,
            };
            if let Some(end) = self.advance(0, [News::Page(id, Ok(page))]).pop() {
                return end;
            }
        }
    }

    /// Reads the current state of the key.
    pub(super) fn get_now(&mut self, mono_ms: u64) -> Option<End> {
        let get = Operation::Get {
            remaining: false,
            eventual: false,
        };
        self.operate(mono_ms, &get)
    }

    pub(super) fn get(&mut self, mono_ms: u64) -> Option<End> {
        let get = Operation::Get {
            remaining: false,
            eventual: true,
        };
        self.operate(mono_ms, &get)
    }
}

fn asked(mono_ms: u64, request: Option<RequestDigest>) -> Asked {
    Asked {
        ticket: Ticket(0),
        now: now(mono_ms),
        deadline_ms: None,
        request,
    }
}

pub(super) fn now(mono_ms: u64) -> Now {
    Now {
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
        content: Content::Entry {
            value: value.clone(),
            token: None,
            expiry: None,
        },
    }
}

pub(super) fn seen(at: u64, value: &Bytes) -> Seen {
    Seen {
        record: Some((record(at, value), Revision(at))),
        floor: ((0, 0), Revision(0)),
    }
}

pub(super) fn value(version: u64, value: &Bytes) -> End {
    End::Answered {
        reply: Reply::Value(value.clone()),
        version: Some((version, 0)),
    }
}
