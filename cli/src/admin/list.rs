//! Lists of a server on standard output.
use super::{
    api::{Api, Target},
    pages::Pages,
    table::{Column, Table},
};
use crate::{
    exit::Exit, failure::Failure, global_options::GlobalOptions, output::Output, record::json_line,
};
use clap::Args;
use serde_json::Value;

/// The options of a list.
#[derive(Debug, Args)]
pub(super) struct ListOptions {
    /// Print at most this many items [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
}

/// Items on standard output: rows of a table, or with `--json` an object per line.
#[derive(Debug)]
pub(super) struct ItemPrinter {
    stdout: Output,
    /// `None` with `--json`.
    table: Option<Table>,
}

impl ItemPrinter {
    pub(super) fn new(columns: &'static [Column], global: &GlobalOptions) -> Self {
        Self {
            stdout: Output::stdout(),
            table: (!global.json).then(|| Table::new(columns)),
        }
    }

    /// Prints the next items.
    pub(super) async fn print(&mut self, items: &[Value]) -> Result<(), Failure> {
        let lines = match &mut self.table {
            Some(table) => table.lines(items).into_bytes(),
            None => items.iter().flat_map(json_line).collect(),
        };
        self.stdout.print(&lines).await
    }

    /// Prints a single object that is no item: a line of `--json`, and nothing in a table.
    pub(super) async fn print_json_only(&mut self, document: &Value) -> Result<(), Failure> {
        match self.table {
            Some(_) => Ok(()),
            None => self.stdout.print(&json_line(document)).await,
        }
    }
}

/// A list that is printed page by page as it arrives.
#[derive(Debug)]
pub(super) struct List<'a> {
    target: Target,
    columns: &'static [Column],
    items: &'static str,
    /// Fields of the items, and the text that each contains.
    filters: Vec<(&'static str, &'a str)>,
    /// A field that every item has.
    expected_field: Option<&'static str>,
}

impl<'a> List<'a> {
    pub(super) fn new(path: &'static str, columns: &'static [Column]) -> Self {
        Self {
            target: Target::new(path),
            columns,
            items: "items",
            filters: Vec::new(),
            expected_field: None,
        }
    }

    /// Takes the items from this field of a page.
    pub(super) fn items_in(self, items: &'static str) -> Self {
        Self { items, ..self }
    }

    /// Adds a parameter of the server.
    pub(super) fn with(self, name: &str, value: Option<impl AsRef<[u8]>>) -> Self {
        Self {
            target: self.target.with_optional(name, value),
            ..self
        }
    }

    /// Asks only for items whose field contains this text, ignoring case.
    pub(super) fn filter(
        mut self,
        name: &str,
        field: &'static str,
        text: Option<&'a String>,
    ) -> Self {
        if let Some(text) = text {
            self.filters.push((field, text));
        }
        self.with(name, text)
    }

    /// Expects a field that servers without an option do not have.
    pub(super) fn expect_field(self, field: Option<&'static str>) -> Self {
        Self {
            expected_field: field,
            ..self
        }
    }

    /// Prints at most `limit` items.
    pub(super) async fn print(
        self,
        api: Api<'_>,
        limit: Option<u64>,
        global: &GlobalOptions,
    ) -> Result<Exit, Failure> {
        let mut printer = ItemPrinter::new(self.columns, global);
        let mut left = limit;
        let mut pages = Pages::new(api, self.target.clone()).items_in(self.items);
        while left != Some(0)
            && let Some(mut items) = pages.next_page().await?
        {
            self.check_filters(&items)?;
            if let Some(left) = &mut left {
                items.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= items.len() as u64;
            }
            printer.print(&items).await?;
        }
        Ok(Exit::Done)
    }

    /// Checks that the server applied the options: an older one ignores those that it does not know.
    fn check_filters(&self, items: &[Value]) -> Result<(), Failure> {
        let contains = |item: &Value, field: &str, text: &str| {
            let found = item.get(field).and_then(Value::as_str);
            found.is_some_and(|found| found.to_lowercase().contains(&text.to_lowercase()))
        };
        let is_expected = |item: &Value| {
            let mut filters = self.filters.iter();
            filters.all(|(field, text)| contains(item, field, text))
                && self.expected_field.is_none_or(|it| item.get(it).is_some())
        };
        if !items.iter().all(is_expected) {
            return Err(Failure::new(
                Exit::Rejected,
                format!(
                    "this server does not have these options of {}; it is older than this command",
                    self.target.path()
                ),
            ));
        }
        Ok(())
    }
}
