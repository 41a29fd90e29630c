//! Delivery of notifications and messages to many clients, a part at a time so that other work has its turn in between.
//!
//! The connection that causes a fan-out waits until all recipients have it: its further packets stay in its socket. So no more of these
//! fan-outs wait than there are connections. Fan-outs that no connection here has caused are bounded by [`MOST_FANOUTS`].
use super::delivery::Routed;
use super::message::{Delivery, Message, Payload};
use super::session::Session;
use super::subscriptions::{Matches, Search, VISIT_STEPS};
use super::{ConnectionId, Hub, SessionId, broker};
use crate::budget::Charge;
use crate::clock::Now;
use crate::service::Notify;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{EncodedProperties, PacketId, PublishHeader, QoS, ReasonCode};
use statestore_protocol::{property, topic};
use std::sync::Arc;

/// Number of waiting fan-outs at which no more are taken over that no connection here has caused: expiry, and changes by others.
pub(super) const MOST_FANOUTS: usize = 1024;

/// Maximum number of deliveries of a turn.
const TURN_DELIVERIES: usize = 64;

/// Maximum number of bytes of payload, and of topics of notifications, that a turn copies; the last delivery may exceed it.
const TURN_PAYLOAD: usize = 256 * 1024;

/// Visits of filters at once when a message is published. Most messages need fewer.
const FIRST_VISITS: usize = 500;

/// Visits of filters of a turn for a message that needs more. The turn does nothing else.
const TURN_VISITS: usize = 2_000;

/// Memory of the recipients of waiting messages at which no more messages are taken, in bytes. Each of thousands of clients may publish a
/// message to thousands.
const MOST_TARGET_BYTES: usize = 32 * 1024 * 1024;

/// Memory of the recipients up to which a message is always taken, in bytes.
const FEW_TARGET_BYTES: usize = 4 * 1024;

/// A notification or message on its way to its recipients.
#[derive(Debug)]
pub(super) struct Fanout {
    pub(super) what: What,
    /// The connection that caused it and waits for its end.
    origin: Option<ConnectionId>,
}

#[derive(Debug)]
pub(super) enum What {
    Notification(Notification),
    Message(Publication),
}

#[derive(Debug)]
pub(super) struct Notification {
    pub(super) clients: Arc<Vec<Arc<str>>>,
    pub(super) key: Bytes,
    payload: Payload,
    properties: Arc<EncodedProperties>,
    /// The write that must be durable before it may leave; 0 for none.
    pub(super) hold: u64,
    /// Index of the next client.
    next: usize,
    /// Reservation for its memory besides the payload, if it waits.
    pub(super) waiting: Option<Charge>,
}

impl Notification {
    /// Returns the message to one client, under the client's topic.
    pub(super) fn message(&self, topic: String) -> Message {
        let (properties, payload) = (self.properties.clone(), self.payload.clone());
        Message::to(topic.into(), properties, payload, None)
    }
}

/// A message that a client published, or a will.
#[derive(Debug)]
pub(super) struct Publication {
    message: Message,
    qos: QoS,
    publisher: Option<SessionId>,
    search: Searched,
    targets: Matches<SessionId>,
    /// Memory of the targets.
    pub(super) target_bytes: usize,
    routed: Routed,
    /// Packet identifier of the PUBLISH that is acknowledged when all subscribers have the message.
    packet_id: Option<PacketId>,
}

/// Progress of finding the subscribers of a message.
#[derive(Debug)]
enum Searched {
    /// No search yet: a message that waits behind others takes no memory for subscribers.
    Unsearched,
    Partly(Search<SessionId>),
    Wholly,
}

impl Publication {
    /// Creates a message from this session. `packet_id` is that of the PUBLISH, if it is to be acknowledged.
    pub(super) fn new(
        message: Message,
        qos: QoS,
        publisher: Option<SessionId>,
        packet_id: Option<PacketId>,
    ) -> Self {
        Self {
            message,
            qos,
            publisher,
            search: Searched::Unsearched,
            target_bytes: 0,
            routed: Routed::default(),
            targets: Matches::default(),
            packet_id,
        }
    }

    fn set_targets(&mut self, targets: Matches<SessionId>) {
        self.search = Searched::Wholly;
        self.target_bytes = targets.bytes();
        self.targets = targets;
    }

    pub(super) fn topic(&self) -> &str {
        self.message.topic()
    }
}

/// The work that a turn may still do.
#[derive(Debug)]
struct Turn {
    deliveries: usize,
    payload: usize,
    /// Visits of filters in search of subscribers.
    visits: usize,
    /// Whether the turn continues work that has waited.
    is_later: bool,
}

impl Turn {
    fn new(is_later: bool) -> Self {
        Self {
            deliveries: TURN_DELIVERIES,
            payload: TURN_PAYLOAD,
            visits: TURN_VISITS,
            is_later,
        }
    }

    fn is_over(&self) -> bool {
        self.deliveries == 0 || self.payload == 0 || self.visits == 0
    }

    /// Counts the search of one client's filters, in the steps of [`Session::take_work`].
    fn searched(&mut self, steps: usize) {
        self.visits = self.visits.saturating_sub(steps / VISIT_STEPS);
    }

    fn delivered(&mut self, payload: usize) {
        self.deliveries -= 1;
        self.payload = self.payload.saturating_sub(payload);
    }
}

impl Hub {
    /// Returns whether a fan-out waits for its turn, or a session waits to be judged after a [change](Self::begin_change).
    pub fn has_work(&self) -> bool {
        !self.fanouts.is_empty() || self.is_changing()
    }

    /// Does the next part of that work.
    pub fn work(&mut self, now: Now) {
        let (has_judged, has_handed) = (self.judge_next(now), self.hand_out_next(now));
        if has_judged || has_handed {
            self.settle(now);
        }
    }

    /// Delivers the next part of the waiting fan-outs. Returns whether there were any.
    fn hand_out_next(&mut self, now: Now) -> bool {
        let had_some = !self.fanouts.is_empty();
        let was_full = self.fanouts.is_full();
        let mut turn = Turn::new(true);
        while !turn.is_over()
            && let Some(mut fanout) = self.fanouts.take()
        {
            let before = turn.deliveries;
            if self.hand_out(&mut fanout, &mut turn, now) {
                self.fanouts.ended(&fanout.what);
                if turn.deliveries == before {
                    // A fan-out without recipients takes time as well.
                    turn.deliveries -= 1;
                }
            } else {
                self.fanouts.put_back(fanout);
            }
        }
        if was_full && !self.fanouts.is_full() {
            self.end_waiting(now);
        }
        had_some
    }

    /// Finds the subscribers of a message, delivers it to them, and acknowledges it at the end.
    ///
    /// If they are not found within [`FIRST_VISITS`], the search starts over in turns of its own, one message after the other.
    pub(super) fn begin_message(
        &mut self,
        mut publication: Publication,
        origin: Option<ConnectionId>,
        now: Now,
    ) {
        let (topic, publisher) = (publication.message.topic(), publication.publisher);
        let mut search = Search::new();
        let mut visits = FIRST_VISITS;
        let is_done = self
            .subscriptions
            .search(topic, publisher, &mut search, &mut visits);
        self.service.worked(self.subscriptions.take_work());
        if !is_done {
            // The search starts over once the message is the first.
            let what = What::Message(publication);
            self.begin(Fanout { what, origin }, true, now);
            return;
        }
        publication.set_targets(search.into_matches());
        let bytes = publication.target_bytes;
        while bytes > FEW_TARGET_BYTES
            && self
                .fanouts
                .target_bytes()
                .is_some_and(|waiting| waiting + bytes > MOST_TARGET_BYTES)
        {
            if let Some(id) = origin {
                self.statistics.dropped_full += 1;
                let why = "too many messages are still to be handed out";
                let reason = ReasonCode::QUOTA_EXCEEDED;
                return self.acknowledge(id, publication.packet_id, reason, why, now);
            }
            // A will has no sender that could send it again.
            self.hand_out_next(now);
        }
        // An earlier message of its sender may still wait: from a former connection, or sent before its will.
        let what = What::Message(publication);
        let is_behind = self.fanouts.is_before(&what);
        self.begin(Fanout { what, origin }, is_behind, now);
    }

    /// Begins to deliver notifications to the watching clients, each after the one before it.
    pub(super) fn begin_notifications(
        &mut self,
        notifications: impl Iterator<Item = Notify>,
        hold: u64,
        origin: Option<ConnectionId>,
        now: Now,
    ) {
        let mut is_behind = false;
        for notify in notifications {
            is_behind |= self.begin_notification(&notify, hold, origin, is_behind, now);
        }
    }

    /// Begins to deliver a notification. Returns whether some of the watching clients have to wait for it.
    #[inline(never)]
    fn begin_notification(
        &mut self,
        notify: &Notify,
        hold: u64,
        origin: Option<ConnectionId>,
        is_behind: bool,
        now: Now,
    ) -> bool {
        let mut payload = BytesMut::with_capacity(notify.event.encoded_len());
        notify.event.encode(&mut payload);
        let header = PublishHeader {
            content_type: Some(property::CONTENT_TYPE),
            user_properties: &[
                (property::TIMESTAMP, &notify.version.to_string()),
                (property::PROTOCOL_VERSION, property::PROTOCOL_VERSION_VALUE),
            ],
            ..PublishHeader::default()
        };
        let properties = match EncodedProperties::new(&header) {
            Ok(properties) => Arc::new(properties),
            Err(error) => {
                self.statistics.dropped_too_large += 1;
                tracing::debug!(%error, "a notification cannot be sent");
                return false;
            }
        };
        let notification = Notification {
            clients: Arc::clone(&notify.clients),
            key: Bytes::copy_from_slice(&notify.key),
            payload: Payload::new(payload.freeze(), &self.gauge),
            properties,
            hold,
            next: 0,
            waiting: None,
        };
        let what = What::Notification(notification);
        let is_behind = is_behind || self.fanouts.is_before(&what);
        self.begin(Fanout { what, origin }, is_behind, now)
    }

    /// Begins a fan-out, unless it has to wait for another one. Returns whether it waits, or a part of it.
    fn begin(&mut self, mut fanout: Fanout, is_behind: bool, now: Now) -> bool {
        if !is_behind && self.hand_out(&mut fanout, &mut Turn::new(false), now) {
            return false;
        }
        if let Some(connection) = fanout.origin.and_then(|id| self.connections.get_mut(id)) {
            connection.hand_out_began();
        }
        self.fanouts.push(fanout, &self.gauge);
        true
    }

    /// Delivers a fan-out until the turn is over. Returns whether all recipients have it.
    fn hand_out(&mut self, fanout: &mut Fanout, turn: &mut Turn, now: Now) -> bool {
        let origin = fanout.origin;
        let is_done = match &mut fanout.what {
            What::Notification(notification) => self.notify(notification, turn, now),
            What::Message(publication) => self.route(publication, turn, now),
        };
        if !is_done {
            return false;
        }
        if let What::Message(publication) = &fanout.what
            && let Some(origin) = origin
        {
            self.acknowledge_routed(origin, publication.packet_id, publication.routed, now);
        }
        if turn.is_later
            && let Some(connection) = origin.and_then(|id| self.connections.get_mut(id))
        {
            connection.hand_out_ended();
            if let Some(id) = origin {
                self.mark_dirty(id);
            }
        }
        true
    }

    /// Continues to find the subscribers of a message; returns whether all are found.
    fn find_targets(&mut self, publication: &mut Publication, turn: &mut Turn) -> bool {
        let (topic, publisher) = (publication.message.topic(), publication.publisher);
        let mut search = match std::mem::replace(&mut publication.search, Searched::Unsearched) {
            Searched::Wholly => {
                publication.search = Searched::Wholly;
                return true;
            }
            Searched::Unsearched => Search::new(),
            Searched::Partly(search) => search,
        };
        let is_done = self
            .subscriptions
            .search(topic, publisher, &mut search, &mut turn.visits);
        self.subscriptions.take_work();
        if is_done {
            publication.set_targets(search.into_matches());
            self.fanouts.found_targets(publication);
        } else {
            publication.search = Searched::Partly(search);
        }
        is_done
    }

    /// Delivers a message to some of its subscribers. Returns whether all have it.
    fn route(&mut self, publication: &mut Publication, turn: &mut Turn, now: Now) -> bool {
        if !self.find_targets(publication, turn) {
            return false;
        }
        while !turn.is_over() {
            let Some(target) = publication.targets.next() else {
                return true;
            };
            let delivery = Delivery {
                message: publication.message.clone(),
                identifiers: target.identifiers.into_boxed_slice(),
            };
            turn.delivered(delivery.bytes());
            let at_least_once = target.at_least_once && publication.qos != QoS::AtMostOnce;
            let is_taken = self.deliver(target.subscriber, delivery, at_least_once, 0, now);
            publication.routed.is_matched = true;
            publication.routed.is_taken |= is_taken;
        }
        publication.targets.is_empty()
    }

    /// Notifies some of the watching clients. Returns whether all are notified.
    fn notify(&mut self, notification: &mut Notification, turn: &mut Turn, now: Now) -> bool {
        // Its change may have become durable since the last turn.
        notification.hold = self.service.pending(notification.hold);
        while !turn.is_over() {
            let Some(client) = notification.clients.get(notification.next) else {
                return true;
            };
            notification.next += 1;
            // The topic of each client has the key in hexadecimal digits, and is made for it alone.
            turn.delivered(notification.payload.len() + 2 * notification.key.len());
            if client.starts_with(broker::BEHIND) {
                if !turn.is_later || self.service.is_watching(client, &notification.key) {
                    self.notify_behind_broker(client, notification, now);
                }
                continue;
            }
            let Some(session) = self.sessions.find(client) else {
                self.statistics.dropped_no_session += 1;
                continue;
            };
            // The watch may have ended since the change.
            if turn.is_later && !self.service.is_watching(client, &notification.key) {
                continue;
            }
            let topic = topic::notification(client, &notification.key);
            let identifiers = self.identifiers(session, &topic).into();
            let steps = self.sessions.get_mut(session).map_or(0, Session::take_work);
            turn.searched(steps);
            let message = notification.message(topic);
            let delivery = Delivery {
                message,
                identifiers,
            };
            if let Some(connection) = self.takes_no_such_packet(session, &delivery, now) {
                self.statistics.dropped_too_large += 1;
                // By MQTT, the server would go on as if it had sent it. But an observer would then take an outdated state for the last one,
                // for ever. A client that reconnects knows that it has missed something.
                let why = "a notification of a watched key exceeds the Maximum Packet Size of this client";
                self.fail(connection, ReasonCode::PACKET_TOO_LARGE, why, now);
                continue;
            }
            self.statistics.notifications += 1;
            self.deliver(session, delivery, true, notification.hold, now);
        }
        notification.next >= notification.clients.len()
    }

    /// Returns the connection of a session whose client does not accept a packet of this size.
    fn takes_no_such_packet(
        &self,
        session: SessionId,
        delivery: &Delivery,
        now: Now,
    ) -> Option<ConnectionId> {
        let id = self.sessions.get(session)?.connection?;
        let max_packet_bytes = self.connections.get(id)?.max_packet_bytes();
        (!delivery.fits(max_packet_bytes, now.mono_ms)).then_some(id)
    }

    /// Acknowledges a message that was handed to its subscribers.
    fn acknowledge_routed(
        &mut self,
        id: ConnectionId,
        packet_id: Option<PacketId>,
        routed: Routed,
        now: Now,
    ) {
        let (reason, why) = if !routed.is_matched {
            (ReasonCode::NO_MATCHING_SUBSCRIBERS, "")
        } else if !routed.is_taken {
            (
                ReasonCode::QUOTA_EXCEEDED,
                "no subscriber can take the message now",
            )
        } else {
            (ReasonCode::SUCCESS, "")
        };
        self.acknowledge(id, packet_id, reason, why, now);
    }
}
