//! Redis as a peer: RESP by hand.

use crate::{
    fragmentation::WriteStep,
    load::{Request, VALUE, key},
    process::Server,
    socket::{Message, Wire},
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

const OK: &[u8] = b"+OK\r\n";

/// RESP on a connection of the raw loop.
#[derive(Debug, Default)]
pub struct Resp;

impl Wire for Resp {
    fn open(&mut self, _: &mut Vec<u8>) -> usize {
        0
    }

    fn request(&mut self, request: Request, out: &mut Vec<u8>) {
        if request.is_set {
            set(&request.key, out);
        } else {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$16\r\n");
            out.extend_from_slice(&request.key);
            out.extend_from_slice(b"\r\n");
        }
    }

    fn message(&mut self, input: &[u8], _: &mut Vec<u8>) -> Option<(Message, usize)> {
        const HEADER: &[u8] = b"$100\r\n";
        let (begins, len) = match input.first()? {
            b'$' => (HEADER, HEADER.len() + VALUE.len() + 2),
            _ => (OK, OK.len()),
        };
        if input.len() < len {
            return None;
        }
        assert!(input.starts_with(begins), "redis answers with an error");
        Some((Message::Answer, len))
    }
}

fn set(key: &[u8; 16], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\n");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n$100\r\n");
    out.extend_from_slice(&VALUE);
    out.extend_from_slice(b"\r\n");
}

/// Starts a server that holds this number of keys.
pub fn start_filled(keys: u64) -> Server {
    let server = Server::redis();
    load(server.port, keys);
    server
}

/// Sets `keys` keys and returns when all are acknowledged.
pub fn load(port: u16, keys: u64) {
    const BATCH: u64 = 1000;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("redis answers");
    let mut answers = BufReader::new(stream.try_clone().expect("clone"));
    let mut batch = Vec::new();
    let mut expected = vec![0; OK.len()];
    for i in 0..keys {
        set(&key(i), &mut batch);
        if (i + 1) % BATCH == 0 || i + 1 == keys {
            stream.write_all(&batch).expect("redis reads");
            batch.clear();
            for _ in 0..(i % BATCH) + 1 {
                answers.read_exact(&mut expected).expect("redis answers");
                assert_eq!(expected, OK);
            }
        }
    }
}

/// Sets or deletes keys and returns when all are acknowledged.
pub fn run_step(port: u16, step: &WriteStep<'_>, keys: &[u64]) {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("redis answers");
    let mut answers = BufReader::new(stream.try_clone().expect("clone"));
    let sender = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut stream = &stream;
            for &i in keys {
                let mut request = Vec::new();
                match step {
                    WriteStep::Set(value) => {
                        request.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                        request.extend_from_slice(&key(i));
                        write!(request, "\r\n${}\r\n", value.len()).expect("memory");
                        request.extend_from_slice(value);
                    }
                    WriteStep::Del => {
                        request.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n$16\r\n");
                        request.extend_from_slice(&key(i));
                    }
                }
                request.extend_from_slice(b"\r\n");
                stream.write_all(&request).expect("redis reads");
            }
        });
        let mut answer = String::new();
        for _ in keys {
            answer.clear();
            answers.read_line(&mut answer).expect("redis answers");
            assert!(["+OK\r\n", ":1\r\n"].contains(&&answer[..]), "{answer}");
        }
        sender.join()
    });
    sender.expect("no request fails");
}
