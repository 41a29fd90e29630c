//! Tables with aligned columns, for people.
use super::field;
use serde_json::Value;
use std::fmt::Write as _;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    heading: &'static str,
    is_right_aligned: bool,
    source: Source,
}

/// The source of a cell's text.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A field of the item.
    Field(&'static str),
    /// A function of the item.
    Function(fn(&Value) -> String),
}

impl Column {
    /// A column of words.
    pub(super) const fn left(heading: &'static str, field: &'static str) -> Self {
        Self {
            heading,
            is_right_aligned: false,
            source: Source::Field(field),
        }
    }

    /// A column of numbers.
    pub(super) const fn right(heading: &'static str, field: &'static str) -> Self {
        Self {
            is_right_aligned: true,
            ..Self::left(heading, field)
        }
    }

    /// Takes the text from this function instead.
    pub(super) const fn computed(self, text: fn(&Value) -> String) -> Self {
        Self {
            source: Source::Function(text),
            ..self
        }
    }

    fn text(&self, item: &Value) -> String {
        match self.source {
            Source::Field(name) => item
                .get(name)
                .map_or_else(|| "-".into(), |value| field::text(name, value)),
            Source::Function(text) => text(item),
        }
    }
}

/// A table that grows. The heading precedes the first row. A column becomes wider with its widest cell so far, so that endless
/// lists need no memory.
#[derive(Debug)]
pub(super) struct Table {
    columns: &'static [Column],
    widths: Vec<usize>,
    has_heading: bool,
}

impl Table {
    pub(super) fn new(columns: &'static [Column]) -> Self {
        let widths = columns.iter().map(|column| column.heading.len()).collect();
        Self {
            columns,
            widths,
            has_heading: false,
        }
    }

    /// Returns the next rows.
    pub(super) fn lines(&mut self, items: &[Value]) -> String {
        let mut rows: Vec<Vec<String>> = Vec::with_capacity(items.len() + 1);
        if !self.has_heading && !items.is_empty() {
            self.has_heading = true;
            let headings = self.columns.iter().map(|column| column.heading.to_owned());
            rows.push(headings.collect());
        }
        for item in items {
            rows.push(self.columns.iter().map(|it| it.text(item)).collect());
        }
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let width = self.widths[index];
            if index > 0 {
                line.push_str("  ");
            }
            if self.columns[index].is_right_aligned {
                let _ = write!(line, "{cell:>width$}");
            } else if index + 1 < row.len() {
                let _ = write!(line, "{cell:<width$}");
            } else {
                line.push_str(cell);
            }
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Table};
    use serde_json::json;

    const COLUMNS: &[Column] = &[
        Column::right("BYTES", "value_bytes"),
        Column::left("USER", "user"),
        Column::left("KEY", "key").computed(|item| item["key"].to_string()),
    ];

    #[test]
    fn columns_are_aligned_and_only_become_wider() {
        let mut table = Table::new(COLUMNS);
        assert_eq!(table.lines(&[]), "");
        let first = [
            json!({"value_bytes": 5, "user": "gateway", "key": 1}),
            json!({"value_bytes": 1536, "key": 2}),
        ];
        assert_eq!(
            table.lines(&first),
            "  BYTES  USER     KEY\n    5 B  gateway  1\n1.5 KiB  -        2\n"
        );
        let second = [json!({"value_bytes": 7, "user": "ü", "key": 3})];
        assert_eq!(table.lines(&second), "    7 B  ü        3\n");
    }
}
