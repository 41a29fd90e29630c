//! Reads of keys that a server knows ask Redis only how far it is, and miss nothing that another server has acknowledged.
use crate::elsewhere::{Engine, LONG, block_on, connect_to, get, start, value};
use crate::server::Redis;
use statestored::RunningServer;
use std::time::Instant;

const ROUNDS: u64 = 200;

fn count(server: &RunningServer, name: &str) -> u64 {
    let metrics = get(server, "/metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix(name));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn a_read_of_a_cached_key_includes_acknowledged_writes_of_other_servers() {
    let engine = Redis::start();
    let (writer, reader) = (start(&engine), start(&engine));
    block_on(async {
        let (writing, reading) = (connect_to(&writer).await, connect_to(&reader).await);
        for round in 0..ROUNDS {
            let round = round.to_string();
            writing.set("k", round.clone()).await.unwrap();
            assert_eq!(value(&reading, "k").await, Some(round));
        }
        writing.del("k").await.unwrap();
        assert_eq!(value(&reading, "k").await, None);
        // Once the changes are known, a read of the key is confirmed.
        let confirmed = || count(&reader, "statestored_engine_confirmed_total ");
        let (before, end) = (confirmed(), Instant::now() + LONG);
        while confirmed() == before {
            assert!(Instant::now() < end, "no read is confirmed");
            assert_eq!(value(&reading, "k").await, None);
        }
    });
    writer.stop().unwrap();
    reader.stop().unwrap();
}
