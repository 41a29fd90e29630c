//! State that is kept for a client beyond its connection (MQTT 5, section 4.1). Sessions live in memory.
use super::limits::HubLimits;
use super::message::{CachedReplyRef, Delivery, QueuedMessage};
use super::subscriptions::{Subscription, SubscriptionTree, is_exact};
use super::{ConnectionId, SessionId};
use slotmap::SlotMap;
use statestore_protocol::mqtt::{PacketId, PacketIds, Will, Window};
use statestored_access::{Login, Owner, Principal, Rights, VerifiedCredential};
use statestored_connection::memory_budget::{MemoryBudget, Reservation};
use statestored_connection::timer_queue::Timer;
use statestored_connection::will_bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Memory of a session without its content: itself, its places in the maps and timers, and what changes too often to be counted at every
/// step.
const SESSION_BYTES: usize = 2048;
/// Bytes by which the counted memory of a session may be wrong.
const SLACK_BYTES: usize = 1024;
/// Memory of a place in the window, used or not.
const WINDOW_SLOT_BYTES: usize = 96;
/// Number of places for which the window of a session with nothing in flight keeps room.
const MIN_WINDOW_SLOTS: u16 = 32;

/// A PUBLISH in flight, as far as it is needed to send it again.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) content: InFlightContent,
    /// The write that must be durable before it may leave; 0 for none.
    pub(crate) commit_index: u64,
    pub(crate) cached_reply: Option<CachedReplyRef>,
}

#[derive(Debug)]
pub(crate) enum InFlightContent {
    /// No content: the session ends with the connection, so the message is never sent again.
    NotRetained,
    /// The whole packet.
    Packet(Vec<u8>),
    /// A message, encoded anew each time since its message expiry goes down.
    Delivery(Delivery),
}

impl InFlightContent {
    /// Returns the bytes that it takes until it is acknowledged, as if nothing was shared.
    fn bytes(&self) -> usize {
        match self {
            Self::NotRetained => 0,
            Self::Packet(packet) => packet.capacity() + size_of::<Self>(),
            Self::Delivery(delivery) => delivery.bytes(),
        }
    }

    /// Returns the bytes that it takes besides a shared message.
    fn own_bytes(&self) -> usize {
        match self {
            Self::NotRetained => 0,
            Self::Packet(packet) => packet.capacity(),
            Self::Delivery(delivery) => delivery.own_bytes(),
        }
    }
}

/// A client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<str>,
    /// Owner of the session. No other principal may continue it. [`Authenticator`](statestored_access::Authenticator) decides whether another
    /// one may end it.
    pub(crate) principal: Principal,
    /// Proof with which its present or last client was accepted.
    pub(crate) proof: VerifiedCredential,
    /// Rights of the session; `None` allows everything.
    pub(crate) rights: Option<Arc<Rights>>,
    /// Whether users or policy have changed, and the session has not been judged since.
    pub(crate) needs_review: bool,
    pub(crate) connection: Option<ConnectionId>,
    /// Seconds that the session outlives its connection; `u32::MAX` is for ever.
    pub(crate) expiry_s: u32,
    pub(crate) subscriptions: BTreeMap<Box<str>, Subscription>,
    /// The subscriptions that have an identifier, to be found by topic.
    pub(super) identified: Option<Box<SubscriptionTree<()>>>,
    pub(crate) window: Window<InFlight>,
    packet_ids: PacketIds,
    queue: VecDeque<QueuedMessage>,
    /// Bytes that wait in the queue, or are in flight and may have to be sent again, as if no message was shared.
    held_bytes: usize,
    /// The same bytes without shared messages.
    own_held_bytes: usize,
    /// Bytes of the topic filters.
    pub(crate) filter_text_bytes: usize,
    /// Memory of the subscriptions.
    pub(crate) filter_bytes: usize,
    /// Number of pending requests, and their bytes.
    pending_requests: usize,
    pending_bytes: usize,
    /// The highest packet identifier since nothing was in flight.
    highest_packet_id: u16,
    reservation: Reservation,
    /// Bytes that count against the limit of its user, roughly.
    user_reservation: Option<Reservation>,
    /// The will, which waits for its delay until this time since the connection was lost.
    pub(crate) will: Option<(u64, Box<Will>)>,
    /// Time at which the session ends, while it has no connection.
    pub(crate) expires_ms: Option<u64>,
    pub(crate) timer: Timer,
    /// Rank of the session, and the time since which it has no connection.
    offline: Option<(EvictionCost, u64)>,
}

/// Loss that the end of a session without a connection would be, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionCost {
    /// No loss.
    Nothing,
    /// Subscriptions, or a will that is not due yet.
    Subscriptions,
    /// Messages.
    Messages,
}

impl Session {
    /// Creates a session with a connection.
    pub(crate) fn new(
        client: Arc<str>,
        login: Login,
        connection: ConnectionId,
        receive_maximum: u16,
        budget: &MemoryBudget,
    ) -> Self {
        let reservation = Reservation::new(budget, SESSION_BYTES + client.len());
        Self {
            client,
            principal: login.principal,
            proof: login.credential,
            rights: None,
            needs_review: false,
            connection: Some(connection),
            expiry_s: 0,
            subscriptions: BTreeMap::new(),
            identified: None,
            window: Window::new(receive_maximum),
            packet_ids: PacketIds::new(),
            queue: VecDeque::new(),
            held_bytes: 0,
            own_held_bytes: 0,
            filter_text_bytes: 0,
            filter_bytes: 0,
            pending_requests: 0,
            pending_bytes: 0,
            highest_packet_id: 0,
            reservation,
            user_reservation: None,
            will: None,
            expires_ms: None,
            timer: Timer::default(),
            offline: None,
        }
    }

    /// Returns the bytes that the session takes besides shared messages.
    pub(crate) fn own_bytes(&self) -> usize {
        let will = self.will.as_ref().map_or(0, |(_, will)| will_bytes(will));
        SESSION_BYTES
            + self.client.len()
            + self.own_held_bytes
            + self.filter_bytes
            + usize::from(self.highest_packet_id) * WINDOW_SLOT_BYTES
            + will
    }

    /// Counts the bytes that the session takes now.
    pub(crate) fn update_reservation(&mut self) {
        let bytes = self.own_bytes();
        self.reservation.resize_with_slack(bytes, SLACK_BYTES);
        if let Some(held) = &mut self.user_reservation {
            held.resize_with_slack(self.held_bytes + self.pending_bytes, SLACK_BYTES);
        }
    }

    /// Returns whether a QoS 1 message may go out at once without overtaking another one.
    pub(crate) fn may_send_now(&self) -> bool {
        self.queue.is_empty() && self.window.has_capacity()
    }

    /// Returns whether a message waits to be sent, for the first time or again.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty() || self.window.has_resend()
    }

    /// Returns the bytes of the next message to be sent, if the Receive Maximum has room for one.
    pub(crate) fn next_bytes(&self) -> Option<usize> {
        let next = self.queue.front().filter(|_| self.window.has_capacity())?;
        Some(next.delivery.bytes())
    }

    /// Returns the bytes held for messages and pending requests, as if nothing of them was shared.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.pending_bytes
    }

    /// Reserves room for the answer to a pending request of this size.
    pub(crate) fn reserve_response(&mut self, bytes: usize) {
        self.pending_requests += 1;
        self.pending_bytes += bytes;
    }

    /// Releases the room of a request whose outcome has arrived.
    pub(crate) fn release_response(&mut self, bytes: usize) {
        self.pending_requests -= 1;
        self.pending_bytes -= bytes;
    }

    /// Returns whether one more message may be taken. A message that goes out at once and is never sent again takes no room.
    pub(crate) fn has_capacity(&self, limits: &HubLimits) -> bool {
        (self.is_ephemeral() && self.queue.is_empty())
            || (self.queue.len() + self.pending_requests < limits.max_queued_messages
                && self.held_bytes() < limits.max_queued_bytes
                && !self.exceeds_user_limit(limits))
    }

    fn exceeds_user_limit(&self, limits: &HubLimits) -> bool {
        let most = limits.users.get(&self.principal).held_bytes;
        most.zip(self.user_reservation.as_ref())
            .is_some_and(|(most, held)| held.budget_bytes() >= most)
    }

    /// Puts a message at the end of the queue.
    pub(crate) fn enqueue(&mut self, queued: QueuedMessage) {
        self.held_bytes += queued.delivery.bytes();
        self.own_held_bytes += queued.delivery.own_bytes();
        self.queue.push_back(queued);
        self.update_reservation();
    }

    /// Takes the message at the head of the queue.
    pub(crate) fn dequeue(&mut self) -> Option<QueuedMessage> {
        let queued = self.queue.pop_front()?;
        self.held_bytes -= queued.delivery.bytes();
        self.own_held_bytes -= queued.delivery.own_bytes();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        self.update_reservation();
        Some(queued)
    }

    /// Returns a packet identifier for a message that is about to be sent, to be [entered](Self::record_sent) or [given back](Self::return_packet_id).
    pub(crate) fn packet_id(&mut self) -> Option<PacketId> {
        self.packet_ids.allocate()
    }

    /// Enters a message that was sent, for which the window had room.
    pub(crate) fn record_sent(&mut self, id: PacketId, in_flight: InFlight) {
        let (bytes, own_bytes) = (in_flight.content.bytes(), in_flight.content.own_bytes());
        match self.window.push(id, in_flight) {
            Ok(()) => {
                self.held_bytes += bytes;
                self.own_held_bytes += own_bytes;
                self.highest_packet_id = self.highest_packet_id.max(id.get());
                self.update_reservation();
            }
            Err(_) => self.return_packet_id(id),
        }
    }

    /// Gives back the packet identifier of a message that was not sent after all.
    pub(crate) fn return_packet_id(&mut self, id: PacketId) {
        self.packet_ids.release(id);
    }

    /// Removes a message that was acknowledged, or never will be.
    pub(crate) fn finish(&mut self, id: PacketId) -> Option<InFlight> {
        let in_flight = self.window.acknowledge(id)?;
        self.held_bytes -= in_flight.content.bytes();
        self.own_held_bytes -= in_flight.content.own_bytes();
        self.packet_ids.release(id);
        if self.window.is_empty() && self.highest_packet_id > MIN_WINDOW_SLOTS {
            self.window = Window::new(self.window.limit());
            self.packet_ids = PacketIds::new();
            self.highest_packet_id = 0;
        }
        self.update_reservation();
        Some(in_flight)
    }

    fn eviction_cost(&self) -> EvictionCost {
        if !self.queue.is_empty() || !self.window.is_empty() {
            EvictionCost::Messages
        } else if !self.subscriptions.is_empty() || self.will.is_some() {
            EvictionCost::Subscriptions
        } else {
            EvictionCost::Nothing
        }
    }

    /// Returns the number of subscriptions to filters with wildcards.
    fn wildcard_count(&self) -> usize {
        let filters = self.subscriptions.keys();
        filters.filter(|filter| !is_exact(filter)).count()
    }

    /// Returns whether the session ends with its connection.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.expiry_s == 0
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: SlotMap<SessionId, Session>,
    by_client: HashMap<Arc<str>, SessionId>,
    /// Sessions by their owner.
    by_owner: HashMap<Owner, OwnerSessions>,
}

/// The sessions of one owner.
#[derive(Debug, Default)]
struct OwnerSessions {
    count: usize,
    /// Bytes that the sessions hold together.
    memory_budget: MemoryBudget,
    /// Subscriptions to filters with wildcards.
    wildcards: usize,
    /// Sessions without a connection: the least missed first, and of these the one that is alone for longest.
    offline: BTreeSet<(EvictionCost, u64, SessionId)>,
}

/// Amounts that the sessions of one owner use together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnerUsage {
    pub(crate) sessions: usize,
    pub(crate) connections: usize,
    pub(crate) wildcards: usize,
    pub(crate) held_bytes: usize,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of sessions of a principal, and how many of them have a connection.
    pub(crate) fn counts_of(&self, principal: &Principal) -> (usize, usize) {
        self.by_owner
            .get(principal.owner())
            .map_or((0, 0), |owned| {
                (owned.count, owned.count - owned.offline.len())
            })
    }

    /// Returns the amounts that the sessions of a principal use.
    pub(crate) fn usage_of(&self, principal: &Principal) -> OwnerUsage {
        let owned = self.by_owner.get(principal.owner());
        let usage = owned.map(|owned| OwnerUsage {
            sessions: owned.count,
            connections: owned.count - owned.offline.len(),
            wildcards: owned.wildcards,
            held_bytes: owned.memory_budget.bytes(),
        });
        usage.unwrap_or_default()
    }

    /// Returns the session to end when a principal has too many: the least missed one without a connection.
    pub(crate) fn cheapest_to_evict_of(&self, principal: &Principal) -> Option<SessionId> {
        let owned = self.by_owner.get(principal.owner())?;
        Some(owned.offline.first()?.2)
    }

    /// Returns the number of subscriptions to filters with wildcards that the owner of a session has.
    pub(crate) fn wildcards_of_owner(&self, id: SessionId) -> usize {
        let session = self.all.get(id);
        let owned = session.and_then(|it| self.by_owner.get(it.principal.owner()));
        owned.map_or(0, |owned| owned.wildcards)
    }

    /// Counts a subscription that a session has now, or has no more.
    pub(crate) fn count_subscription(&mut self, id: SessionId, filter: &str, is_there: bool) {
        let Some(session) = self.all.get(id) else {
            return;
        };
        if !is_exact(filter)
            && let Some(owned) = self.by_owner.get_mut(session.principal.owner())
        {
            owned.wildcards = owned.wildcards + usize::from(is_there) - usize::from(!is_there);
        }
    }

    pub(crate) fn find(&self, client: &str) -> Option<SessionId> {
        self.by_client.get(client).copied()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.all.get_mut(id)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.all.values_mut()
    }

    /// Adds a session of a client that has none.
    pub(crate) fn insert(&mut self, mut session: Session) -> SessionId {
        let client = Arc::clone(&session.client);
        let owned = self
            .by_owner
            .entry(session.principal.owner().clone())
            .or_default();
        owned.count += 1;
        session.user_reservation = Some(Reservation::new(&owned.memory_budget, 0));
        let id = self.all.insert(session);
        self.by_client.insert(client, id);
        id
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.all.remove(id)?;
        self.by_client.remove(&session.client);
        if let Some(owned) = self.by_owner.get_mut(session.principal.owner()) {
            if let Some((missed, since_ms)) = session.offline {
                owned.offline.remove(&(missed, since_ms, id));
            }
            owned.count -= 1;
            owned.wildcards -= session.wildcard_count();
            if owned.count == 0 {
                self.by_owner.remove(session.principal.owner());
            }
        }
        Some(session)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.all.iter()
    }

    /// Notes that a session has no connection any more.
    pub(crate) fn mark_offline(&mut self, id: SessionId, now_ms: u64) {
        if let Some(session) = self.all.get_mut(id) {
            session.update_reservation();
            self.set_offline(id, Some(now_ms));
        }
    }

    /// Notes that a session has a connection again.
    pub(crate) fn mark_online(&mut self, id: SessionId) {
        self.set_offline(id, None);
    }

    /// Ranks a session without a connection anew, since its content has changed.
    pub(crate) fn update_rank(&mut self, id: SessionId) {
        let offline = self.all.get(id).and_then(|session| session.offline);
        if let Some((_, since_ms)) = offline {
            self.set_offline(id, Some(since_ms));
        }
    }

    fn set_offline(&mut self, id: SessionId, since_ms: Option<u64>) {
        let Some(session) = self.all.get_mut(id) else {
            return;
        };
        let offline = since_ms.map(|since_ms| (session.eviction_cost(), since_ms));
        if session.offline == offline {
            return;
        }
        let owned = self
            .by_owner
            .entry(session.principal.owner().clone())
            .or_default();
        if let Some((missed, since_ms)) = session.offline {
            owned.offline.remove(&(missed, since_ms, id));
        }
        if let Some((missed, since_ms)) = offline {
            owned.offline.insert((missed, since_ms, id));
        }
        session.offline = offline;
    }

    /// Returns the session to end when there are too many: the least missed one without a connection, of the principal with most sessions.
    pub(crate) fn cheapest_to_evict(&self) -> Option<SessionId> {
        let (_, first) = self
            .by_owner
            .values()
            .filter_map(|owned| Some((owned.count, owned.offline.first()?)))
            .max_by_key(|(count, _)| *count)?;
        Some(first.2)
    }
}
