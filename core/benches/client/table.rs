//! A Markdown table whose rows are measured in turns, so that other load of the machine affects all of them alike.

use crate::{results, spread::RoundSummary};

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Heading of the column.
    pub(crate) name: &'static str,
    /// Text after each number.
    pub(crate) unit: &'static str,
    /// Decimals of each number.
    pub(crate) decimals: usize,
}

impl Column {
    /// Creates a column.
    pub(crate) const fn new(name: &'static str, unit: &'static str, decimals: usize) -> Self {
        Self {
            name,
            unit,
            decimals,
        }
    }
}

/// A row of the table: measured once per round, with a number for each column.
pub(crate) struct BenchmarkRow<'a> {
    pub(crate) name: String,
    measure: Box<dyn FnMut() -> Vec<f64> + 'a>,
    /// For each column, the number of each round.
    pub(crate) measured: Vec<Vec<f64>>,
}

/// A row below the subjects: one subject divided by another, round by round.
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) one: usize,
    pub(crate) other: usize,
}

/// A table to be.
pub(crate) struct Table<'a> {
    columns: &'a [Column],
    rows: Vec<BenchmarkRow<'a>>,
    ratios: Vec<Ratio>,
}

/// A row of a [`Table`], to name it in a ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowId(usize);

impl<'a> Table<'a> {
    /// Without rows.
    pub(crate) fn new(columns: &'a [Column]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
            ratios: Vec::new(),
        }
    }

    /// Adds a row; `measure` does a round of it and returns a number for each column.
    pub(crate) fn row(
        &mut self,
        name: impl Into<String>,
        measure: impl FnMut() -> Vec<f64> + 'a,
    ) -> RowId {
        self.rows.push(BenchmarkRow {
            name: name.into(),
            measure: Box::new(measure),
            measured: vec![Vec::new(); self.columns.len()],
        });
        RowId(self.rows.len() - 1)
    }

    /// Adds a row with one row divided by another.
    pub(crate) fn ratio(&mut self, name: impl Into<String>, one: RowId, other: RowId) {
        self.ratios.push(Ratio {
            name: name.into(),
            one: one.0,
            other: other.0,
        });
    }

    /// Measures all rows this number of times, reversing their order each time. Prints the table, and saves the
    /// measurements.
    pub(crate) fn print(mut self, title: &str, rounds: usize) {
        println!("\n### {title}\n");
        let mut order: Vec<_> = (0..self.rows.len()).collect();
        for _ in 0..rounds {
            for &at in &order {
                let subject = &mut self.rows[at];
                let numbers = (subject.measure)();
                for (column, number) in subject.measured.iter_mut().zip(numbers) {
                    column.push(number);
                }
            }
            // Each row has its neighbours as often before it as behind it.
            order.reverse();
        }
        self.print_rows();
        results::append_results(title, self.columns, &self.rows, &self.ratios);
    }

    fn print_rows(&self) {
        let names: Vec<_> = self.columns.iter().map(|column| column.name).collect();
        println!("| | {} |", names.join(" | "));
        println!("|{}", " --- |".repeat(names.len() + 1));
        for subject in &self.rows {
            print!("| {} |", subject.name);
            for (column, rounds) in self.columns.iter().zip(&subject.measured) {
                let spread = RoundSummary::of(rounds.iter().copied());
                print!(" {spread:.*}{} |", column.decimals, column.unit);
            }
            println!();
        }
        for Ratio { name, one, other } in &self.ratios {
            print!("| {name} |");
            let (one, other) = (&self.rows[*one], &self.rows[*other]);
            for (one, other) in one.measured.iter().zip(&other.measured) {
                print!(" {:.2} |", RoundSummary::of_ratios(one, other));
            }
            println!();
        }
    }
}
