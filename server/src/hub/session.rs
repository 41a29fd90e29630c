//! State that is kept for a client beyond its connection (MQTT 5, section 4.1). Sessions live in memory.
use super::limits::HubLimits;
use super::message::Delivery;
use super::subscriptions::{Subscription, SubscriptionTree, is_exact};
use super::{ConnectionId, SessionId};
use crate::access::{Login, Owner, Principal, Proof, Rights};
use crate::budget::{Charge, Gauge};
use crate::connection::will_bytes;
use crate::timers::Timer;
use slotmap::SlotMap;
use statestore_protocol::mqtt::{PacketId, PacketIds, Will, Window};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Memory of a session without its content: itself, its places in the maps and timers, and what changes too often to be counted at every
/// step.
const SESSION_BYTES: usize = 2048;
/// Bytes by which the counted memory of a session may be wrong.
const SLACK_BYTES: usize = 1024;
/// Memory of a place in the window, used or not.
const PLACE_BYTES: usize = 96;
/// Number of places for which the window of a session with nothing in flight keeps room.
const KEPT_PLACES: u16 = 32;

/// Number of the remembered answer in a response, and the connection on which its request was acknowledged first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) connection: ConnectionId,
}

/// A PUBLISH in flight, as far as it is needed to send it again.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) content: Content,
    /// The write that must be durable before it may leave; 0 for none.
    pub(crate) hold: u64,
    pub(crate) answer: Option<Answer>,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// No content: the session ends with the connection, so the message is never sent again.
    Once,
    /// The whole packet.
    Packet(Vec<u8>),
    /// A message, encoded anew each time since its message expiry goes down.
    Delivery(Delivery),
}

impl Content {
    /// Returns the bytes that it takes until it is acknowledged, as if nothing was shared.
    fn bytes(&self) -> usize {
        match self {
            Self::Once => 0,
            Self::Packet(packet) => packet.capacity() + size_of::<Self>(),
            Self::Delivery(delivery) => delivery.bytes(),
        }
    }

    /// Returns the bytes that it takes besides a shared message.
    fn own_bytes(&self) -> usize {
        match self {
            Self::Once => 0,
            Self::Packet(packet) => packet.capacity(),
            Self::Delivery(delivery) => delivery.own_bytes(),
        }
    }
}

/// A message that waits for the connection, the Receive Maximum or the output buffer.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) delivery: Delivery,
    /// The write that must be durable before this may leave; 0 for none.
    pub(crate) hold: u64,
    pub(crate) answer: Option<Answer>,
}

impl Queued {
    /// Creates an entry for a message that carries no answer.
    pub(crate) fn new(delivery: Delivery, hold: u64) -> Self {
        Self {
            delivery,
            hold,
            answer: None,
        }
    }
}

/// A client's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<str>,
    /// Owner of the session. No other principal may continue it. [`Authenticator`](crate::access::Authenticator) decides whether another
    /// one may end it.
    pub(crate) principal: Principal,
    /// Proof with which its present or last client was accepted.
    pub(crate) proof: Proof,
    /// Rights of the session; `None` allows everything.
    pub(crate) rights: Option<Arc<Rights>>,
    /// Whether users or policy have changed, and the session has not been judged since.
    pub(crate) is_unjudged: bool,
    pub(crate) connection: Option<ConnectionId>,
    /// Seconds that the session outlives its connection; `u32::MAX` is for ever.
    pub(crate) expiry_s: u32,
    pub(crate) subscriptions: BTreeMap<Box<str>, Subscription>,
    /// The subscriptions that have an identifier, to be found by topic.
    pub(super) identified: Option<Box<SubscriptionTree<()>>>,
    pub(crate) window: Window<InFlight>,
    packet_ids: PacketIds,
    queue: VecDeque<Queued>,
    /// Bytes that wait in the queue, or are in flight and may have to be sent again, as if no message was shared.
    held_bytes: usize,
    /// The same bytes without shared messages.
    own_held_bytes: usize,
    /// Bytes of the topic filters.
    pub(crate) filter_text_bytes: usize,
    /// Memory of the subscriptions.
    pub(crate) filter_bytes: usize,
    /// Number of pending requests, and their bytes.
    awaited: usize,
    awaited_bytes: usize,
    /// The highest packet identifier since nothing was in flight.
    widest: u16,
    charge: Charge,
    /// Bytes that count against the limit of its user, roughly.
    held: Option<Charge>,
    /// The will, which waits for its delay until this time since the connection was lost.
    pub(crate) will: Option<(u64, Box<Will>)>,
    /// Time at which the session ends, while it has no connection.
    pub(crate) ends_ms: Option<u64>,
    pub(crate) timer: Timer,
    /// Rank of the session, and the time since which it has no connection.
    offline: Option<(Missed, u64)>,
}

/// Loss that the end of a session without a connection would be, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Missed {
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
        gauge: &Gauge,
    ) -> Self {
        let charge = Charge::new(gauge, SESSION_BYTES + client.len());
        Self {
            client,
            principal: login.principal,
            proof: login.proof,
            rights: None,
            is_unjudged: false,
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
            awaited: 0,
            awaited_bytes: 0,
            widest: 0,
            charge,
            held: None,
            will: None,
            ends_ms: None,
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
            + usize::from(self.widest) * PLACE_BYTES
            + will
    }

    /// Counts the bytes that the session takes now.
    pub(crate) fn recharge(&mut self) {
        let bytes = self.own_bytes();
        self.charge.set_roughly(bytes, SLACK_BYTES);
        if let Some(held) = &mut self.held {
            held.set_roughly(self.held_bytes + self.awaited_bytes, SLACK_BYTES);
        }
    }

    /// Returns whether a QoS 1 message may go out at once without overtaking another one.
    pub(crate) fn may_send_now(&self) -> bool {
        self.queue.is_empty() && self.window.has_room()
    }

    /// Returns whether a message waits to be sent, for the first time or again.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.queue.is_empty() || self.window.has_resend()
    }

    /// Returns the bytes of the next message to be sent, if the Receive Maximum has room for one.
    pub(crate) fn next_bytes(&self) -> Option<usize> {
        let next = self.queue.front().filter(|_| self.window.has_room())?;
        Some(next.delivery.bytes())
    }

    /// Returns the bytes held for messages and pending requests, as if nothing of them was shared.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes + self.awaited_bytes
    }

    /// Reserves room for the answer to a pending request of this size.
    pub(crate) fn outcome_awaited(&mut self, bytes: usize) {
        self.awaited += 1;
        self.awaited_bytes += bytes;
    }

    /// Releases the room of a request whose outcome has arrived.
    pub(crate) fn outcome_came(&mut self, bytes: usize) {
        self.awaited -= 1;
        self.awaited_bytes -= bytes;
    }

    /// Returns whether one more message may be taken. A message that goes out at once and is never sent again takes no room.
    pub(crate) fn has_room(&self, limits: &HubLimits) -> bool {
        (self.is_ephemeral() && self.queue.is_empty())
            || (self.queue.len() + self.awaited < limits.max_queued_messages
                && self.held_bytes() < limits.max_queued_bytes
                && !self.user_holds_too_much(limits))
    }

    fn user_holds_too_much(&self, limits: &HubLimits) -> bool {
        let most = limits.users.of(&self.principal).held_bytes;
        most.zip(self.held.as_ref())
            .is_some_and(|(most, held)| held.gauge_bytes() >= most)
    }

    /// Puts a message at the end of the queue.
    pub(crate) fn enqueue(&mut self, queued: Queued) {
        self.held_bytes += queued.delivery.bytes();
        self.own_held_bytes += queued.delivery.own_bytes();
        self.queue.push_back(queued);
        self.recharge();
    }

    /// Takes the message at the head of the queue.
    pub(crate) fn dequeue(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        self.held_bytes -= queued.delivery.bytes();
        self.own_held_bytes -= queued.delivery.own_bytes();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        self.recharge();
        Some(queued)
    }

    /// Returns a packet identifier for a message that is about to be sent, to be [entered](Self::sent) or [given back](Self::not_sent).
    pub(crate) fn packet_id(&mut self) -> Option<PacketId> {
        self.packet_ids.allocate()
    }

    /// Enters a message that was sent, for which the window had room.
    pub(crate) fn sent(&mut self, id: PacketId, in_flight: InFlight) {
        let (bytes, own_bytes) = (in_flight.content.bytes(), in_flight.content.own_bytes());
        match self.window.push(id, in_flight) {
            Ok(()) => {
                self.held_bytes += bytes;
                self.own_held_bytes += own_bytes;
                self.widest = self.widest.max(id.get());
                self.recharge();
            }
            Err(_) => self.not_sent(id),
        }
    }

    /// Gives back the packet identifier of a message that was not sent after all.
    pub(crate) fn not_sent(&mut self, id: PacketId) {
        self.packet_ids.release(id);
    }

    /// Removes a message that was acknowledged, or never will be.
    pub(crate) fn finish(&mut self, id: PacketId) -> Option<InFlight> {
        let in_flight = self.window.acknowledge(id)?;
        self.held_bytes -= in_flight.content.bytes();
        self.own_held_bytes -= in_flight.content.own_bytes();
        self.packet_ids.release(id);
        if self.window.is_empty() && self.widest > KEPT_PLACES {
            self.window = Window::new(self.window.limit());
            self.packet_ids = PacketIds::new();
            self.widest = 0;
        }
        self.recharge();
        Some(in_flight)
    }

    fn missed(&self) -> Missed {
        if !self.queue.is_empty() || !self.window.is_empty() {
            Missed::Messages
        } else if !self.subscriptions.is_empty() || self.will.is_some() {
            Missed::Subscriptions
        } else {
            Missed::Nothing
        }
    }

    /// Returns the number of subscriptions to filters with wildcards.
    fn wildcards(&self) -> usize {
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
    by_owner: HashMap<Owner, Owned>,
}

/// The sessions of one owner.
#[derive(Debug, Default)]
struct Owned {
    count: usize,
    /// Bytes that the sessions hold together.
    held: Gauge,
    /// Subscriptions to filters with wildcards.
    wildcards: usize,
    /// Sessions without a connection: the least missed first, and of these the one that is alone for longest.
    offline: BTreeSet<(Missed, u64, SessionId)>,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of sessions of a principal, and how many of them have a connection.
    pub(crate) fn of(&self, principal: &Principal) -> (usize, usize) {
        self.by_owner
            .get(principal.owner())
            .map_or((0, 0), |owned| {
                (owned.count, owned.count - owned.offline.len())
            })
    }

    /// Returns the session to end when a principal has too many: the least missed one without a connection.
    pub(crate) fn least_missed_of(&self, principal: &Principal) -> Option<SessionId> {
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
        session.held = Some(Charge::new(&owned.held, 0));
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
            owned.wildcards -= session.wildcards();
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
    pub(crate) fn went_offline(&mut self, id: SessionId, now_ms: u64) {
        if let Some(session) = self.all.get_mut(id) {
            session.recharge();
            self.set_offline(id, Some(now_ms));
        }
    }

    /// Notes that a session has a connection again.
    pub(crate) fn came_online(&mut self, id: SessionId) {
        self.set_offline(id, None);
    }

    /// Ranks a session without a connection anew, since its content has changed.
    pub(crate) fn classify(&mut self, id: SessionId) {
        let offline = self.all.get(id).and_then(|session| session.offline);
        if let Some((_, since_ms)) = offline {
            self.set_offline(id, Some(since_ms));
        }
    }

    fn set_offline(&mut self, id: SessionId, since_ms: Option<u64>) {
        let Some(session) = self.all.get_mut(id) else {
            return;
        };
        let offline = since_ms.map(|since_ms| (session.missed(), since_ms));
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
    pub(crate) fn least_missed(&self) -> Option<SessionId> {
        let (_, first) = self
            .by_owner
            .values()
            .filter_map(|owned| Some((owned.count, owned.offline.first()?)))
            .max_by_key(|(count, _)| *count)?;
        Some(first.2)
    }
}
