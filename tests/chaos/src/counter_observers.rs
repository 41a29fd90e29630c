//! The observations of the counters.
use crate::peer_line::PeerLine;
use crate::run_state::{COUNTERS, RunState};
use statestore::Hlc;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A client that follows a counter, with a new observer for each new process.
#[derive(Debug)]
pub struct CounterObserver {
    seat: usize,
    client: usize,
    counter: usize,
    last: RefCell<Option<Hlc>>,
    value: Cell<Option<u64>>,
    /// Whether an observer is active.
    is_active: Cell<bool>,
}

impl CounterObserver {
    /// Creates a follower without observations.
    pub fn new(seat: usize, client: usize, counter: usize) -> Rc<Self> {
        Rc::new(Self {
            seat,
            client,
            counter,
            last: RefCell::default(),
            value: Cell::new(None),
            is_active: Cell::new(false),
        })
    }

    /// Whether an observer is active.
    pub fn is_observing(&self) -> bool {
        self.is_active.get()
    }

    /// Follows until the run ends.
    pub async fn run(self: Rc<Self>, world: Rc<RunState>) {
        loop {
            let place = &world.slots[self.seat];
            let peer = place.peer();
            let Some((_, mut told)) = peer.observe(self.client, COUNTERS[self.counter]).await
            else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            self.is_active.set(true);
            *self.last.borrow_mut() = None;
            while let Some(line) = told.recv().await {
                world.observations.set(world.observations.get() + 1);
                if let Err(problem) = self.record_observation(&line) {
                    let (language, client) = (place.language, self.client);
                    world
                        .failures
                        .add(format!("{language:?}, client {client}: {problem}"));
                }
            }
            // The process was killed.
            self.is_active.set(false);
        }
    }

    fn record_observation(&self, line: &PeerLine) -> Result<(), String> {
        match line.told.as_str() {
            "set" | "deleted" => {
                let (last, version) = (self.last.take(), line.version());
                if last.is_some() && version.is_some() && version <= last {
                    return Err(format!("an observer was told {line:?} after {last:?}"));
                }
                *self.last.borrow_mut() = version.or(last);
                self.value.set(line.number());
                Ok(())
            }
            "resync" => Ok(()),
            _ => Err(format!("an observer was told {line:?}")),
        }
    }

    /// Waits until the last state, which does not change any more, was observed.
    pub async fn wait_for(&self, world: &RunState, count: u64, limit: Duration) {
        let end = Instant::now() + limit;
        while self.value.get() != Some(count) {
            if Instant::now() > end {
                let (language, told) = (world.slots[self.seat].language, self.value.get());
                let (key, client) = (COUNTERS[self.counter], self.client);
                world.failures.add(format!(
                    "{language:?}, client {client}: the observer of {key} was told {told:?} last, but it is {count}"
                ));
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}
