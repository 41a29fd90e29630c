//! What is kept for a client beyond its connection (MQTT 5, section 4.1). Sessions live in memory.
use super::limits::FrontLimits;
use super::message::Delivery;
use super::subscriptions::{Subscription, SubscriptionTree};
use super::timers::Timer;
use super::{ConnectionId, SessionId};
use slotmap::SlotMap;
use statestore::mqtt::{PacketId, PacketIds, Will, Window};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A PUBLISH in flight, as far as it is needed to send it again.
#[derive(Debug)]
pub(crate) enum InFlight {
    /// The session ends with the connection, so that it is never sent again.
    Once,
    /// The whole packet.
    Packet {
        packet: Box<[u8]>,
        /// The write that must be durable before it may leave; 0 for none.
        hold: u64,
    },
    /// A message, encoded anew each time since its message expiry goes down.
    Delivery(Queued),
}

impl InFlight {
    /// Bytes that it takes until it is acknowledged.
    fn bytes(&self) -> usize {
        match self {
            Self::Once => 0,
            Self::Packet { packet, .. } => packet.len() + size_of::<Self>(),
            Self::Delivery(queued) => queued.delivery.bytes(),
        }
    }
}

/// A message that waits for the connection, the Receive Maximum or the output buffer.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) delivery: Delivery,
    /// The write that must be durable before this may leave; 0 for none.
    pub(crate) hold: u64,
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<str>,
    /// Whose it is, where users are known; nobody else may continue it.
    pub(crate) user: Option<Arc<str>>,
    pub(crate) connection: Option<ConnectionId>,
    /// Seconds that it outlives its connection; `u32::MAX` is for ever.
    pub(crate) expiry_s: u32,
    pub(crate) subscriptions: BTreeMap<Box<str>, Subscription>,
    /// Those of the subscriptions that have an identifier, to be found by topic.
    pub(crate) identified: SubscriptionTree<()>,
    pub(crate) window: Window<InFlight>,
    packet_ids: PacketIds,
    queue: VecDeque<Queued>,
    /// Bytes that wait in the queue, or are in flight and may have to be sent again.
    held_bytes: usize,
    /// Waits for its delay since the connection was lost, until this time.
    pub(crate) will: Option<(u64, Will)>,
    /// When it ends, while it has no connection.
    pub(crate) ends_ms: Option<u64>,
    pub(crate) timer: Timer,
}

impl Session {
    /// A new session with a connection.
    pub(crate) fn new(
        client: Arc<str>,
        user: Option<Arc<str>>,
        connection: ConnectionId,
        receive_maximum: u16,
    ) -> Self {
        Self {
            client,
            user,
            connection: Some(connection),
            expiry_s: 0,
            subscriptions: BTreeMap::new(),
            identified: SubscriptionTree::default(),
            window: Window::new(receive_maximum),
            packet_ids: PacketIds::new(),
            queue: VecDeque::new(),
            held_bytes: 0,
            will: None,
            ends_ms: None,
            timer: Timer::default(),
        }
    }

    /// Whether a QoS 1 message may go out at once without overtaking another one.
    pub(crate) fn may_send_now(&self) -> bool {
        self.queue.is_empty() && self.window.has_room()
    }

    /// Whether something waits to be sent and the Receive Maximum lets it.
    pub(crate) fn may_send_waiting(&self) -> bool {
        !self.queue.is_empty() && self.window.has_room()
    }

    /// Bytes that it holds for messages.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether it may take one more message, given the bytes that all sessions hold together. A message that goes
    /// out at once and is never sent again takes no room.
    pub(crate) fn has_room(&self, limits: &FrontLimits, total_bytes: usize) -> bool {
        (self.is_ephemeral() && self.queue.is_empty())
            || (self.queue.len() < limits.max_queued_messages
                && self.held_bytes < limits.max_queued_bytes
                && total_bytes < limits.max_total_queued_bytes)
    }

    /// Puts a message at the end of the queue.
    pub(crate) fn enqueue(&mut self, queued: Queued) {
        self.held_bytes += queued.delivery.bytes();
        self.queue.push_back(queued);
    }

    /// Takes the message at the head of the queue.
    pub(crate) fn dequeue(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        self.held_bytes -= queued.delivery.bytes();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        Some(queued)
    }

    /// A packet identifier for a message that is about to be sent, to be [entered](Self::sent) or
    /// [given back](Self::not_sent).
    pub(crate) fn packet_id(&mut self) -> Option<PacketId> {
        self.packet_ids.allocate()
    }

    /// A message was sent, for which the window had room.
    pub(crate) fn sent(&mut self, id: PacketId, in_flight: InFlight) {
        let bytes = in_flight.bytes();
        match self.window.push(id, in_flight) {
            Ok(()) => self.held_bytes += bytes,
            Err(_) => self.not_sent(id),
        }
    }

    /// The message was not sent after all.
    pub(crate) fn not_sent(&mut self, id: PacketId) {
        self.packet_ids.release(id);
    }

    /// A message was acknowledged, or will never be.
    pub(crate) fn finish(&mut self, id: PacketId) {
        if let Some(in_flight) = self.window.acknowledge(id) {
            self.held_bytes -= in_flight.bytes();
            self.packet_ids.release(id);
        }
    }

    /// Whether the session ends with its connection.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.expiry_s == 0
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: SlotMap<SessionId, Session>,
    by_client: HashMap<Arc<str>, SessionId>,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn find(&self, client: &str) -> Option<SessionId> {
        self.by_client.get(client).copied()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(id)
    }

    /// Adds a session of a client that has none.
    pub(crate) fn insert(&mut self, session: Session) -> SessionId {
        let client = Arc::clone(&session.client);
        let id = self.by_id.insert(session);
        self.by_client.insert(client, id);
        id
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.by_id.remove(id)?;
        self.by_client.remove(&session.client);
        Some(session)
    }
}
