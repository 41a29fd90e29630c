//! Requests that wait for room, while too much waits for the disk or for watching clients.
use super::{ConnectionId, Hub};
use crate::clock::Now;
use crate::connection::Connection;
use crate::service;
use statestore_protocol::mqtt::{self, Publish};
use statestore_protocol::topic;

impl Hub {
    /// Sets whether too much waits for the storage. While it does, requests that may write wait in the input of their connections.
    /// Everything else is served.
    pub fn set_storage_full(&mut self, is_full: bool, now: Now) {
        self.is_storage_full = is_full;
        if !is_full {
            self.end_waiting(now);
        }
    }

    /// Passes [new ends](service::Service::redate) of entries to the storage, if the wall clock has jumped. Returns whether there are more.
    pub fn redate(&mut self, now: Now) -> bool {
        self.service.redate(now)
    }

    /// Returns whether requests that write have to wait: too much waits for the storage, or for watching clients. If writes are refused,
    /// they need no room.
    pub(super) fn lacks_room(&self) -> bool {
        (self.is_storage_full || self.fanouts.is_full()) && !self.service.is_read_only()
    }

    /// Lets the connections go on that wait for room.
    pub(super) fn end_waiting(&mut self, now: Now) {
        self.mark_broker_dirty();
        for id in std::mem::take(&mut self.waiting_for_room) {
            if let Some(connection) = self.connections.get_mut(id)
                && connection.resume(now.mono_ms)
            {
                let next_ms = connection.due_ms();
                self.set_connection_timer(id, next_ms);
                self.mark_dirty(id);
            }
        }
    }

    /// Returns whether the first packet in the input of a connection has to wait. PINGREQs behind it are answered.
    #[cold]
    pub(super) fn waits_for_room(&mut self, id: ConnectionId, input: &[u8], now: Now) -> bool {
        let connection = self.connections.get_mut(id);
        let waiting =
            connection.and_then(|it| it.wait_for_room(input, is_request_that_writes, now.mono_ms));
        let Some(waiting) = waiting else {
            return false;
        };
        if waiting.is_new {
            self.waiting_for_room.push(id);
        }
        if waiting.is_paused {
            let until_ms = self.connections.get(id).and_then(Connection::until_ms);
            self.set_connection_timer(id, until_ms);
        }
        for _ in 0..waiting.pings {
            self.answer_ping(id, now);
        }
        true
    }

    /// Answers a PINGREQ.
    #[cold]
    pub(super) fn answer_ping(&mut self, id: ConnectionId, now: Now) {
        self.append(id, now, |out, _| {
            mqtt::encode_pingresp(out);
            Ok(())
        });
    }
}

/// Returns whether a PUBLISH is a request that may write.
fn is_request_that_writes(publish: &Publish) -> bool {
    // An empty topic has an alias, which may stand for the request topic.
    let is_request = publish.topic() == topic::REQUEST || publish.topic().is_empty();
    is_request && service::may_write(&publish.payload())
}
