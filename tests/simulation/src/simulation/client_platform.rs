//! A client's machine: its clock, its random generator, its network, and its pauses.
use super::SharedSimulation;
use super::socket::Socket;
use statestore::platform::{Connecting, Duplex, Platform, Task};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Keeps the tasks of a machine from running during a pause.
#[derive(Debug, Default)]
pub(crate) struct PauseGate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    tasks: Vec<Waker>,
}

impl PauseGate {
    pub(crate) fn close(&self) {
        self.0.lock().unwrap().is_closed = true;
    }
    pub(crate) fn open(&self) {
        let tasks = {
            let mut held = self.0.lock().unwrap();
            held.is_closed = false;
            std::mem::take(&mut held.tasks)
        };
        tasks.into_iter().for_each(Waker::wake);
    }
    fn is_blocked(&self, context: &Context<'_>) -> bool {
        let mut held = self.0.lock().unwrap();
        if held.is_closed {
            held.tasks.push(context.waker().clone());
        }
        held.is_closed
    }
}

/// Runs a task on a machine.
pub(crate) fn spawn(gate: &Arc<PauseGate>, task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(PausableTask {
        gate: gate.clone(),
        task: Box::pin(task),
    });
}

struct PausableTask {
    gate: Arc<PauseGate>,
    task: Task,
}

impl Future for PausableTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.gate.is_blocked(context) {
            return Poll::Pending;
        }
        self.task.as_mut().poll(context)
    }
}

/// A client's view of its machine.
pub(crate) struct ClientPlatform {
    pub(crate) world: SharedSimulation,
    pub(crate) client: usize,
    pub(crate) gate: Arc<PauseGate>,
}

impl fmt::Debug for ClientPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine({})", self.client)
    }
}

impl Platform for ClientPlatform {
    fn wall_ms(&self) -> u64 {
        self.world.lock().unwrap().client_wall_ms(self.client)
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.world.lock().unwrap().chance.u64())
    }

    fn spawn(&self, task: Task) {
        spawn(&self.gate, task);
    }

    fn connect(&self) -> Option<Connecting> {
        let (world, client) = (self.world.clone(), self.client);
        Some(Box::pin(async move {
            let (link, after_ms) = world.lock().unwrap().dial(client);
            // Dropping the socket closes the connection.
            let socket = link.map(|link| Socket::new(world.clone(), link));
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            let socket = socket.ok_or(io::ErrorKind::ConnectionRefused)?;
            if !world.lock().unwrap().is_accepted(socket.link()) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Ok(Box::new(socket) as Box<dyn Duplex>)
        }))
    }
}
