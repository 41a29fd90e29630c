//! What goes wrong: one thing after the other, of each kind as often.
use crate::engine::{Engine, MEMBERS};
use crate::nodes::{NODES, Nodes};
use faults::proxy::Admission;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    KillMember,
    KillTwoMembers,
    StopMember,
    KillNode,
    StopNode,
    CutOneWay,
    CutAllWays,
    SlowWays,
}

const ALL: [Trouble; 8] = [
    Trouble::KillMember,
    Trouble::KillTwoMembers,
    Trouble::StopMember,
    Trouble::KillNode,
    Trouble::StopNode,
    Trouble::CutOneWay,
    Trouble::CutAllWays,
    Trouble::SlowWays,
];

/// How often each happened.
pub(crate) type Counts = BTreeMap<Trouble, usize>;

/// Lets things go wrong for so long; everything is in order again afterwards.
pub(crate) async fn rage(
    engine: &mut Engine,
    nodes: &mut Nodes,
    lasts: Duration,
    chance: &mut fastrand::Rng,
) -> Counts {
    let end = Instant::now() + lasts;
    let mut counts = Counts::new();
    let mut deck = Vec::new();
    while Instant::now() < end {
        if deck.is_empty() {
            deck = ALL.to_vec();
            chance.shuffle(&mut deck);
        }
        let Some(trouble) = deck.pop() else { break };
        *counts.entry(trouble).or_default() += 1;
        let lasts = Duration::from_millis(chance.u64(100..2_000));
        happen(trouble, lasts, engine, nodes, chance).await;
        sleep(Duration::from_millis(chance.u64(0..1_000))).await;
    }
    counts
}

async fn happen(
    trouble: Trouble,
    lasts: Duration,
    engine: &mut Engine,
    nodes: &mut Nodes,
    chance: &mut fastrand::Rng,
) {
    let member = chance.usize(0..MEMBERS);
    let node = chance.usize(0..NODES);
    match trouble {
        Trouble::KillMember => {
            engine.kill(member);
            sleep(lasts).await;
            engine.begin(member);
        }
        Trouble::KillTwoMembers => {
            let other = (member + 1) % MEMBERS;
            engine.kill(member);
            engine.kill(other);
            sleep(lasts).await;
            engine.begin(other);
            engine.begin(member);
        }
        Trouble::StopMember => {
            if let Some(process) = engine.process(member) {
                process.stop();
                sleep(lasts).await;
                process.go_on();
            }
        }
        Trouble::KillNode => {
            nodes.kill(node);
            sleep(lasts).await;
            nodes.begin(node);
        }
        Trouble::StopNode => {
            if let Some(process) = nodes.process(node) {
                process.stop();
                // Longer than a lease.
                sleep(2 * lasts).await;
                process.go_on();
            }
        }
        Trouble::CutOneWay => {
            nodes.cut(node, member, Admission::Silence);
            sleep(lasts).await;
            nodes.heal(node);
        }
        Trouble::CutAllWays => {
            for member in 0..MEMBERS {
                nodes.cut(node, member, Admission::Refuse);
            }
            sleep(2 * lasts).await;
            nodes.heal(node);
        }
        Trouble::SlowWays => {
            for member in 0..MEMBERS {
                let delay = Duration::from_millis(chance.u64(1..100));
                nodes.slow(node, member, delay);
            }
            sleep(2 * lasts).await;
            nodes.heal(node);
        }
    }
    // A server that begins while the engine is away ends.
    for node in 0..NODES {
        if nodes
            .process(node)
            .is_none_or(crate::process::Process::has_ended)
        {
            nodes.begin(node);
        }
    }
}
