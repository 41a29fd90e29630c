//! Shared subscriptions, which deliver each message to a single member of a group; and wills.
use super::session::{Message, Session};
use super::{Broker, encode_error};
use bytes::BytesMut;
use statestore_protocol::mqtt::{Limits, Packet, PacketId, PublishHeader, QoS, Will, decode};
use std::collections::BTreeSet;

impl Broker {
    /// Delivers a message to a member of each group that shares its topic. Returns whether there is any.
    pub(super) fn share(&mut self, message: &Message) -> bool {
        let groups = |session: &Session| -> Vec<String> {
            session.groups(message.topic()).map(Into::into).collect()
        };
        let groups: BTreeSet<_> = self.sessions.values().flat_map(groups).collect();
        let mut is_wanted = false;
        for group in groups {
            is_wanted |= self.deliver_shared(message.shared(group));
        }
        is_wanted
    }

    /// Delivers a message to a member of its group; the members take turns.
    fn deliver_shared(&mut self, message: Message) -> bool {
        let group = message.group.as_deref();
        let mut members: Vec<_> = self
            .sessions
            .values_mut()
            .filter(|session| session.peer.is_some())
            .filter(|session| session.groups(message.topic()).any(|it| Some(it) == group))
            .collect();
        if members.is_empty() {
            return false;
        }
        self.shared += 1;
        let turn = self.shared % members.len();
        members[turn].push(message);
        true
    }

    /// Returns the correlation data of all unacknowledged messages of group members.
    pub(crate) fn shared_correlations(&self) -> impl Iterator<Item = &[u8]> {
        self.sessions
            .values()
            .flat_map(Session::shared_correlations)
    }

    /// Handles the end of a session: the other members get its unacknowledged group messages, if the broker is configured so.
    pub(super) fn redeliver_shared(&mut self, mut session: Session) {
        if !self.redelivers_shared {
            return;
        }
        for message in session.take_shared() {
            let correlation = message.correlation();
            if self.deliver_shared(message) {
                self.redelivered += 1;
                self.recently_redelivered.extend(correlation);
            }
        }
    }

    /// Publishes the will of a connection that has ended.
    pub(super) fn publish_will(&mut self, will: &Will, now_ms: u64) {
        let properties = will.user_properties.iter();
        let properties: Vec<_> = properties
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        let header = PublishHeader {
            topic: &will.topic,
            packet_id: (will.qos == QoS::AtLeastOnce).then_some(PacketId::MIN),
            user_properties: &properties,
            ..PublishHeader::default()
        };
        let mut bytes = BytesMut::new();
        let write = |out: &mut BytesMut| out.extend_from_slice(&will.payload);
        let most = Limits::MAX_PACKET_BYTES;
        let encoded = header.encode(most, &mut bytes, will.payload.len(), write);
        encoded.map_err(encode_error).expect("a will");
        if let Ok(Some(Packet::Publish(publish))) = decode(&mut bytes, most) {
            self.deliver(&publish, now_ms);
        }
    }
}
