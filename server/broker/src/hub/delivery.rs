//! Output to clients: directly into the connection's buffer if nothing is in the way, else through the session's queue.
use super::message::{Delivery, QueuedMessage};
use super::metrics::HubMetrics;
use super::session::{InFlight, InFlightContent, Session};
use super::{ConnectionId, Hub, SessionId};
use crate::audit::EndReason;
use crate::large_allocations::LargeAllocations;
use bytes::BytesMut;
use slotmap::Key;
use statestore_protocol::mqtt::publish::set_dup;
use statestore_protocol::mqtt::{EncodeError, ReasonCode};
use statestored_common::ClockReading;
use statestored_connection::Connection;
use statestored_store::service::WaiterId;

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
    pub fn take_output(&mut self, id: ConnectionId, to: &mut BytesMut, now: ClockReading) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if to.is_empty() && connection.is_drained() {
            return;
        }
        connection.take_output(to);
        if let Some(session) = connection.session() {
            self.send_queued(session, now);
        }
        if !to.is_empty() {
            return;
        }
        // Messages that waited for the last output to leave.
        if let Some(connection) = self.connections.get_mut(id) {
            connection.take_output(to);
            if to.is_empty() {
                connection.output.recycle_buffer(to, &mut self.buffer_pool);
            }
        }
    }

    /// Appends a packet that needs no flow control; `encode` gets the client's Maximum Packet Size.
    pub(super) fn append(
        &mut self,
        id: ConnectionId,
        now: ClockReading,
        encode: impl FnOnce(&mut BytesMut, u32) -> Result<(), EncodeError>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let result = connection.append(encode);
        self.output_appended(id);
        if let Err(error) = result {
            self.disconnect_with(id, ReasonCode::PACKET_TOO_LARGE, &error.to_string(), now);
        }
    }

    /// Notes that output was appended to a connection. The work that follows is done once for all packets of a turn.
    #[inline]
    pub(super) fn output_appended(&mut self, id: ConnectionId) {
        match &mut self.active_connection {
            Some((at_work, has_output)) if *at_work == id => *has_output = true,
            _ => self.update_output_state(id),
        }
    }

    pub(super) fn update_output_state(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.update_reservation();
        connection
            .output
            .announce(|commit| self.service.register_waiter(commit, Self::waiter_id(id)));
        if connection.output.ready_bytes() > 0 {
            self.mark_dirty(id);
        }
    }

    /// Returns the name under which a connection waits for a commit.
    fn waiter_id(id: ConnectionId) -> WaiterId {
        WaiterId(id.data().as_ffi())
    }

    /// Delivers a message to one client. Returns whether the client got it or will.
    pub(super) fn deliver(
        &mut self,
        id: SessionId,
        delivery: Delivery,
        at_least_once: bool,
        commit_index: u64,
        now: ClockReading,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let Some(connection_id) = session.connection else {
            return at_least_once
                && self.enqueue(id, QueuedMessage::new(delivery, commit_index), now);
        };
        let Some(connection) = self.connections.get_mut(connection_id) else {
            return false;
        };
        let has_memory = self.large_allocations.allows_output(delivery.bytes());
        let is_full = connection.is_full() || !has_memory;
        if !at_least_once {
            if is_full {
                self.metrics.dropped_full += 1;
                return false;
            }
            let max_packet_bytes = connection.max_packet_bytes();
            let encode = |out: &mut BytesMut| {
                delivery.encode(None, false, now.mono_ms, max_packet_bytes, out)
            };
            let sent = connection.output.append(commit_index, encode).is_ok();
            self.metrics.dropped_too_large += u64::from(!sent);
            self.output_appended(connection_id);
            return sent;
        }
        let queued = QueuedMessage::new(delivery, commit_index);
        if is_full || !session.has_capacity(&self.limits) || !session.may_send_now() {
            // Without pending output, no event would cause it to be sent later.
            let is_stuck = !has_memory && connection.outstanding_bytes() == 0;
            let is_queued = self.enqueue(id, queued, now);
            if is_stuck {
                self.end_large_packet(connection_id, now);
            }
            return is_queued;
        }
        let sent = send(session, connection, &mut self.metrics, queued, now);
        self.output_appended(connection_id);
        sent
    }

    /// Puts a message into the queue of a session. If the queue is full, the message is lost, and a connected client that does not keep up
    /// is disconnected.
    pub(super) fn enqueue(
        &mut self,
        id: SessionId,
        queued: QueuedMessage,
        now: ClockReading,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        if session.has_capacity(&self.limits) {
            session.enqueue(queued);
            self.sessions.update_rank(id);
            return true;
        }
        self.metrics.dropped_full += 1;
        if let Some(connection) = session.connection {
            self.disconnect_with_end_reason(
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
    pub(super) fn send_queued(&mut self, id: SessionId, now: ClockReading) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if !session.has_queued() {
            return;
        }
        let Some(connection_id) = session.connection else {
            return;
        };
        let Some(connection) = self.connections.get_mut(connection_id) else {
            return;
        };
        let output_before = connection.output.bytes();
        let mut is_stuck = false;
        while !connection.is_full() {
            let pending = |commit_index| self.service.pending_index(commit_index);
            let allocations = &self.large_allocations;
            match resend(
                session,
                connection,
                &mut self.metrics,
                allocations,
                pending,
                now,
            ) {
                ResendOutcome::Sent => continue,
                ResendOutcome::OutOfMemory => {
                    is_stuck = true;
                    break;
                }
                ResendOutcome::Nothing => {}
            }
            let Some(next_bytes) = session.next_bytes() else {
                break;
            };
            if !allocations.allows_output(next_bytes) {
                is_stuck = connection.outstanding_bytes() == 0;
                break;
            }
            let Some(queued) = session.dequeue() else {
                break;
            };
            if queued.delivery.is_expired(now.mono_ms) {
                self.metrics.dropped_expired += 1;
                continue;
            }
            let queued = QueuedMessage {
                commit_index: pending(queued.commit_index),
                ..queued
            };
            send(session, connection, &mut self.metrics, queued, now);
        }
        if connection.output.bytes() > output_before {
            self.output_appended(connection_id);
        }
        if is_stuck {
            self.end_large_packet(connection_id, now);
        }
    }

    /// Delivers the notifications of the last changes, which `origin` requested if there was a request.
    pub(super) fn notify_watchers(&mut self, origin: Option<ConnectionId>, now: ClockReading) {
        if self.service.has_notifications() {
            let mut notifications = std::mem::take(&mut self.notifications);
            let commit_index = self.service.take_notifications(&mut notifications);
            self.begin_notifications(notifications.drain(..), commit_index, origin, now);
            self.notifications = notifications;
        }
    }
}

/// Sends a QoS 1 message for which there is room. Returns whether the client accepts one of this size.
fn send(
    session: &mut Session,
    connection: &mut Connection,
    metrics: &mut HubMetrics,
    queued: QueuedMessage,
    now: ClockReading,
) -> bool {
    let QueuedMessage {
        delivery,
        commit_index,
        cached_reply: answer,
    } = queued;
    let Some(id) = session.packet_id() else {
        return false;
    };
    let max_packet_bytes = connection.max_packet_bytes();
    let encode =
        |out: &mut BytesMut| delivery.encode(Some(id), false, now.mono_ms, max_packet_bytes, out);
    if connection.output.append(commit_index, encode).is_err() {
        session.return_packet_id(id);
        metrics.dropped_too_large += 1;
        return false;
    }
    let content = if session.is_ephemeral() {
        InFlightContent::NotRetained
    } else {
        InFlightContent::Delivery(delivery)
    };
    let in_flight = InFlight {
        content,
        commit_index,
        cached_reply: answer,
    };
    session.record_sent(id, in_flight);
    true
}

/// Result of sending a message again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResendOutcome {
    /// The next message.
    Sent,
    /// No message was in flight, or the Receive Maximum has no room.
    Nothing,
    /// The process has no memory for the next one; the connection cannot go on without it.
    OutOfMemory,
}

/// Sends again the next message that a former connection had in flight.
fn resend(
    session: &mut Session,
    connection: &mut Connection,
    metrics: &mut HubMetrics,
    allocations: &LargeAllocations,
    pending: impl Fn(u64) -> u64,
    now: ClockReading,
) -> ResendOutcome {
    let Some((id, in_flight)) = session.window.next_resend() else {
        return ResendOutcome::Nothing;
    };
    let bytes = match &in_flight.content {
        InFlightContent::NotRetained => 0,
        InFlightContent::Packet(packet) => packet.len(),
        InFlightContent::Delivery(delivery) => delivery.bytes(),
    };
    if !allocations.allows_output(bytes) {
        return ResendOutcome::OutOfMemory;
    }
    let max_packet_bytes = connection.max_packet_bytes();
    let output = &mut connection.output;
    let commit_index = pending(in_flight.commit_index);
    let fits = match &mut in_flight.content {
        InFlightContent::NotRetained => false,
        InFlightContent::Packet(packet) if packet.len() > max_packet_bytes as usize => false,
        InFlightContent::Packet(packet) => {
            set_dup(packet);
            let copy = |out: &mut BytesMut| {
                out.extend_from_slice(packet);
                Ok::<_, EncodeError>(())
            };
            output.append(commit_index, copy).is_ok()
        }
        InFlightContent::Delivery(delivery) => {
            let encode = |out: &mut BytesMut| {
                delivery.encode(Some(id), true, now.mono_ms, max_packet_bytes, out)
            };
            output.append(commit_index, encode).is_ok()
        }
    };
    if !fits {
        metrics.dropped_too_large += 1;
        session.finish(id);
    }
    ResendOutcome::Sent
}
