//! The minimum work of a client. It writes the bytes of a request, after the acknowledgement of the last response. It reads
//! the bytes of the response, without looking at either.
use crate::request;
use crate::run_metrics::{RunMetrics, Stopwatch, runtime};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Returns the bytes that are written for each pair.
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
pub(crate) fn blocking(broker: SocketAddr, pairs: usize) -> RunMetrics {
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
pub(crate) fn tokio(broker: SocketAddr, pairs: usize) -> RunMetrics {
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

/// A blocking socket with many requests in flight: for all answers that a read brings, as many requests leave in one write.
pub(crate) fn pipelined(broker: SocketAddr, in_flight: usize, pairs: usize) -> RunMetrics {
    let (mut stream, outgoing, answer) = prepare(broker);
    let requests = outgoing.repeat(in_flight);
    let mut buffer = vec![0; answer * in_flight];
    let mut latencies: Vec<Duration> = Vec::new();
    let stopwatch = Stopwatch::start();
    let mut sampled = Some((Instant::now(), 0));
    stream.write_all(&requests).unwrap();
    let (mut sent, mut done, mut part) = (in_flight, 0, 0);
    while done < pairs {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0);
        let answers = (part + count) / answer;
        part = (part + count) % answer;
        done += answers;
        if let Some((start, number)) = sampled
            && number < done
        {
            latencies.push(start.elapsed());
            sampled = None;
        }
        let more = answers.min(pairs - sent);
        if more > 0 {
            sampled.get_or_insert_with(|| (Instant::now(), sent));
            stream
                .write_all(&requests[..more * outgoing.len()])
                .unwrap();
            sent += more;
        }
    }
    stopwatch.stop(pairs, latencies)
}
