//! The least that a client can do: it writes the bytes of a request, with the acknowledgement of the last response before
//! them, and reads the bytes of the answer, without looking at either.
use crate::figures::{Figures, Stopwatch, runtime};
use crate::request;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What is written for each pair.
fn outgoing() -> Vec<u8> {
    let mut bytes = vec![0x40, 2, 0, 1];
    bytes.extend_from_slice(&request::publish());
    bytes
}

/// A connected socket, what is written for each pair, and how many bytes come back.
fn prepare(broker: SocketAddr) -> (TcpStream, Vec<u8>, usize) {
    let mut stream = TcpStream::connect(broker).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    stream.write_all(&request::connect()).unwrap();
    // The CONNACK comes in one piece, and so does the first answer.
    assert!(stream.read(&mut buffer).unwrap() > 0);
    stream.write_all(&outgoing()).unwrap();
    let answer = stream.read(&mut buffer).unwrap();
    (stream, outgoing(), answer)
}

fn sampled(number: usize) -> Option<Instant> {
    number.is_multiple_of(16).then(Instant::now)
}

/// A blocking socket.
pub(crate) fn blocking(broker: SocketAddr, pairs: usize) -> Figures {
    let (mut stream, outgoing, answer) = prepare(broker);
    let mut buffer = vec![0; answer];
    let mut latencies: Vec<Duration> = Vec::new();
    let stopwatch = Stopwatch::start();
    for number in 0..pairs {
        let start = sampled(number);
        stream.write_all(&outgoing).unwrap();
        stream.read_exact(&mut buffer).unwrap();
        latencies.extend(start.map(|start| start.elapsed()));
    }
    stopwatch.stop(pairs, latencies)
}

/// A socket of tokio, in the only task of a runtime on one thread.
pub(crate) fn tokio(broker: SocketAddr, pairs: usize) -> Figures {
    let (stream, outgoing, answer) = prepare(broker);
    runtime().block_on(async move {
        stream.set_nonblocking(true).unwrap();
        let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let mut buffer = vec![0; answer];
        let mut latencies: Vec<Duration> = Vec::new();
        let stopwatch = Stopwatch::start();
        for number in 0..pairs {
            let start = sampled(number);
            stream.write_all(&outgoing).await.unwrap();
            stream.read_exact(&mut buffer).await.unwrap();
            latencies.extend(start.map(|start| start.elapsed()));
        }
        stopwatch.stop(pairs, latencies)
    })
}
