//! Comparison of this node's wall clock with others, and its effect on versions.
use super::clocks::{FoundClocks, Standing};
use super::engine::{Ask, AskId, EngineError, Link};
use super::plan::Stamps;
use super::{ASK_AGAIN_MS, Remote};
use crate::clock::Now;

impl<L: Link> Remote<L> {
    /// Judges the clock, and queries the other clocks if it is time.
    pub(super) fn compare_due(&mut self, now: Now) {
        self.clocks.pass(now);
        if self.clocks.take_due(now) {
            let ask = self.ask(Ask::Clocks {
                process: self.config.process,
                shown_ms: now.wall_ms,
            });
            self.asked_clocks = Some(ask);
        }
    }

    /// Records the answer to a query of the clocks.
    pub(super) fn compared(
        &mut self,
        ask: AskId,
        found: Result<FoundClocks, Option<EngineError>>,
        now: Now,
    ) {
        if self.asked_clocks.take_if(|asked| *asked == ask).is_none() {
            return;
        }
        match found {
            Ok(found) => self.clocks.found(&found, now),
            Err(Some(_)) => self.clocks.refused(),
            Err(None) => self.clocks.unanswered(now.mono_ms + ASK_AGAIN_MS),
        }
        self.clocks.pass(now);
    }

    /// Returns the stamps of changes made at this time.
    pub(super) fn stamps(&self, now: Now) -> Stamps {
        Stamps {
            now,
            may_stamp: self.clocks.standing(now) == Standing::Right,
            latest_ms: self.clocks.latest_ms(now),
        }
    }
}
