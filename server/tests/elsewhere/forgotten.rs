//! The answer to a request that several servers share, from when it is given until the engine forgets it.
use super::shared::{attempt, node};
use super::world::{Peer, command, now};
use super::{Engine, block_on};
use harness::Mosquitto;
use statestore_protocol::mqtt::PublishHeader;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Range of times for which a response is kept, with the data to repeat it. A lease that several responses share adds a minute.
const RETENTION: RangeInclusive<Duration> =
    Duration::from_secs(10 * 60)..=Duration::from_secs(13 * 60);

/// Gives a request to a server that begins with it and ends behind it, so that it knows nothing of itself.
fn response_of(engine: &impl Engine, broker: &Mosquitto, name: &str, timestamp: &str) -> Vec<u8> {
    let server = node(engine, broker, name);
    let mut peer = Peer::connect(broker.address(), "me");
    while attempt(&mut peer).is_none() {}
    let header = PublishHeader {
        correlation_data: Some(b"the same"),
        user_properties: &[("__ts", timestamp)],
        ..PublishHeader::default()
    };
    peer.send_request(&command(&["SET", "k2", "v", "NX"]), &header);
    let answer = peer.message().payload_bytes().to_vec();
    server.stop().unwrap();
    answer
}

/// Checks that `kept` gives the time for which the engine keeps each response. `ends` lets that time pass.
pub(crate) fn a_response_is_repeated_until_its_retention_ends<E: Engine>(
    engine: &E,
    kept: impl AsyncFn() -> Vec<Duration>,
    ends: impl AsyncFn(),
) {
    let broker = Mosquitto::start();
    let stamp = now();
    let answer = |name| response_of(engine, &broker, name, &stamp);
    assert_eq!(answer("a"), b"+OK\r\n");
    assert_eq!(answer("b"), b"+OK\r\n");
    let times = block_on(kept());
    assert_eq!(times.len(), 1, "{times:?}");
    assert!(
        times.iter().all(|time| RETENTION.contains(time)),
        "{times:?}"
    );
    block_on(ends());
    let left = block_on(kept());
    assert!(left.is_empty(), "it is not forgotten: {left:?}");
    // The entry is not.
    assert_eq!(answer("c"), b":-1\r\n");
}
