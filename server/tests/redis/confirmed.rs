//! Reads of keys that a server knows ask Redis only how far it is, and miss nothing that another server has acknowledged.
use crate::elsewhere::{Engine, block_on, client_of, get, start, value};
use crate::server::Redis;
use statestored::RunningServer;

const ROUNDS: u64 = 200;

fn count(server: &RunningServer, name: &str) -> u64 {
    let metrics = get(server, "/metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix(name));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn what_another_server_has_acknowledged_is_in_a_read_of_what_is_known() {
    let engine = Redis::start();
    let (writer, reader) = (start(&engine), start(&engine));
    block_on(async {
        let (writing, reading) = (client_of(&writer).await, client_of(&reader).await);
        for round in 0..ROUNDS {
            let round = round.to_string();
            writing.set("k", round.clone()).await.unwrap();
            assert_eq!(value(&reading, "k").await, Some(round));
        }
        writing.del("k").await.unwrap();
        assert_eq!(value(&reading, "k").await, None);
    });
    let confirmed = count(&reader, "statestored_engine_confirmed_total ");
    let read = "statestored_engine_requests_total{kind=\"read\",result=\"done\"} ";
    let read = count(&reader, read);
    // The first one has to be read, and one for which the changes come late.
    assert!(
        confirmed >= ROUNDS / 2,
        "{confirmed} confirmed, {read} read"
    );
    assert!(read >= 1, "{confirmed} confirmed, {read} read");
    writer.stop().unwrap();
    reader.stop().unwrap();
}
