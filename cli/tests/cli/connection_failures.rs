//! No store, a store that does not answer, one that refuses the connection, and Ctrl-C.
use crate::harness::{SilentBroker, Store, interrupt, run, statestore, terminate};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

const VERBS: [&[&str]; 12] = [
    &["get", "k"],
    &["set", "k", "v"],
    &["del", "k"],
    &["vdel", "k", "v"],
    &["exists", "k"],
    &["ttl", "k"],
    &["touch", "k", "1m"],
    &["incr", "k"],
    &["ping"],
    &["scan"],
    &["watch", "k"],
    &["bench"],
];

#[test]
fn an_unreachable_store_is_exit_code_3() {
    // Bound, so that no other process gets the port, but never listening.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let url = format!("mqtt://{address}");
    for verb in VERBS {
        let run = run(statestore([verb, &["--url", &url]].concat()), b"");
        run.assert_error(3, &address);
        run.assert_error(3, "start statestored");
    }
}

#[test]
fn a_peer_that_does_not_answer_is_exit_code_3() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    let arguments = ["get", "k", "--timeout", "50ms", "--url", &url];
    run(statestore(arguments), b"").assert_error(3, "did not answer in time");
}

#[test]
fn a_rejected_connection_is_exit_code_3() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://user:secret@{}", listener.local_addr().unwrap());
    let broker = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut connect = [0; 1024];
        assert!(stream.read(&mut connect).unwrap() > 0);
        // CONNACK, reason 0x86: bad user name or password
        stream.write_all(&[0x20, 3, 0, 0x86, 0]).unwrap();
    });
    let run = run(statestore(["get", "k", "--url", &url]), b"");
    run.assert_error(3, "user name");
    run.assert_error(3, "?password_file=FILE");
    assert!(!run.stderr.contains("secret"), "{run:?}");
    broker.join().unwrap();
}

#[test]
fn a_write_without_a_response_reports_an_unknown_outcome() {
    let broker = SilentBroker::start();
    let arguments = ["set", "k", "v", "--timeout", "100ms", "--url", &broker.url];
    let run = run(statestore(arguments), b"");
    run.assert_error(3, "it may have been executed nevertheless");
    run.assert_error(3, "--timeout");
}

#[test]
fn a_server_without_mqtt_is_exit_code_3() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut connect = [0; 1024];
        assert!(stream.read(&mut connect).unwrap() > 0);
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    run(statestore(["get", "k", "--url", &url]), b"").assert_error(3, "");
    peer.join().unwrap();
}

#[test]
fn ctrl_c_ends_a_set_that_waits_for_its_value() {
    let store = Store::start();
    let mut child = store.command(["set", "k"]).spawn().unwrap();
    // more than a pipe holds: when it is written, the program is reading
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![0; 1 << 20]).unwrap();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(130), b"".as_slice())
    );
    drop(stdin);
    store.run(["get", "k"]).assert_error(1, "absent");
}

#[test]
fn every_exit_sends_a_disconnect() {
    for (tell, code) in [
        (interrupt as fn(&std::process::Child), 130),
        (terminate, 143),
    ] {
        let broker = SilentBroker::start();
        let child = statestore(["get", "k", "--url", &broker.url])
            .spawn()
            .unwrap();
        broker.await_request();
        tell(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(code), b"".as_slice())
        );
        // DISCONNECT
        assert_eq!(broker.last_packet(), 0xE0);
    }
}
