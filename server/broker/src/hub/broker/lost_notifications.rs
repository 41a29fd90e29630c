//! Notifications that were dropped because the broker does not take them. Clients that watch patterns are notified of the gap, once there
//! is room again.
use super::super::Hub;
use super::Broker;
use super::outgoing_message::OutgoingKind;
use statestored_common::ClockReading;
use statestored_store::service::{ChangeNotification, NotificationScope};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clients whose notifications were dropped.
#[derive(Debug, Default)]
pub(super) struct LostNotifications {
    clients: BTreeMap<Arc<str>, PatternGaps>,
}

#[derive(Debug, Default)]
struct PatternGaps {
    /// Whether a notification was dropped since `patterns` was filled.
    is_new: bool,
    /// Patterns of whose gaps the client is still to be notified.
    patterns: Vec<Arc<[u8]>>,
}

impl LostNotifications {
    fn record(&mut self, client: &Arc<str>) {
        self.clients.entry(Arc::clone(client)).or_default().is_new = true;
    }

    /// Forgets all lost notifications.
    pub(super) fn clear(&mut self) {
        self.clients.clear();
    }
}

impl Broker {
    /// Notes that a message is too large for the broker. A client is not notified of the loss of such a notification about a gap, which
    /// would be too large again.
    pub(super) fn record_too_large(&mut self, kind: &OutgoingKind) {
        if let OutgoingKind::Notification {
            client,
            scope: NotificationScope::Matching,
            ..
        } = kind
        {
            self.lost_notifications.record(client);
            self.is_dirty = true;
        }
    }
}

impl Hub {
    /// Notes that a notification to a client behind the broker was dropped.
    pub(super) fn record_lost_notification(&mut self, client: &Arc<str>) {
        let has_patterns = self.service.patterns_watched_by(client).next().is_some();
        if has_patterns && let Some(broker) = &mut self.broker {
            broker.lost_notifications.record(client);
        }
    }

    /// Notifies clients of gaps, as long as there is room, if this server notifies.
    pub(super) fn report_lost_notifications(&mut self, now: ClockReading) {
        let is_active = self.broker.as_ref().is_some_and(|it| it.is_active(now));
        while is_active
            && self.has_broker_capacity()
            && let Some((client, pattern)) = self.next_gap()
        {
            let scope = NotificationScope::Pattern;
            if self.service.is_notified(&client, &pattern, scope, &mut 0) {
                let resync = ChangeNotification::resync(&pattern, &Arc::new(vec![client]));
                self.begin_notifications(std::iter::once(resync), 0, None, now);
            }
        }
    }

    /// Takes the next client with a pattern of whose gap it is to be notified.
    fn next_gap(&mut self) -> Option<(Arc<str>, Arc<[u8]>)> {
        let broker = self.broker.as_mut()?;
        loop {
            let mut entry = broker.lost_notifications.clients.first_entry()?;
            let client = Arc::clone(entry.key());
            let gaps = entry.get_mut();
            if gaps.patterns.is_empty() && std::mem::take(&mut gaps.is_new) {
                let patterns = self.service.patterns_watched_by(&client);
                gaps.patterns = patterns.map(Arc::clone).collect();
            }
            if let Some(pattern) = gaps.patterns.pop() {
                return Some((client, pattern));
            }
            entry.remove();
        }
    }
}
