//! Delivery of notifications and messages to many clients, a part at a time so that other work has its turn in between.
//!
//! The connection that causes a fan-out waits until all recipients have it: its further packets stay in its socket. So no more of these
//! fan-outs wait than there are connections. Fan-outs that no connection here has caused are bounded by
//! [`MAX_FANOUTS`].
use super::fanout::{
    Fanout, FanoutContent, MessageFanout, NotificationFanout, RoutingResult, SearchProgress,
};
use super::fanout_quantum::FanoutQuantum;
use super::fanout_queue::MAX_FANOUTS;
use super::message::{Delivery, Payload};
use super::session::Session;
use super::subscriptions::TopicSearch;
use super::{ConnectionId, Hub, SessionId, broker};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{EncodedProperties, PacketId, PublishHeader, QoS, ReasonCode};
use statestore_protocol::{property, topic};
use statestored_access::Rights;
use statestored_common::ClockReading;
use statestored_store::service::{ChangeNotification, NotificationScope};
use std::sync::Arc;

/// Visits of filters at once when a message is published. Most messages need fewer.
const INITIAL_VISITS: usize = 500;

/// Memory of the recipients of waiting messages at which no more messages are taken, in bytes. Each of thousands of clients may publish a
/// message to thousands.
const MAX_TARGET_BYTES: usize = 32 * 1024 * 1024;

/// Memory of the recipients up to which a message is always taken, in bytes.
const MIN_TARGET_BYTES: usize = 4 * 1024;

impl Hub {
    /// Returns whether a fan-out or a comparison with watched patterns waits for its turn, or a session waits to be judged after a
    /// [change](Self::begin_access_change).
    pub fn has_work(&self) -> bool {
        !self.fanout_queue.is_empty()
            || self.service.has_waiting_changes()
            || self.is_review_pending()
    }

    /// Does the next part of that work.
    pub fn work(&mut self, now: ClockReading) {
        let (has_judged, has_handed) = (self.review_next(now), self.deliver_next(now));
        let has_compared = self.compare_next(now);
        if has_judged || has_handed || has_compared {
            self.settle(now);
        }
    }

    /// Compares the next waiting changes with the watched patterns, unless too many notifications wait. Returns whether there were any.
    fn compare_next(&mut self, now: ClockReading) -> bool {
        if !self.service.has_waiting_changes() || self.fanout_queue.len() >= MAX_FANOUTS {
            return false;
        }
        let were_many = self.service.has_many_waiting_changes();
        self.notify_watchers(None, now);
        if were_many && !self.service.has_many_waiting_changes() {
            self.resume_blocked(now);
        }
        true
    }

    /// Delivers the next part of the waiting fan-outs. Returns whether there were any.
    fn deliver_next(&mut self, now: ClockReading) -> bool {
        let had_some = !self.fanout_queue.is_empty();
        let was_full = self.fanout_queue.is_full();
        let mut turn = FanoutQuantum::new(true);
        while !turn.is_exhausted()
            && let Some(mut fanout) = self.fanout_queue.take()
        {
            let before = turn.deliveries;
            if self.deliver_fanout(&mut fanout, &mut turn, now) {
                self.fanout_queue.finish(&fanout.content);
                if turn.deliveries == before {
                    // A fan-out without recipients takes time as well.
                    turn.deliveries -= 1;
                }
            } else {
                self.fanout_queue.put_back(fanout);
            }
        }
        if was_full && !self.fanout_queue.is_full() {
            self.resume_blocked(now);
        }
        had_some
    }

    /// Finds the subscribers of a message, delivers it to them, and acknowledges it at the end.
    ///
    /// If they are not found within [`INITIAL_VISITS`], the search starts over in turns of its own, one message after the other.
    pub(super) fn begin_message(
        &mut self,
        mut publication: MessageFanout,
        origin: Option<ConnectionId>,
        now: ClockReading,
    ) {
        let (topic, publisher) = (publication.message.topic(), publication.publisher);
        let mut search = TopicSearch::new();
        let mut visits = INITIAL_VISITS;
        let is_done = self
            .subscriptions
            .search(topic, publisher, &mut search, &mut visits);
        self.service.add_work(self.subscriptions.take_work());
        if !is_done {
            // The search starts over once the message is the first.
            let what = FanoutContent::Message(publication);
            self.begin_fanout(
                Fanout {
                    content: what,
                    origin,
                },
                true,
                now,
            );
            return;
        }
        publication.set_targets(search.into_matches());
        let bytes = publication.target_bytes;
        while bytes > MIN_TARGET_BYTES
            && self
                .fanout_queue
                .target_bytes()
                .is_some_and(|waiting| waiting + bytes > MAX_TARGET_BYTES)
        {
            if let Some(id) = origin {
                self.metrics.dropped_full += 1;
                let why = "too many messages are still to be handed out";
                let reason = ReasonCode::QUOTA_EXCEEDED;
                return self.acknowledge(id, publication.packet_id, reason, why, now);
            }
            // A will has no sender that could send it again.
            self.deliver_next(now);
        }
        // An earlier message of its sender may still wait: from a former connection, or sent before its will.
        let what = FanoutContent::Message(publication);
        let is_behind = self.fanout_queue.must_wait(&what);
        self.begin_fanout(
            Fanout {
                content: what,
                origin,
            },
            is_behind,
            now,
        );
    }

    /// Begins to deliver notifications to the watching clients, each after the one before it.
    pub(super) fn begin_notifications(
        &mut self,
        notifications: impl Iterator<Item = ChangeNotification>,
        commit_index: u64,
        origin: Option<ConnectionId>,
        now: ClockReading,
    ) {
        let mut is_behind = false;
        for notify in notifications {
            is_behind |= self.begin_notification(&notify, commit_index, origin, is_behind, now);
        }
    }

    /// Begins to deliver a notification. Returns whether some of the watching clients have to wait for it.
    #[inline(never)]
    fn begin_notification(
        &mut self,
        notify: &ChangeNotification,
        commit_index: u64,
        origin: Option<ConnectionId>,
        is_behind: bool,
        now: ClockReading,
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
                self.metrics.dropped_too_large += 1;
                tracing::debug!(%error, "a notification cannot be sent");
                return false;
            }
        };
        let notification = NotificationFanout {
            clients: Arc::clone(&notify.clients),
            scope: notify.scope,
            key: Bytes::copy_from_slice(&notify.key),
            payload: Payload::new(payload.freeze(), &self.memory_budget),
            properties,
            commit_index,
            next_client: 0,
            reservation: None,
        };
        let what = FanoutContent::Notification(notification);
        let is_behind = is_behind || self.fanout_queue.must_wait(&what);
        self.begin_fanout(
            Fanout {
                content: what,
                origin,
            },
            is_behind,
            now,
        )
    }

    /// Begins a fan-out, unless it has to wait for another one. Returns whether it waits, or a part of it.
    fn begin_fanout(&mut self, mut fanout: Fanout, is_behind: bool, now: ClockReading) -> bool {
        if !is_behind && self.deliver_fanout(&mut fanout, &mut FanoutQuantum::new(false), now) {
            return false;
        }
        if let Some(connection) = fanout.origin.and_then(|id| self.connections.get_mut(id)) {
            connection.begin_fanout();
        }
        self.fanout_queue.push(fanout, &self.memory_budget);
        true
    }

    /// Delivers a fan-out until the turn is over. Returns whether all recipients have it.
    fn deliver_fanout(
        &mut self,
        fanout: &mut Fanout,
        quantum: &mut FanoutQuantum,
        now: ClockReading,
    ) -> bool {
        let origin = fanout.origin;
        let is_done = match &mut fanout.content {
            FanoutContent::Notification(notification) => {
                self.notify_clients(notification, quantum, now)
            }
            FanoutContent::Message(publication) => self.route_message(publication, quantum, now),
        };
        if !is_done {
            return false;
        }
        if let FanoutContent::Message(publication) = &fanout.content
            && let Some(origin) = origin
        {
            self.acknowledge_routed(origin, publication.packet_id, publication.routing, now);
        }
        if quantum.is_continuation
            && let Some(connection) = origin.and_then(|id| self.connections.get_mut(id))
        {
            connection.end_fanout();
            if let Some(id) = origin {
                self.mark_dirty(id);
            }
        }
        true
    }

    /// Continues to find the subscribers of a message; returns whether all are found.
    fn find_targets(
        &mut self,
        publication: &mut MessageFanout,
        quantum: &mut FanoutQuantum,
    ) -> bool {
        let (topic, publisher) = (publication.message.topic(), publication.publisher);
        let mut search =
            match std::mem::replace(&mut publication.search, SearchProgress::NotStarted) {
                SearchProgress::Complete => {
                    publication.search = SearchProgress::Complete;
                    return true;
                }
                SearchProgress::NotStarted => TopicSearch::new(),
                SearchProgress::InProgress(search) => search,
            };
        let is_done = self
            .subscriptions
            .search(topic, publisher, &mut search, &mut quantum.visits);
        self.subscriptions.take_work();
        if is_done {
            publication.set_targets(search.into_matches());
            self.fanout_queue.count_targets(publication);
        } else {
            publication.search = SearchProgress::InProgress(search);
        }
        is_done
    }

    /// Delivers a message to some of its subscribers. Returns whether all have it.
    fn route_message(
        &mut self,
        publication: &mut MessageFanout,
        quantum: &mut FanoutQuantum,
        now: ClockReading,
    ) -> bool {
        if !self.find_targets(publication, quantum) {
            return false;
        }
        while !quantum.is_exhausted() {
            let Some(target) = publication.targets.next() else {
                return true;
            };
            let delivery = Delivery {
                message: publication.message.clone(),
                identifiers: target.identifiers.into_boxed_slice(),
            };
            quantum.count_delivery(delivery.bytes());
            let at_least_once = target.at_least_once && publication.qos != QoS::AtMostOnce;
            let is_taken = self.deliver(target.subscriber, delivery, at_least_once, 0, now);
            publication.routing.is_matched = true;
            publication.routing.is_accepted |= is_taken;
        }
        publication.targets.is_empty()
    }

    /// Notifies some of the watching clients. Returns whether all are notified.
    fn notify_clients(
        &mut self,
        notification: &mut NotificationFanout,
        quantum: &mut FanoutQuantum,
        now: ClockReading,
    ) -> bool {
        // Its change may have become durable since the last turn.
        notification.commit_index = self.service.pending_index(notification.commit_index);
        while !quantum.is_exhausted() {
            let Some(client) = notification.clients.get(notification.next_client) else {
                return true;
            };
            notification.next_client += 1;
            // The topic of each client has the key in hexadecimal digits, and is made for it alone.
            quantum.count_delivery(notification.payload.len() + 2 * notification.key.len());
            if client.starts_with(broker::BROKER_CLIENT_PREFIX) {
                if !quantum.is_continuation || self.is_still_watching(client, notification, quantum)
                {
                    self.notify_broker_client(client, notification, now);
                }
                continue;
            }
            let Some(session) = self.sessions.find(client) else {
                self.metrics.dropped_no_session += 1;
                continue;
            };
            // The watch may have ended since the change.
            if quantum.is_continuation && !self.is_still_watching(client, notification, quantum) {
                continue;
            }
            let rights = self
                .sessions
                .get(session)
                .and_then(|it| it.rights.as_deref());
            if !may_be_notified(rights, notification) {
                continue;
            }
            let topic = topic::notification(client, &notification.key);
            let identifiers = self.subscription_identifiers(session, &topic).into();
            let steps = self.sessions.get_mut(session).map_or(0, Session::take_work);
            quantum.count_search(steps);
            let message = notification.message(topic);
            let delivery = Delivery {
                message,
                identifiers,
            };
            if let Some(connection) = self.connection_rejecting_size(session, &delivery, now) {
                self.metrics.dropped_too_large += 1;
                // By MQTT, the server would go on as if it had sent it. But an observer would then take an outdated state for the last one,
                // for ever. A client that reconnects knows that it has missed something.
                let why = "a notification of a watched key exceeds the Maximum Packet Size of this client";
                self.disconnect_with(connection, ReasonCode::PACKET_TOO_LARGE, why, now);
                continue;
            }
            self.metrics.notifications += 1;
            self.deliver(session, delivery, true, notification.commit_index, now);
        }
        notification.next_client >= notification.clients.len()
    }

    fn is_still_watching(
        &self,
        client: &str,
        notification: &NotificationFanout,
        quantum: &mut FanoutQuantum,
    ) -> bool {
        let mut steps = 0;
        let (key, scope) = (&notification.key, notification.scope);
        let is_watching = self.service.is_notified(client, key, scope, &mut steps);
        quantum.count_search(steps);
        is_watching
    }

    /// Returns the connection of a session whose client does not accept a packet of this size.
    fn connection_rejecting_size(
        &self,
        session: SessionId,
        delivery: &Delivery,
        now: ClockReading,
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
        routed: RoutingResult,
        now: ClockReading,
    ) {
        let (reason, why) = if !routed.is_matched {
            (ReasonCode::NO_MATCHING_SUBSCRIBERS, "")
        } else if !routed.is_accepted {
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

/// Returns whether a client with these rights may be notified. A watch of a pattern gives no right to any key; a client that watches a key
/// itself may read it.
fn may_be_notified(rights: Option<&Rights>, notification: &NotificationFanout) -> bool {
    notification.scope != NotificationScope::Matching
        || rights.is_none_or(|rights| rights.may_read(&notification.key))
}
