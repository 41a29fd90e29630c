//! Faults: one after the other, each kind equally often.
use crate::engine::Engine;
use crate::nodes::{NODES, Nodes};
use crate::stalls::Stall;
use crate::word;
use harness::proxy::AcceptMode;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A fault.
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

impl Trouble {
    pub(crate) const ALL: [Self; 8] = [
        Self::KillMember,
        Self::KillTwoMembers,
        Self::StopMember,
        Self::KillNode,
        Self::StopNode,
        Self::CutOneWay,
        Self::CutAllWays,
        Self::SlowWays,
    ];
}

/// Returns the faults to cause with this engine: all that it supports, or those that `CLUSTER_TROUBLES` names.
fn troubles(engine: &Engine) -> Vec<Trouble> {
    let all = engine.troubles();
    let Some(list) = word("CLUSTER_TROUBLES") else {
        return all;
    };
    let named = list.split(',').map(|name| {
        let found = all.iter().find(|it| format!("{it:?}") == name);
        *found.unwrap_or_else(|| panic!("CLUSTER_TROUBLES has {name}, which is none of {all:?}"))
    });
    named.collect()
}

/// A fault, with its beginning and end.
#[derive(Debug)]
struct Happened {
    trouble: Trouble,
    from: Instant,
    until: Instant,
}

/// All that went wrong.
#[derive(Debug, Default)]
pub(crate) struct Log(Vec<Happened>);

impl Log {
    /// How often each happened.
    pub(crate) fn counts(&self) -> BTreeMap<Trouble, usize> {
        let mut counts = BTreeMap::new();
        for happened in &self.0 {
            *counts.entry(happened.trouble).or_default() += 1;
        }
        counts
    }

    /// Describes the faults during a stall, with their times relative to its beginning.
    pub(crate) fn during(&self, stall: &Stall) -> Vec<String> {
        let met = |it: &&Happened| it.from < stall.until && stall.from < it.until;
        let relative = |at: Instant| {
            let behind = at.saturating_duration_since(stall.from).as_secs_f32();
            behind - stall.from.saturating_duration_since(at).as_secs_f32()
        };
        let tell = |it: &Happened| {
            let (from, until) = (relative(it.from), relative(it.until));
            format!("{:?} ({from:.1} to {until:.1} s)", it.trouble)
        };
        self.0.iter().filter(met).map(tell).collect()
    }
}

/// Causes faults for this time, and repairs all of them at the end.
pub(crate) async fn rage(
    engine: &mut Engine,
    nodes: &mut Nodes,
    lasts: Duration,
    chance: &mut fastrand::Rng,
) -> Log {
    let end = Instant::now() + lasts;
    let mut log = Log::default();
    let troubles = troubles(engine);
    let mut deck = Vec::new();
    while Instant::now() < end {
        if deck.is_empty() {
            deck.clone_from(&troubles);
            chance.shuffle(&mut deck);
        }
        let Some(trouble) = deck.pop() else { break };
        let from = Instant::now();
        let mut lasts = Duration::from_millis(chance.u64(100..2_000));
        // Longer than a lease.
        if matches!(
            trouble,
            Trouble::StopNode | Trouble::CutAllWays | Trouble::SlowWays
        ) {
            lasts *= 2;
        }
        happen(trouble, lasts, engine, nodes, chance).await;
        let until = Instant::now();
        log.0.push(Happened {
            trouble,
            from,
            until,
        });
        sleep(Duration::from_millis(chance.u64(0..1_000))).await;
    }
    log
}

/// Causes a fault for this time.
pub(crate) async fn happen(
    trouble: Trouble,
    lasts: Duration,
    engine: &mut Engine,
    nodes: &mut Nodes,
    chance: &mut fastrand::Rng,
) {
    let members = engine.members();
    let member = chance.usize(0..members);
    let node = chance.usize(0..NODES);
    match trouble {
        Trouble::KillMember => {
            engine.can_spare(member).await;
            engine.kill(member);
            engine.go_on_without(member).await;
            sleep(lasts).await;
            engine.begin(member);
        }
        Trouble::KillTwoMembers => {
            let other = (member + 1) % members;
            engine.kill(member);
            engine.kill(other);
            sleep(lasts).await;
            engine.begin(other);
            engine.begin(member);
        }
        Trouble::StopMember => {
            engine.can_spare(member).await;
            if let Some(process) = engine.process(member) {
                process.stop();
            }
            engine.go_on_without(member).await;
            sleep(lasts).await;
            if let Some(process) = engine.process(member) {
                process.go_on();
            }
            // Until then there may be two that believe to be the master.
            sleep(lasts / 4).await;
            engine.take_back(member).await;
        }
        Trouble::KillNode => {
            nodes.kill(node);
            sleep(lasts).await;
            nodes.begin(node);
        }
        Trouble::StopNode => {
            if let Some(process) = nodes.process(node) {
                process.stop();
                sleep(lasts).await;
                process.go_on();
            }
        }
        Trouble::CutOneWay => {
            nodes.cut(node, member, AcceptMode::Silence);
            sleep(lasts).await;
            nodes.heal(node);
        }
        Trouble::CutAllWays => {
            for member in 0..members {
                nodes.cut(node, member, AcceptMode::Reset);
            }
            sleep(lasts).await;
            nodes.heal(node);
        }
        Trouble::SlowWays => {
            for member in 0..members {
                let delay = Duration::from_millis(chance.u64(1..100));
                nodes.slow(node, member, delay);
            }
            sleep(lasts).await;
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
