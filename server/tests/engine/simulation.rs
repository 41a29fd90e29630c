//! A service with a clock that the test turns, and requests written as words.
use crate::store;
use crate::terms::StorageTraits;
use bytes::Bytes;
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Event, Hlc, HlcError, PageEntry, Reply};
use statestored_access::Principal;
use statestored_storage::{Record, Write};
use statestored_store::service::{
    ChangeNotification, ClockReading, Outcome, ReplyEnvelope, Request, RequestEnvelope,
    RequestProgress, Service, ServiceConfig, Ticket,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Wall clock at the start of every simulation.
pub(crate) const WALL: u64 = 1_696_374_425_000;

/// Monotonic clock at the start of every simulation.
pub(crate) const MONO: u64 = 5_000;

pub(crate) struct Simulation {
    pub(crate) service: Service,
    pub(crate) now: ClockReading,
    pub(crate) notifications: Vec<ChangeNotification>,
    /// Records of a storage after all writes so far.
    pub(crate) stored: BTreeMap<Bytes, Record>,
    pub(crate) stored_clock: Option<(u64, u64)>,
    sent: u64,
    /// All that took longer than requests usually do.
    pub(crate) work: usize,
}

/// A request on its way.
pub(crate) struct RequestBuilder<'s> {
    simulation: &'s mut Simulation,
    client: Arc<str>,
    correlation: Vec<u8>,
    properties: RequestProperties,
    may_return: bool,
    principal: Principal,
}

pub(crate) fn config() -> ServiceConfig {
    ServiceConfig {
        hash_key: [7, 11],
        // Only then are there batches of writes.
        is_durable: true,
        ..ServiceConfig::default()
    }
}

/// A RESP3 array of bulk strings.
pub(crate) fn payload<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Bytes {
    let words: Vec<_> = words.into_iter().collect();
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out.into()
}

pub(crate) fn hlc(wall_ms: u64, counter: u64, node_id: &str) -> Hlc {
    Hlc::new(wall_ms, counter, node_id).unwrap()
}

/// A version of the store.
pub(crate) fn version(wall_ms: u64, counter: u64) -> Hlc {
    hlc(wall_ms, counter, "StateStore")
}

/// A response as text: the payload without its last line end, and the version if there is one.
pub(crate) fn text(response: &ReplyEnvelope) -> String {
    let mut out = bytes::BytesMut::new();
    response.reply.encode(&mut out);
    let payload = String::from_utf8_lossy(&out).trim_end().to_string();
    match &response.version {
        Some(version) => format!("{payload} @{}+{}", version.wall_ms(), version.counter()),
        None => payload,
    }
}

impl Simulation {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: ServiceConfig) -> Self {
        Self {
            service: store::open(config),
            now: ClockReading {
                wall_ms: WALL,
                mono_ms: MONO,
            },
            notifications: Vec::new(),
            stored: BTreeMap::new(),
            stored_clock: None,
            sent: 0,
            work: 0,
        }
    }

    /// Both clocks go on.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.wall_ms += ms;
        self.now.mono_ms += ms;
    }

    pub(crate) fn expire(&mut self) {
        self.service.advance(self.now);
        self.take();
    }

    /// A request of client `c` whose `__ts` is the wall clock.
    pub(crate) fn request(&mut self) -> RequestBuilder<'_> {
        self.sent += 1;
        RequestBuilder {
            client: "c".into(),
            correlation: u128::from(self.sent).to_be_bytes().to_vec(),
            properties: RequestProperties {
                timestamp: Some(Ok(hlc(self.now.wall_ms, 0, "c"))),
                ..RequestProperties::default()
            },
            simulation: self,
            may_return: true,
            principal: Principal::default(),
        }
    }

    /// Whether this is the number of keys. Always true if the keyspace does not count them.
    pub(crate) fn has_keys(&self, keys: u64) -> bool {
        !StorageTraits::of(store::STORAGE).counts_keys || self.service.size().keys == keys
    }

    /// Executes a request whose arguments are the words of `command`; see [`text`].
    pub(crate) fn run(&mut self, command: &str) -> String {
        self.request().run(command)
    }

    /// Executes a request of this client.
    pub(crate) fn run_as(&mut self, client: &str, command: &str) -> String {
        self.request().client(client).run(command)
    }

    /// The notifications since they were taken last, as `client key SET value @version` or `client key DELETE ...`.
    pub(crate) fn notified(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for notify in self.notifications.drain(..) {
            let key = String::from_utf8_lossy(&notify.key);
            let version = &notify.version;
            let what = match &notify.event {
                Event::Set(value) => format!("SET {}", String::from_utf8_lossy(value)),
                Event::Deleted => "DELETE".to_string(),
                Event::Resync => "RESYNC".to_string(),
            };
            for client in notify.clients.iter() {
                lines.push(format!(
                    "{client} {key} {what} @{}+{}",
                    version.wall_ms(),
                    version.counter()
                ));
            }
        }
        lines
    }

    /// A new process with the records and the clock of this one.
    pub(crate) fn restart(&mut self, config: ServiceConfig) {
        self.service = store::restore(config, self.stored.values(), self.stored_clock, self.now);
    }

    /// The outcome of a request that had none when it was asked. Meanwhile no time passes.
    fn wait(&mut self, ticket: Ticket) -> Outcome {
        for _ in 0..1_000 {
            store::idle(&mut self.service);
            self.service.advance(self.now);
            if let Some((of, outcome)) = self.service.take_outcome() {
                assert_eq!(of, ticket);
                return outcome;
            }
        }
        panic!("no outcome");
    }

    fn take(&mut self) {
        store::settle(&mut self.service, self.now);
        self.work += self.service.work();
        self.service.begin_quantum();
        let mut notifications = Vec::new();
        self.service.take_notifications(&mut notifications);
        self.notifications.extend(notifications);
        let Some((commit, batch)) = self.service.take_batch() else {
            return;
        };
        store::keep(&batch);
        self.service.mark_durable(commit);
        for write in batch.writes {
            match write {
                Write::Put(record) => {
                    self.stored.insert(record.key.clone(), record);
                }
                Write::Delete(key) => {
                    self.stored.remove(&key).expect("what is deleted was there");
                }
            }
        }
        self.stored_clock = batch.clock.or(self.stored_clock);
    }
}

impl RequestBuilder<'_> {
    /// The client's session ends with its connection.
    pub(crate) fn ephemeral(mut self) -> Self {
        self.may_return = false;
        self
    }

    /// In the name of this user.
    pub(crate) fn user(mut self, name: &str) -> Self {
        self.principal = Principal::user(name.into());
        self
    }

    pub(crate) fn client(mut self, client: &str) -> Self {
        self.client = client.into();
        self
    }

    pub(crate) fn correlation(mut self, correlation: &[u8]) -> Self {
        self.correlation = correlation.to_vec();
        self
    }

    pub(crate) fn timestamp(mut self, timestamp: Option<Result<Hlc, HlcError>>) -> Self {
        self.properties.timestamp = timestamp;
        self
    }

    pub(crate) fn token(mut self, token: impl Into<Option<Hlc>>) -> Self {
        self.properties.fencing_token = token.into().map(Ok);
        self
    }

    pub(crate) fn malformed_token(mut self) -> Self {
        self.properties.fencing_token = Some(Err(HlcError::Segments));
        self
    }

    pub(crate) fn run(self, command: &str) -> String {
        text(&self.send(&payload(command.split(' ').map(str::as_bytes))))
    }

    pub(crate) fn send(self, payload: &Bytes) -> ReplyEnvelope {
        let request = Request {
            client: &self.client,
            principal: &self.principal,
            rights: None,
            correlation: &self.correlation,
            payload,
            properties: self.properties,
            may_be_redelivered: self.may_return,
        };
        let envelope = RequestEnvelope {
            request,
            deadline_ms: None,
            has_capacity: true,
            max_reply_bytes: usize::MAX,
            is_shared: false,
        };
        let simulation = self.simulation;
        let outcome = match simulation.service.submit(&envelope, simulation.now) {
            RequestProgress::Complete(outcome) => outcome,
            RequestProgress::Pending(ticket) => simulation.wait(ticket),
        };
        simulation.take();
        match outcome {
            Outcome::Replied(response) => response,
            other => panic!("{other:?}"),
        }
    }
}

/// The keys of a page and its token.
pub(crate) fn page(response: ReplyEnvelope) -> (Vec<Bytes>, Option<Bytes>) {
    match response.reply {
        Reply::Page { keys, token } => (keys, token),
        other => panic!("not a page: {other:?}"),
    }
}

/// The entries of a page and its token.
pub(crate) fn entry_page(response: ReplyEnvelope) -> (Vec<PageEntry>, Option<Bytes>) {
    match response.reply {
        Reply::EntryPage { entries, token } => (entries, token),
        other => panic!("not a page with values: {other:?}"),
    }
}
