//! Tallies of counters.

/// The number of counts, as far as it is known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Counts that were acknowledged.
    pub certain: u64,
    /// Counts of unknown outcome.
    pub perhaps: u64,
}

impl Tally {
    /// Checks the value of a counter: no count was lost, and none made twice.
    pub fn check(&self, count: u64) -> Result<(), String> {
        let Self { certain, perhaps } = self;
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
    fn what_is_certain_is_there_and_no_more_than_what_is_perhaps() {
        let tally = Tally {
            certain: 5,
            perhaps: 2,
        };
        assert!(tally.check(4).is_err());
        assert!((5..=7).all(|count| tally.check(count).is_ok()));
        assert!(tally.check(8).is_err());
    }
}
