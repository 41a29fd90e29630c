//! Names with several addresses, of which one swallows packets.
use crate::harness::{Store, run, statestore};
use std::{
    net::{TcpListener, TcpStream},
    process::Command,
    time::{Duration, Instant},
};
use tokio::{net::TcpSocket, runtime::Builder};

/// Returns a listener that never accepts. Its queue of connections is full, so the kernel drops every further SYN.
fn dropping_packets(address: &str) -> (TcpListener, Vec<TcpStream>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address.parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queued.push(stream);
    }
    (listener, queued)
}

#[test]
#[ignore = "it needs the right to make mount namespaces"]
fn an_address_that_drops_packets_delays_less_than_half_a_second() {
    // The system prefers the other one, from which it connects.
    let store = Store::at("127.0.0.2");
    let port = store.port();
    store.ok(["set", "k", "v"]);
    let _dead = dropping_packets(&format!("127.0.0.1:{port}"));
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 broker.test\n127.0.0.2 broker.test\n").unwrap();
    let url = format!("mqtt://broker.test:{port}");
    let get = |url: &str| {
        let plain = statestore(["get", "k", "--url", url]);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--map-root-user", "sh", "-c"])
            .arg("mount --bind \"$0\" /etc/hosts && exec \"$@\"")
            .arg(&hosts)
            .arg(plain.get_program())
            .args(plain.get_args())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let began = Instant::now();
        let run = run(command, b"");
        assert_eq!((run.code, &run.stdout[..]), (Some(0), &b"v"[..]), "{run:?}");
        began.elapsed()
    };
    let direct = (0..5)
        .map(|_| get(&format!("mqtt://127.0.0.2:{port}")))
        .min();
    let raced = (0..5).map(|_| get(&url)).min();
    let cost = raced.unwrap().saturating_sub(direct.unwrap());
    assert!(
        cost >= Duration::from_millis(200),
        "the first address was tried first: {cost:?}"
    );
    assert!(cost < Duration::from_millis(500), "{cost:?}");
}
