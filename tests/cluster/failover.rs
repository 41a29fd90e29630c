//! How soon a client is answered by another server when its own is killed.
use crate::engine::Engine;
use crate::nodes::{NODES, Nodes};
use crate::{patiently, setting};
use statestore::Client;
use std::time::Instant;

/// How many are killed if nothing is said.
const KILLS: u64 = 20;

/// Prints how long it took.
pub(crate) async fn again_and_again() {
    let kills = setting("CLUSTER_KILLS").unwrap_or(KILLS);
    let engine = Engine::start().await;
    let mut nodes = Nodes::start(&engine).await;
    for (what, settings) in [
        ("defaults", nodes.known(0)),
        ("impatient", nodes.settings(0)),
    ] {
        let client = Client::connect(settings).await.unwrap();
        client.set("failover", "here").await.unwrap();
        let mut took = Vec::new();
        for kill in 0..kills {
            // It is where it went last.
            let own = usize::try_from(kill).unwrap() % NODES;
            nodes.kill(own);
            let killed = Instant::now();
            let entry = patiently(async || client.get("failover").await).await;
            took.push(killed.elapsed());
            assert_eq!(entry.unwrap().value, "here");
            nodes.begin(own);
            nodes.listens(own).await;
        }
        took.sort();
        println!(
            "a client ({what}) whose server was killed {kills} times was answered by the other after {:.1?} (median), {:.1?} (longest)",
            took[took.len() / 2],
            took[took.len() - 1],
        );
    }
}
