//! Stalls: times in which clients had no response, and their errors meanwhile.
use statestore::{Error, ErrorKind, Outcome};
use std::time::{Duration, Instant};

/// A time in which a client had no answer.
#[derive(Debug, Clone)]
pub(crate) struct Stall {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    /// Errors that the client received meanwhile: the time of the last, its kind, and the number in a row.
    told: Vec<(Instant, ErrorKind, usize)>,
}

impl Stall {
    pub(crate) fn lasts(&self) -> Duration {
        self.until - self.from
    }

    /// Describes the errors that the client received meanwhile, and when.
    pub(crate) fn told(&self) -> Vec<String> {
        let tell = |(at, kind, times): &(Instant, ErrorKind, usize)| {
            let behind = (*at - self.from).as_secs_f32();
            format!("{kind:?} {times} times until {behind:.1} s")
        };
        self.told.iter().map(tell).collect()
    }
}

/// Figures of the clients since the last [`Stalls::take`].
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The longest time in which one of them had no answer.
    pub(crate) longest: Option<Stall>,
    /// Calls that were certainly not done.
    pub(crate) refused: usize,
    /// Calls with an unknown outcome.
    pub(crate) unknown: usize,
}

impl Figures {
    /// How long the longest took.
    pub(crate) fn lasts(&self) -> Duration {
        self.longest.as_ref().map_or(Duration::ZERO, Stall::lasts)
    }
}

/// A client that waits for a response.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    told: Vec<(Instant, ErrorKind, usize)>,
}

/// Stalls of all clients.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    clients: Vec<Waiting>,
    figures: Figures,
}

impl Stalls {
    /// The number of a client that begins.
    pub(crate) fn begin(&mut self) -> usize {
        self.clients.push(Waiting {
            since: Instant::now(),
            told: Vec::new(),
        });
        self.clients.len() - 1
    }

    pub(crate) fn answered(&mut self, client: usize) {
        let waiting = &mut self.clients[client];
        let until = Instant::now();
        let from = std::mem::replace(&mut waiting.since, until);
        let told = std::mem::take(&mut waiting.told);
        if until - from > self.figures.lasts() {
            self.figures.longest = Some(Stall { from, until, told });
        }
    }

    pub(crate) fn failed(&mut self, client: usize, error: &Error) {
        match error.outcome() {
            Outcome::NotDone => self.figures.refused += 1,
            Outcome::Unknown => self.figures.unknown += 1,
        }
        self.told(client, error);
    }

    /// Records an error of this client, without counting it as a failed call.
    pub(crate) fn told(&mut self, client: usize, error: &Error) {
        let (now, told) = (Instant::now(), &mut self.clients[client].told);
        match told.last_mut() {
            Some((at, kind, times)) if *kind == error.kind() => {
                (*at, *times) = (now, *times + 1);
            }
            _ => told.push((now, error.kind(), 1)),
        }
    }

    /// Whether each client had an answer since.
    pub(crate) fn all_answered_since(&self, since: Instant) -> bool {
        self.clients.iter().all(|client| client.since > since)
    }

    /// Returns the figures since the last call of this function.
    pub(crate) fn take(&mut self) -> Figures {
        std::mem::take(&mut self.figures)
    }
}
