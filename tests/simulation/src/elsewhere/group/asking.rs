//! The requests of the clients, and the responses and notifications that they receive.
use super::client::{self, Asked, Told, Watching, What};
use super::{CLIENTS, Event, MOST_TIMES, Notified, PATIENCE_MS, World};
use crate::elsewhere::KEYS;
use crate::elsewhere::node::BASE_MS;
use crate::history::{Action, value};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, PubAck, Publish, ReasonCode, decode};
use statestore_protocol::property::TIMESTAMP;
use statestore_protocol::{Condition, Hlc, Notification, topic};

/// How often a server may request the state of the group's leader within a second.
const MOST_JOINS: usize = 3;

/// Time for which a request without an answer may still be executed.
const UNSETTLED_MS: u64 = 25_000;

impl World {
    /// Lets a client make a request.
    pub(super) fn ask(&mut self) {
        let client = self.chance.index(CLIENTS);
        let key = self.chance.pick(&KEYS);
        let what = match self.chance.below(100) {
            0..25 => self.set(&key, Condition::Always),
            25..35 => self.set(&key, Condition::IfAbsent),
            35..65 => What::Call(Action::Get { key }),
            65..80 => What::Call(Action::Del { key, token: None }),
            80..95 => What::Watch(key),
            _ => What::Unwatch(key),
        };
        self.ask_for(client, what);
    }

    /// Lets a client make this request, unless a request about the same watch is pending.
    pub(super) fn ask_for(&mut self, client: usize, what: What) {
        let number = self.asked.len();
        let key = what.key().clone();
        let its = &mut self.clients[client];
        if !matches!(what, What::Call(_)) {
            if its.about.contains_key(&key) {
                return;
            }
            its.about.insert(key.clone(), number);
            // An existing watch continues, whether it is requested again or not.
            if !matches!(
                (&what, its.watches.get(&key)),
                (What::Watch(_), Some(Watching::On { .. }))
            ) {
                self.watches(client, key, Watching::Unsure);
            }
        }
        // The clocks of clients are wrong, but each of them rises.
        let shown_ms = BASE_MS + self.now_ms + self.chance.below(2_000);
        let its = &mut self.clients[client];
        its.clock_ms = shown_ms.max(its.clock_ms + 1);
        let wall_ms = its.clock_ms;
        let asked = Asked {
            client,
            what,
            timestamp: Hlc::new(wall_ms, 0, &self.clients[client].id).unwrap(),
            called_ms: self.now_ms,
            times: 0,
            is_given_up: false,
            ended: None,
        };
        self.note(|| format!("client-{client}: asks {number}, {:?}", asked.what));
        self.asked.push(asked);
        self.counts.asked += 1;
        self.send(number);
    }

    /// Returns a SET with a unique value.
    pub(super) fn set(&self, key: &Bytes, condition: Condition) -> What {
        What::Call(Action::Set {
            key: key.clone(),
            value: value(self.asked.len(), None, 0),
            condition,
            px: None,
            token: None,
        })
    }

    fn send(&mut self, number: usize) {
        let asked = &mut self.asked[number];
        asked.times += 1;
        let client = asked.client;
        let request = self.clients[client].request(number, &asked.what, &asked.timestamp);
        self.send_to_broker(client, request);
        self.at(self.now_ms + PATIENCE_MS, Event::Look(number));
    }

    /// Handles a client that has waited long enough for an answer: it repeats the request, or gives up.
    pub(super) fn look(&mut self, number: usize) {
        let asked = &self.asked[number];
        if asked.ended.is_some() {
            return;
        }
        if asked.times < MOST_TIMES && self.chance.percent(60) {
            self.counts.again += u64::from(self.asked[number].times == 1);
            self.note(|| format!("asks {number} again"));
            self.unsettle(number);
            return self.send(number);
        }
        self.counts.unanswered += 1;
        self.note(|| format!("{number} is given up"));
        self.unsettle(number);
        let asked = &mut self.asked[number];
        asked.is_given_up = true;
        if self.is_well {
            let what = asked.what.clone();
            self.violated(format!(
                "{number} is not answered although all is well: {what:?}"
            ));
        }
        self.is_over(number);
    }

    /// Marks a watch as unsettled: a request about it may be executed after later ones.
    fn unsettle(&mut self, number: usize) {
        let asked = &self.asked[number];
        if !matches!(asked.what, What::Call(_)) {
            let client = &mut self.clients[asked.client];
            let until_ms = self.now_ms + UNSETTLED_MS;
            client.unsettled.insert(asked.what.key().clone(), until_ms);
        }
    }

    /// Handles KEYNOTIFYs that the broker delivers to another server: they are executed again, also after a STOP.
    pub(super) fn look_what_comes_again(&mut self) {
        for correlation in std::mem::take(&mut self.broker.lately_given_on) {
            let number = client::number(&correlation);
            let watch = number.filter(|number| matches!(self.asked[*number].what, What::Watch(_)));
            if let Some(number) = watch {
                self.unsettle(number);
            }
        }
    }

    /// Whether the broker may deliver a former request about the same watch to another server.
    fn may_come_again(&self, client: usize, number: usize) -> bool {
        let key = self.asked[number].what.key();
        let held = self.broker.shared_correlations().filter_map(client::number);
        held.filter(|held| *held != number).any(|held| {
            let asked = &self.asked[held];
            let is_call = matches!(asked.what, What::Call(_));
            asked.client == client && !is_call && asked.what.key() == key
        })
    }

    /// Ends a request, so that another one about the same watch may follow.
    fn is_over(&mut self, number: usize) {
        let asked = &self.asked[number];
        let about = &mut self.clients[asked.client].about;
        about.retain(|_, its| *its != number);
    }

    pub(super) fn reached_client(&mut self, client: usize, bytes: &Bytes) {
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
                self.answered(client, &publish);
            } else {
                self.was_notified(client, &publish);
            }
        }
    }

    fn answered(&mut self, client: usize, publish: &Publish) {
        let number = publish.correlation_data().and_then(client::number);
        let number = number.filter(|number| *number < self.asked.len());
        let Some(number) = number.filter(|number| self.asked[*number].client == client) else {
            return self.violated("a response to nothing".into());
        };
        let told = match client::told(&self.asked[number].what, publish) {
            Ok(told) => told,
            Err(error) => return self.violated(error),
        };
        self.note(|| format!("client-{client}: hears of {number}: {told:?}"));
        let is_refusal = is_refusal_of(&told);
        self.counts.refused += u64::from(is_refusal);
        let asked = &self.asked[number];
        match &asked.ended {
            // A request that was sent twice may be rejected once.
            Some((_, first)) if *first != told && !is_refusal && !is_refusal_of(first) => {
                let text = format!("{number} is answered with {first:?} and {told:?}");
                if !matches!(told, Told::Watch(_))
                    && !matches!(asked.what, What::Call(Action::Get { .. }))
                {
                    self.violated(text);
                }
                return;
            }
            Some((_, first)) if is_refusal_of(first) && !is_refusal => {}
            Some(_) => return,
            None => {}
        }
        let ended = (self.now_ms, told.clone());
        let asked = &mut self.asked[number];
        asked.ended = Some(ended);
        let (what, was_given_up) = (asked.what.clone(), asked.is_given_up);
        let is_current = self.clients[client].about.get(what.key()) == Some(&number);
        if is_current && !was_given_up {
            let unsettled = self.clients[client].unsettled.get(what.key());
            let is_settled = unsettled.is_none_or(|until_ms| *until_ms < self.now_ms)
                && (matches!(what, What::Watch(_)) || !self.may_come_again(client, number));
            let now = match (&what, told) {
                _ if !is_settled => Watching::Unsure,
                (What::Watch(_), Told::Watch(_)) => {
                    let former = self.clients[client].watches.get(what.key());
                    match former {
                        Some(Watching::On { since_ms }) => Watching::On {
                            since_ms: *since_ms,
                        },
                        _ => Watching::On {
                            since_ms: self.now_ms,
                        },
                    }
                }
                (What::Unwatch(_), Told::Watch(_)) => Watching::Off {
                    since_ms: self.now_ms,
                },
                _ => Watching::Unsure,
            };
            self.watches(client, what.key().clone(), now);
        }
        self.is_over(number);
    }

    fn was_notified(&mut self, client: usize, publish: &Publish) {
        let id = self.clients[client].id.clone();
        let mut pairs = publish.user_properties();
        let timestamp = pairs
            .find(|(name, _)| *name == TIMESTAMP)
            .map(|(_, text)| text);
        let payload = publish.payload();
        let decoded = Notification::decode(&id, publish.topic(), timestamp, &payload);
        match decoded {
            Ok(notification) => {
                self.note(|| format!("client-{client}: {notification:?}"));
                self.counts.notified += 1;
                self.notified.push(Notified {
                    client,
                    notification,
                    at_ms: self.now_ms,
                });
            }
            Err(error) => self.violated(format!("no notification: {error}")),
        }
    }

    /// Handles a packet of a server that reaches the broker.
    pub(super) fn is_published(&mut self, number: u64, packet: &Packet) {
        let Packet::Publish(publish) = packet else {
            return;
        };
        if !publish.topic().starts_with("clients/") {
            self.note(|| {
                let pairs: Vec<_> = publish.user_properties().collect();
                format!("connection {number}: {pairs:?} {:?}", publish.payload())
            });
            // A server that sends `join` does not know all watches.
            if publish
                .user_properties()
                .any(|pair| pair == ("__is", "join"))
                && let Some(index) = self.connections.get(&number).copied()
            {
                self.disturb(index);
                let now_ms = self.now_ms;
                let joins = self.joins.entry(number).or_default();
                joins.retain(|at_ms| at_ms + 1_000 > now_ms);
                joins.push(now_ms);
                if joins.len() > MOST_JOINS {
                    self.violated(format!(
                        "connection {number} asks the keeper again and again"
                    ));
                }
            }
        }
        for client in 0..CLIENTS {
            let key = topic::notification_key(&self.clients[client].id, publish.topic());
            let Some(key) = key else {
                continue;
            };
            if matches!(
                self.clients[client].watches.get(&key),
                None | Some(Watching::Off { .. })
            ) {
                self.violated(format!(
                    "connection {number} notifies client-{client} of {key:?} after it was told that its watch is over"
                ));
            }
        }
    }
}

fn is_refusal_of(told: &Told) -> bool {
    matches!(told, Told::Refused(_) | Told::Unavailable)
}
