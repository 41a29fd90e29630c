//! The mix of operations of a load.
use std::{fmt, str::FromStr};

/// An operation of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// GET
    Get,
    /// SET
    Set,
    /// DEL
    Del,
}

impl Verb {
    /// All verbs; the index of each is `verb as usize`.
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Set, Self::Del];

    /// Returns the name in `--mix` and in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Del => "del",
        }
    }
}

/// Verbs with their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkloadMix {
    weights: [u32; Verb::ALL.len()],
    total: u32,
}

impl WorkloadMix {
    /// Draws a verb.
    pub(crate) fn pick(&self, random: &mut fastrand::Rng) -> Verb {
        let mut ticket = random.u32(..self.total);
        for verb in Verb::ALL {
            let weight = self.weights[verb as usize];
            if ticket < weight {
                return verb;
            }
            ticket -= weight;
        }
        unreachable!("a ticket is lower than the sum of the weights")
    }

    /// Whether a verb occurs.
    pub(crate) fn contains(&self, verb: Verb) -> bool {
        self.weights[verb as usize] > 0
    }
}

impl fmt::Display for WorkloadMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for verb in Verb::ALL.into_iter().filter(|verb| self.contains(*verb)) {
            write!(
                f,
                "{separator}{}={}",
                verb.name(),
                self.weights[verb as usize]
            )?;
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for WorkloadMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write for example get=80,set=20; there are get, set and del".to_owned();
        let mut weights = [0_u32; Verb::ALL.len()];
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(form)?;
            let verb = Verb::ALL
                .into_iter()
                .find(|verb| verb.name() == name)
                .ok_or_else(form)?;
            weights[verb as usize] = weight.parse().map_err(|_| form())?;
        }
        let total = weights
            .iter()
            .try_fold(0_u32, |sum, weight| sum.checked_add(*weight));
        match total {
            None | Some(0) => Err(form()),
            Some(total) => Ok(Self { weights, total }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Verb, WorkloadMix};

    #[test]
    fn verbs_are_picked_by_weight() {
        let mix: WorkloadMix = "get=80,set=20".parse().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut seen = [0_u32; 3];
        for _ in 0..10_000 {
            seen[mix.pick(&mut random) as usize] += 1;
        }
        assert!(
            (7_700..8_300).contains(&seen[Verb::Get as usize]),
            "{seen:?}"
        );
        assert_eq!(seen[Verb::Del as usize], 0);
    }

    #[test]
    fn a_mix_round_trips() {
        for text in ["get=80,set=20", "del=1"] {
            assert_eq!(text.parse::<WorkloadMix>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_mix_is_rejected() {
        for text in [
            "",
            "get",
            "get=",
            "get=0",
            "get=-1",
            "put=1",
            "get=4294967295,set=1",
        ] {
            assert!(text.parse::<WorkloadMix>().is_err(), "{text}");
        }
    }
}
