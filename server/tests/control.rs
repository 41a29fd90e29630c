//! What a running server can be asked.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use bytes::BytesMut;
use statestore_protocol::mqtt::{Connect, Limits};
use statestored::config::Config;
use statestored::{Control, RunningServer, Stopped};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A client that is connected.
fn connected(server: &RunningServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.addresses()[0]).unwrap();
    let mut connect = BytesMut::new();
    Connect::default()
        .encode(Limits::MAX_PACKET_BYTES, &mut connect)
        .unwrap();
    stream.write_all(&connect).unwrap();
    let mut connack = [0; 2];
    stream.read_exact(&mut connack).unwrap();
    assert_eq!(connack[0], 0x20, "CONNACK");
    stream
}

#[test]
fn statistics_are_those_of_the_moment() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let control = server.control();
    let before = control.statistics_blocking().unwrap();
    assert_eq!((before.connections, before.connections_opened), (0, 0));
    let _first = connected(&server);
    let _second = connected(&server);
    let asking = control.clone();
    let thread = std::thread::spawn(move || asking.statistics_blocking());
    let after = thread.join().unwrap().unwrap();
    assert_eq!((after.connections, after.sessions), (2, 2));
    assert_eq!(after.connections_opened, 2);
    server.stop().unwrap();
}

#[test]
fn a_server_that_has_stopped_does_not_answer() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let control: Control = server.control();
    server.stop().unwrap();
    assert_eq!(control.statistics_blocking(), Err(Stopped));
}

#[tokio::test]
async fn whoever_has_a_runtime_need_not_block() {
    let server = RunningServer::start(Config::in_memory()).unwrap();
    let control = server.control();
    assert_eq!(control.statistics().await.unwrap().keys, 0);
    tokio::task::spawn_blocking(|| server.stop())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(control.statistics().await, Err(Stopped));
}
