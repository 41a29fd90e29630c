//! Notifications and messages on their way to many clients.
use super::message::{Message, Payload};
use super::subscriptions::{MatchedSubscribers, TopicSearch};
use super::{ConnectionId, SessionId};
use bytes::Bytes;
use statestore_protocol::mqtt::{EncodedProperties, PacketId, QoS};
use statestored_connection::memory_budget::Reservation;
use statestored_store::service::NotificationScope;
use std::sync::Arc;

/// A notification or message on its way to its recipients.
#[derive(Debug)]
pub(super) struct Fanout {
    pub(super) content: FanoutContent,
    /// The connection that caused it and waits for its end.
    pub(super) origin: Option<ConnectionId>,
}

#[derive(Debug)]
pub(super) enum FanoutContent {
    Notification(NotificationFanout),
    Message(MessageFanout),
}

#[derive(Debug)]
pub(super) struct NotificationFanout {
    pub(super) clients: Arc<Vec<Arc<str>>>,
    /// The watches of these clients.
    pub(super) scope: NotificationScope,
    pub(super) key: Bytes,
    pub(super) payload: Payload,
    pub(super) properties: Arc<EncodedProperties>,
    /// The write that must be durable before it may leave; 0 for none.
    pub(super) commit_index: u64,
    /// Index of the next client.
    pub(super) next_client: usize,
    /// Reservation for its memory besides the payload, if it waits.
    pub(super) reservation: Option<Reservation>,
}

impl NotificationFanout {
    /// Returns the message to one client, under the client's topic.
    pub(super) fn message(&self, topic: String) -> Message {
        let (properties, payload) = (self.properties.clone(), self.payload.clone());
        Message::with_properties(topic.into(), properties, payload, None)
    }
}

/// A message that a client published, or a will.
#[derive(Debug)]
pub(super) struct MessageFanout {
    pub(super) message: Message,
    pub(super) qos: QoS,
    pub(super) publisher: Option<SessionId>,
    pub(super) search: SearchProgress,
    pub(super) targets: MatchedSubscribers<SessionId>,
    /// Memory of the targets.
    pub(super) target_bytes: usize,
    pub(super) routing: RoutingResult,
    /// Packet identifier of the PUBLISH that is acknowledged when all subscribers have the message.
    pub(super) packet_id: Option<PacketId>,
}

/// Progress of finding the subscribers of a message.
#[derive(Debug)]
pub(super) enum SearchProgress {
    /// No search yet: a message that waits behind others takes no memory for subscribers.
    NotStarted,
    InProgress(TopicSearch<SessionId>),
    Complete,
}

/// Result so far of routing a message.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoutingResult {
    /// Whether there were subscribers.
    pub(super) is_matched: bool,
    /// Whether some of them got it, or will.
    pub(super) is_accepted: bool,
}

impl MessageFanout {
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
            search: SearchProgress::NotStarted,
            target_bytes: 0,
            routing: RoutingResult::default(),
            targets: MatchedSubscribers::default(),
            packet_id,
        }
    }

    pub(super) fn set_targets(&mut self, targets: MatchedSubscribers<SessionId>) {
        self.search = SearchProgress::Complete;
        self.target_bytes = targets.bytes();
        self.targets = targets;
    }

    pub(super) fn topic(&self) -> &str {
        self.message.topic()
    }
}
