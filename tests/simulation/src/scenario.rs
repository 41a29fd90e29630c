//! The scenario of a run: the number of clients, and the kinds and rates of faults. Each seed has its own mix, so that a fault
//! also occurs without other faults that would hide its consequences.
use crate::broker_scenario::BrokerScenario;
use crate::disk::DiskFaults;
use crate::seeded_rng::SeededRng;
use bytes::Bytes;

#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a part of a scenario that is there or not"
)]
pub(crate) struct Scenario {
    pub(crate) clients: usize,
    pub(crate) keys: Vec<Bytes>,
    /// Time at which all faults end.
    pub(crate) heals_at_ms: u64,
    /// Maximum time between two calls of a client.
    pub(crate) work_every_ms: u64,
    /// Maximum number of calls that a client makes at a time.
    pub(crate) burst: u64,
    /// Whether the server has a disk.
    pub(crate) is_durable: bool,
    /// The faults of the disk.
    pub(crate) disk: DiskFaults,
    /// Mean time between temporary faults of the disk; 0 is never.
    pub(crate) break_disk_every_ms: u64,
    /// The length at which a log is sealed.
    pub(crate) log_bytes: u64,
    /// Maximum time between two parts of a merge.
    pub(crate) job_ms: u64,
    /// Share of the work on the disk during which the server crashes, if it crashes at all.
    pub(crate) crash_during_work_percent: u64,
    pub(crate) max_waiting_bytes: usize,
    pub(crate) latency_ms: (u64, u64),
    /// Share of the sent pieces that travel in more than one part.
    pub(crate) split_percent: u64,
    pub(crate) refuse_percent: u64,
    /// Connections with a direction that delivers its first bytes late, perhaps after all time limits.
    pub(crate) late_percent: u64,
    /// Connections that are cut after some bytes, per direction.
    pub(crate) cut_percent: u64,
    /// Scale of the time after which a connection is cut, at most four times this; 0 is never.
    pub(crate) cut_after_ms: u64,
    pub(crate) lowers_limits: bool,
    /// Mean time between two crashes of the server; 0 is never.
    pub(crate) crash_every_ms: u64,
    /// Mean time between two jumps of a wall clock.
    pub(crate) jump_every_ms: u64,
    /// Mean time between two pauses of a client.
    pub(crate) pause_every_ms: u64,
    /// Mean time between two restarts of a client.
    pub(crate) restart_every_ms: u64,
    pub(crate) cancel_percent: u64,
    /// Calls that carry a fencing token.
    pub(crate) fence_percent: u64,
    /// Share of the calls that start an observer instead.
    pub(crate) observe_percent: u64,
    /// Whether clients observe patterns.
    pub(crate) has_patterns: bool,
    pub(crate) small_queues: bool,
    /// Events between server and broker, if the server is behind a broker.
    pub(crate) broker: Option<BrokerScenario>,
}

impl Scenario {
    pub(crate) fn new(chance: &mut SeededRng) -> Self {
        let keys = chance.between(1, 4);
        let mut sometimes = |percent, low, high| {
            if chance.percent(percent) {
                chance.log_uniform(low, high)
            } else {
                0
            }
        };
        let cut_after_ms = sometimes(50, 300, 6_000);
        let crash_every_ms = sometimes(40, 800, 8_000);
        let jump_every_ms = sometimes(40, 300, 5_000);
        let pause_every_ms = sometimes(30, 1_000, 8_000);
        let restart_every_ms = sometimes(25, 1_000, 8_000);
        let cut_percent = sometimes(40, 5, 70);
        let refuse_percent = sometimes(30, 5, 60);
        let cancel_percent = sometimes(30, 1, 20);
        let fence_percent = sometimes(40, 5, 60);
        let observe_percent = sometimes(60, 2, 15);
        let late_percent = sometimes(30, 5, 40);
        let break_disk_every_ms = sometimes(30, 500, 8_000);
        let slowest_ms = chance.pick(&[3, 20, 20, 200, 1_500]);
        Self {
            clients: usize::try_from(chance.between(1, 4)).unwrap_or(1),
            keys: (0..keys)
                .map(|key| Bytes::from(format!("k{key}")))
                .collect(),
            heals_at_ms: chance.log_uniform(1_500, 10_000),
            work_every_ms: chance.log_uniform(60, 1_500),
            burst: chance.pick(&[1, 1, 3, 12]),
            is_durable: chance.percent(50),
            disk: DiskFaults {
                sync_ms: chance.pick(&[1, 10, 10, 100, 2_000]),
                can_reserve: chance.percent(80),
                ..DiskFaults::default()
            },
            break_disk_every_ms,
            log_bytes: chance.pick(&[300, 1_000, 4_000, 20_000]),
            job_ms: chance.pick(&[1, 30, 300, 3_000]),
            crash_during_work_percent: chance.pick(&[0, 2, 8]),
            max_waiting_bytes: chance.pick(&[1, 2_000, 64 << 20]),
            latency_ms: (1, slowest_ms),
            split_percent: chance.pick(&[0, 10, 80]),
            refuse_percent,
            late_percent,
            cut_percent,
            cut_after_ms,
            lowers_limits: chance.percent(40),
            crash_every_ms,
            jump_every_ms,
            pause_every_ms,
            restart_every_ms,
            cancel_percent,
            fence_percent,
            observe_percent,
            has_patterns: false,
            small_queues: chance.percent(25),
            broker: None,
        }
    }

    /// Puts the server behind a broker, and removes the faults that such a run does not allow.
    pub(crate) fn set_broker(&mut self, broker: BrokerScenario) {
        if !broker.shares_machine {
            self.latency_ms.1 = self.latency_ms.1.min(20);
            for percent in [
                &mut self.refuse_percent,
                &mut self.late_percent,
                &mut self.cut_percent,
                &mut self.observe_percent,
            ] {
                *percent = 0;
            }
            for every_ms in [
                &mut self.cut_after_ms,
                &mut self.pause_every_ms,
                &mut self.restart_every_ms,
            ] {
                *every_ms = 0;
            }
        }
        self.broker = Some(broker);
    }
}
