//! Connections that delay, split, lose and end.
use super::server_end::ServerEnd;
use super::{Event, Simulation};
use crate::faults::Mishap;
use crate::wire_monitor;
use bytes::{Buf, Bytes, BytesMut};
use statestore_protocol::mqtt::{Limits, Packet, decode};
use std::collections::VecDeque;
use std::task::Waker;
use tokio::io::ReadBuf;

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the server.
    ToServer,
    ToClient,
}

/// The end of a connection as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseKind {
    /// The server has closed the connection.
    Closed,
    Reset,
}

/// A pipe: a direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Bytes in flight, with their arrival times.
    pieces: VecDeque<(u64, Bytes)>,
    /// Bytes that were sent and not taken at the other end.
    unread: usize,
    capacity: usize,
    last_arrival_ms: u64,
    /// Number of bytes until the connection is cut.
    until_cut: Option<usize>,
    /// Whether sent bytes are lost without an error.
    is_silent: bool,
}

impl Pipe {
    pub(crate) fn free_bytes(&self) -> usize {
        self.capacity.saturating_sub(self.unread)
    }
    fn set_silent(&mut self, loses_what_is_on_its_way: bool) {
        self.is_silent = true;
        if loses_what_is_on_its_way {
            self.pieces.clear();
        }
    }
}

/// The client's end.
#[derive(Debug, Default)]
pub(crate) struct ClientEnd {
    is_accepted: bool,
    is_open: bool,
    pub(crate) inbox: BytesMut,
    /// Kind of end of the stream, once the inbox is empty.
    pub(crate) ended: Option<CloseKind>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// Time since which the client had bytes that the connection did not accept, and the time at which it accepted them.
    pub(crate) write_blocked: Option<(u64, Option<u64>)>,
    wire: wire_monitor::WireMonitor,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: usize,
    pub(crate) dialed_ms: u64,
    /// Time that the client may take to notice a silent connection.
    silence_ms: u64,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    pub(crate) client_end: ClientEnd,
    pub(crate) server_end: ServerEnd,
    /// Limits that each end is told instead of the real ones of the other end, if they are lower.
    pub(crate) lowered: LoweredLimits,
}

/// Limits that the network rewrites, so that they differ from connection to connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoweredLimits {
    pub(crate) of_client: Limits,
    pub(crate) of_server: Limits,
}

impl Default for LoweredLimits {
    fn default() -> Self {
        let unlimited = Limits {
            topic_alias_maximum: u16::MAX,
            ..Limits::default()
        };
        Self {
            of_client: unlimited,
            of_server: unlimited,
        }
    }
}

pub(crate) fn lower(limits: &mut Limits, to: Limits) {
    limits.receive_maximum = limits.receive_maximum.min(to.receive_maximum);
    limits.max_packet_bytes = limits.max_packet_bytes.min(to.max_packet_bytes);
    limits.topic_alias_maximum = limits.topic_alias_maximum.min(to.topic_alias_maximum);
}

impl Simulation {
    /// Connects a client. Returns the connection, unless it is refused, and the time that the client waits for it.
    pub(crate) fn dial(&mut self, client: usize) -> (Option<usize>, u64) {
        let now_ms = self.now_ms();
        let (there, back) = (self.latency_ms(), self.latency_ms());
        if self.has_fault(self.scenario.refuse_percent) {
            self.fault_counts.count(Mishap::Refused);
            self.trace_event(|| format!("c{client}: connect refused"));
            return (None, there + back);
        }
        let is_silent = self.has_fault(self.scenario.refuse_percent / 2);
        let up = self.pipe();
        let down = self.pipe();
        let lowered = self.lowered_limits();
        let link = self.links.len();
        self.links.push(Link {
            client,
            dialed_ms: now_ms,
            silence_ms: self.machines[client].silence_ms,
            up,
            down,
            client_end: ClientEnd {
                is_open: true,
                ..ClientEnd::default()
            },
            server_end: ServerEnd::default(),
            lowered,
        });
        if is_silent {
            self.fault_counts.count(Mishap::Unanswered);
            self.trace_event(|| format!("c{client} link {link}: connects into silence"));
            return (Some(link), 1_000_000);
        }
        self.trace_event(|| format!("c{client} link {link}: connects"));
        self.schedule(now_ms + there, Event::Accept(link));
        if self.scenario.cut_after_ms > 0 && !self.is_healed {
            let after_ms = self.chance.log_uniform(1, self.scenario.cut_after_ms * 4);
            self.schedule(now_ms + after_ms, Event::Cut(link));
        }
        (Some(link), there + back)
    }

    fn pipe(&mut self) -> Pipe {
        let until_cut = self
            .has_fault(self.scenario.cut_percent)
            .then(|| self.chance.log_uniform(1, 20_000))
            .and_then(|bytes| usize::try_from(bytes).ok());
        let late_ms = if self.has_fault(self.scenario.late_percent) {
            self.fault_counts.count(Mishap::LateBytes);
            self.chance.log_uniform(300, 8_000)
        } else {
            0
        };
        let capacity = if self.is_healed {
            64_000
        } else {
            self.chance.pick(&[600, 5_000, 64_000])
        };
        Pipe {
            pieces: VecDeque::new(),
            unread: 0,
            capacity,
            last_arrival_ms: self.now_ms() + late_ms,
            until_cut,
            is_silent: false,
        }
    }

    fn lowered_limits(&mut self) -> LoweredLimits {
        let mut lowered = LoweredLimits::default();
        if self.is_healed || !self.scenario.lowers_limits {
            return lowered;
        }
        self.fault_counts.count(Mishap::Lowered);
        for limits in [&mut lowered.of_client, &mut lowered.of_server] {
            if self.chance.percent(60) {
                limits.receive_maximum = u16::try_from(self.chance.log_uniform(1, 30)).unwrap_or(1);
            }
            if self.chance.percent(30) {
                limits.topic_alias_maximum = u16::try_from(self.chance.below(3)).unwrap_or(0);
            }
        }
        // A client that rejects a notification is disconnected, and its observer ends, so only requests may be too large.
        if self.chance.percent(30) {
            let bytes = self.chance.log_uniform(350, 5_000);
            lowered.of_server.max_packet_bytes = u32::try_from(bytes).unwrap_or(5_000);
        }
        lowered
    }

    pub(crate) fn is_accepted(&self, link: usize) -> bool {
        self.links[link].client_end.is_accepted
    }

    /// Handles a connection attempt that reaches the server.
    pub(crate) fn accept(&mut self, link: usize) {
        if !self.links[link].client_end.is_open {
            return;
        }
        let is_accepted = self.server_accepts(link);
        self.links[link].client_end.is_accepted = is_accepted;
    }

    /// Sends bytes from one end towards the other.
    pub(crate) fn send(&mut self, link: usize, way: Direction, mut bytes: Bytes) {
        let now_ms = self.now_ms();
        let pipe = self.pipe_mut(link, way);
        pipe.unread += bytes.len();
        if pipe.is_silent {
            return;
        }
        let mut is_cut = false;
        if let Some(left) = &mut pipe.until_cut {
            is_cut = bytes.len() >= *left;
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        while !bytes.is_empty() {
            let is_split = self.chance.percent(self.scenario.split_percent);
            let len = if is_split {
                self.fault_counts.count(Mishap::Split);
                1 + self.chance.index(bytes.len())
            } else {
                bytes.len()
            };
            let piece = bytes.split_to(len);
            let arrival_ms = now_ms + self.latency_ms();
            let pipe = self.pipe_mut(link, way);
            let arrival_ms = arrival_ms.max(pipe.last_arrival_ms);
            pipe.last_arrival_ms = arrival_ms;
            pipe.pieces.push_back((arrival_ms, piece));
            self.schedule(arrival_ms, Event::Arrive(link, way));
        }
        if is_cut {
            self.fault_counts.count(Mishap::CutAfterBytes);
            self.cut(link);
        }
    }

    /// Handles bytes that reach the other end.
    pub(crate) fn arrive(&mut self, link: usize, way: Direction) {
        let now_ms = self.now_ms();
        loop {
            let pipe = self.pipe_mut(link, way);
            if pipe.pieces.front().is_none_or(|(at_ms, _)| *at_ms > now_ms) {
                return;
            }
            let Some((_, bytes)) = pipe.pieces.pop_front() else {
                return;
            };
            match way {
                Direction::ToServer => {
                    pipe.unread -= bytes.len();
                    if let Some(writer) = self.links[link].client_end.writer.take() {
                        writer.wake();
                    }
                    self.server_receives(link, bytes);
                }
                Direction::ToClient => {
                    let near = &mut self.links[link].client_end;
                    near.inbox.extend_from_slice(&bytes);
                    if let Some(reader) = near.reader.take() {
                        reader.wake();
                    }
                }
            }
        }
    }

    /// Cuts the connection, in one of several ways.
    pub(crate) fn cut(&mut self, link: usize) {
        let now_ms = self.now_ms();
        let (up_is_lost, down_is_lost) = (self.chance.percent(70), self.chance.percent(70));
        let (client_learns, server_learns) = match self.chance.below(10) {
            0..5 => (true, true),
            5..7 => (false, false),
            7 => (true, false),
            _ => (false, true),
        };
        self.trace_event(|| {
            format!(
                "link {link}: cut; what is on its way is lost: up {up_is_lost}, down {down_is_lost}; \
                 noticed: client {client_learns}, server {server_learns}"
            )
        });
        if up_is_lost || down_is_lost {
            self.fault_counts.count(Mishap::LostOnTheWay);
        }
        if !client_learns || !server_learns {
            self.fault_counts.count(Mishap::Unnoticed);
        }
        let ends = &mut self.links[link];
        ends.up.set_silent(up_is_lost);
        ends.down.set_silent(down_is_lost);
        let (up_ms, down_ms) = (ends.up.last_arrival_ms, ends.down.last_arrival_ms);
        if client_learns {
            let at_ms = down_ms.max(now_ms) + self.chance.below(30);
            self.schedule(at_ms, Event::EndAtClient(link, CloseKind::Reset));
        } else {
            // The arrival of the last bytes makes room for others, which the client takes for a sign of life.
            let moved_ms = down_ms.max(up_ms).max(now_ms);
            self.schedule(
                moved_ms + self.links[link].silence_ms,
                Event::SilenceTimeout(link, now_ms),
            );
        }
        if server_learns {
            let at_ms = up_ms.max(now_ms) + self.chance.below(30);
            self.schedule(at_ms, Event::EndAtServer(link));
        }
    }

    /// Makes the network reliable: broken connections are reset at both ends. With a broker between client and server, some
    /// intact connections stay. Their clients get no reset that would make them repeat requests which were lost behind the
    /// broker.
    pub(crate) fn reset_links(&mut self) {
        let now_ms = self.now_ms();
        for link in 0..self.links.len() {
            let Link {
                up,
                down,
                server_end: far,
                ..
            } = &mut self.links[link];
            if far.peer.is_some() && !up.is_silent && !down.is_silent && self.chance.percent(70) {
                (up.until_cut, down.until_cut) = (None, None);
            } else if self.links[link].client_end.is_open {
                self.links[link].up.set_silent(true);
                self.links[link].down.set_silent(true);
                self.schedule(now_ms + 1, Event::EndAtClient(link, CloseKind::Reset));
                self.schedule(now_ms + 1, Event::EndAtServer(link));
            }
        }
    }

    /// Checks that the client closes a silent connection.
    pub(crate) fn check_silence_noticed(&mut self, link: usize, since_ms: u64) {
        let Link {
            client,
            client_end: near,
            ..
        } = &self.links[link];
        if near.is_open && !self.was_paused(*client, since_ms) {
            self.violated(format!("link {link}: the client does not notice its end"));
        }
    }

    /// Checks that on an idle connection everything is acknowledged.
    pub(crate) fn check_acknowledged(&self, link: usize) -> Result<(), String> {
        let Link {
            client_end: near,
            server_end: far,
            ..
        } = &self.links[link];
        if !near.is_open || !far.is_connected() {
            return Ok(());
        }
        for (who, end) in [("client", &near.wire), ("server", &far.wire)] {
            let left = end.unacknowledged();
            if left > 0 {
                return Err(format!(
                    "link {link}: {left} PUBLISHes of the {who} are not acknowledged"
                ));
            }
        }
        Ok(())
    }

    /// Notifies the client's end that the connection has ended.
    pub(crate) fn end_at_client(&mut self, link: usize, how: CloseKind) {
        let near = &mut self.links[link].client_end;
        near.ended.get_or_insert(how);
        for waker in [near.reader.take(), near.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }

    /// Closes the server's end. The client is notified after the bytes in flight.
    pub(crate) fn server_closes(&mut self, link: usize, how: CloseKind) {
        let down = &self.links[link].down;
        if down.is_silent {
            return;
        }
        let at_ms = down.last_arrival_ms.max(self.now_ms() + 1);
        self.schedule(at_ms, Event::EndAtClient(link, how));
    }

    pub(crate) fn client_closes(&mut self, link: usize) {
        let now_ms = self.now_ms();
        let latency_ms = self.latency_ms();
        let ends = &mut self.links[link];
        ends.client_end.is_open = false;
        ends.down.pieces.clear();
        let is_silent = ends.up.is_silent;
        let at_ms = ends.up.last_arrival_ms.max(now_ms + latency_ms);
        self.trace_event(|| format!("link {link}: the client hangs up"));
        if !is_silent {
            self.schedule(at_ms, Event::EndAtServer(link));
        }
    }

    fn pipe_mut(&mut self, link: usize, way: Direction) -> &mut Pipe {
        let link = &mut self.links[link];
        match way {
            Direction::ToServer => &mut link.up,
            Direction::ToClient => &mut link.down,
        }
    }

    pub(crate) fn client_reads(&mut self, link: usize, buffer: &mut ReadBuf<'_>) {
        let near = &mut self.links[link].client_end;
        let len = near.inbox.len().min(buffer.remaining());
        let read = near.inbox.copy_to_bytes(len);
        buffer.put_slice(&read);
        let result = near.wire.record_received(&read);
        self.links[link].down.unread -= len;
        self.inspect(link, "to the client", "<-", result);
        let now_ms = self.now_ms();
        self.schedule(now_ms, Event::Serve(link));
    }

    pub(crate) fn client_writes(&mut self, link: usize, bytes: &[u8]) {
        let result = self.links[link].client_end.wire.record_sent(bytes);
        let now_ms = self.now_ms();
        // Bytes that were gathered meanwhile are written together with the waiting ones.
        let blocked = &mut self.links[link].client_end.write_blocked;
        if blocked.is_some_and(|(_, until_ms)| until_ms.is_some_and(|until_ms| until_ms < now_ms)) {
            *blocked = None;
        }
        let made_ms = blocked.map_or(now_ms, |(since_ms, _)| since_ms);
        if let Ok(packets) = &result {
            self.check_requests(link, packets, made_ms);
            self.check_order(packets);
        }
        self.inspect(link, "from the client", "->", result);
        self.send(link, Direction::ToServer, Bytes::copy_from_slice(bytes));
        self.changed.notify_one();
    }

    /// Records packets, or their errors.
    pub(crate) fn inspect(
        &mut self,
        link: usize,
        way: &str,
        arrow: &str,
        result: Result<Vec<Packet>, String>,
    ) {
        let client = self.links[link].client;
        match result {
            Ok(packets) if self.trace.is_kept() => {
                for packet in packets {
                    self.trace_event(|| {
                        format!(
                            "c{client} link {link} {arrow} {}",
                            wire_monitor::summary(&packet)
                        )
                    });
                }
            }
            Ok(_) => {}
            Err(error) => self.violated(format!("c{client} link {link}, {way}: {error}")),
        }
    }
}

/// Takes the first packet from a stream, once it is complete.
pub(crate) fn first_packet(stream: &mut BytesMut) -> Option<Packet> {
    decode(stream, Limits::MAX_PACKET_BYTES).ok().flatten()
}
