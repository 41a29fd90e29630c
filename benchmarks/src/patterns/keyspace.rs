//! Notifications of Redis's keyspace. They name the key and the command, but not the value.

use super::{
    lines::{first_line, number},
    sockets::WatchWire,
};
use crate::{
    load::Request,
    redis::Resp,
    socket::{Message, Wire},
};
use std::io::Write;

/// RESP with notifications.
#[derive(Debug)]
pub struct Keyspace;

impl Wire for Keyspace {
    fn open(&mut self, out: &mut Vec<u8>) -> usize {
        // Of commands for strings, with the key in the channel.
        out.extend_from_slice(
            b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$22\r\nnotify-keyspace-events\r\n$2\r\nK$\r\n",
        );
        1
    }

    fn request(&mut self, request: Request, out: &mut Vec<u8>) {
        Resp.request(request, out);
    }

    fn message(&mut self, input: &[u8], _: &mut Vec<u8>) -> Option<(Message, usize)> {
        let (head, mut at) = first_line(input)?;
        let (message, elements) = match head {
            b"+OK" => (Message::Answer, 0),
            // "psubscribe", the pattern and the number of patterns.
            b"*3" => (Message::Answer, 3),
            // "pmessage", the pattern, the channel and the command.
            b"*4" => (Message::Notification, 4),
            other => panic!("redis answers {:?}", String::from_utf8_lossy(other)),
        };
        for _ in 0..elements {
            let (head, len) = first_line(input.get(at..)?)?;
            at += len;
            if let [b'$', bytes @ ..] = head {
                at += number(bytes) + 2;
            }
        }
        (at <= input.len()).then_some((message, at))
    }
}

impl WatchWire for Keyspace {
    fn watch_prefix(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        let pattern = [&b"__keyspace@0__:"[..], prefix, b"*"].concat();
        write!(out, "*2\r\n$10\r\nPSUBSCRIBE\r\n${}\r\n", pattern.len()).expect("memory");
        out.extend_from_slice(&pattern);
        out.extend_from_slice(b"\r\n");
    }
}
