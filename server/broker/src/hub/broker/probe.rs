//! Probes of the broker: messages of this server to itself. A broker whose routing hangs still answers pings and keeps the connection.
use super::super::Hub;
use super::outgoing_message::ACK_TIMEOUT_MS;
use super::{Broker, BrokerError};
use ring::digest::{SHA256, digest};
use statestore_protocol::mqtt::session::{PublishOptions, Session};
use statestore_protocol::mqtt::{
    EncodeError, Publish, PublishHeader, QoS, ReasonCode, Subscription,
};
use statestore_protocol::topic;
use statestored_common::ClockReading;
use std::fmt::Write as _;

/// Milliseconds between the last delivered message and the next probe.
const INTERVAL_MS: u64 = 10_000;
/// Seconds within which a probe, or another message, must be delivered.
const TIMEOUT_S: u32 = 10;
/// Extra milliseconds before a probe counts as lost. A process that was stopped for a while reads its socket in this time.
const GRACE_MS: u64 = 1_000;
/// Bytes of the digest that name the topic of a server.
const TOPIC_DIGEST_BYTES: usize = 16;

/// The probes of one server.
#[derive(Debug)]
pub(super) struct Probe {
    topic: String,
    state: ProbeState,
    /// Number of the last probe. Its payload, so that a late probe of a former connection is not taken for this one.
    number: u64,
    history: ProbeHistory,
    /// Whether the log has reported for this connection that probes do not work.
    is_reported: bool,
    /// Whether the last connection ended because of a lost probe, and nothing was delivered since.
    pub(super) is_failing: bool,
    /// Number of connections that ended because of a lost probe.
    pub(super) failures: u64,
}

/// Whether the broker delivers probes to this server when it delivers messages at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProbeHistory {
    /// Not yet, or not any more. Its ACLs may forbid it.
    NeverDelivered,
    /// The last probe was delivered.
    Delivered,
    /// Earlier probes were delivered. The last one was lost while other messages were delivered.
    LastLost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProbeState {
    /// There is no connection, or the broker forbids the topic.
    Disabled,
    Idle {
        until_ms: u64,
    },
    InFlight {
        until_ms: u64,
        is_acknowledged: bool,
        /// Whether another message was delivered meanwhile.
        has_received: bool,
        is_late: bool,
    },
}

impl Probe {
    pub(super) fn new(client_id: &str) -> Self {
        let digest = digest(&SHA256, client_id.as_bytes());
        let mut topic = format!("statestore/v1/{}/servers/probe/", topic::STORE_GUID);
        for byte in digest.as_ref().iter().take(TOPIC_DIGEST_BYTES) {
            // Writing to a string does not fail.
            let _ = write!(topic, "{byte:02x}");
        }
        Self {
            topic,
            state: ProbeState::Disabled,
            number: 0,
            history: ProbeHistory::NeverDelivered,
            is_reported: false,
            is_failing: false,
            failures: 0,
        }
    }

    /// Returns the subscription of the probes. With QoS 0, requests that wait here do not hold them up.
    pub(super) fn subscription(&self) -> Subscription {
        Subscription {
            qos: QoS::AtMostOnce,
            ..Subscription::at_least_once(&self.topic)
        }
    }

    /// Begins with a connection on which requests can come.
    pub(super) fn attach(&mut self, granted: Option<ReasonCode>, now: ClockReading) {
        self.is_reported = false;
        match granted.filter(|reason| reason.is_failure()) {
            Some(reason) => self.disable("subscribe", reason),
            None => {
                self.state = ProbeState::Idle {
                    until_ms: now.mono_ms,
                }
            }
        }
    }

    /// Ends with the connection.
    pub(super) fn detach(&mut self) {
        self.state = ProbeState::Disabled;
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        match self.state {
            ProbeState::Disabled => None,
            ProbeState::Idle { until_ms } | ProbeState::InFlight { until_ms, .. } => Some(until_ms),
        }
    }

    fn disable(&mut self, action: &str, reason: ReasonCode) {
        self.state = ProbeState::Disabled;
        self.is_failing = false;
        self.report(format_args!("the broker refuses to {action}: {reason}"));
    }

    fn report(&mut self, failure: std::fmt::Arguments<'_>) {
        if !std::mem::replace(&mut self.is_reported, true) {
            tracing::warn!(
                topic = self.topic,
                %failure,
                "cannot check that the broker delivers messages: only its answers to pings count; let this server publish to the topic \
                 and read it (docs/attached.md)"
            );
        }
    }

    fn schedule_next(&mut self, now: ClockReading) {
        self.state = ProbeState::Idle {
            until_ms: now.mono_ms.saturating_add(INTERVAL_MS),
        };
    }

    /// Notes that the broker has delivered a message, or is about to.
    pub(super) fn record_delivery(&mut self, now: ClockReading) {
        self.is_failing = false;
        match &mut self.state {
            ProbeState::Disabled => {}
            ProbeState::Idle { .. } => self.schedule_next(now),
            ProbeState::InFlight { has_received, .. } => *has_received = true,
        }
    }

    /// Notes a delivered message if it is a probe, and returns whether it is.
    pub(super) fn handle_publish(&mut self, publish: &Publish, now: ClockReading) -> bool {
        if publish.topic() != self.topic {
            return false;
        }
        let is_last = publish.payload_bytes() == self.number.to_string().as_bytes();
        if is_last && matches!(self.state, ProbeState::InFlight { .. }) {
            self.history = ProbeHistory::Delivered;
            self.is_failing = false;
            self.schedule_next(now);
        }
        true
    }

    /// Notes the acknowledgement of a message if it is a probe, and returns whether it is.
    pub(super) fn handle_acknowledgement(&mut self, tag: u64, reason: ReasonCode) -> bool {
        // The probe itself may have arrived before.
        let is_probe = tag == Self::tag(self.number);
        if is_probe && reason.is_failure() {
            self.disable("publish", reason);
        } else if is_probe
            && let ProbeState::InFlight {
                is_acknowledged, ..
            } = &mut self.state
        {
            *is_acknowledged = true;
        }
        is_probe
    }

    /// Returns the tag of a probe. Messages are counted from 1 upwards, probes from the maximum downwards.
    fn tag(number: u64) -> u64 {
        u64::MAX - number
    }

    /// Publishes the next probe if it is due.
    fn publish(&mut self, session: &mut Session<u64>, now: ClockReading) {
        let number = self.number + 1;
        let tag = Self::tag(number);
        let until_ms = now.mono_ms.saturating_add(u64::from(TIMEOUT_S) * 1000);
        let payload = number.to_string();
        let header = PublishHeader {
            topic: &self.topic,
            message_expiry: Some(TIMEOUT_S),
            ..PublishHeader::default()
        };
        let terms = PublishOptions {
            tag,
            deadline_ms: now.mono_ms.saturating_add(ACK_TIMEOUT_MS),
            is_harmless: true,
        };
        let published = session.publish(
            &header,
            payload.len(),
            |out| out.extend_from_slice(payload.as_bytes()),
            terms,
        );
        match published {
            Ok(_) => {
                self.number = number;
                self.state = ProbeState::InFlight {
                    until_ms,
                    is_acknowledged: false,
                    has_received: false,
                    is_late: false,
                };
            }
            // Messages that the broker has not acknowledged have deadlines of their own.
            Err(EncodeError::WindowFull) => self.schedule_next(now),
            Err(error) => {
                self.state = ProbeState::Disabled;
                self.report(format_args!("{error}"));
            }
        }
    }

    /// Returns whether the probe under way is lost, once its time is over.
    fn is_lost(&mut self, is_busy: bool, now: ClockReading) -> bool {
        let ProbeState::InFlight {
            until_ms,
            is_acknowledged,
            has_received,
            is_late,
            ..
        } = &mut self.state
        else {
            return false;
        };
        if *has_received || is_busy {
            self.history = match self.history {
                ProbeHistory::Delivered => ProbeHistory::LastLost,
                ProbeHistory::LastLost | ProbeHistory::NeverDelivered => {
                    ProbeHistory::NeverDelivered
                }
            };
            self.schedule_next(now);
        } else if !std::mem::replace(is_late, true) {
            *until_ms = now.mono_ms.saturating_add(GRACE_MS);
        } else if *is_acknowledged && self.history == ProbeHistory::NeverDelivered {
            self.report(format_args!(
                "the broker acknowledges the messages, but does not deliver them"
            ));
            self.schedule_next(now);
        } else {
            self.state = ProbeState::Disabled;
            self.is_failing = true;
            self.failures += 1;
            return true;
        }
        false
    }
}

impl Broker {
    /// Acknowledges a probe of a broker that ignores the granted QoS and waits for it.
    pub(super) fn acknowledge_probe(&mut self, publish: &Publish) {
        if let Some(packet_id) = publish.packet_id() {
            let number = self.unacknowledged.push(packet_id);
            self.unacknowledged.finish(number, ReasonCode::SUCCESS);
        }
    }
}

impl Hub {
    /// Publishes the next probe of the broker, or judges the one under way.
    pub(super) fn probe_broker(&mut self, now: ClockReading) -> Result<(), BrokerError> {
        let Some(broker) = &mut self.broker else {
            return Ok(());
        };
        let Some(session) = broker.session.as_mut().filter(|session| session.is_ready()) else {
            return Ok(());
        };
        let probe = &mut broker.probe;
        if probe.next_ms().is_none_or(|next_ms| now.mono_ms < next_ms) {
            return Ok(());
        }
        // Large messages are on their way, or the broker may send no more requests.
        let is_busy = session.unsent_bytes() > 0 || broker.unacknowledged.is_full();
        if probe.is_lost(is_busy, now) {
            return Err(BrokerError::ProbeLost {
                topic: probe.topic.clone(),
            });
        }
        if let ProbeState::Idle { until_ms } = probe.state
            && now.mono_ms >= until_ms
        {
            probe.publish(session, now);
        }
        Ok(())
    }
}
