//! The connection of the server to the broker, which can be cut like those of clients, and is restored.
use super::trunk_pipe::TrunkPipe;
use super::{Event, Simulation};
use crate::broker::Peer;
use bytes::{Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, PacketId, Publish, ReasonCode, decode};
use statestored_broker::hub::Hub;
use std::collections::{HashMap, HashSet};

/// The next event of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BrokerConnectionEvent {
    /// The server starts to connect, unless it is connected.
    Dial,
    /// The connection attempt reaches the broker.
    Accept(u64),
    /// Bytes reach the broker.
    ArriveAtBroker(u64),
    /// Bytes reach the server.
    ArriveAtServer(u64),
    Cut(u64),
    /// The end of the connection reaches the broker.
    EndAtBroker(u64),
    /// The end of the connection reaches the server.
    EndAtServer(u64),
    /// The broker goes down for a while.
    StopBroker,
    StartBroker,
    /// The latest time at which the server has to run.
    RunServer,
}

/// The current connection, if there is one.
#[derive(Debug, Default)]
pub(crate) struct BrokerConnection {
    /// Number of the latest connection.
    number: u64,
    /// Whether the connection is open as far as the server knows.
    is_open: bool,
    /// Whether all bytes are lost, in both directions.
    is_silent: bool,
    up: TrunkPipe,
    down: TrunkPipe,
    /// Bytes that the server has sent and received, up to a whole packet.
    sent: BytesMut,
    received: BytesMut,
    /// Requests that the server has not acknowledged, by their packet identifiers: their correlation data, and their expiry
    /// times.
    unacknowledged: HashMap<PacketId, (Bytes, u64)>,
    answered_requests: HashSet<Bytes>,
    wakes_at_ms: Option<u64>,
}

impl Simulation {
    /// Enters the faults of the broker.
    pub(crate) fn schedule_broker_faults(&mut self) {
        if let Some(behind) = &self.scenario.broker {
            self.schedule_recurring(
                behind.restart_every_ms,
                Event::BrokerConnection(BrokerConnectionEvent::StopBroker),
            );
        }
    }

    pub(crate) fn handle_broker_connection_event(&mut self, event: BrokerConnectionEvent) {
        match event {
            BrokerConnectionEvent::Dial => self.attach(),
            BrokerConnectionEvent::Accept(number) => self.accept_server(number),
            BrokerConnectionEvent::ArriveAtBroker(number) => self.arrive_at_broker(number),
            BrokerConnectionEvent::ArriveAtServer(number) => self.arrive_at_server(number),
            BrokerConnectionEvent::Cut(number) => self.cut_broker_connection(number),
            BrokerConnectionEvent::EndAtBroker(number) => self.connection_ends_at_broker(number),
            BrokerConnectionEvent::EndAtServer(number) => self.connection_ends_at_server(number),
            BrokerConnectionEvent::StopBroker => {
                if self.is_healed {
                    return;
                }
                self.broker_losses += 1;
                self.lose_broker();
                self.start_broker_later();
                let every_ms = self.scenario.broker.as_ref().map(|it| it.restart_every_ms);
                let again = Event::BrokerConnection(BrokerConnectionEvent::StopBroker);
                self.schedule_recurring(every_ms.unwrap_or(0), again);
            }
            BrokerConnectionEvent::StartBroker => self.start_broker(),
            BrokerConnectionEvent::RunServer => {
                self.broker_connection.wakes_at_ms = None;
                self.run_server_connection();
                self.settle();
            }
        }
    }

    pub(crate) fn start_broker_later(&mut self) {
        let at_ms = self.now_ms() + self.chance.log_uniform(1, 2_000);
        self.schedule(
            at_ms,
            Event::BrokerConnection(BrokerConnectionEvent::StartBroker),
        );
    }

    /// Ends all faults: a peer that has not noticed the end of a connection is notified.
    pub(crate) fn heal_broker_connection(&mut self) {
        if self.broker.is_none() {
            return;
        }
        self.start_broker();
        let (number, now_ms) = (self.broker_connection.number, self.now_ms());
        self.broker_connection.is_silent = true;
        self.schedule(
            now_ms + 1,
            Event::BrokerConnection(BrokerConnectionEvent::EndAtBroker(number)),
        );
        self.schedule(
            now_ms + 1,
            Event::BrokerConnection(BrokerConnectionEvent::EndAtServer(number)),
        );
        self.schedule(
            now_ms + 2,
            Event::BrokerConnection(BrokerConnectionEvent::Dial),
        );
    }

    /// Connects the server, if it runs and is not connected.
    pub(crate) fn attach(&mut self) {
        if self.broker.is_none() || self.broker_connection.is_open || self.server.hub.is_none() {
            return;
        }
        let number = self.broker_connection.number + 1;
        let now_ms = self.now_ms();
        let after_ms = self.latency_ms();
        if self.has_fault(self.scenario.refuse_percent) {
            return self.attach_later();
        }
        self.broker_connection = BrokerConnection {
            number,
            is_open: true,
            ..BrokerConnection::default()
        };
        self.trace_event(|| format!("server: connects to the broker, {number}"));
        self.schedule(
            now_ms + after_ms,
            Event::BrokerConnection(BrokerConnectionEvent::Accept(number)),
        );
        let cut_after_ms = self.scenario.broker.as_ref().map(|it| it.cut_after_ms);
        if let Some(cut_after_ms) = cut_after_ms.filter(|after_ms| *after_ms > 0)
            && !self.is_healed
        {
            let at_ms = now_ms + self.chance.log_uniform(1, cut_after_ms * 4);
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::Cut(number)),
            );
        }
    }

    fn attach_later(&mut self) {
        let at_ms = self.now_ms() + self.chance.log_uniform(250, 1_000);
        self.schedule(at_ms, Event::BrokerConnection(BrokerConnectionEvent::Dial));
    }

    fn is_current(&self, number: u64) -> bool {
        self.broker_connection.number == number
    }

    fn accept_server(&mut self, number: u64) {
        if !self.is_current(number) || !self.broker_connection.is_open {
            return;
        }
        let now = self.server_now();
        let (Some(broker), Some(hub)) = (&mut self.broker, &mut self.server.hub) else {
            return;
        };
        if !broker.is_up || self.broker_connection.is_silent {
            self.broker_connection.is_open = false;
            return self.attach_later();
        }
        broker.opened(Peer::Server(number));
        if let Err(error) = hub.broker_connected(None, None, None, now) {
            return self.violated(format!("the server cannot connect: {error}"));
        }
        self.run_server_connection();
        self.settle();
    }

    /// Lets the server read its input, do its work, and send its output.
    pub(crate) fn run_server_connection(&mut self) {
        if !self.broker_connection.is_open {
            return;
        }
        let now = self.server_now();
        let number = self.broker_connection.number;
        loop {
            let Some(hub) = &mut self.server.hub else {
                return;
            };
            let result = hub
                .broker_received(&mut self.broker_connection.down.rest, now)
                .and_then(|more| Ok(hub.poll_broker(now)? || more));
            let output = hub.broker_output(now);
            hub.broker_written(output.len(), false, now);
            self.record_changes();
            self.inspect_output(&output);
            self.send_up(number, output);
            match result {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.trace_event(|| format!("server: leaves the broker: {error}"));
                    let reason = error.reason();
                    return self.detach(reason);
                }
            }
        }
        let wakeup_ms = self.server.hub.as_ref().and_then(Hub::broker_wakeup);
        if let Some(at_ms) = wakeup_ms
            && self
                .broker_connection
                .wakes_at_ms
                .is_none_or(|set_ms| at_ms < set_ms)
        {
            self.broker_connection.wakes_at_ms = Some(at_ms);
            self.schedule(
                at_ms.max(now.mono_ms),
                Event::BrokerConnection(BrokerConnectionEvent::RunServer),
            );
        }
    }

    /// Inspects the bytes that the server sends to the broker.
    fn inspect_output(&mut self, output: &[u8]) {
        self.broker_connection.sent.extend_from_slice(output);
        loop {
            match decode(&mut self.broker_connection.sent, Limits::MAX_PACKET_BYTES) {
                Ok(Some(Packet::Publish(publish))) => {
                    let correlation = publish.correlation_data().map(Bytes::copy_from_slice);
                    self.broker_connection.answered_requests.extend(correlation);
                    self.check_published(&publish);
                }
                Ok(Some(Packet::PubAck(puback))) => self.check_acknowledgement(puback.packet_id),
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => return self.violated(format!("the server says no packet: {error}")),
            }
        }
    }

    /// Checks an acknowledgement: a request may be acknowledged once its response is sent, or if it came too late.
    fn check_acknowledgement(&mut self, packet_id: PacketId) {
        let now_ms = self.now_ms();
        let trunk = &mut self.broker_connection;
        match trunk.unacknowledged.remove(&packet_id) {
            None => self.violated(format!("PUBACK of {packet_id}, which was not asked")),
            Some((correlation, until_ms)) => {
                if !trunk.answered_requests.contains(&correlation) && now_ms <= until_ms {
                    self.violated(format!("{packet_id} is acknowledged and not answered"));
                }
            }
        }
    }

    /// Records a request that reaches the server.
    fn record_request(&mut self, publish: &Publish) {
        if publish.topic().contains("/servers/probe/") {
            // The server acknowledges its own message without a response.
            let acknowledged = publish.packet_id().map(|id| (id, (Bytes::new(), 0)));
            self.broker_connection.unacknowledged.extend(acknowledged);
            return;
        }
        let lifetime_s = publish.message_expiry().map(u64::from);
        let until_ms = lifetime_s.map_or(u64::MAX, |seconds| self.now_ms() + seconds * 1_000);
        let correlation = publish.correlation_data().map(Bytes::copy_from_slice);
        if let (Some(packet_id), Some(correlation)) = (publish.packet_id(), correlation) {
            self.broker_connection
                .unacknowledged
                .insert(packet_id, (correlation, until_ms));
        }
        self.record_broker_request(publish, until_ms);
    }

    fn send_up(&mut self, number: u64, bytes: Bytes) {
        if bytes.is_empty() || self.broker_connection.is_silent {
            return;
        }
        let at_ms = self.now_ms() + self.latency_ms();
        let up = &mut self.broker_connection.up;
        up.last_ms = up.last_ms.max(at_ms);
        up.pieces.push_back((up.last_ms, bytes));
        let at_ms = up.last_ms;
        self.schedule(
            at_ms,
            Event::BrokerConnection(BrokerConnectionEvent::ArriveAtBroker(number)),
        );
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
        if !bytes.is_empty() && !self.broker_connection.is_silent {
            let at_ms = now_ms + self.latency_ms();
            let down = &mut self.broker_connection.down;
            down.last_ms = down.last_ms.max(at_ms);
            down.pieces.push_back((down.last_ms, bytes.freeze()));
            let at_ms = down.last_ms;
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::ArriveAtServer(number)),
            );
        }
        if is_closing {
            self.broker_closes(number);
            if let Some(broker) = &mut self.broker {
                broker.closed(peer, now_ms);
            }
        }
    }

    /// Ends a connection of the server from the broker's side. The server is notified after the bytes in flight.
    pub(crate) fn broker_closes(&mut self, number: u64) {
        if self.is_current(number) && !self.broker_connection.is_silent {
            let at_ms = self.broker_connection.down.last_ms.max(self.now_ms() + 1);
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::EndAtServer(number)),
            );
        }
    }

    fn arrive_at_broker(&mut self, number: u64) {
        if !self.is_current(number) {
            return;
        }
        let now_ms = self.now_ms();
        self.broker_connection.up.arrive(now_ms);
        while let Ok(Some(packet)) = decode(
            &mut self.broker_connection.up.rest,
            Limits::MAX_PACKET_BYTES,
        ) {
            self.broker_received(Peer::Server(number), packet);
        }
        self.serve_broker();
    }

    fn arrive_at_server(&mut self, number: u64) {
        if !self.is_current(number) || !self.broker_connection.is_open {
            return;
        }
        let now_ms = self.now_ms();
        let arrived = self.broker_connection.down.arrive(now_ms);
        self.broker_connection.received.extend_from_slice(&arrived);
        while let Ok(Some(packet)) = decode(
            &mut self.broker_connection.received,
            Limits::MAX_PACKET_BYTES,
        ) {
            if let Packet::Publish(publish) = packet {
                self.record_request(&publish);
            }
        }
        self.run_server_connection();
        self.settle();
    }

    /// Cuts the connection. At times an end does not notice it before all faults end.
    fn cut_broker_connection(&mut self, number: u64) {
        if self.is_healed || !self.is_current(number) || !self.broker_connection.is_open {
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
        self.trace_event(|| {
            format!(
                "the server's connection {number}: cut; what is on its way is lost: up {up_is_lost}, down {down_is_lost}; \
                 noticed: server {server_learns}, broker {broker_learns}"
            )
        });
        let trunk = &mut self.broker_connection;
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
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::EndAtBroker(number)),
            );
        }
        if server_learns {
            let at_ms = down_ms + self.chance.below(30);
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::EndAtServer(number)),
            );
        }
    }

    fn connection_ends_at_broker(&mut self, number: u64) {
        let now_ms = self.now_ms();
        if let Some(broker) = &mut self.broker {
            broker.closed(Peer::Server(number), now_ms);
        }
    }

    fn connection_ends_at_server(&mut self, number: u64) {
        if self.is_current(number) && self.broker_connection.is_open {
            self.trace_event(|| "server: its connection to the broker is over".to_owned());
            self.detach(None);
        }
    }

    /// Handles a lost connection of the server, which connects again.
    fn detach(&mut self, reason: Option<ReasonCode>) {
        self.close_broker_connection(reason);
        self.attach_later();
        self.settle();
    }

    fn close_broker_connection(&mut self, reason: Option<ReasonCode>) {
        let now = self.server_now();
        let number = self.broker_connection.number;
        self.broker_connection.is_open = false;
        if let Some(hub) = &mut self.server.hub {
            let last = hub.broker_disconnected(reason, now).freeze();
            self.send_up(number, last);
        }
        let at_ms = self.broker_connection.up.last_ms.max(now.mono_ms + 1);
        if !self.broker_connection.is_silent {
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::EndAtBroker(number)),
            );
        }
    }

    /// Handles the end of the server's process; the broker ends with it if both share a machine.
    pub(crate) fn drop_broker_connection(&mut self) {
        let Some(behind) = &self.scenario.broker else {
            return;
        };
        let is_with_broker = behind.shares_machine;
        if std::mem::take(&mut self.broker_connection.is_open) && !is_with_broker {
            let (number, now_ms) = (self.broker_connection.number, self.now_ms());
            let at_ms = self.broker_connection.up.last_ms.max(now_ms + 1);
            self.schedule(
                at_ms,
                Event::BrokerConnection(BrokerConnectionEvent::EndAtBroker(number)),
            );
        }
        if is_with_broker {
            self.lose_broker();
            self.start_broker_later();
        }
    }
}
