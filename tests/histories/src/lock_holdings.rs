//! The holders of a lock.
use statestore::Hlc;

/// The time span in which a client could believe that it held the lock.
#[derive(Debug, Clone)]
pub struct LockHolding {
    /// Number of the client.
    pub client: usize,
    /// Fencing token of the holding.
    pub token: Hlc,
    /// Time at which the client learned that it held the lock.
    pub from: u64,
    /// Time of the last check at which the client still held the lock.
    pub until: u64,
}

/// All holdings of a lock.
#[derive(Debug, Default)]
pub struct LockHoldings(Vec<LockHolding>);

impl LockHoldings {
    /// Records a holding.
    pub fn add(&mut self, holding: LockHolding) {
        self.0.push(holding);
    }

    /// Returns the number of holdings.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Checks that no two holdings overlap, and that the later one has a higher fencing token.
    pub fn check(&mut self) -> Result<(), String> {
        self.0.sort_by_key(|holding| holding.from);
        for pair in self.0.windows(2) {
            let is_apart = pair[0].until <= pair[1].from && pair[0].token < pair[1].token;
            if !is_apart {
                let clients = [pair[0].client, pair[1].client];
                return Err(format!("{clients:?} hold the lock: {pair:#?}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holdings: &[(u64, u64, u64)]) -> bool {
        let mut all = LockHoldings::default();
        for (client, &(from, until, token)) in holdings.iter().enumerate() {
            let token = Hlc::new(token, 0, "c").expect("a clock");
            all.add(LockHolding {
                client,
                token,
                from,
                until,
            });
        }
        all.check().is_ok()
    }

    #[test]
    fn holdings_must_not_overlap_and_tokens_must_rise() {
        assert!(held(&[]));
        assert!(held(&[(7, 9, 3), (0, 5, 1), (5, 6, 2)]));
        assert!(!held(&[(0, 5, 1), (4, 6, 2)]));
        assert!(!held(&[(0, 5, 2), (6, 7, 1)]));
        assert!(!held(&[(0, 5, 2), (6, 7, 2)]));
    }
}
