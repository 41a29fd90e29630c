//! Watchers and a writer on bare sockets, all on one thread.

use super::change_log::{ChangeLog, KEYS, WATCHERS, prefix};
use crate::{
    load::{LoadResult, Request, key},
    mqtt::Mqtt,
    socket::{Message, ReadBuffer, Socket, Wire},
};
use mio::{Events, Poll};
use std::time::Duration;

/// Number of SETs that are sent together before the measurement. Divides [`KEYS`].
const BATCH: u64 = 250;
/// Time after which the writer looks for changes that are due.
const TICK: Duration = Duration::from_millis(1);
/// Maximum time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A protocol with watches of prefixes.
pub trait WatchWire: Wire {
    /// Appends a request to watch the keys with a prefix. It has one answer.
    fn watch_prefix(&mut self, prefix: &[u8], out: &mut Vec<u8>);
}

impl WatchWire for Mqtt {
    fn watch_prefix(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        self.watch_pattern(&[prefix, b"*"].concat(), out);
    }
}

/// Connections to one server.
pub struct SocketWatchers<W> {
    /// The watchers, and the writer behind them.
    sockets: Vec<Socket<W>>,
    poll: Poll,
    events: Events,
    buffer: ReadBuffer,
    log: ChangeLog,
}

impl<W: WatchWire> SocketWatchers<W> {
    /// Opens all connections, sets all keys, and starts the watches. `wire` gets the number of the connection, which is [`WATCHERS`]
    /// for the writer.
    pub fn connect(port: u16, mut wire: impl FnMut(usize) -> W) -> Self {
        let poll = Poll::new().expect("a poll");
        let sockets = (0..=WATCHERS)
            .map(|number| {
                let mut socket = Socket::open(port, wire(number));
                socket.register(poll.registry(), number);
                socket
            })
            .collect();
        let mut watchers = Self {
            sockets,
            poll,
            events: Events::with_capacity(1024),
            buffer: ReadBuffer::default(),
            log: ChangeLog::default(),
        };
        watchers.fill();
        watchers.watch();
        watchers
    }

    fn fill(&mut self) {
        for first in (0..KEYS).step_by(BATCH as usize) {
            let writer = &mut self.sockets[WATCHERS];
            for i in first..first + BATCH {
                writer.wire.request(set(key(i)), &mut writer.out);
            }
            writer.flush();
            self.wait_for_answers(BATCH as usize);
        }
    }

    fn watch(&mut self) {
        for (number, socket) in self.sockets[..WATCHERS].iter_mut().enumerate() {
            socket.wire.watch_prefix(&prefix(number), &mut socket.out);
            socket.flush();
        }
        self.wait_for_answers(WATCHERS);
    }

    fn wait_for_answers(&mut self, answers: usize) {
        let mut left = answers;
        while left > 0 {
            self.poll
                .poll(&mut self.events, Some(ANSWER_TIMEOUT))
                .expect("a poll");
            assert!(!self.events.is_empty(), "{left} requests get no answer");
            for event in &self.events {
                let socket = &mut self.sockets[event.token().0];
                socket.receive(&mut self.buffer, |message| {
                    left -= usize::from(message == Message::Answer);
                });
                socket.flush();
            }
        }
    }

    /// Sends changes for this time, and returns when all watchers are notified.
    pub fn run(&mut self, time: Duration) -> LoadResult {
        let Self {
            sockets,
            poll,
            events,
            buffer,
            log,
        } = self;
        log.start();
        loop {
            if let Some(result) = log.finish(time) {
                return result;
            }
            let writer = &mut sockets[WATCHERS];
            for _ in 0..log.due(time) {
                writer.wire.request(set(log.send()), &mut writer.out);
            }
            writer.flush();
            poll.poll(events, Some(TICK)).expect("a poll");
            for event in &*events {
                let number = event.token().0;
                let socket = &mut sockets[number];
                socket.receive(buffer, |message| match message {
                    Message::Answer => log.record_answer(),
                    Message::Notification => log.record_notification(number),
                    Message::Other => {}
                });
                socket.flush();
            }
        }
    }
}

fn set(key: [u8; 16]) -> Request {
    Request { is_set: true, key }
}
