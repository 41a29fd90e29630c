//! A session that ends gracefully: its owner serves requests, acknowledges each message once handled, and takes no new
//! ones before the session ends.
use super::super::{EncodeError, PacketId, PubAck, ReasonCode, UnsubAck, Unsubscribe};
use super::{Session, SessionError};

/// Whether messages are still wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainState {
    Active,
    Requested(PacketId),
    Drained,
}

impl<T: Copy> Session<T> {
    /// Returns the same session, whose owner acknowledges the messages with [`acknowledge`](Self::acknowledge), in the order of
    /// their arrival [MQTT-4.6.0-2].
    ///
    /// A broker that exceeds the Receive Maximum is tolerated: brokers do so in bursts, and a disconnection would lose requests of
    /// clients that have done nothing wrong. The owner bounds the memory of what waits. More messages than there are packet
    /// identifiers end the connection.
    #[must_use]
    pub fn with_manual_acks(mut self) -> Self {
        self.unanswered_messages = Some(0);
        self
    }

    /// Acknowledges a message of this connection, behind everything that was published before.
    ///
    /// # Errors
    /// The broker takes no packet of this size, which is the smallest there is.
    pub fn acknowledge(
        &mut self,
        packet_id: PacketId,
        reason: ReasonCode,
    ) -> Result<(), EncodeError> {
        if let Some(count) = &mut self.unanswered_messages {
            *count = count.saturating_sub(1);
        }
        let puback = PubAck {
            packet_id,
            reason,
            reason_string: None,
        };
        puback.encode(self.peer_limits.max_packet_bytes, self.outbox.pending())
    }

    /// Unsubscribes until the next connection. Messages on their way still arrive.
    ///
    /// # Errors
    /// No packet identifier is free, or the broker takes no packet of this size.
    pub fn drain(&mut self) -> Result<(), SessionError> {
        if !self.is_ready() || self.drain != DrainState::Active {
            return Ok(());
        }
        let subscriptions = self.config.subscriptions.for_client(&self.client_id);
        let packet_id = self
            .ids
            .allocate()
            .ok_or(SessionError::Protocol("no packet identifier is free"))?;
        let unsubscribe = Unsubscribe {
            packet_id,
            filters: subscriptions.into_iter().map(|it| it.filter).collect(),
        };
        unsubscribe.encode(self.peer_limits.max_packet_bytes, self.outbox.pending())?;
        self.drain = DrainState::Requested(packet_id);
        Ok(())
    }

    /// Returns whether the broker has confirmed that no more messages come.
    pub fn is_drained(&self) -> bool {
        self.drain == DrainState::Drained
    }

    /// Returns whether this UNSUBACK answers [`drain`](Self::drain).
    pub(super) fn complete_drain(&mut self, unsuback: &UnsubAck) -> bool {
        let is_it = self.drain == DrainState::Requested(unsuback.packet_id);
        if is_it {
            self.ids.release(unsuback.packet_id);
            self.drain = DrainState::Drained;
        }
        is_it
    }
}
