//! Transfer of requests to the session, at once or at their turn.
use super::{Completion, Exchange, Failure, RequestId, SendCapacity};
use crate::error::ErrorKind;
use bytes::BytesMut;
use statestore_protocol::mqtt::session::{PublishOptions, seconds_left};
use statestore_protocol::mqtt::{EncodeError, PacketId, PublishHeader};
use statestore_protocol::property::{MAX_REQUEST_PAIRS, RequestPairs};
use statestore_protocol::{Hlc, topic};
use std::task::Waker;

/// Number of bytes not yet taken by the transport at which further requests wait in the queue. A request that is not encoded
/// yet can still time out without being sent, and its remaining time is computed when it is sent.
const MAX_UNSENT_BYTES: usize = 1024 * 1024;

impl Exchange {
    /// Sends a request at its turn whose only own user property is the timestamp.
    pub(super) fn send_with_timestamp(
        &mut self,
        timestamp: &Hlc,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
        options: PublishOptions<RequestId>,
        now_ms: u64,
    ) -> Result<(), Failure> {
        let correlation = self.requests.correlation(options.tag);
        let header = PublishHeader {
            topic: topic::REQUEST,
            message_expiry: Some(seconds_left(options.deadline_ms, now_ms)),
            correlation_data: Some(&correlation),
            encoded: Some(&self.common_properties),
            // Succeeds, because the node id is 16 characters long.
            encoded_last: self.timestamp.encode(timestamp).ok(),
            ..PublishHeader::default()
        };
        let published = self
            .session
            .publish(&header, payload_len, write_payload, options);
        self.handle_publish_result(options.tag, published)
    }

    /// Sends a request at its turn.
    pub(super) fn send(
        &mut self,
        pairs: &RequestPairs<'_>,
        payload_len: usize,
        write_payload: impl FnOnce(&mut BytesMut),
        options: PublishOptions<RequestId>,
        now_ms: u64,
    ) -> Result<(), Failure> {
        let (id, deadline_ms) = (options.tag, options.deadline_ms);
        let mut users = [("", ""); MAX_REQUEST_PAIRS];
        let mut count = 0;
        for (slot, pair) in users.iter_mut().zip(pairs.iter()) {
            *slot = pair;
            count += 1;
        }
        let correlation = self.requests.correlation(id);
        let header = PublishHeader {
            topic: topic::REQUEST,
            message_expiry: Some(seconds_left(deadline_ms, now_ms)),
            correlation_data: Some(&correlation),
            user_properties: &users[..count],
            encoded: Some(&self.common_properties),
            ..PublishHeader::default()
        };
        let published = self
            .session
            .publish(&header, payload_len, write_payload, options);
        self.handle_publish_result(id, published)
    }

    fn handle_publish_result(
        &mut self,
        id: RequestId,
        published: Result<PacketId, EncodeError>,
    ) -> Result<(), Failure> {
        match published {
            Ok(packet_id) => {
                self.requests.sent(id, packet_id);
                self.counters.sent += 1;
                Ok(())
            }
            Err(error) => {
                let outcome = self.requests.unsent_outcome(id);
                self.counters.failed += 1;
                Err(Failure::new(
                    ErrorKind::TooLarge,
                    outcome,
                    error.to_string(),
                ))
            }
        }
    }

    /// Sends queued requests while there is capacity.
    pub(super) fn send_queued(&mut self, now_ms: u64, wakers: &mut Vec<Waker>) {
        while let Some((id, packed, deadline_ms)) = self.requests.pop_ready(self.capacity()) {
            let options = PublishOptions {
                tag: id,
                deadline_ms,
                is_harmless: packed.is_harmless,
            };
            if now_ms >= deadline_ms {
                // A request that timed out must not be executed.
                let outcome = self.requests.unsent_outcome(id);
                let reason = "its turn to be sent came too late";
                let failure = Failure::new(ErrorKind::TimedOut, outcome, reason);
                self.counters.timed_out += 1;
                self.requests
                    .complete(id, Completion::Failed(failure), wakers);
                continue;
            }
            let payload = packed.payload();
            let write = |out: &mut BytesMut| out.extend_from_slice(payload);
            match self.send(&packed.pairs(), payload.len(), write, options, now_ms) {
                Ok(()) => self.requests.keep_encoding(id, packed),
                Err(failure) => {
                    self.requests
                        .complete(id, Completion::Failed(failure), wakers);
                }
            }
        }
        if self.requests.queued() == 0 {
            self.coalescing.clear();
        }
    }

    pub(super) fn capacity(&self) -> SendCapacity {
        SendCapacity {
            publishes: self.session.capacity(),
            unsent_bytes: self.session.unsent_bytes(),
            max_unsent_bytes: MAX_UNSENT_BYTES,
            buffered_bytes: self.session.buffered_bytes(),
            max_buffered_bytes: self.max_buffered_bytes,
        }
    }
}
