//! Watches of a bucket of NATS KV by hand: a stream in memory, and a push consumer without acknowledgements for each watcher. The
//! prefix of a key is a token of its subject.

use super::{
    change_log::{PREFIX_BYTES, WATCHERS},
    lines::{first_line, number},
    sockets::WatchWire,
};
use crate::{
    load::{Request, VALUE},
    socket::{Message, Wire},
};
use std::io::Write;

/// Configuration of the bucket: one value of each key.
const STREAM: &str = r#"{"name":"KV_bench","subjects":["$KV.bench.>"],"retention":"limits","discard":"new","storage":"memory","max_msgs_per_subject":1,"max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"num_replicas":1,"allow_rollup_hdrs":true,"deny_delete":true,"allow_direct":true}"#;

/// Identifiers of the subscriptions to answers, and to the messages of the consumer.
const ANSWERS: &[u8] = b"1";
const CHANGES: &[u8] = b"2";

/// The protocol of NATS.
#[derive(Debug)]
pub struct Nats {
    number: usize,
}

impl Nats {
    /// Creates the protocol of a connection. The writer creates the bucket.
    pub fn new(number: usize) -> Self {
        Self { number }
    }

    fn publish(&self, subject: &str, payload: &str, out: &mut Vec<u8>) {
        let (number, len) = (self.number, payload.len());
        write!(
            out,
            "PUB {subject} _INBOX.{number}.0 {len}\r\n{payload}\r\n"
        )
        .expect("memory");
    }
}

impl Wire for Nats {
    fn open(&mut self, out: &mut Vec<u8>) -> usize {
        let number = self.number;
        write!(
            out,
            "CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":false}}\r\nSUB _INBOX.{number}.* 1\r\n"
        )
        .expect("memory");
        // INFO comes first.
        if number < WATCHERS {
            return 1;
        }
        self.publish("$JS.API.STREAM.CREATE.KV_bench", STREAM, out);
        2
    }

    fn request(&mut self, request: Request, out: &mut Vec<u8>) {
        assert!(request.is_set, "no GET is measured");
        let (prefix, rest) = request.key.split_at(PREFIX_BYTES);
        out.extend_from_slice(b"PUB $KV.bench.");
        out.extend_from_slice(prefix);
        out.push(b'.');
        out.extend_from_slice(rest);
        write!(out, " _INBOX.{}.0 {}\r\n", self.number, VALUE.len()).expect("memory");
        out.extend_from_slice(&VALUE);
        out.extend_from_slice(b"\r\n");
    }

    fn message(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(Message, usize)> {
        let (line, at) = first_line(input)?;
        let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
        match words[..] {
            // The subject, the subscription, perhaps a subject for the answer, and the length.
            [b"MSG", _, subscription, .., len] => {
                let end = at + number(len) + 2;
                let payload = input.get(at..end)?;
                let message = match subscription {
                    ANSWERS => {
                        let text = String::from_utf8_lossy(payload);
                        assert!(!text.contains("\"error\""), "NATS answers {text}");
                        Message::Answer
                    }
                    CHANGES => Message::Notification,
                    other => panic!("no subscription {:?}", String::from_utf8_lossy(other)),
                };
                Some((message, end))
            }
            [b"PING", ..] => {
                out.extend_from_slice(b"PONG\r\n");
                Some((Message::Other, at))
            }
            [b"INFO", ..] => Some((Message::Other, at)),
            _ => panic!("NATS sends {:?}", String::from_utf8_lossy(line)),
        }
    }
}

impl WatchWire for Nats {
    fn watch_prefix(&mut self, prefix: &[u8], out: &mut Vec<u8>) {
        let (number, prefix) = (self.number, String::from_utf8_lossy(prefix));
        write!(out, "SUB changes.{number} 2\r\n").expect("memory");
        let consumer = format!(
            "{{\"stream_name\":\"KV_bench\",\"config\":{{\"deliver_subject\":\"changes.{number}\",\
             \"filter_subject\":\"$KV.bench.{prefix}.>\",\"deliver_policy\":\"new\",\"ack_policy\":\"none\",\
             \"replay_policy\":\"instant\",\"mem_storage\":true,\"num_replicas\":1}}}}"
        );
        self.publish("$JS.API.CONSUMER.CREATE.KV_bench", &consumer, out);
    }
}
