//! A broker that answers pings and acknowledges messages, but does not deliver them.
use super::world::{Peer, Store, now};
use harness::Mosquitto;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

const PUBLISH: u8 = 3;
const LOST: &str = "statestored_attached_lost_probes_total";

/// The packets of a connection between the store and the broker.
#[derive(Debug, Default)]
struct PacketFilter {
    /// Swallow each PUBLISH to the store.
    drops_incoming: AtomicBool,
    /// Swallow each PUBLISH to the broker.
    drops_outgoing: AtomicBool,
    /// PUBLISHes that reached the store.
    delivered: AtomicUsize,
}

/// A proxy before the broker that drops messages and lets all other packets pass. Runs until the end of the test
/// program.
fn filter(broker: SocketAddr) -> (SocketAddr, Arc<PacketFilter>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let filter = Arc::new(PacketFilter::default());
    let shared = Arc::clone(&filter);
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(broker).unwrap();
            let there = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let back = (far, near);
            for (ways, is_to_store) in [(there, false), (back, true)] {
                let filter = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let (mut from, mut to) = ways;
                    // The connection has ended.
                    let _ = pass(&mut from, &mut to, &filter, is_to_store);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (address, filter)
}

/// Passes packets on until the connection ends.
fn pass(
    from: &mut TcpStream,
    to: &mut TcpStream,
    filter: &PacketFilter,
    is_to_store: bool,
) -> io::Result<()> {
    loop {
        let mut packet = vec![0];
        from.read_exact(&mut packet)?;
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let mut byte = [0];
            from.read_exact(&mut byte)?;
            packet.push(byte[0]);
            length |= usize::from(byte[0] & 0x7f) << shift;
            shift += 7;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let header = packet.len();
        packet.resize(header + length, 0);
        from.read_exact(&mut packet[header..])?;
        if packet[0] >> 4 == PUBLISH {
            let is_swallowed = if is_to_store {
                &filter.drops_incoming
            } else {
                &filter.drops_outgoing
            };
            if is_swallowed.load(SeqCst) {
                continue;
            }
            if is_to_store {
                filter.delivered.fetch_add(1, SeqCst);
            }
        }
        to.write_all(&packet)?;
    }
}

/// Waits until a probe has come back through the proxy.
fn until_delivered(filter: &PacketFilter) {
    let begun = Instant::now();
    while filter.delivered.load(SeqCst) == 0 {
        assert!(begun.elapsed() < harness::WAIT_LIMIT);
        std::thread::yield_now();
    }
}

fn assert_served(broker: SocketAddr) {
    let now = now();
    let mut peer = Peer::connect(broker, "peer");
    let response = peer.request(&["SET", "k", "v"], &[("__ts", &now)]);
    assert_eq!(response.payload_bytes(), b"+OK\r\n");
}

/// The store is not ready while the broker is of no use, and serves again as soon as it is.
fn assert_detected(swallow: impl Fn(&PacketFilter, bool)) {
    let broker = Mosquitto::start();
    let (address, filter) = filter(broker.address());
    let store = Store::start(address, &[]);
    until_delivered(&filter);
    assert_served(broker.address());
    assert_eq!(store.metric(LOST), 0);
    swallow(&filter, true);
    store.wait_for_log("answers pings, but does not deliver messages");
    store.wait_until_response_contains("/readyz", "broker_stuck");
    assert!(store.metric(LOST) > 0);
    swallow(&filter, false);
    store.wait_until_response_contains("/readyz", "\r\n\r\nready");
    assert_served(broker.address());
}

#[test]
fn a_broker_that_delivers_no_messages_is_disconnected() {
    assert_detected(|filter, is_so| filter.drops_incoming.store(is_so, SeqCst));
}

#[test]
fn a_broker_that_accepts_no_messages_is_disconnected() {
    assert_detected(|filter, is_so| filter.drops_outgoing.store(is_so, SeqCst));
}

/// The store stays attached, and says that only pings count.
fn assert_tolerated(rule: &str, failure: &str) {
    let folder = tempfile::tempdir().unwrap();
    let acl = folder.path().join("acl");
    let rules = format!(
        "topic read statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke\n\
         topic write statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke\n\
         topic readwrite clients/#\n{rule}"
    );
    std::fs::write(&acl, rules).unwrap();
    let broker = Mosquitto::start_with(&format!(
        "allow_anonymous true\nacl_file {}\n",
        acl.display()
    ));
    let store = Store::start(broker.address(), &[]);
    let line = store.wait_for_any_log(&["cannot check that the broker delivers messages"]);
    assert!(line.contains(failure), "{line}");
    store.wait_until_response_contains("/readyz", "\r\n\r\nready");
    assert_served(broker.address());
    assert_eq!(store.metric(LOST), 0);
    assert_eq!(store.metric("statestored_attachments_total"), 1);
}

#[test]
fn without_permission_to_publish_probes_only_pings_count() {
    assert_tolerated("", "refuses to publish");
}

#[test]
fn without_permission_to_receive_probes_only_pings_count() {
    assert_tolerated(
        "topic write statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/servers/#\n",
        "does not deliver them",
    );
}
