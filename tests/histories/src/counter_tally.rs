//! Tallies of counters.

/// The number of counts, as far as it is known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CounterTally {
    /// Counts that were acknowledged.
    pub certain: u64,
    /// Counts of unknown outcome.
    pub uncertain: u64,
}

impl CounterTally {
    /// Checks the value of a counter: no count was lost, and none made twice.
    pub fn check(&self, count: u64) -> Result<(), String> {
        let Self {
            certain,
            uncertain: perhaps,
        } = self;
        if (*certain..=certain + perhaps).contains(&count) {
            return Ok(());
        }
        let what = if count < *certain {
            "lost"
        } else {
            "made twice"
        };
        Err(format!(
            "counts were {what}: {count}, of which {certain} certain and {perhaps} perhaps"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_between_the_certain_and_the_possible_increments() {
        let tally = CounterTally {
            certain: 5,
            uncertain: 2,
        };
        assert!(tally.check(4).is_err());
        assert!((5..=7).all(|count| tally.check(count).is_ok()));
        assert!(tally.check(8).is_err());
    }
}
