//! The largest keys, those that expire first, and those with most requests.
use super::{
    api::{Api, Target},
    list::{ItemPrinter, List, ListOptions},
    pages::Pages,
    table::Column,
};
use crate::{exit::Exit, failure::Failure, global_options::GlobalOptions};
use clap::Args;
use serde_json::Value;
use std::cmp::Reverse;

/// The number of items that a page of the server has at most, and so the most that are exact.
const MAX_ITEMS: u64 = 20;

/// The number of printed keys.
#[derive(Debug, Args)]
struct Limit {
    /// Print this many keys, at most 20
    #[arg(long, value_name = "N", default_value_t = MAX_ITEMS, value_parser = clap::value_parser!(u64).range(1..=MAX_ITEMS))]
    limit: u64,
}

/// List the keys with the largest values
///
/// The server reads all of its keys for it, a page at a time, while it serves clients.
#[derive(Debug, Args)]
#[command(after_help = BIG_KEYS_EXAMPLES)]
pub(super) struct BigKeys {
    #[command(flatten)]
    limit: Limit,
}

const BIG_KEYS_EXAMPLES: &str = "\
Examples:
  statestore admin bigkeys --limit 5
  statestore admin bigkeys --json | jq .value_bytes";

const BIG_KEY_COLUMNS: &[Column] = &[
    Column::right("BYTES", "value_bytes"),
    Column::left("KEY", "key"),
];

impl BigKeys {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut keys = Pages::new(api, Target::new("/api/bigkeys"));
        let mut largest: Vec<Value> = Vec::new();
        while let Some(page) = keys.next_page().await? {
            largest.extend(page);
            largest.sort_by_key(|item| Reverse(item["value_bytes"].as_u64()));
            self.limit.apply(&mut largest);
        }
        let mut printer = ItemPrinter::new(BIG_KEY_COLUMNS, global);
        printer.print(&largest).await?;
        Ok(Exit::Done)
    }
}

/// List the keys that expire first
///
/// The server reads all of its keys for it, a page at a time, while it serves clients.
#[derive(Debug, Args)]
#[command(after_help = TTL_EXAMPLES)]
pub(super) struct Ttl {
    #[command(flatten)]
    limit: Limit,
}

const TTL_EXAMPLES: &str = "\
Examples:
  statestore admin ttl
  statestore admin ttl --json | jq 'select(.expires_in_ms < 60000)'";

const TTL_COLUMNS: &[Column] = &[
    Column::right("EXPIRES IN", "expires_in_ms"),
    Column::left("KEY", "key"),
];

impl Ttl {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut keys = Pages::new(api, Target::new("/api/ttl"));
        let mut soonest: Vec<Value> = Vec::new();
        while let Some(page) = keys.next_page().await? {
            soonest.extend(page);
            soonest.sort_by_key(|item| item["expires_in_ms"].as_u64().unwrap_or(u64::MAX));
            self.limit.apply(&mut soonest);
        }
        let mut printer = ItemPrinter::new(TTL_COLUMNS, global);
        printer.print(&soonest).await?;
        Ok(Exit::Done)
    }
}

impl Limit {
    fn apply(&self, items: &mut Vec<Value>) {
        items.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
    }
}

/// List the keys with most requests in the last minutes
///
/// The server counts a sample of all requests, so the numbers are estimates.
#[derive(Debug, Args)]
#[command(after_help = HOT_KEYS_EXAMPLES)]
pub(super) struct HotKeys {
    #[command(flatten)]
    list: ListOptions,
}

const HOT_KEYS_EXAMPLES: &str = "\
Examples:
  statestore admin hotkeys --limit 10";

const HOT_KEY_COLUMNS: &[Column] = &[
    Column::right("REQUESTS", "requests"),
    Column::left("KEY", "key"),
];

impl HotKeys {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let list = List::new("/api/hotkeys", HOT_KEY_COLUMNS);
        list.print(api, self.list.limit, global).await
    }
}
