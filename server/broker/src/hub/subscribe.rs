//! SUBSCRIBE and UNSUBSCRIBE (MQTT 5, sections 3.8 to 3.11).
use super::refusal_log::RefusalCause;
use super::session::Session;
use super::subscriptions::{Subscription, is_exact};
use super::{ConnectionId, Hub, SessionId};
use statestore_protocol::mqtt::{
    self, CheckedTopic, QoS, ReasonCode, SubAck, Subscribe, UnsubAck, Unsubscribe,
};
use statestore_protocol::topic;
use statestored_access::topic_filter;
use statestored_access::{Rights, UserLimits};
use statestored_common::ClockReading;

/// Memory of a subscription in its session and in the table of those without wildcards.
const SUBSCRIPTION_BYTES: usize = 256;
/// Memory of a level of a topic filter in the trees of subscriptions, at most.
const LEVEL_BYTES: usize = 240;

/// Returns the memory of a subscription: its text here and there, and its levels, as if no other client had the same filter.
fn filter_bytes(filter: &str) -> usize {
    let levels = if is_exact(filter) {
        0
    } else {
        filter.split('/').count()
    };
    SUBSCRIPTION_BYTES + 3 * filter.len() + levels * LEVEL_BYTES
}

/// Returns whether a client with these rights may subscribe to a filter. Messages of the store reach their recipients whatever the
/// subscriptions are. So each client that may use the store may subscribe to them.
pub(super) fn may_subscribe(rights: Option<&Rights>, filter: &str) -> bool {
    rights.is_none_or(|rights| {
        rights.may_subscribe(filter) || (topic::is_from_store(filter) && rights.may_use_store())
    })
}

impl Hub {
    #[cold]
    pub(super) fn handle_subscribe(
        &mut self,
        id: ConnectionId,
        session: SessionId,
        packet: Subscribe,
        now: ClockReading,
    ) {
        let mut reasons = Vec::with_capacity(packet.subscriptions.len());
        for wanted in packet.subscriptions {
            if topic_filter::is_shared(&wanted.filter) && wanted.no_local {
                let why = "a shared subscription cannot be no-local";
                return self.disconnect_with(id, ReasonCode::PROTOCOL_ERROR, why, now);
            }
            let reason = self.grant_subscription(session, &wanted, packet.subscription_id);
            if reason.is_failure() {
                let why = match reason {
                    ReasonCode::NOT_AUTHORIZED => {
                        "this client may not subscribe to this topic filter"
                    }
                    ReasonCode::QUOTA_EXCEEDED => {
                        "the session has as many topic filters as it may have"
                    }
                    ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED => {
                        "shared subscriptions are not supported"
                    }
                    _ => "the topic filter is not valid",
                };
                self.record_keyless_refusal(id, RefusalCause::from_reason_code(reason), why, now);
            }
            reasons.push(reason);
        }
        let suback = SubAck {
            packet_id: packet.packet_id,
            reasons,
            reason_string: None,
        };
        self.append(id, now, |out, max_packet_bytes| {
            suback.encode(max_packet_bytes, out)
        });
    }

    /// Adds or replaces one subscription. QoS 2 is granted as QoS 1. No message is retained, so the retain options have no effect.
    fn grant_subscription(
        &mut self,
        id: SessionId,
        subscription: &mqtt::Subscription,
        identifier: Option<u32>,
    ) -> ReasonCode {
        let has = self.sessions.wildcards_of_owner(id);
        let Some(session) = self.sessions.get_mut(id) else {
            return ReasonCode::UNSPECIFIED_ERROR;
        };
        let filter = subscription.filter.as_str();
        if topic_filter::is_shared(filter) {
            return ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED;
        }
        if !topic_filter::is_valid_filter(filter) {
            return ReasonCode::TOPIC_FILTER_INVALID;
        }
        if filter == topic::REQUEST {
            return ReasonCode::NOT_AUTHORIZED;
        }
        if !may_subscribe(session.rights.as_deref(), filter) {
            self.metrics.subscriptions_refused += 1;
            return ReasonCode::NOT_AUTHORIZED;
        }
        let is_new = !session.subscriptions.contains_key(filter);
        if is_new {
            let limits = self.limits.users.get(&session.principal);
            let most = limits
                .subscriptions
                .unwrap_or(UserLimits::MAX_WILDCARD_SUBSCRIPTIONS);
            if !is_exact(filter) && has >= most {
                self.metrics.subscriptions_refused += 1;
                return ReasonCode::QUOTA_EXCEEDED;
            }
            if session.subscriptions.len() >= self.limits.max_subscriptions
                || session.filter_text_bytes + filter.len() > self.limits.max_filter_bytes
            {
                return ReasonCode::QUOTA_EXCEEDED;
            }
            session.filter_text_bytes += filter.len();
            session.filter_bytes += filter_bytes(filter);
            session.update_reservation();
        }
        let at_least_once = subscription.qos != QoS::AtMostOnce;
        let subscription = Subscription {
            at_least_once,
            no_local: subscription.no_local,
            identifier,
        };
        self.subscriptions.insert(filter, id, subscription);
        let former = session
            .subscriptions
            .insert(filter.into(), subscription)
            .and_then(|former| former.identifier);
        if identifier.is_some() {
            let tree = session.identified.get_or_insert_default();
            tree.insert(filter, (), subscription);
        } else if former.is_some() {
            session.remove_identifier(filter);
        }
        if is_new {
            self.sessions.count_subscription(id, filter, true);
        }
        if at_least_once {
            ReasonCode::GRANTED_QOS_1
        } else {
            ReasonCode::SUCCESS
        }
    }

    #[cold]
    pub(super) fn handle_unsubscribe(
        &mut self,
        id: ConnectionId,
        session_id: SessionId,
        packet: &Unsubscribe,
        now: ClockReading,
    ) {
        let mut reasons = Vec::with_capacity(packet.filters.len());
        for filter in &packet.filters {
            let Some(session) = self.sessions.get_mut(session_id) else {
                return;
            };
            reasons.push(
                if let Some(former) = session.subscriptions.remove(filter.as_str()) {
                    session.filter_text_bytes -= filter.len();
                    session.filter_bytes -= filter_bytes(filter);
                    session.update_reservation();
                    self.subscriptions.remove(filter, session_id);
                    if former.identifier.is_some() {
                        session.remove_identifier(filter);
                    }
                    self.sessions.count_subscription(session_id, filter, false);
                    ReasonCode::SUCCESS
                } else if topic_filter::is_valid_filter(filter) {
                    ReasonCode::NO_SUBSCRIPTION_EXISTED
                } else {
                    ReasonCode::TOPIC_FILTER_INVALID
                },
            );
        }
        let unsuback = UnsubAck {
            packet_id: packet.packet_id,
            reasons,
            reason_string: None,
        };
        self.append(id, now, |out, max_packet_bytes| {
            unsuback.encode(max_packet_bytes, out)
        });
    }
}

impl Session {
    /// Removes the identifier of the subscription to this filter.
    fn remove_identifier(&mut self, filter: &str) {
        if let Some(identified) = &mut self.identified {
            identified.remove(filter, ());
            self.identified.take_if(|identified| identified.is_empty());
        }
    }

    /// Returns the identifiers of the subscriptions that match a topic, for messages that do not come by subscription.
    pub(super) fn identifiers(&mut self, topic: &str) -> Vec<u32> {
        let Some(identified) = &mut self.identified else {
            return Vec::new();
        };
        let matching = identified.matches(topic, None).pop();
        matching
            .map(|matching| matching.identifiers)
            .unwrap_or_default()
    }

    /// Returns the same for the topic of a response. Most sessions have no identifiers and skip the search.
    pub(super) fn identifiers_of_response(&mut self, topic: CheckedTopic<'_>) -> Vec<u32> {
        if self.identified.is_some() {
            self.identifiers(topic.as_str())
        } else {
            Vec::new()
        }
    }

    /// Returns the time that finding identifiers took since the last call, roughly in nanoseconds.
    pub(super) fn take_work(&mut self) -> usize {
        let identified = self.identified.as_mut();
        identified.map_or(0, |identified| identified.take_work())
    }
}
