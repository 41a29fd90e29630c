//! A client's machine: its clock, its chance, and that it can stand still.
use crate::network_simulation::NetworkSimulation;
use statestore::platform::{Connecting, Duplex, Platform, Task};
use statestore::{Client, Settings};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A machine with one client at a time.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) world: NetworkSimulation,
    pub(crate) name: &'static str,
    gate: Arc<TaskGate>,
    /// Error of the machine's wall clock, in milliseconds.
    clock_ms: Arc<AtomicI64>,
    random: Arc<Mutex<fastrand::Rng>>,
}

/// Two connected clients, each on a machine of its own.
pub(crate) async fn one_and_two(world: &NetworkSimulation) -> (Client, Client) {
    let one = Machine::new(world, "one", 1).connect().await;
    let two = Machine::new(world, "two", 2).connect().await;
    (one, two)
}

/// Keeps tasks from running.
#[derive(Debug, Default)]
struct TaskGate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    tasks: Vec<Waker>,
}

impl Machine {
    pub(crate) fn new(world: &NetworkSimulation, name: &'static str, seed: u64) -> Self {
        Self {
            world: world.clone(),
            name,
            gate: Arc::default(),
            clock_ms: Arc::default(),
            random: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
        }
    }

    /// Connects a client whose name is the machine's.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.settings()).await.unwrap()
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings::new("simulated", 1)
            .client_id(self.name)
            .platform(self.clone())
            .request_timeout(Duration::from_secs(5))
            .ping_timeout(Duration::from_secs(2))
            .keep_alive(Duration::from_secs(5))
    }

    /// Runs a task on this machine.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        tokio::spawn(GatedFuture {
            gate: self.gate.clone(),
            task: Box::pin(task),
        })
    }

    /// From now on nothing runs.
    pub(crate) fn stop(&self) {
        self.gate.0.lock().unwrap().is_closed = true;
    }

    /// Stops the machine for this time.
    pub(crate) fn stop_for(&self, time: Duration) {
        self.stop();
        let machine = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            machine.resume();
        });
    }

    pub(crate) fn resume(&self) {
        let tasks = {
            let mut held = self.gate.0.lock().unwrap();
            held.is_closed = false;
            std::mem::take(&mut held.tasks)
        };
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Sets its wall clock.
    pub(crate) fn set_clock(&self, wrong_by_ms: i64) {
        self.clock_ms.store(wrong_by_ms, Ordering::Relaxed);
    }
}

struct GatedFuture<T> {
    gate: Arc<TaskGate>,
    task: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Future for GatedFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        {
            let mut held = self.gate.0.lock().unwrap();
            if held.is_closed {
                held.tasks.push(context.waker().clone());
                return Poll::Pending;
            }
        }
        self.task.as_mut().poll(context)
    }
}

impl Platform for Machine {
    fn wall_ms(&self) -> u64 {
        let now_ms = self.world.true_wall_ms();
        now_ms.saturating_add_signed(self.clock_ms.load(Ordering::Relaxed))
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.random.lock().unwrap().u64(..))
    }

    fn spawn(&self, task: Task) {
        self.run(task);
    }

    fn connect(&self) -> Option<Connecting> {
        let (world, name) = (self.world.clone(), self.name);
        Some(Box::pin(async move {
            let stream = world
                .connect(name)
                .ok_or(io::ErrorKind::ConnectionRefused)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        }))
    }
}
