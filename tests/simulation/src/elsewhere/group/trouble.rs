//! The faults of servers and the broker, and their end.
use super::client::Watching;
use super::{Event, World};
use crate::broker::Peer;

/// A server that pauses for less time than this continues without a consequence.
const SHORT_MS: u64 = 1_500;

impl World {
    /// Causes a fault.
    pub(super) fn trouble(&mut self) {
        let index = self.chance.index(self.members.len());
        let now_ms = self.now_ms;
        match self.chance.below(100) {
            0..20 => self.kill(index),
            20..40 => {
                let long_ms = self.chance.spread(10, 10_000);
                let member = &mut self.members[index];
                if member.runs(now_ms) {
                    self.counts.pauses += 1;
                    member.paused_until_ms = now_ms + long_ms;
                    self.note(|| format!("store-{index}: stands still for {long_ms} ms"));
                    if long_ms > SHORT_MS {
                        self.disturb(index);
                    }
                }
            }
            40..70 => self.cut(index),
            70..80 => {
                self.counts.away += 1;
                self.note(|| format!("store-{index}: the engine is away"));
                self.members[index].cut_off(true);
                self.disturb(index);
            }
            80..95 => {
                self.note(|| format!("store-{index}: the engine is not away"));
                self.members[index].cut_off(false);
                self.disturb(index);
            }
            _ if self.chance.percent(30) => self.end_broker(),
            _ => {}
        }
    }

    fn kill(&mut self, index: usize) {
        let begins_ms = self.now_ms + self.chance.spread(10, 5_000);
        if self.members[index].hub.is_none() {
            return;
        }
        self.counts.kills += 1;
        self.note(|| format!("store-{index}: is killed"));
        self.members[index].kill(begins_ms);
        self.leave(index);
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
        let Some(trunk) = &mut self.members[index].trunk else {
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
        self.counts.cuts += 1;
        self.counts.unnoticed += u64::from(!server_learns || !broker_learns);
        self.note(|| {
            format!(
                "store-{index}: its connection {number} is cut; lost: up {up_is_lost}, down {down_is_lost}; \
                 noticed: server {server_learns}, broker {broker_learns}"
            )
        });
        if broker_learns {
            self.at(at_ms, Event::EndAtBroker(number));
        }
        self.disturb(index);
    }

    /// Takes the broker down for a while; it loses its whole state.
    fn end_broker(&mut self) {
        if !self.broker.is_up {
            return;
        }
        self.counts.broker_ends += 1;
        self.note(|| "broker: is gone".into());
        self.broker.is_up = false;
        self.life += 1;
        for peer in self.broker.lose_all() {
            if let Peer::Server(number) = peer {
                self.lost.insert(number);
                self.broker_hangs_up(number);
            }
        }
        for client in 0..self.clients.len() {
            self.clients[client].input.clear();
            let keys: Vec<_> = self.clients[client].watches.keys().cloned().collect();
            for key in keys {
                self.watches(client, key, Watching::Unsure);
            }
        }
        let at_ms = self.now_ms + self.chance.spread(1, 3_000);
        self.at(at_ms, Event::BrokerIsBack);
    }

    /// Ends all faults.
    pub(super) fn calm_down(&mut self) {
        self.note(|| "calm".into());
        for index in 0..self.members.len() {
            self.members[index].calm_down();
            // A server that has not noticed the end of its connection is notified.
            let now_ms = self.now_ms;
            if let Some(trunk) = &mut self.members[index].trunk
                && trunk.is_silent
            {
                trunk.ends_ms = Some(now_ms + 1);
                let number = trunk.number;
                self.at(now_ms + 1, Event::EndAtBroker(number));
            }
        }
    }
}
