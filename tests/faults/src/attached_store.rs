//! A state store behind a broker that has no support for state stores.
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::session::{
    Event, PublishOptions, Session, SessionConfig, Subscriptions,
};
use statestore_protocol::mqtt::{Connect, Publish, PublishHeader, Subscription};
use statestore_protocol::property::{self, RequestProperties};
use statestore_protocol::topic;
use statestored_access::Principal;
use statestored_storage::Write;
use statestored_store::service::{
    ClockReading, Outcome, Request, RequestEnvelope, RequestProgress, Service as Store,
    ServiceConfig,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::KeyHistory;

/// The service: it subscribes to the request topic and answers with the service of `statestored`. Dropping it ends the service.
#[derive(Debug)]
pub struct AttachedStore {
    histories: Arc<Mutex<BTreeMap<String, KeyHistory>>>,
    task: JoinHandle<()>,
}

impl Drop for AttachedStore {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl AttachedStore {
    /// Connects to the broker, and waits for the subscription.
    pub async fn start(broker: SocketAddr) -> Self {
        let histories = Arc::new(Mutex::new(BTreeMap::new()));
        let (ready, subscribed) = oneshot::channel();
        let service = Service {
            stream: TcpStream::connect(broker).await.unwrap(),
            session: Session::new(SessionConfig {
                connect: Connect {
                    client_id: "store".into(),
                    clean_start: true,
                    ..Connect::default()
                },
                subscriptions: Subscriptions::new(|_| {
                    vec![Subscription::at_least_once(topic::REQUEST)]
                }),
                ping_timeout_ms: 10_000,
            }),
            store: Store::embedded(ServiceConfig {
                // Batches of writes exist only for a durable store.
                is_durable: true,
                ..ServiceConfig::default()
            }),
            started: Instant::now(),
            queued: VecDeque::new(),
            histories: histories.clone(),
        };
        let task = tokio::spawn(service.run(ready));
        super::within(subscribed).await.unwrap();
        Self { histories, task }
    }

    /// Returns the changes of each key so far.
    pub fn histories(&self) -> BTreeMap<String, KeyHistory> {
        self.histories.lock().unwrap().clone()
    }
}

/// A message to a client.
struct OutgoingMessage {
    topic: String,
    correlation: Option<Bytes>,
    users: Vec<(String, String)>,
    payload: BytesMut,
}

struct Service {
    stream: TcpStream,
    session: Session<()>,
    store: Store,
    started: Instant,
    /// Messages that the broker's Receive Maximum holds back.
    queued: VecDeque<OutgoingMessage>,
    histories: Arc<Mutex<BTreeMap<String, KeyHistory>>>,
}

impl Service {
    async fn run(mut self, ready: oneshot::Sender<()>) {
        let mut ready = Some(ready);
        let mut input = BytesMut::new();
        self.session.connect(self.now().mono_ms).unwrap();
        loop {
            self.publish();
            let output = self.session.take_output(self.now().mono_ms);
            self.stream.write_all(&output).await.unwrap();
            let now_ms = self.now().mono_ms;
            self.session.written(output.len(), false, now_ms);
            if self.session.is_ready()
                && let Some(ready) = ready.take()
            {
                // The receiver is gone if the test has failed.
                let _ = ready.send(());
            }
            if self.stream.read_buf(&mut input).await.unwrap() == 0 {
                return;
            }
            let mut requests = Vec::new();
            let now_ms = self.now().mono_ms;
            self.session
                .receive(&mut input, now_ms, usize::MAX, |event| {
                    if let Event::Message { publish, .. } = event {
                        requests.push(publish);
                    }
                })
                .unwrap();
            for request in requests {
                self.execute(&request);
            }
        }
    }

    fn execute(&mut self, publish: &Publish) {
        let users: Vec<_> = publish.user_properties().collect();
        let client = users
            .iter()
            .find(|(name, _)| *name == property::SOURCE_ID)
            .map(|(_, value)| Arc::from(*value))
            .expect("a client says who it is");
        let payload = publish.payload();
        let request = Request {
            client: &client,
            principal: &Principal::default(),
            rights: None,
            correlation: publish.correlation_data().unwrap(),
            payload: &payload,
            properties: RequestProperties::parse(users),
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
        let RequestProgress::Complete(Outcome::Replied(response)) =
            self.store.submit(&envelope, now)
        else {
            panic!("the embedded keyspace answers at once");
        };
        let mut notifications = Vec::new();
        self.store.take_notifications(&mut notifications);
        if let Some((commit, batch)) = self.store.take_batch() {
            self.record_writes(&batch.writes);
            self.store.mark_durable(commit);
        }
        let version = response.version.map(|version| version.to_string());
        let mut payload = BytesMut::new();
        response.reply.encode(&mut payload);
        self.queued.push_back(OutgoingMessage {
            topic: publish.response_topic().unwrap().into(),
            correlation: publish.correlation_data().map(Bytes::copy_from_slice),
            users: property::response_pairs(version.as_deref())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            payload,
        });
        for notify in notifications {
            for client in notify.clients.iter() {
                let mut payload = BytesMut::new();
                notify.event.encode(&mut payload);
                self.queued.push_back(OutgoingMessage {
                    topic: topic::notification(client, &notify.key),
                    correlation: None,
                    users: vec![(property::TIMESTAMP.to_owned(), notify.version.to_string())],
                    payload,
                });
            }
        }
    }

    fn record_writes(&self, writes: &[Write]) {
        let mut histories = self.histories.lock().unwrap();
        for write in writes {
            if let Write::Put(record) = write {
                let key = String::from_utf8(record.key.to_vec()).unwrap();
                let version = statestore::Hlc::store_version(record.version);
                histories
                    .entry(key)
                    .or_default()
                    .push((Some(record.value.to_vec()), version));
            }
        }
    }

    /// Sends as many messages as the Receive Maximum allows.
    fn publish(&mut self) {
        while self.session.capacity() > 0
            && let Some(message) = self.queued.pop_front()
        {
            let users: Vec<_> = message
                .users
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let header = PublishHeader {
                topic: &message.topic,
                correlation_data: message.correlation.as_deref(),
                user_properties: &users,
                ..PublishHeader::default()
            };
            let payload = &message.payload;
            let write = |out: &mut BytesMut| out.extend_from_slice(payload);
            let terms = PublishOptions {
                tag: (),
                deadline_ms: u64::MAX,
                is_harmless: true,
            };
            self.session
                .publish(&header, payload.len(), write, terms)
                .unwrap();
        }
    }

    fn now(&self) -> ClockReading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        ClockReading {
            wall_ms: u64::try_from(wall.as_millis()).unwrap(),
            mono_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap(),
        }
    }
}
