//! The load, which is the same for every worker.
use super::{
    keys::Keys,
    progress::Progress,
    workload_mix::{Verb, WorkloadMix},
};
use bytes::Bytes;
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// The load as the command line describes it.
#[derive(Debug, Clone)]
pub(crate) struct BenchmarkPlan {
    /// Keys of the load.
    pub(crate) keys: Keys,
    /// The value of every SET.
    pub(crate) value: Bytes,
    /// Lanes on each connection: operations in flight.
    pub(crate) in_flight: u32,
    /// Longest time for an answer.
    pub(crate) timeout: Duration,
    /// First random number; the same seed gives the same operations.
    pub(crate) seed: u64,
    /// Counter of finished operations.
    pub(crate) progress: Progress,
}

/// A phase of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BenchPhase {
    /// A single verb, on each key once.
    Each(Verb),
    /// Random verbs on random keys.
    Random(WorkloadMix, Limit),
}

/// The end of a random load.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// After this many operations, of all connections together.
    Operations(u64),
    /// After this time.
    Time(Duration),
}

/// The operations of a worker, shared by its lanes.
#[derive(Debug)]
pub(crate) enum Source {
    Each {
        verb: Verb,
        numbers: Range<u64>,
    },
    Random {
        mix: WorkloadMix,
        random: fastrand::Rng,
        keys: u64,
        left: u64,
        until: Option<Instant>,
    },
}

impl Source {
    /// Returns the part of a phase for the worker with this index, of `workers`.
    pub(crate) fn new(
        phase: BenchPhase,
        plan: &BenchmarkPlan,
        index: u32,
        workers: u32,
        now: Instant,
    ) -> Self {
        let keys = plan.keys.count();
        match phase {
            BenchPhase::Each(verb) => Self::Each {
                verb,
                numbers: worker_range(keys, index, workers),
            },
            BenchPhase::Random(mix, limit) => {
                let (left, until) = match limit {
                    Limit::Operations(operations) => {
                        let share = worker_range(operations, index, workers);
                        (share.end - share.start, None)
                    }
                    Limit::Time(time) => (u64::MAX, Some(now + time)),
                };
                let random = fastrand::Rng::with_seed(plan.seed.wrapping_add(index.into()));
                Self::Random {
                    mix,
                    random,
                    keys,
                    left,
                    until,
                }
            }
        }
    }

    /// Returns the next operation and the number of its key; `None` at the end.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Verb, u64)> {
        match self {
            Self::Each { verb, numbers } => numbers.next().map(|number| (*verb, number)),
            Self::Random {
                mix,
                random,
                keys,
                left,
                until,
            } => {
                if *left == 0 || until.is_some_and(|until| now >= until) {
                    return None;
                }
                *left -= 1;
                Some((mix.pick(random), random.u64(..*keys)))
            }
        }
    }
}

/// Returns the part of `0..total` for one of `workers`; the parts cover the whole range.
fn worker_range(total: u64, index: u32, workers: u32) -> Range<u64> {
    let bound = |index: u32| {
        let bound = u128::from(total) * u128::from(index) / u128::from(workers);
        u64::try_from(bound).expect("a bound is not above the total")
    };
    bound(index)..bound(index + 1)
}

#[cfg(test)]
mod tests {
    use super::{BenchPhase, BenchmarkPlan, Keys, Limit, Progress, Source, Verb};
    use bytes::Bytes;
    use std::time::{Duration, Instant};

    const WORKERS: u32 = 3;

    fn plan(keys: u64) -> BenchmarkPlan {
        BenchmarkPlan {
            keys: Keys::new("bench:", keys),
            value: Bytes::new(),
            in_flight: 1,
            timeout: Duration::from_secs(1),
            seed: 1,
            progress: Progress::default(),
        }
    }

    fn all(phase: BenchPhase, keys: u64, index: u32) -> Vec<(Verb, u64)> {
        let now = Instant::now();
        let mut source = Source::new(phase, &plan(keys), index, WORKERS, now);
        std::iter::from_fn(|| source.next(now)).collect()
    }

    #[test]
    fn the_workers_cover_each_key_once() {
        let indexes: Vec<u64> = (0..WORKERS)
            .flat_map(|index| all(BenchPhase::Each(Verb::Set), 100, index))
            .map(|(_, number)| number)
            .collect();
        assert_eq!(indexes, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn random_loads_are_reproducible_in_range_and_of_the_requested_length() {
        let phase = BenchPhase::Random("get=1,set=1".parse().unwrap(), Limit::Operations(1000));
        let loads: Vec<_> = (0..WORKERS).map(|index| all(phase, 7, index)).collect();
        assert_eq!(loads.iter().map(Vec::len).sum::<usize>(), 1000);
        assert!(loads.iter().flatten().all(|(_, number)| *number < 7));
        assert_eq!(loads[1], all(phase, 7, 1));
        assert_ne!(loads[0][..100], loads[1][..100]);
    }

    #[test]
    fn a_timed_load_ends_at_its_time() {
        let now = Instant::now();
        let phase = BenchPhase::Random(
            "get=1".parse().unwrap(),
            Limit::Time(Duration::from_secs(1)),
        );
        let mut source = Source::new(phase, &plan(1), 0, 1, now);
        assert!(source.next(now + Duration::from_millis(999)).is_some());
        assert!(source.next(now + Duration::from_secs(1)).is_none());
    }
}
