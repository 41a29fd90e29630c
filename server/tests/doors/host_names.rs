//! Names with several addresses, and addresses that are not there.
use crate::daemon::{Daemon, run, statestored};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

/// The addresses of `localhost` that this machine has.
fn localhost() -> Vec<SocketAddr> {
    let mut addresses: Vec<_> = ("localhost", 0).to_socket_addrs().unwrap().collect();
    addresses.retain(|address| TcpListener::bind(address).is_ok());
    addresses.sort();
    addresses.dedup();
    addresses
}

fn address(listening: &str) -> SocketAddr {
    listening.strip_prefix("tcp://").unwrap().parse().unwrap()
}

#[test]
fn a_host_name_is_served_at_all_addresses_with_one_port() {
    let count = localhost().len();
    let daemon = Daemon::start(&["--listen", "tcp://localhost:0"], count);
    let addresses: Vec<_> = daemon.listening.iter().map(|it| address(it)).collect();
    let ports: Vec<_> = addresses.iter().map(SocketAddr::port).collect();
    assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    let mut found: Vec<_> = addresses.iter().map(SocketAddr::ip).collect();
    found.sort();
    let expected: Vec<_> = localhost().iter().map(SocketAddr::ip).collect();
    assert_eq!(found, expected);
    for address in addresses {
        TcpStream::connect(address).unwrap();
    }
}

#[test]
fn an_address_in_use_is_reported() {
    for taken in localhost() {
        let holder = TcpListener::bind(taken).unwrap();
        let taken = holder.local_addr().unwrap();
        let output = run(&["--listen", &format!("tcp://localhost:{}", taken.port())]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{text}");
        assert!(
            text.contains(&taken.to_string()) && text.contains("in use"),
            "{text}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_conflicting_listener_of_the_same_server_is_reported() {
    let daemon = Daemon::start(&["--listen", "tcp://127.0.0.1:0"], 1);
    let port = address(&daemon.listening[0]).port();
    drop(daemon);
    let (one, other) = (
        format!("tcp://127.0.0.1:{port}"),
        format!("ws://0.0.0.0:{port}"),
    );
    let output = run(&["--allow-anonymous", "--listen", &one, "--listen", &other]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains(&format!("cannot listen on {other}: {one} of this server")),
        "{text}"
    );
    assert!(!text.contains("stop the other process"), "{text}");
}

/// An address of a documentation network, which no machine has.
#[cfg(target_os = "linux")]
#[test]
fn a_missing_address_is_bound_in_advance() {
    let mut command = statestored();
    command.args(["--allow-anonymous", "--listen", "tcp://192.0.2.1:0"]);
    command.args(["--listen", "tcp://127.0.0.1:0"]);
    let mut daemon = Daemon::spawn(command, 2);
    assert!(daemon.listening[0].starts_with("tcp://192.0.2.1:"));
    TcpStream::connect(address(&daemon.listening[1])).unwrap();
    let line = daemon.log_line("is not an address of this machine yet");
    assert!(line.contains("192.0.2.1"), "{line}");
}

#[test]
fn the_unit_waits_for_network_and_time_and_has_no_start_limit() {
    let unit = include_str!("../../../packaging/statestored.service");
    for line in [
        "Wants=network-online.target time-sync.target",
        "After=network-online.target time-sync.target",
        "StartLimitIntervalSec=0",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
}
