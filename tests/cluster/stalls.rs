//! How long clients had no answer, and what they were told instead.
use std::time::{Duration, Instant};

/// A time in which a client had no answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stall {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Stall {
    pub(crate) fn lasts(&self) -> Duration {
        self.until - self.from
    }
}

/// What the clients met since somebody looked last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// The longest time in which one of them had no answer.
    pub(crate) longest: Option<Stall>,
    /// Calls that were certainly not done.
    pub(crate) refused: usize,
    /// Calls of which nobody knows.
    pub(crate) unknown: usize,
}

impl Figures {
    /// How long the longest took.
    pub(crate) fn lasts(&self) -> Duration {
        self.longest.as_ref().map_or(Duration::ZERO, Stall::lasts)
    }
}

/// Of all clients.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// When each of them was answered last.
    answered: Vec<Instant>,
    figures: Figures,
}

impl Stalls {
    /// The number of a client that begins.
    pub(crate) fn begin(&mut self) -> usize {
        self.answered.push(Instant::now());
        self.answered.len() - 1
    }

    pub(crate) fn answered(&mut self, client: usize) {
        let until = Instant::now();
        let from = std::mem::replace(&mut self.answered[client], until);
        if until - from > self.figures.lasts() {
            self.figures.longest = Some(Stall { from, until });
        }
    }

    pub(crate) fn refused(&mut self) {
        self.figures.refused += 1;
    }

    pub(crate) fn unknown(&mut self) {
        self.figures.unknown += 1;
    }

    /// Whether each client had an answer since.
    pub(crate) fn all_answered_since(&self, since: Instant) -> bool {
        self.answered.iter().all(|answered| *answered > since)
    }

    /// What they met since this was asked last.
    pub(crate) fn take(&mut self) -> Figures {
        std::mem::take(&mut self.figures)
    }
}
