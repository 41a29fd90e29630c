//! Output to clients: directly into the connection's buffer if nothing is in the way, else through the session's queue.
use super::message::Delivery;
use super::session::{Content, InFlight, Queued, Session};
use super::statistics::Statistics;
use super::{ConnectionId, Hub, SessionId};
use crate::audit::EndReason;
use crate::clock::Now;
use crate::connection::Connection;
use crate::large_allocations::LargeAllocations;
use crate::service::Waiter;
use bytes::BytesMut;
use slotmap::Key;
use statestore_protocol::mqtt::publish::set_dup;
use statestore_protocol::mqtt::{EncodeError, ReasonCode};

/// Result so far of routing a message.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Routed {
    /// Whether there were subscribers.
    pub(super) is_matched: bool,
    /// Whether some of them got it, or will.
    pub(super) is_taken: bool,
}

impl Hub {
    pub(super) fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push_back(id);
        }
    }

    /// Moves the output of a connection that may leave now to the end of `to`. That buffer holds output that was taken before and has not
    /// left yet.
    pub fn take_output(&mut self, id: ConnectionId, to: &mut BytesMut, now: Now) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if to.is_empty() && connection.is_quiet() {
            return;
        }
        connection.take_output(to);
        if let Some(session) = connection.session() {
            self.send_waiting(session, now);
        }
        if !to.is_empty() {
            return;
        }
        // Messages that waited for the last output to leave.
        if let Some(connection) = self.connections.get_mut(id) {
            connection.take_output(to);
            if to.is_empty() {
                connection.output.has_left(to, &mut self.output_memory);
            }
        }
    }

    /// Appends a packet that needs no flow control; `encode` gets the client's Maximum Packet Size.
    pub(super) fn append(
        &mut self,
        id: ConnectionId,
        now: Now,
        encode: impl FnOnce(&mut BytesMut, u32) -> Result<(), EncodeError>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let result = connection.append(encode);
        self.appended(id);
        if let Err(error) = result {
            self.fail(id, ReasonCode::PACKET_TOO_LARGE, &error.to_string(), now);
        }
    }

    /// Notes that output was appended to a connection. The work that follows is done once for all packets of a turn.
    #[inline]
    pub(super) fn appended(&mut self, id: ConnectionId) {
        match &mut self.at_work {
            Some((at_work, has_output)) if *at_work == id => *has_output = true,
            _ => self.take_stock(id),
        }
    }

    pub(super) fn take_stock(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.recharge();
        connection
            .output
            .announce(|commit| self.service.wait(commit, Self::waiter(id)));
        if connection.output.releasable() > 0 {
            self.mark_dirty(id);
        }
    }

    /// Returns the name under which a connection waits for a commit.
    fn waiter(id: ConnectionId) -> Waiter {
        Waiter(id.data().as_ffi())
    }

    /// Delivers a message to one client. Returns whether the client got it or will.
    pub(super) fn deliver(
        &mut self,
        id: SessionId,
        delivery: Delivery,
        at_least_once: bool,
        hold: u64,
        now: Now,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let Some(connection_id) = session.connection else {
            return at_least_once && self.enqueue(id, Queued::new(delivery, hold), now);
        };
        let Some(connection) = self.connections.get_mut(connection_id) else {
            return false;
        };
        let has_memory = self.large_allocations.allows_output(delivery.bytes());
        let is_full = connection.is_full() || !has_memory;
        if !at_least_once {
            if is_full {
                self.statistics.dropped_full += 1;
                return false;
            }
            let max_packet_bytes = connection.max_packet_bytes();
            let encode = |out: &mut BytesMut| {
                delivery.encode(None, false, now.mono_ms, max_packet_bytes, out)
            };
            let sent = connection.output.append(hold, encode).is_ok();
            self.statistics.dropped_too_large += u64::from(!sent);
            self.appended(connection_id);
            return sent;
        }
        let queued = Queued::new(delivery, hold);
        if is_full || !session.has_room(&self.limits) || !session.may_send_now() {
            // Without pending output, no event would cause it to be sent later.
            let is_stuck = !has_memory && connection.outstanding() == 0;
            let is_queued = self.enqueue(id, queued, now);
            if is_stuck {
                self.end_large_packet(connection_id, now);
            }
            return is_queued;
        }
        let sent = send(session, connection, &mut self.statistics, queued, now);
        self.appended(connection_id);
        sent
    }

    /// Puts a message into the queue of a session. If the queue is full, the message is lost, and a connected client that does not keep up
    /// is disconnected.
    pub(super) fn enqueue(&mut self, id: SessionId, queued: Queued, now: Now) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        if session.has_room(&self.limits) {
            session.enqueue(queued);
            self.sessions.classify(id);
            return true;
        }
        self.statistics.dropped_full += 1;
        if let Some(connection) = session.connection {
            self.fail_for(
                connection,
                EndReason::SlowReader,
                ReasonCode::QUOTA_EXCEEDED,
                "the client reads too slowly",
                now,
            );
        }
        false
    }

    /// Sends the messages that wait in a session, as far as Receive Maximum and output buffer allow. Messages that were in flight when the
    /// former connection ended go first, then the queue.
    pub(super) fn send_waiting(&mut self, id: SessionId, now: Now) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if !session.has_waiting() {
            return;
        }
        let Some(connection_id) = session.connection else {
            return;
        };
        let Some(connection) = self.connections.get_mut(connection_id) else {
            return;
        };
        let output_before = connection.output.len();
        let mut is_stuck = false;
        while !connection.is_full() {
            let pending = |hold| self.service.pending(hold);
            let allocations = &self.large_allocations;
            match resend(
                session,
                connection,
                &mut self.statistics,
                allocations,
                pending,
                now,
            ) {
                Resent::Next => continue,
                Resent::NoMemory => {
                    is_stuck = true;
                    break;
                }
                Resent::Nothing => {}
            }
            let Some(next_bytes) = session.next_bytes() else {
                break;
            };
            if !allocations.allows_output(next_bytes) {
                is_stuck = connection.outstanding() == 0;
                break;
            }
            let Some(queued) = session.dequeue() else {
                break;
            };
            if queued.delivery.is_expired(now.mono_ms) {
                self.statistics.dropped_expired += 1;
                continue;
            }
            let queued = Queued {
                hold: pending(queued.hold),
                ..queued
            };
            send(session, connection, &mut self.statistics, queued, now);
        }
        if connection.output.len() > output_before {
            self.appended(connection_id);
        }
        if is_stuck {
            self.end_large_packet(connection_id, now);
        }
    }

    /// Delivers the notifications of the last changes, which `origin` requested if there was a request.
    pub(super) fn tell_watchers(&mut self, origin: Option<ConnectionId>, now: Now) {
        if self.service.has_notifications() {
            let mut notifications = std::mem::take(&mut self.notifications);
            let hold = self.service.take_notifications(&mut notifications);
            self.begin_notifications(notifications.drain(..), hold, origin, now);
            self.notifications = notifications;
        }
    }
}

/// Sends a QoS 1 message for which there is room. Returns whether the client accepts one of this size.
fn send(
    session: &mut Session,
    connection: &mut Connection,
    statistics: &mut Statistics,
    queued: Queued,
    now: Now,
) -> bool {
    let Queued {
        delivery,
        hold,
        answer,
    } = queued;
    let Some(id) = session.packet_id() else {
        return false;
    };
    let max_packet_bytes = connection.max_packet_bytes();
    let encode =
        |out: &mut BytesMut| delivery.encode(Some(id), false, now.mono_ms, max_packet_bytes, out);
    if connection.output.append(hold, encode).is_err() {
        session.not_sent(id);
        statistics.dropped_too_large += 1;
        return false;
    }
    let content = if session.is_ephemeral() {
        Content::Once
    } else {
        Content::Delivery(delivery)
    };
    let in_flight = InFlight {
        content,
        hold,
        answer,
    };
    session.sent(id, in_flight);
    true
}

/// Result of sending a message again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resent {
    /// The next message.
    Next,
    /// No message was in flight, or the Receive Maximum has no room.
    Nothing,
    /// The process has no memory for the next one; the connection cannot go on without it.
    NoMemory,
}

/// Sends again the next message that a former connection had in flight.
fn resend(
    session: &mut Session,
    connection: &mut Connection,
    statistics: &mut Statistics,
    allocations: &LargeAllocations,
    pending: impl Fn(u64) -> u64,
    now: Now,
) -> Resent {
    let Some((id, in_flight)) = session.window.next_resend() else {
        return Resent::Nothing;
    };
    let bytes = match &in_flight.content {
        Content::Once => 0,
        Content::Packet(packet) => packet.len(),
        Content::Delivery(delivery) => delivery.bytes(),
    };
    if !allocations.allows_output(bytes) {
        return Resent::NoMemory;
    }
    let max_packet_bytes = connection.max_packet_bytes();
    let output = &mut connection.output;
    let hold = pending(in_flight.hold);
    let fits = match &mut in_flight.content {
        Content::Once => false,
        Content::Packet(packet) if packet.len() > max_packet_bytes as usize => false,
        Content::Packet(packet) => {
            set_dup(packet);
            let copy = |out: &mut BytesMut| {
                out.extend_from_slice(packet);
                Ok::<_, EncodeError>(())
            };
            output.append(hold, copy).is_ok()
        }
        Content::Delivery(delivery) => {
            let encode = |out: &mut BytesMut| {
                delivery.encode(Some(id), true, now.mono_ms, max_packet_bytes, out)
            };
            output.append(hold, encode).is_ok()
        }
    };
    if !fits {
        statistics.dropped_too_large += 1;
        session.finish(id);
    }
    Resent::Next
}
