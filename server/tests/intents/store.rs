//! A store whose requests wait until the model decides their outcome.
use crate::faults::Fault;
use crate::history::History;
use bytes::Bytes;
use statestore::{Condition, Entry, Error, ErrorKind, Hlc, Outcome as Done, SetOutcome};
use statestore_intents::{Decision, REGISTERS, Record, Set, Store, TransactionId};
use statestore_protocol::property::RequestProperties;
use statestore_protocol::{Clock, Command, Reply, ServiceError, SetOptions};
use statestored_access::Principal;
use statestored_store::service::{
    ClockReading, Outcome, ReplyEnvelope, Request, RequestEnvelope, RequestProgress, Service,
    ServiceConfig,
};
use std::collections::HashMap;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

const START_MS: u64 = 1_700_000_000_000;

/// Messages expire after whole seconds.
const ROUNDED_MS: u64 = 1_000;

/// The event that an actor waits for.
#[derive(Debug, Clone)]
pub(crate) enum AwaitedEvent {
    Request(SentRequest),
    Pause { until_ms: u64 },
}

/// A request on its way.
#[derive(Debug, Clone)]
pub(crate) struct SentRequest {
    command: Command,
    clock: Hlc,
    token: Option<Hlc>,
    /// Time at which the sender gives up.
    pub(crate) until_ms: u64,
}

impl SentRequest {
    /// After this time the store does not execute it.
    pub(crate) fn expires_ms(&self) -> u64 {
        self.until_ms + ROUNDED_MS
    }

    /// Whether it writes into a register.
    pub(crate) fn is_decision(&self) -> bool {
        match &self.command {
            Command::Set { key, .. } => key.starts_with(REGISTERS),
            _ => false,
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        matches!(self.command, Command::Set { .. } | Command::Del { .. })
    }
}

type ReplyResult = Result<ReplyEnvelope, Error>;

#[derive(Debug)]
struct ActorSlot {
    awaited: Option<AwaitedEvent>,
    answer: Option<ReplyResult>,
    clock: Clock,
    behind_ms: u64,
    numbers: u64,
    /// For planted faults: what was read last, and the tokens of intents.
    last_read: Option<(Bytes, Option<Entry>)>,
    saw_no_decision: bool,
    tokens: HashMap<Bytes, Hlc>,
}

pub(crate) struct SimulationState {
    service: Service,
    pub(crate) now_ms: u64,
    slots: Vec<ActorSlot>,
    executed: u64,
    fault: Fault,
    pub(crate) history: History,
    /// How many requests each actor has sent.
    pub(crate) sent: Vec<u64>,
}

#[derive(Clone)]
pub(crate) struct StoreSimulation(Arc<Mutex<SimulationState>>);

/// The store as one actor has it.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) world: StoreSimulation,
    pub(crate) actor: usize,
}

impl StoreSimulation {
    /// `behind_ms` are the clocks of the actors.
    pub(crate) fn new(behind_ms: &[u64], fault: Fault) -> Self {
        let slot = |(actor, behind_ms): (usize, &u64)| ActorSlot {
            awaited: None,
            answer: None,
            clock: Clock::new(&format!("a{actor}")).unwrap(),
            behind_ms: *behind_ms,
            numbers: 0,
            last_read: None,
            saw_no_decision: false,
            tokens: HashMap::new(),
        };
        Self(Arc::new(Mutex::new(SimulationState {
            service: Service::embedded(ServiceConfig {
                hash_key: [1, 2],
                replay_per_client: 1,
                ..ServiceConfig::default()
            }),
            now_ms: 0,
            slots: behind_ms.iter().enumerate().map(slot).collect(),
            executed: 0,
            fault,
            history: History::default(),
            sent: vec![0; behind_ms.len()],
        })))
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, SimulationState> {
        self.0.lock().unwrap()
    }

    pub(crate) fn port(&self, actor: usize) -> Port {
        let world = self.clone();
        Port { world, actor }
    }
}

impl SimulationState {
    pub(crate) fn awaited(&self, actor: usize) -> Option<&AwaitedEvent> {
        self.slots[actor].awaited.as_ref()
    }

    fn now(&self) -> ClockReading {
        ClockReading {
            wall_ms: START_MS + self.now_ms,
            mono_ms: self.now_ms,
        }
    }

    pub(crate) fn pass(&mut self, until_ms: u64) {
        self.now_ms = self.now_ms.max(until_ms);
        let now = self.now();
        self.service.advance(now);
    }

    /// Returns the stored value without a request of an actor.
    pub(crate) fn stored(&mut self, key: &[u8]) -> Option<Bytes> {
        let command = Command::Get {
            key: Bytes::copy_from_slice(key),
            remaining: false,
            eventual: false,
        };
        let clock = Hlc::new(0, 0, "nobody").unwrap();
        match self.run(&command, &clock, None).reply {
            Reply::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Stores a value as clients do that do not support transactions.
    pub(crate) fn store(&mut self, key: &[u8], value: &str) {
        let command = Command::Set {
            key: Bytes::copy_from_slice(key),
            value: Bytes::copy_from_slice(value.as_bytes()),
            options: SetOptions::default(),
        };
        let clock = Hlc::new(START_MS + self.now_ms, 0, "nobody").unwrap();
        assert_eq!(self.run(&command, &clock, None).reply, Reply::Ok);
    }

    /// Executes a request, if it is not too late for that.
    pub(crate) fn execute(&mut self, sent: &SentRequest) -> Option<ReplyEnvelope> {
        if self.now_ms > sent.expires_ms() {
            return None;
        }
        Some(self.run(&sent.command, &sent.clock, sent.token.clone()))
    }

    fn run(&mut self, command: &Command, clock: &Hlc, token: Option<Hlc>) -> ReplyEnvelope {
        self.executed += 1;
        let mut payload = bytes::BytesMut::new();
        command.encode(&mut payload);
        let client: Arc<str> = "client".into();
        let request = Request {
            client: &client,
            principal: &Principal::default(),
            rights: None,
            // Each execution is one of its own, also that of a message that is delivered twice.
            correlation: &self.executed.to_be_bytes(),
            payload: &payload.freeze(),
            properties: RequestProperties {
                timestamp: Some(Ok(clock.clone())),
                fencing_token: token.map(Ok),
                persist: false,
            },
            may_be_redelivered: true,
        };
        let envelope = RequestEnvelope {
            request,
            deadline_ms: None,
            has_capacity: true,
            max_reply_bytes: usize::MAX,
            is_shared: false,
        };
        let now = self.now();
        match self.service.submit(&envelope, now) {
            RequestProgress::Complete(Outcome::Replied(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    /// Answers an actor. `None` is that no answer came in time.
    pub(crate) fn answer(&mut self, actor: usize, response: Option<ReplyEnvelope>) {
        let answer = response.ok_or_else(|| error(ErrorKind::TimedOut, Done::Unknown));
        if let Ok(ReplyEnvelope {
            version: Some(version),
            ..
        }) = &answer
        {
            let slot = &mut self.slots[actor];
            let wall_ms = START_MS + self.now_ms - slot.behind_ms;
            // A version that is far ahead is ignored.
            let _ = slot.clock.merge(version, wall_ms);
        }
        let slot = &mut self.slots[actor];
        slot.awaited = None;
        slot.answer = Some(answer);
    }

    /// The actor is gone.
    pub(crate) fn crashed(&mut self, actor: usize) {
        self.slots[actor].awaited = None;
        self.slots[actor].answer = None;
    }
}

fn error(kind: ErrorKind, outcome: Done) -> Error {
    Error::new(kind, outcome, "asking", "the model says so")
}

impl Port {
    fn inner(&self) -> MutexGuard<'_, SimulationState> {
        self.world.inner()
    }

    async fn send(
        &self,
        command: Command,
        token: Option<Hlc>,
        timeout: Duration,
    ) -> Result<ReplyEnvelope, Error> {
        if timeout.is_zero() {
            return Err(error(ErrorKind::TimedOut, Done::NotDone));
        }
        {
            let mut inner = self.inner();
            let now_ms = inner.now_ms;
            inner.sent[self.actor] += 1;
            let slot = &mut inner.slots[self.actor];
            let clock = slot.clock.tick(START_MS + now_ms - slot.behind_ms);
            let until_ms = now_ms + u64::try_from(timeout.as_millis()).unwrap().min(1 << 40);
            slot.answer = None;
            slot.awaited = Some(AwaitedEvent::Request(SentRequest {
                command,
                clock,
                token,
                until_ms,
            }));
        }
        poll_fn(|_| match self.inner().slots[self.actor].answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Returns the request that a planted fault sends in place of a SET.
    fn with_planted_fault(&self, set: &Set<'_>) -> (Command, Option<Hlc>) {
        let mut inner = self.inner();
        let now_ms = inner.now_ms;
        let fault = inner.fault;
        let key = Bytes::copy_from_slice(set.key);
        let value = Bytes::copy_from_slice(set.value);
        let record = Record::decode(&value);
        let mut token = set.token.clone();
        let mut expires_in = set.expires_in;
        let slot = &mut inner.slots[self.actor];
        let finishes = set.token.is_some()
            && set.condition == Condition::Always
            && !matches!(record, Some(Record::Intent(_)));
        match (fault, &record) {
            (Fault::AbortForgotten, Some(Record::Decision(Decision::Aborted))) => {
                expires_in = Some(Duration::from_millis(1));
            }
            (Fault::DelForTombstone, Some(Record::Tombstone)) if finishes => {
                let if_version = None;
                return (Command::Del { key, if_version }, token);
            }
            (
                Fault::RegisterDeleted | Fault::NoSecondLook,
                Some(Record::Decision(Decision::Done)),
            ) => {
                let if_version = None;
                return (Command::Del { key, if_version }, None);
            }
            (Fault::SameToken, Some(Record::Intent(_))) => {
                slot.tokens.insert(key.clone(), token.clone().unwrap());
            }
            (Fault::SameToken, _) if finishes => {
                token = slot.tokens.get(&key).cloned().or(token);
            }
            (Fault::FinishByClock, _) if finishes => {
                let wall_ms = START_MS + now_ms + 50_000;
                token = Some(Hlc::new(wall_ms, 0, "clock").unwrap());
            }
            _ => {}
        }
        let command = Command::Set {
            key,
            value,
            options: SetOptions {
                condition: set.condition,
                expires_in_ms: expires_in
                    .and_then(|after| NonZeroU64::new(u64::try_from(after.as_millis()).unwrap())),
            },
        };
        (command, token)
    }
}

impl Store for Port {
    async fn get(&self, key: &[u8], timeout: Duration) -> Result<Option<Entry>, Error> {
        let is_register = key.starts_with(REGISTERS);
        {
            let mut inner = self.inner();
            let fault = inner.fault;
            if fault == Fault::RegisterUnread && is_register {
                return Ok(None);
            }
            let slot = &mut inner.slots[self.actor];
            if fault == Fault::NoSecondLook
                && slot.saw_no_decision
                && let Some((last, found)) = &slot.last_read
                && last == key
            {
                let found = found.clone();
                slot.saw_no_decision = false;
                return Ok(found);
            }
        }
        let key = Bytes::copy_from_slice(key);
        let command = Command::Get {
            key: key.clone(),
            remaining: false,
            eventual: false,
        };
        let response = self.send(command, None, timeout).await?;
        let found = match (response.reply, response.version) {
            (Reply::Value(value), Some(version)) => Some(Entry::new(value, version)),
            (Reply::Nil, _) => None,
            other => panic!("{other:?}"),
        };
        let mut inner = self.inner();
        let slot = &mut inner.slots[self.actor];
        slot.saw_no_decision = is_register && found.is_none();
        if !is_register {
            slot.last_read = Some((key, found.clone()));
        }
        Ok(found)
    }

    async fn set(&self, set: Set<'_>, timeout: Duration) -> Result<SetOutcome, Error> {
        let (command, token) = self.with_planted_fault(&set);
        let response = self.send(command, token, timeout).await?;
        match (response.reply, response.version) {
            (Reply::Ok | Reply::Count(1), Some(version)) => Ok(SetOutcome::Applied { version }),
            (Reply::Count(0), _) => Ok(SetOutcome::Applied {
                version: Hlc::store_version((1, 1)),
            }),
            (Reply::NotApplied, version) => Ok(SetOutcome::NotApplied { version }),
            (Reply::Error(ServiceError::FencingTokenLower), _) => {
                Err(error(ErrorKind::FencingTokenLower, Done::NotDone))
            }
            other => panic!("{other:?}"),
        }
    }

    async fn pause(&self, time: Duration) {
        {
            let mut inner = self.inner();
            let until_ms = inner.now_ms + u64::try_from(time.as_millis()).unwrap();
            let slot = &mut inner.slots[self.actor];
            slot.answer = None;
            slot.awaited = Some(AwaitedEvent::Pause { until_ms });
        }
        poll_fn(|_| match self.inner().slots[self.actor].answer.take() {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        })
        .await;
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.inner().now_ms)
    }

    fn wall_ms(&self) -> u64 {
        let inner = self.inner();
        START_MS + inner.now_ms - inner.slots[self.actor].behind_ms
    }

    fn timestamp(&self) -> Hlc {
        let mut inner = self.inner();
        let now_ms = inner.now_ms;
        let slot = &mut inner.slots[self.actor];
        let timestamp = slot.clock.tick(START_MS + now_ms - slot.behind_ms);
        slot.numbers += 1;
        let name = format!("{}.{}", timestamp.node_id(), slot.numbers);
        Hlc::new(timestamp.wall_ms(), timestamp.counter(), &name).unwrap()
    }

    fn transaction_id(&self) -> TransactionId {
        let mut inner = self.inner();
        let slot = &mut inner.slots[self.actor];
        slot.numbers += 1;
        TransactionId((self.actor as u128) << 64 | u128::from(slot.numbers))
    }

    fn random(&self) -> u64 {
        u64::MAX
    }
}
