//! Redis as the peer for memory: loaded over one pipelined connection.

use crate::load::{VALUE, key};
use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
};

/// Sets `keys` keys and returns when all are acknowledged.
pub fn load(port: u16, keys: u64) {
    const BATCH: u64 = 1000;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("redis answers");
    let mut answers = BufReader::new(stream.try_clone().expect("clone"));
    let mut batch = Vec::new();
    let mut expected = vec![0; 5];
    for i in 0..keys {
        write!(batch, "*3\r\n$3\r\nSET\r\n$16\r\n").expect("memory");
        batch.extend_from_slice(&key(i));
        write!(batch, "\r\n${}\r\n", VALUE.len()).expect("memory");
        batch.extend_from_slice(&VALUE);
        batch.extend_from_slice(b"\r\n");
        if (i + 1) % BATCH == 0 || i + 1 == keys {
            stream.write_all(&batch).expect("redis reads");
            batch.clear();
            for _ in 0..(i % BATCH) + 1 {
                answers.read_exact(&mut expected).expect("redis answers");
                assert_eq!(expected, b"+OK\r\n");
            }
        }
    }
}
