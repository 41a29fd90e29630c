//! The broker in a run: its input and output, its end, and its start.
use super::Simulation;
use super::network::CloseKind;
use crate::broker::{Broker, Peer};
use statestore_protocol::mqtt::Packet;

impl Simulation {
    /// Sends the pending output of the broker to all peers.
    pub(crate) fn serve_broker(&mut self) {
        let peers = self.broker.as_ref().map(Broker::peers);
        for peer in peers.into_iter().flatten() {
            match peer {
                Peer::Client(link) => self.serve(link),
                Peer::Server(number) => self.send_to_server(number),
            }
        }
    }

    /// Handles a packet that reached the broker.
    pub(crate) fn broker_received(&mut self, peer: Peer, packet: Packet) {
        let now_ms = self.now_ms();
        if let Some(broker) = &mut self.broker {
            let result = broker.received(peer, packet, now_ms);
            self.expect(result);
        }
    }

    /// Takes the broker down for a while.
    pub(crate) fn lose_broker(&mut self) {
        let Some(broker) = &mut self.broker else {
            return;
        };
        broker.is_up = false;
        let peers = broker.lose_state();
        self.trace_event(|| "broker: is gone".to_owned());
        for peer in peers {
            match peer {
                Peer::Client(link) => {
                    self.links[link].server_end.peer = None;
                    if self.chance.percent(70) {
                        self.server_closes(link, CloseKind::Reset);
                    }
                }
                Peer::Server(number) => self.broker_closes(number),
            }
        }
    }

    /// Brings the broker back.
    pub(crate) fn start_broker(&mut self) {
        if let Some(broker) = &mut self.broker
            && !broker.is_up
        {
            broker.is_up = true;
            self.trace_event(|| "broker: is back".to_owned());
        }
    }
}
