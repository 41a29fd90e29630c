//! A socket that speaks a protocol at little cost. Requests are templates with numbers filled in, and only the necessary parts of
//! answers are parsed.

use crate::load::Request;
use mio::{Interest, Registry, Token};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

/// Kind of a complete message from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The answer to a request.
    Answer,
    /// The value of a watched key has changed.
    Notification,
    /// Any other message of the protocol.
    Other,
}

/// The protocol of a connection.
pub trait Wire {
    /// Appends the bytes that open the connection; returns the number of messages that answer them.
    fn open(&mut self, out: &mut Vec<u8>) -> usize;

    /// Appends a request.
    fn request(&mut self, request: Request, out: &mut Vec<u8>);

    /// Returns the kind and the length of the first message of the input; `None` if it is not complete. Appends the
    /// acknowledgement that the protocol requires. Panics if the message is an error.
    fn message(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(Message, usize)>;
}

/// Minimum input length for which a read may leave bytes behind.
const READ_BYTES: usize = 256 * 1024;

/// The read buffer of all sockets of a thread.
#[derive(Debug)]
pub struct ReadBuffer(Vec<u8>);

impl Default for ReadBuffer {
    fn default() -> Self {
        Self(vec![0; READ_BYTES])
    }
}

/// A connection to a server on this machine.
#[derive(Debug)]
pub struct Socket<W> {
    stream: mio::net::TcpStream,
    /// The protocol.
    pub wire: W,
    /// The start of an incomplete message.
    begun: Vec<u8>,
    /// Bytes to be written.
    pub out: Vec<u8>,
}

impl<W: Wire> Socket<W> {
    /// Connects and opens the connection.
    pub fn open(port: u16, mut wire: W) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap_or_else(|error| {
            panic!("cannot connect to port {port} (too few open files? see `ulimit -n`): {error}")
        });
        stream.set_nodelay(true).expect("a socket of TCP");
        let mut out = Vec::new();
        let mut answers = wire.open(&mut out);
        stream.write_all(&out).expect("the server reads");
        out.clear();
        let (mut input, mut part) = (Vec::new(), [0; 4096]);
        while answers > 0 {
            let count = stream.read(&mut part).expect("the server answers");
            assert!(count > 0, "the server has closed the connection");
            input.extend_from_slice(&part[..count]);
            while let Some((_, len)) = wire.message(&input, &mut out) {
                input.drain(..len);
                answers -= 1;
            }
        }
        stream.set_nonblocking(true).expect("a socket of TCP");
        Self {
            stream: mio::net::TcpStream::from_std(stream),
            wire,
            begun: input,
            out,
        }
    }

    /// Registers the socket with a poll, for input, and for output after a full write buffer.
    pub fn register(&mut self, registry: &Registry, number: usize) {
        registry
            .register(
                &mut self.stream,
                Token(number),
                Interest::READABLE | Interest::WRITABLE,
            )
            .expect("a socket that is not registered yet");
    }

    /// Hands over each message that has arrived; [`flush`](Self::flush) writes the acknowledgements of the protocol.
    pub fn receive(&mut self, buffer: &mut ReadBuffer, mut each: impl FnMut(Message)) {
        loop {
            let count = match self.stream.read(&mut buffer.0) {
                Ok(0) => panic!("the server has closed the connection"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("cannot read: {error}"),
            };
            let input = if self.begun.is_empty() {
                &buffer.0[..count]
            } else {
                self.begun.extend_from_slice(&buffer.0[..count]);
                &self.begun
            };
            let mut at = 0;
            while let Some((message, len)) = self.wire.message(&input[at..], &mut self.out) {
                at += len;
                each(message);
            }
            if self.begun.is_empty() {
                self.begun.extend_from_slice(&buffer.0[at..count]);
            } else {
                self.begun.drain(..at);
            }
            // Input after a read that left room has an event of its own.
            if count < READ_BYTES {
                return;
            }
        }
    }

    /// Writes pending bytes, as far as the system accepts them.
    pub fn flush(&mut self) {
        let mut written = 0;
        while written < self.out.len() {
            match self.stream.write(&self.out[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("cannot write: {error}"),
            }
        }
        self.out.drain(..written);
    }
}
