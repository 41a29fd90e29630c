//! The closed loop of [`load`](crate::load) on bare sockets, all on one thread. Its own cost is so low that two servers can be
//! compared by it.

use crate::{
    load::{LoadResult, Workload},
    socket::{Message, ReadBuffer, Socket, Wire},
};
use mio::{Events, Poll};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Maximum time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections to one server.
pub struct RawLoad<W> {
    connections: Vec<RawConnection<W>>,
    poll: Poll,
    events: Events,
    buffer: ReadBuffer,
    /// Number of the next request.
    number: u64,
}

/// A connection.
struct RawConnection<W> {
    socket: Socket<W>,
    /// Times at which the unanswered requests were sent, in their order.
    sent: VecDeque<Instant>,
}

impl<W: Wire> RawLoad<W> {
    /// Opens this number of connections to a server on this machine.
    pub fn connect(port: u16, connections: usize, wire: impl FnMut(usize) -> W) -> Self {
        Self::connect_each(std::iter::repeat_n(port, connections), wire)
    }

    /// Opens a connection to each of these ports of this machine.
    pub fn connect_each(
        ports: impl Iterator<Item = u16>,
        mut wire: impl FnMut(usize) -> W,
    ) -> Self {
        let poll = Poll::new().expect("a poll");
        let connections = ports
            .enumerate()
            .map(|(number, port)| {
                let mut socket = Socket::open(port, wire(number));
                socket.register(poll.registry(), number);
                RawConnection {
                    socket,
                    sent: VecDeque::new(),
                }
            })
            .collect();
        Self {
            connections,
            poll,
            events: Events::with_capacity(1024),
            buffer: ReadBuffer::default(),
            number: 0,
        }
    }

    /// Runs the mix with this number of requests in flight on each connection. Each answer is followed by a request; those of one
    /// connection are written together.
    pub fn run(&mut self, mix: Workload) -> LoadResult {
        let start = Instant::now();
        let mut latencies = Vec::new();
        let mut waiting = 0;
        for lane in &mut self.connections {
            waiting += mix.in_flight;
            lane.send(mix.in_flight, mix, &mut self.number);
        }
        while waiting > 0 {
            self.poll
                .poll(&mut self.events, Some(ANSWER_TIMEOUT))
                .expect("a poll");
            assert!(!self.events.is_empty(), "{waiting} requests get no answer");
            for event in &self.events {
                let lane = &mut self.connections[event.token().0];
                let answers = lane.receive(&mut self.buffer, &mut latencies);
                if start.elapsed() < mix.time {
                    lane.send(answers, mix, &mut self.number);
                } else {
                    lane.socket.flush();
                    waiting -= answers;
                }
            }
        }
        LoadResult {
            elapsed: start.elapsed(),
            latencies,
        }
    }
}

impl<W: Wire> RawConnection<W> {
    fn send(&mut self, requests: usize, mix: Workload, number: &mut u64) {
        let now = Instant::now();
        for _ in 0..requests {
            let request = mix.request(*number);
            *number += 1;
            self.socket.wire.request(request, &mut self.socket.out);
            self.sent.push_back(now);
        }
        self.socket.flush();
    }

    /// Returns the number of answers.
    fn receive(&mut self, buffer: &mut ReadBuffer, latencies: &mut Vec<u64>) -> usize {
        let mut answers = 0;
        self.socket.receive(buffer, |message| {
            answers += usize::from(message == Message::Answer)
        });
        let now = Instant::now();
        for sent in self.sent.drain(..answers) {
            latencies.push((now - sent).as_nanos() as u64);
        }
        answers
    }
}
