//! The connection of the server to the broker, which can be cut like those of clients, and is restored.
use super::Peer;
use crate::world::{Event, World};
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, PacketId, Publish, ReasonCode, decode};
use statestored::hub::Hub;
use std::collections::{HashMap, HashSet, VecDeque};

/// The next event of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TrunkEvent {
    /// The server starts to connect, unless it is connected.
    Dial,
    /// The connection attempt reaches the broker.
    Accept(u64),
    /// Bytes reach the broker.
    Up(u64),
    /// Bytes reach the server.
    Down(u64),
    Cut(u64),
    /// The end of the connection reaches the broker.
    EndAtBroker(u64),
    /// The end of the connection reaches the server.
    EndAtServer(u64),
    /// The broker goes down for a while.
    LoseBroker,
    StartBroker,
    /// The latest time at which the server has to run.
    Turn,
}

/// A direction of the connection.
#[derive(Debug, Default)]
struct Direction {
    /// Bytes in flight, with their arrival times.
    pieces: VecDeque<(u64, Bytes)>,
    last_ms: u64,
    /// Bytes that arrived and were not taken.
    rest: BytesMut,
}

impl Direction {
    /// Takes the bytes that have arrived by now.
    fn arrive(&mut self, now_ms: u64) -> BytesMut {
        let mut arrived = BytesMut::new();
        while self
            .pieces
            .front()
            .is_some_and(|(at_ms, _)| *at_ms <= now_ms)
            && let Some((_, piece)) = self.pieces.pop_front()
        {
            arrived.extend_from_slice(&piece);
        }
        self.rest.extend_from_slice(&arrived);
        arrived
    }
}

/// The current connection, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Trunk {
    /// Number of the latest connection.
    number: u64,
    /// Whether the connection is open as far as the server knows.
    is_open: bool,
    /// Whether all bytes are lost, in both directions.
    is_silent: bool,
    up: Direction,
    down: Direction,
    /// Bytes that the server has sent and received, up to a whole packet.
    said: BytesMut,
    heard: BytesMut,
    /// Requests that the server has not acknowledged, by their packet identifiers: their correlation data, and their expiry
    /// times.
    asked: HashMap<PacketId, (Bytes, u64)>,
    answered: HashSet<Bytes>,
    wakes_at_ms: Option<u64>,
}

impl World {
    /// Enters the faults of the broker.
    pub(crate) fn begin_behind(&mut self) {
        if let Some(behind) = &self.scenario.behind {
            self.again(behind.lose_every_ms, Event::Trunk(TrunkEvent::LoseBroker));
        }
    }

    pub(crate) fn happen_to_trunk(&mut self, event: TrunkEvent) {
        match event {
            TrunkEvent::Dial => self.attach(),
            TrunkEvent::Accept(number) => self.accept_server(number),
            TrunkEvent::Up(number) => self.arrive_at_broker(number),
            TrunkEvent::Down(number) => self.arrive_at_server(number),
            TrunkEvent::Cut(number) => self.cut_trunk(number),
            TrunkEvent::EndAtBroker(number) => self.trunk_ends_at_broker(number),
            TrunkEvent::EndAtServer(number) => self.trunk_ends_at_server(number),
            TrunkEvent::LoseBroker => {
                if self.is_healed {
                    return;
                }
                self.broker_losses += 1;
                self.lose_broker();
                self.start_broker_later();
                let every_ms = self.scenario.behind.as_ref().map(|it| it.lose_every_ms);
                let again = Event::Trunk(TrunkEvent::LoseBroker);
                self.again(every_ms.unwrap_or(0), again);
            }
            TrunkEvent::StartBroker => self.start_broker(),
            TrunkEvent::Turn => {
                self.trunk.wakes_at_ms = None;
                self.turn_trunk();
                self.settle();
            }
        }
    }

    pub(crate) fn start_broker_later(&mut self) {
        let at_ms = self.now_ms() + self.chance.spread(1, 2_000);
        self.at(at_ms, Event::Trunk(TrunkEvent::StartBroker));
    }

    /// Ends all faults: a peer that has not noticed the end of a connection is notified.
    pub(crate) fn heal_trunk(&mut self) {
        if self.broker.is_none() {
            return;
        }
        self.start_broker();
        let (number, now_ms) = (self.trunk.number, self.now_ms());
        self.trunk.is_silent = true;
        self.at(now_ms + 1, Event::Trunk(TrunkEvent::EndAtBroker(number)));
        self.at(now_ms + 1, Event::Trunk(TrunkEvent::EndAtServer(number)));
        self.at(now_ms + 2, Event::Trunk(TrunkEvent::Dial));
    }

    /// Connects the server, if it runs and is not connected.
    pub(crate) fn attach(&mut self) {
        if self.broker.is_none() || self.trunk.is_open || self.server.hub.is_none() {
            return;
        }
        let number = self.trunk.number + 1;
        let now_ms = self.now_ms();
        let after_ms = self.latency_ms();
        if self.has_fault(self.scenario.refuse_percent) {
            return self.attach_later();
        }
        self.trunk = Trunk {
            number,
            is_open: true,
            ..Trunk::default()
        };
        self.note(|| format!("server: connects to the broker, {number}"));
        self.at(now_ms + after_ms, Event::Trunk(TrunkEvent::Accept(number)));
        let cut_after_ms = self.scenario.behind.as_ref().map(|it| it.cut_after_ms);
        if let Some(cut_after_ms) = cut_after_ms.filter(|after_ms| *after_ms > 0)
            && !self.is_healed
        {
            let at_ms = now_ms + self.chance.spread(1, cut_after_ms * 4);
            self.at(at_ms, Event::Trunk(TrunkEvent::Cut(number)));
        }
    }

    fn attach_later(&mut self) {
        let at_ms = self.now_ms() + self.chance.spread(250, 1_000);
        self.at(at_ms, Event::Trunk(TrunkEvent::Dial));
    }

    fn is_current(&self, number: u64) -> bool {
        self.trunk.number == number
    }

    fn accept_server(&mut self, number: u64) {
        if !self.is_current(number) || !self.trunk.is_open {
            return;
        }
        let now = self.server_now();
        let (Some(broker), Some(hub)) = (&mut self.broker, &mut self.server.hub) else {
            return;
        };
        if !broker.is_up || self.trunk.is_silent {
            self.trunk.is_open = false;
            return self.attach_later();
        }
        broker.opened(Peer::Server(number));
        if let Err(error) = hub.broker_connected(None, None, None, now) {
            return self.violated(format!("the server cannot connect: {error}"));
        }
        self.turn_trunk();
        self.settle();
    }

    /// Lets the server read its input, do its work, and send its output.
    pub(crate) fn turn_trunk(&mut self) {
        if !self.trunk.is_open {
            return;
        }
        let now = self.server_now();
        let number = self.trunk.number;
        loop {
            let Some(hub) = &mut self.server.hub else {
                return;
            };
            let result = hub
                .broker_received(&mut self.trunk.down.rest, now)
                .and_then(|more| Ok(hub.broker_turn(now)? || more));
            let output = hub.broker_output(now);
            hub.broker_written(output.len(), false, now);
            self.note_changes();
            self.said_to_broker(&output);
            self.send_up(number, output);
            match result {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.note(|| format!("server: leaves the broker: {error}"));
                    let reason = error.reason();
                    return self.detach(reason);
                }
            }
        }
        let wakeup_ms = self.server.hub.as_ref().and_then(Hub::broker_wakeup);
        if let Some(at_ms) = wakeup_ms
            && self.trunk.wakes_at_ms.is_none_or(|set_ms| at_ms < set_ms)
        {
            self.trunk.wakes_at_ms = Some(at_ms);
            self.at(at_ms.max(now.mono_ms), Event::Trunk(TrunkEvent::Turn));
        }
    }

    /// Inspects the bytes that the server sends to the broker.
    fn said_to_broker(&mut self, output: &[u8]) {
        self.trunk.said.extend_from_slice(output);
        loop {
            match decode(&mut self.trunk.said, Limits::MAX_PACKET_BYTES) {
                Ok(Some(Packet::Publish(publish))) => {
                    let correlation = publish.correlation_data().map(Bytes::copy_from_slice);
                    self.trunk.answered.extend(correlation);
                    self.check_published(&publish);
                }
                Ok(Some(Packet::PubAck(puback))) => self.acknowledged_to_broker(puback.packet_id),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => return self.violated(format!("the server says no packet: {error}")),
            }
        }
    }

    /// Checks an acknowledgement: a request may be acknowledged once its response is sent, or if it came too late.
    fn acknowledged_to_broker(&mut self, packet_id: PacketId) {
        let now_ms = self.now_ms();
        let trunk = &mut self.trunk;
        match trunk.asked.remove(&packet_id) {
            None => self.violated(format!("PUBACK of {packet_id}, which was not asked")),
            Some((correlation, until_ms)) => {
                if !trunk.answered.contains(&correlation) && now_ms <= until_ms {
                    self.violated(format!("{packet_id} is acknowledged and not answered"));
                }
            }
        }
    }

    /// Records a request that reaches the server.
    fn heard_from_broker(&mut self, publish: &Publish) {
        if publish.topic().contains("/servers/probe/") {
            // The server acknowledges its own message without a response.
            let acknowledged = publish.packet_id().map(|id| (id, (Bytes::new(), 0)));
            self.trunk.asked.extend(acknowledged);
            return;
        }
        let lifetime_s = publish.message_expiry().map(u64::from);
        let until_ms = lifetime_s.map_or(u64::MAX, |seconds| self.now_ms() + seconds * 1_000);
        let correlation = publish.correlation_data().map(Bytes::copy_from_slice);
        if let (Some(packet_id), Some(correlation)) = (publish.packet_id(), correlation) {
            self.trunk.asked.insert(packet_id, (correlation, until_ms));
        }
        self.note_behind(publish, until_ms);
    }

    fn send_up(&mut self, number: u64, bytes: Bytes) {
        if bytes.is_empty() || self.trunk.is_silent {
            return;
        }
        let at_ms = self.now_ms() + self.latency_ms();
        let up = &mut self.trunk.up;
        up.last_ms = up.last_ms.max(at_ms);
        up.pieces.push_back((up.last_ms, bytes));
        let at_ms = up.last_ms;
        self.at(at_ms, Event::Trunk(TrunkEvent::Up(number)));
    }

    /// Sends the broker's output to the server.
    pub(crate) fn send_to_server(&mut self, number: u64) {
        let now_ms = self.now_ms();
        let Some(broker) = &mut self.broker else {
            return;
        };
        let peer = Peer::Server(number);
        let mut bytes = BytesMut::new();
        let result = broker.take_output(peer, &mut bytes, now_ms);
        let is_closing = broker.is_closing(peer);
        self.expect(result);
        if !self.is_current(number) {
            // The server has another connection by now.
            if is_closing && let Some(broker) = &mut self.broker {
                broker.closed(peer, now_ms);
            }
            return;
        }
        if !bytes.is_empty() && !self.trunk.is_silent {
            let at_ms = now_ms + self.latency_ms();
            let down = &mut self.trunk.down;
            down.last_ms = down.last_ms.max(at_ms);
            down.pieces.push_back((down.last_ms, bytes.freeze()));
            let at_ms = down.last_ms;
            self.at(at_ms, Event::Trunk(TrunkEvent::Down(number)));
        }
        if is_closing {
            self.broker_hangs_up(number);
            if let Some(broker) = &mut self.broker {
                broker.closed(peer, now_ms);
            }
        }
    }

    /// Ends a connection of the server from the broker's side. The server is notified after the bytes in flight.
    pub(crate) fn broker_hangs_up(&mut self, number: u64) {
        if self.is_current(number) && !self.trunk.is_silent {
            let at_ms = self.trunk.down.last_ms.max(self.now_ms() + 1);
            self.at(at_ms, Event::Trunk(TrunkEvent::EndAtServer(number)));
        }
    }

    fn arrive_at_broker(&mut self, number: u64) {
        if !self.is_current(number) {
            return;
        }
        let now_ms = self.now_ms();
        self.trunk.up.arrive(now_ms);
        while let Ok(Some(packet)) = decode(&mut self.trunk.up.rest, Limits::MAX_PACKET_BYTES) {
            self.reached_broker(Peer::Server(number), packet);
        }
        self.serve_broker();
    }

    fn arrive_at_server(&mut self, number: u64) {
        if !self.is_current(number) || !self.trunk.is_open {
            return;
        }
        let now_ms = self.now_ms();
        let arrived = self.trunk.down.arrive(now_ms);
        self.trunk.heard.extend_from_slice(&arrived);
        while let Ok(Some(packet)) = decode(&mut self.trunk.heard, Limits::MAX_PACKET_BYTES) {
            if let Packet::Publish(publish) = packet {
                self.heard_from_broker(&publish);
            }
        }
        self.turn_trunk();
        self.settle();
    }

    /// Cuts the connection. At times an end does not notice it before all faults end.
    fn cut_trunk(&mut self, number: u64) {
        if self.is_healed || !self.is_current(number) || !self.trunk.is_open {
            return;
        }
        let now_ms = self.now_ms();
        let (up_is_lost, down_is_lost) = (self.chance.percent(70), self.chance.percent(70));
        let (server_learns, broker_learns) = match self.chance.below(10) {
            0..7 => (true, true),
            7 | 8 => (true, false),
            _ => (false, true),
        };
        self.detachments += 1;
        self.note(|| {
            format!(
                "the server's connection {number}: cut; what is on its way is lost: up {up_is_lost}, down {down_is_lost}; \
                 noticed: server {server_learns}, broker {broker_learns}"
            )
        });
        let trunk = &mut self.trunk;
        trunk.is_silent = true;
        if up_is_lost {
            trunk.up.pieces.clear();
        }
        if down_is_lost {
            trunk.down.pieces.clear();
        }
        let (up_ms, down_ms) = (trunk.up.last_ms.max(now_ms), trunk.down.last_ms.max(now_ms));
        if broker_learns {
            let at_ms = up_ms + self.chance.below(30);
            self.at(at_ms, Event::Trunk(TrunkEvent::EndAtBroker(number)));
        }
        if server_learns {
            let at_ms = down_ms + self.chance.below(30);
            self.at(at_ms, Event::Trunk(TrunkEvent::EndAtServer(number)));
        }
    }

    fn trunk_ends_at_broker(&mut self, number: u64) {
        let now_ms = self.now_ms();
        if let Some(broker) = &mut self.broker {
            broker.closed(Peer::Server(number), now_ms);
        }
    }

    fn trunk_ends_at_server(&mut self, number: u64) {
        if self.is_current(number) && self.trunk.is_open {
            self.note(|| "server: its connection to the broker is over".to_owned());
            self.detach(None);
        }
    }

    /// Handles a lost connection of the server, which connects again.
    fn detach(&mut self, reason: Option<ReasonCode>) {
        self.leave_trunk(reason);
        self.attach_later();
        self.settle();
    }

    fn leave_trunk(&mut self, reason: Option<ReasonCode>) {
        let now = self.server_now();
        let number = self.trunk.number;
        self.trunk.is_open = false;
        if let Some(hub) = &mut self.server.hub {
            let last = hub.broker_disconnected(reason, now).freeze();
            self.send_up(number, last);
        }
        let at_ms = self.trunk.up.last_ms.max(now.mono_ms + 1);
        if !self.trunk.is_silent {
            self.at(at_ms, Event::Trunk(TrunkEvent::EndAtBroker(number)));
        }
    }

    /// Handles the end of the server's process; the broker ends with it if both share a machine.
    pub(crate) fn end_trunk(&mut self) {
        let Some(behind) = &self.scenario.behind else {
            return;
        };
        let is_with_broker = behind.is_with_broker;
        if std::mem::take(&mut self.trunk.is_open) && !is_with_broker {
            let (number, now_ms) = (self.trunk.number, self.now_ms());
            let at_ms = self.trunk.up.last_ms.max(now_ms + 1);
            self.at(at_ms, Event::Trunk(TrunkEvent::EndAtBroker(number)));
        }
        if is_with_broker {
            self.lose_broker();
            self.start_broker_later();
        }
    }
}
