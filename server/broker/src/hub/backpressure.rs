//! Requests that wait for room, while too much waits for the disk or for watching clients.
use super::{ConnectionId, Hub};
use statestore_protocol::mqtt::{self, Publish};
use statestore_protocol::topic;
use statestored_common::ClockReading;
use statestored_connection::Connection;
use statestored_store::service;

impl Hub {
    /// Sets whether too much waits for the storage. While it does, requests that may write wait in the input of their connections.
    /// Everything else is served.
    pub fn set_storage_backlogged(&mut self, is_full: bool, now: ClockReading) {
        self.is_storage_backlogged = is_full;
        if !is_full {
            self.resume_blocked(now);
        }
    }

    /// Sets whether the storage has no room. If so, SET, DEL and VDEL are refused with an error that says so. Everything else is served,
    /// and responses to earlier requests leave once these are durable.
    pub fn set_read_only(&mut self, is_full: bool, now: ClockReading) {
        self.service.set_read_only(is_full);
        if is_full {
            // Requests that wait for room are refused as well: there may be none for long.
            self.resume_blocked(now);
        }
    }

    /// Passes [new ends](service::Service::rewrite_expiry) of entries to the storage, if the wall clock has jumped. Returns whether there are more.
    pub fn rewrite_expiry(&mut self, now: ClockReading) -> bool {
        self.service.rewrite_expiry(now)
    }

    /// Returns whether requests that write have to wait: too much waits for the storage, or for watching clients. If writes are refused,
    /// they need no room.
    pub(super) fn has_backpressure(&self) -> bool {
        let is_busy = self.is_storage_backlogged
            || self.fanout_queue.is_full()
            || self.service.has_many_waiting_changes();
        is_busy && !self.service.is_read_only()
    }

    /// Lets the connections go on that wait for room.
    pub(super) fn resume_blocked(&mut self, now: ClockReading) {
        self.mark_broker_dirty();
        for id in std::mem::take(&mut self.blocked_connections) {
            if let Some(connection) = self.connections.get_mut(id)
                && connection.resume_input(now.mono_ms)
            {
                let next_ms = connection.due_ms();
                self.set_connection_timer(id, next_ms);
                self.mark_dirty(id);
            }
        }
    }

    /// Returns whether the first packet in the input of a connection has to wait. PINGREQs behind it are answered.
    #[cold]
    pub(super) fn blocks_first_packet(
        &mut self,
        id: ConnectionId,
        input: &[u8],
        now: ClockReading,
    ) -> bool {
        let connection = self.connections.get_mut(id);
        let waiting =
            connection.and_then(|it| it.block_on_storage(input, is_write_request, now.mono_ms));
        let Some(waiting) = waiting else {
            return false;
        };
        if waiting.is_new {
            self.blocked_connections.push(id);
        }
        if waiting.is_paused {
            let until_ms = self
                .connections
                .get(id)
                .and_then(Connection::auth_expires_ms);
            self.set_connection_timer(id, until_ms);
        }
        for _ in 0..waiting.pings {
            self.send_pingresp(id, now);
        }
        true
    }

    /// Answers a PINGREQ.
    #[cold]
    pub(super) fn send_pingresp(&mut self, id: ConnectionId, now: ClockReading) {
        self.append(id, now, |out, _| {
            mqtt::encode_pingresp(out);
            Ok(())
        });
    }
}

/// Returns whether a PUBLISH is a request that may write.
fn is_write_request(publish: &Publish) -> bool {
    // An empty topic has an alias, which may stand for the request topic.
    let is_request = publish.topic() == topic::REQUEST || publish.topic().is_empty();
    is_request && service::may_write(&publish.payload())
}
