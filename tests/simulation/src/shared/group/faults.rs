//! The faults of servers and the broker, and their end.
use super::client::WatchState;
use super::{Event, GroupSimulation};
use crate::broker::Peer;

/// A server that pauses for less time than this continues without a consequence.
const HARMLESS_PAUSE_MS: u64 = 1_500;

impl GroupSimulation {
    /// Causes a fault.
    pub(super) fn inject_fault(&mut self) {
        let index = self.chance.index(self.members.len());
        let now_ms = self.now_ms;
        match self.chance.below(100) {
            0..20 => self.kill(index),
            20..40 => {
                let long_ms = self.chance.log_uniform(10, 10_000);
                let member = &mut self.members[index];
                if member.runs(now_ms) {
                    self.metrics.pauses += 1;
                    member.paused_until_ms = now_ms + long_ms;
                    self.trace_event(|| format!("store-{index}: stands still for {long_ms} ms"));
                    if long_ms > HARMLESS_PAUSE_MS {
                        self.mark_disturbed(index);
                    }
                }
            }
            40..70 => self.cut(index),
            70..80 => {
                self.metrics.engine_cuts += 1;
                self.trace_event(|| format!("store-{index}: the engine is away"));
                self.members[index].set_cut_off(true);
                self.mark_disturbed(index);
            }
            80..95 => {
                self.trace_event(|| format!("store-{index}: the engine is not away"));
                self.members[index].set_cut_off(false);
                self.mark_disturbed(index);
            }
            _ if self.chance.percent(30) => self.restart_broker(),
            _ => {}
        }
    }

    fn kill(&mut self, index: usize) {
        let begins_ms = self.now_ms + self.chance.log_uniform(10, 5_000);
        if self.members[index].hub.is_none() {
            return;
        }
        self.metrics.kills += 1;
        self.trace_event(|| format!("store-{index}: is killed"));
        self.members[index].kill(begins_ms);
        self.disconnect(index);
    }

    /// Cuts the connection of a server. At times one of the ends does not notice it.
    fn cut(&mut self, index: usize) {
        let (up_is_lost, down_is_lost) = (self.chance.percent(70), self.chance.percent(70));
        let (server_learns, broker_learns) = match self.chance.below(10) {
            0..6 => (true, true),
            6 | 7 => (true, false),
            _ => (false, true),
        };
        let now_ms = self.now_ms;
        let Some(trunk) = &mut self.members[index].connection else {
            return;
        };
        if std::mem::replace(&mut trunk.is_silent, true) {
            return;
        }
        let number = trunk.number;
        if up_is_lost {
            self.lost.insert(number);
        }
        if down_is_lost {
            trunk.down.clear();
        }
        trunk.ends_ms = server_learns.then_some(trunk.down_ms.max(now_ms + 1));
        let at_ms = trunk.up_ms.max(now_ms + 1);
        self.metrics.cuts += 1;
        self.metrics.unnoticed += u64::from(!server_learns || !broker_learns);
        self.trace_event(|| {
            format!(
                "store-{index}: its connection {number} is cut; lost: up {up_is_lost}, down {down_is_lost}; \
                 noticed: server {server_learns}, broker {broker_learns}"
            )
        });
        if broker_learns {
            self.schedule(at_ms, Event::EndAtBroker(number));
        }
        self.mark_disturbed(index);
    }

    /// Takes the broker down for a while; it loses its whole state.
    fn restart_broker(&mut self) {
        if !self.broker.is_up {
            return;
        }
        self.metrics.broker_ends += 1;
        self.trace_event(|| "broker: is gone".into());
        self.broker.is_up = false;
        self.life += 1;
        for peer in self.broker.lose_state() {
            if let Peer::Server(number) = peer {
                self.lost.insert(number);
                self.broker_closes(number);
            }
        }
        for client in 0..self.clients.len() {
            self.clients[client].input.clear();
            let keys: Vec<_> = self.clients[client].watches.keys().cloned().collect();
            for key in keys {
                self.set_watch_state(client, key, WatchState::Unknown);
            }
        }
        let at_ms = self.now_ms + self.chance.log_uniform(1, 3_000);
        self.schedule(at_ms, Event::BrokerIsBack);
    }

    /// Ends all faults.
    pub(super) fn end_faults(&mut self) {
        self.trace_event(|| "calm".into());
        for index in 0..self.members.len() {
            self.members[index].end_faults();
            // A server that has not noticed the end of its connection is notified.
            let now_ms = self.now_ms;
            if let Some(trunk) = &mut self.members[index].connection
                && trunk.is_silent
            {
                trunk.ends_ms = Some(now_ms + 1);
                let number = trunk.number;
                self.schedule(now_ms + 1, Event::EndAtBroker(number));
            }
        }
    }
}
