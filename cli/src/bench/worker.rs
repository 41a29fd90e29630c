//! Threads that make the load. Each has its own runtime with its connections and operations, so that no operation crosses a
//! thread.
use super::{
    benchmark_plan::{BenchPhase, BenchmarkPlan, Source},
    phase_metrics::PhaseMetrics,
    progress::Progress,
    workload_mix::Verb,
};
use crate::{
    connection::{Connection, exit},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
};
use statestore::DelOutcome;
use std::{cell::RefCell, rc::Rc, time::Instant};
use tokio::{runtime::LocalRuntime, sync::mpsc, task::JoinSet};

/// Number of consecutive operations without an answer after which a lane ends: the store is gone.
const MAX_CONSECUTIVE_TIMEOUTS: u32 = 3;

/// All workers.
#[derive(Debug)]
pub(crate) struct WorkerPool(Vec<WorkerHandle>);

/// The two ends of a worker's channels; the worker ends when they are dropped.
#[derive(Debug)]
struct WorkerHandle {
    phases: mpsc::UnboundedSender<BenchPhase>,
    metrics: mpsc::UnboundedReceiver<Result<PhaseMetrics, Failure>>,
}

impl WorkerPool {
    /// Starts as many threads as the machine runs in parallel (at most one per connection) and connects.
    pub(crate) async fn start(
        global: &GlobalOptions,
        plan: &BenchmarkPlan,
        connections: u32,
    ) -> Result<Self, Failure> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let count = connections.min(u32::try_from(cores).unwrap_or(u32::MAX));
        let mut handles = Vec::new();
        for index in 0..count {
            let (phase_sender, phases) = mpsc::unbounded_channel();
            let (metrics_sender, metrics_receiver) = mpsc::unbounded_channel();
            let worker = Worker {
                global: global.clone(),
                plan: plan.clone(),
                index,
                count,
                connections: (index..connections).step_by(count as usize).collect(),
                metrics: metrics_sender,
            };
            std::thread::Builder::new()
                .name(format!("bench-{index}"))
                .spawn(move || worker.run(phases))
                .map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))?;
            handles.push(WorkerHandle {
                phases: phase_sender,
                metrics: metrics_receiver,
            });
        }
        let mut workers = Self(handles);
        workers.collect(plan).await?;
        Ok(workers)
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.len()
    }

    /// Runs a phase.
    pub(crate) async fn run(
        &mut self,
        phase: BenchPhase,
        plan: &BenchmarkPlan,
    ) -> Result<PhaseMetrics, Failure> {
        for worker in &self.0 {
            // a worker that has ended is noticed when its result does not come
            let _ = worker.phases.send(phase);
        }
        self.collect(plan).await
    }

    /// Adds up one result of each worker.
    async fn collect(&mut self, plan: &BenchmarkPlan) -> Result<PhaseMetrics, Failure> {
        let mut sum = PhaseMetrics::with_max_latency(plan.timeout);
        for worker in &mut self.0 {
            let answer = worker.metrics.recv().await;
            sum.merge(answer.unwrap_or_else(|| Err(Failure::usage("a load thread ended early")))?);
        }
        Ok(sum)
    }
}

/// A load thread.
struct Worker {
    global: GlobalOptions,
    plan: BenchmarkPlan,
    index: u32,
    count: u32,
    /// Numbers of its connections.
    connections: Vec<u32>,
    /// Results: one when the worker is connected, then one after each phase.
    metrics: mpsc::UnboundedSender<Result<PhaseMetrics, Failure>>,
}

impl Worker {
    fn run(self, mut phases: mpsc::UnboundedReceiver<BenchPhase>) {
        let runtime = match LocalRuntime::new() {
            Ok(runtime) => runtime,
            Err(error) => {
                return self.send_result(Err(Failure::usage(format!(
                    "cannot start a runtime: {error}"
                ))));
            }
        };
        runtime.block_on(async {
            let connections = match self.connect().await {
                Ok(connections) => connections,
                Err(failure) => return self.send_result(Err(failure)),
            };
            self.send_result(Ok(PhaseMetrics::with_max_latency(self.plan.timeout)));
            while let Some(phase) = phases.recv().await {
                self.send_result(Ok(self.load(&connections, phase).await));
            }
        });
    }

    fn send_result(&self, answer: Result<PhaseMetrics, Failure>) {
        // the receiver is gone if another worker has failed
        let _ = self.metrics.send(answer);
    }

    async fn connect(&self) -> Result<Vec<Rc<Connection>>, Failure> {
        let mut connections = Vec::new();
        for number in &self.connections {
            let mut global = self.global.clone();
            global.client_id = global.client_id.map(|id| format!("{id}-{number}"));
            connections.push(Rc::new(Connection::open(&global).await?));
        }
        Ok(connections)
    }

    async fn load(&self, connections: &[Rc<Connection>], phase: BenchPhase) -> PhaseMetrics {
        let started = Instant::now();
        let shared = Rc::new(RefCell::new(WorkerState {
            source: Source::new(phase, &self.plan, self.index, self.count, started),
            metrics: PhaseMetrics::with_max_latency(self.plan.timeout),
            progress: self.plan.progress.clone(),
        }));
        let mut tasks = JoinSet::new();
        for connection in connections {
            for _ in 0..self.plan.in_flight {
                tasks.spawn_local(run_operations(
                    connection.clone(),
                    self.plan.clone(),
                    shared.clone(),
                ));
            }
        }
        tasks.join_all().await;
        let mut metrics = Rc::into_inner(shared)
            .expect("every lane has ended")
            .into_inner()
            .metrics;
        metrics.elapsed = started.elapsed();
        metrics
    }
}

/// State that the lanes of a worker share.
struct WorkerState {
    source: Source,
    metrics: PhaseMetrics,
    progress: Progress,
}

/// Runs one operation after the other. The end of an operation is the start of the next, so the clock is read once for each.
async fn run_operations(
    connection: Rc<Connection>,
    mut plan: BenchmarkPlan,
    shared: Rc<RefCell<WorkerState>>,
) {
    let client = &connection.client;
    let mut started = Instant::now();
    let mut unanswered = 0;
    while unanswered < MAX_CONSECUTIVE_TIMEOUTS {
        let Some((verb, number)) = shared.borrow_mut().source.next(started) else {
            return;
        };
        let key = plan.keys.at(number);
        let outcome = match verb {
            Verb::Get => client.get(key).await.map(|entry| entry.is_some()),
            Verb::Set => client.set(key, &plan.value).await.map(|_| true),
            Verb::Del => client
                .del(key)
                .await
                .map(|outcome| outcome != DelOutcome::Absent),
        };
        let ended = Instant::now();
        shared.borrow_mut().progress.advance();
        match outcome {
            Ok(found) => {
                shared
                    .borrow_mut()
                    .metrics
                    .record(verb, ended - started, found);
                unanswered = 0;
            }
            Err(error) => {
                let exit = exit(error.kind());
                let kind = format!("{:?}", error.kind());
                shared.borrow_mut().metrics.record_error(kind, exit);
                unanswered = if exit == Exit::NoResponse {
                    unanswered + 1
                } else {
                    0
                };
                // an error can be returned without any wait; the connection needs the thread too
                tokio::task::yield_now().await;
            }
        }
        started = ended;
    }
    shared.borrow_mut().metrics.gave_up = true;
}
