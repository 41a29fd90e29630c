//! Summary of several rounds of one measurement.
use std::fmt;

/// The median of the rounds, with the lowest and the highest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundSummary {
    pub(crate) median: f64,
    lowest: f64,
    highest: f64,
}

impl RoundSummary {
    /// Summarizes one number per round. Requires at least one round.
    pub(crate) fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let mut rounds: Vec<_> = rounds.into_iter().collect();
        rounds.sort_by(f64::total_cmp);
        let half = rounds.len() / 2;
        let median = if rounds.len().is_multiple_of(2) {
            f64::midpoint(rounds[half - 1], rounds[half])
        } else {
            rounds[half]
        };
        Self {
            median,
            lowest: rounds[0],
            highest: rounds[rounds.len() - 1],
        }
    }

    /// Summarizes the ratio of two measurements, round by round.
    pub(crate) fn of_ratios(one: &[f64], other: &[f64]) -> Self {
        Self::of(one.iter().zip(other).map(|(one, other)| one / other))
    }
}

impl fmt::Display for RoundSummary {
    /// `median (lowest–highest)`, with as many decimals as the precision says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(0);
        let text = |number| grouped(number, decimals);
        write!(
            f,
            "{} ({}–{})",
            text(self.median),
            text(self.lowest),
            text(self.highest)
        )
    }
}

/// The number with a comma after each group of three digits before the point.
fn grouped(number: f64, decimals: usize) -> String {
    let plain = format!("{number:.decimals$}");
    let whole = plain.find('.').unwrap_or(plain.len());
    let mut text = String::new();
    for (at, letter) in plain.char_indices() {
        let digits_left = whole.saturating_sub(at);
        if digits_left > 0
            && digits_left.is_multiple_of(3)
            && text.ends_with(|c: char| c.is_ascii_digit())
        {
            text.push(',');
        }
        text.push(letter);
    }
    text
}
