//! The requests of the clients, and the responses and notifications that they receive.
use super::client::{self, ClientRequest, PATTERNS, RequestKind, ResponseContent, WatchState};
use super::{
    CLIENTS, Event, GroupSimulation, MAX_ATTEMPTS, RESPONSE_TIMEOUT_MS, ReceivedNotification,
};
use crate::history::{Invocation, value};
use crate::shared::KEYS;
use crate::shared::engine::BASE_MS;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, PubAck, Publish, ReasonCode, decode};
use statestore_protocol::property::TIMESTAMP;
use statestore_protocol::{Condition, Event as ChangeEvent, Hlc, Notification, topic};

/// How often a server may request the state of the group's leader within a second.
const MAX_JOINS: usize = 3;

/// Time for which a request without an answer may still be executed.
const SETTLING_MS: u64 = 25_000;

impl GroupSimulation {
    /// Lets a client make a request.
    pub(super) fn make_random_request(&mut self) {
        let client = self.chance.index(self.clients.len());
        let key = self.chance.pick(&KEYS);
        if client == CLIENTS {
            let pattern = Bytes::from_static(self.chance.pick(&PATTERNS));
            let what = match self.chance.below(100) {
                0..60 => RequestKind::Watch(pattern),
                60..75 => RequestKind::Unwatch(pattern),
                75..90 => RequestKind::Watch(key),
                _ => RequestKind::Unwatch(key),
            };
            return self.make_request(client, what);
        }
        let what = match self.chance.below(100) {
            0..25 => self.set(&key, Condition::Always),
            25..35 => self.set(&key, Condition::IfAbsent),
            35..65 => RequestKind::Call(Invocation::Get { key }),
            65..80 => RequestKind::Call(Invocation::Del { key, token: None }),
            80..95 => RequestKind::Watch(key),
            _ => RequestKind::Unwatch(key),
        };
        self.make_request(client, what);
    }

    /// Lets a client make this request, unless a request about the same watch is pending.
    pub(super) fn make_request(&mut self, client: usize, what: RequestKind) {
        let number = self.requests.len();
        let key = what.key().clone();
        let its = &mut self.clients[client];
        if !matches!(what, RequestKind::Call(_)) {
            if its.pending_watch_requests.contains_key(&key) {
                return;
            }
            its.pending_watch_requests.insert(key.clone(), number);
            // An existing watch continues, whether it is requested again or not.
            if !matches!(
                (&what, its.watches.get(&key)),
                (RequestKind::Watch(_), Some(WatchState::On { .. }))
            ) {
                self.set_watch_state(client, key, WatchState::Unknown);
            }
        }
        // The clocks of clients are wrong, but each of them rises.
        let shown_ms = BASE_MS + self.now_ms + self.chance.below(2_000);
        let its = &mut self.clients[client];
        its.clock_ms = shown_ms.max(its.clock_ms + 1);
        let wall_ms = its.clock_ms;
        let asked = ClientRequest {
            client,
            kind: what,
            timestamp: Hlc::new(wall_ms, 0, &self.clients[client].id).unwrap(),
            started_ms: self.now_ms,
            attempts: 0,
            is_abandoned: false,
            response: None,
        };
        self.trace_event(|| format!("client-{client}: asks {number}, {:?}", asked.kind));
        self.requests.push(asked);
        self.metrics.requests += 1;
        self.send(number);
    }

    /// Returns a SET with a unique value.
    pub(super) fn set(&self, key: &Bytes, condition: Condition) -> RequestKind {
        RequestKind::Call(Invocation::Set {
            key: key.clone(),
            value: value(self.requests.len(), None, 0),
            condition,
            px: None,
            token: None,
        })
    }

    fn send(&mut self, number: usize) {
        let asked = &mut self.requests[number];
        asked.attempts += 1;
        let client = asked.client;
        let request = self.clients[client].request(number, &asked.kind, &asked.timestamp);
        self.send_to_broker(client, request);
        self.schedule(
            self.now_ms + RESPONSE_TIMEOUT_MS,
            Event::CheckTimeout(number),
        );
    }

    /// Handles a client that has waited long enough for an answer: it repeats the request, or gives up.
    pub(super) fn check_request_timeout(&mut self, number: usize) {
        let asked = &self.requests[number];
        if asked.response.is_some() {
            return;
        }
        if asked.attempts < MAX_ATTEMPTS && self.chance.percent(60) {
            self.metrics.repeated += u64::from(self.requests[number].attempts == 1);
            self.trace_event(|| format!("asks {number} again"));
            self.mark_unsettled(number);
            return self.send(number);
        }
        self.metrics.unanswered += 1;
        self.trace_event(|| format!("{number} is given up"));
        self.mark_unsettled(number);
        let asked = &mut self.requests[number];
        asked.is_abandoned = true;
        if self.requires_responses {
            let what = asked.kind.clone();
            self.violated(format!(
                "{number} is not answered although all is well: {what:?}"
            ));
        }
        self.finish_request(number);
    }

    /// Marks a watch as unsettled: a request about it may be executed after later ones.
    fn mark_unsettled(&mut self, number: usize) {
        let asked = &self.requests[number];
        if !matches!(asked.kind, RequestKind::Call(_)) {
            let client = &mut self.clients[asked.client];
            let until_ms = self.now_ms + SETTLING_MS;
            client.unsettled.insert(asked.kind.key().clone(), until_ms);
        }
    }

    /// Handles KEYNOTIFYs that the broker delivers to another server: they are executed again, also after a STOP.
    pub(super) fn execute_redelivered(&mut self) {
        for correlation in std::mem::take(&mut self.broker.recently_redelivered) {
            let number = client::number(&correlation);
            let watch = number
                .filter(|number| matches!(self.requests[*number].kind, RequestKind::Watch(_)));
            if let Some(number) = watch {
                self.mark_unsettled(number);
            }
        }
    }

    /// Whether the broker may deliver a former request about the same watch to another server.
    fn may_be_redelivered(&self, client: usize, number: usize) -> bool {
        let key = self.requests[number].kind.key();
        let held = self.broker.shared_correlations().filter_map(client::number);
        held.filter(|held| *held != number).any(|held| {
            let asked = &self.requests[held];
            let is_call = matches!(asked.kind, RequestKind::Call(_));
            asked.client == client && !is_call && asked.kind.key() == key
        })
    }

    /// Ends a request, so that another one about the same watch may follow.
    fn finish_request(&mut self, number: usize) {
        let asked = &self.requests[number];
        let about = &mut self.clients[asked.client].pending_watch_requests;
        about.retain(|_, its| *its != number);
    }

    pub(super) fn client_received(&mut self, client: usize, bytes: &Bytes) {
        self.clients[client].input.extend_from_slice(bytes);
        loop {
            let decoded = decode(&mut self.clients[client].input, Limits::MAX_PACKET_BYTES);
            let publish = match decoded {
                Ok(Some(Packet::Publish(publish))) => publish,
                Ok(Some(_)) => continue,
                Ok(None) => return,
                Err(error) => return self.violated(format!("the broker says no packet: {error}")),
            };
            if let Some(packet_id) = publish.packet_id() {
                let puback = PubAck {
                    packet_id,
                    reason: ReasonCode::SUCCESS,
                    reason_string: None,
                };
                let mut out = BytesMut::new();
                puback.encode(Limits::MAX_PACKET_BYTES, &mut out).unwrap();
                self.send_to_broker(client, out.freeze());
            }
            let id = &self.clients[client].id;
            if publish.topic() == topic::response(id) {
                self.response_received(client, &publish);
            } else {
                self.notification_received(client, &publish);
            }
        }
    }

    fn response_received(&mut self, client: usize, publish: &Publish) {
        let number = publish.correlation_data().and_then(client::number);
        let number = number.filter(|number| *number < self.requests.len());
        let Some(number) = number.filter(|number| self.requests[*number].client == client) else {
            return self.violated("a response to nothing".into());
        };
        let told = match client::parse_response(&self.requests[number].kind, publish) {
            Ok(told) => told,
            Err(error) => return self.violated(error),
        };
        self.trace_event(|| format!("client-{client}: hears of {number}: {told:?}"));
        let is_refusal = is_rejection(&told);
        self.metrics.rejected += u64::from(is_refusal);
        let asked = &self.requests[number];
        match &asked.response {
            // A request that was sent twice may be rejected once.
            Some((_, first)) if *first != told && !is_refusal && !is_rejection(first) => {
                let text = format!("{number} is answered with {first:?} and {told:?}");
                if !matches!(told, ResponseContent::Watch(_))
                    && !matches!(asked.kind, RequestKind::Call(Invocation::Get { .. }))
                {
                    self.violated(text);
                }
                return;
            }
            Some((_, first)) if is_rejection(first) && !is_refusal => {}
            Some(_) => return,
            None => {}
        }
        let ended = (self.now_ms, told.clone());
        let asked = &mut self.requests[number];
        asked.response = Some(ended);
        let (what, was_given_up) = (asked.kind.clone(), asked.is_abandoned);
        let is_current =
            self.clients[client].pending_watch_requests.get(what.key()) == Some(&number);
        if is_current && !was_given_up {
            let unsettled = self.clients[client].unsettled.get(what.key());
            let is_settled = unsettled.is_none_or(|until_ms| *until_ms < self.now_ms)
                && (matches!(what, RequestKind::Watch(_))
                    || !self.may_be_redelivered(client, number));
            let now = match (&what, told) {
                _ if !is_settled => WatchState::Unknown,
                (RequestKind::Watch(_), ResponseContent::Watch(_)) => {
                    let former = self.clients[client].watches.get(what.key());
                    match former {
                        Some(WatchState::On { since_ms }) => WatchState::On {
                            since_ms: *since_ms,
                        },
                        _ => WatchState::On {
                            since_ms: self.now_ms,
                        },
                    }
                }
                (RequestKind::Unwatch(_), ResponseContent::Watch(_)) => WatchState::Off {
                    since_ms: self.now_ms,
                },
                _ => WatchState::Unknown,
            };
            self.set_watch_state(client, what.key().clone(), now);
        }
        self.finish_request(number);
    }

    fn notification_received(&mut self, client: usize, publish: &Publish) {
        let id = self.clients[client].id.clone();
        let mut pairs = publish.user_properties();
        let timestamp = pairs
            .find(|(name, _)| *name == TIMESTAMP)
            .map(|(_, text)| text);
        let payload = publish.payload();
        let decoded = Notification::decode(&id, publish.topic(), timestamp, &payload);
        match decoded {
            Ok(notification) => {
                self.trace_event(|| format!("client-{client}: {notification:?}"));
                self.metrics.notified += 1;
                let is_gap = notification.event == ChangeEvent::Resync;
                self.metrics.gaps += u64::from(is_gap);
                self.notified.push(ReceivedNotification {
                    client,
                    notification,
                    at_ms: self.now_ms,
                });
            }
            Err(error) => self.violated(format!("no notification: {error}")),
        }
    }

    /// Handles a packet of a server that reaches the broker.
    pub(super) fn inspect_published(&mut self, number: u64, packet: &Packet) {
        let Packet::Publish(publish) = packet else {
            return;
        };
        if !publish.topic().starts_with("clients/") {
            self.trace_event(|| {
                let pairs: Vec<_> = publish.user_properties().collect();
                format!("connection {number}: {pairs:?} {:?}", publish.payload())
            });
            // A server that sends `join` does not know all watches.
            if publish
                .user_properties()
                .any(|pair| pair == ("__is", "join"))
                && let Some(index) = self.connections.get(&number).copied()
            {
                self.mark_disturbed(index);
                let now_ms = self.now_ms;
                let joins = self.joins.entry(number).or_default();
                joins.retain(|at_ms| at_ms + 1_000 > now_ms);
                joins.push(now_ms);
                if joins.len() > MAX_JOINS {
                    self.violated(format!(
                        "connection {number} asks the leader again and again"
                    ));
                }
            }
        }
        for client in 0..self.clients.len() {
            let its = &self.clients[client];
            let Some(key) = topic::notification_key(&its.id, publish.topic()) else {
                continue;
            };
            let may_watch = its.watches.iter().any(|(watched, state)| {
                !matches!(state, WatchState::Off { .. }) && client::covers(watched, &key)
            });
            if !may_watch {
                self.violated(format!(
                    "connection {number} notifies client-{client} of {key:?} after it was told that its watch is over"
                ));
            }
        }
    }
}

fn is_rejection(told: &ResponseContent) -> bool {
    matches!(
        told,
        ResponseContent::Rejected(_) | ResponseContent::Unavailable
    )
}
