//! Keys of a server: lists, and the levels of their tree.
use super::{
    api::{Api, Target},
    field,
    list::{ItemPrinter, List, ListOptions},
    pages::Pages,
    table::Column,
};
use crate::{exit::Exit, failure::Failure, global_options::GlobalOptions, key};
use clap::Args;
use serde_json::Value;
use std::{collections::BTreeMap, ffi::OsString};

/// List keys with their size and expiry, or a level of the tree of keys
///
/// With --tree, the segments below a prefix are listed: keys, and folders with the number and size of all keys in them.
/// The server counts them first, which takes a while if there are many keys.
#[derive(Debug, Args)]
#[command(after_help = KEYS_EXAMPLES)]
pub(super) struct Keys {
    /// Pattern of the keys, as for 'scan' [default: *]
    pattern: Option<OsString>,
    /// List the level of the tree below this prefix; without PREFIX the first level
    #[arg(
        long,
        value_name = "PREFIX",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with = "pattern"
    )]
    tree: Option<OsString>,
    /// The end of each segment of a key [default: /]
    #[arg(long, value_name = "TEXT", requires = "tree")]
    delimiter: Option<OsString>,
    #[command(flatten)]
    list: ListOptions,
}

const KEYS_EXAMPLES: &str = "\
Examples:
  statestore admin keys 'line1/*'
  statestore admin keys --tree                 how large is each folder?
  statestore admin keys --tree line1/          the level below line1/
  statestore admin keys --json | jq 'select(.value_bytes > 1000000)'";

const KEY_COLUMNS: &[Column] = &[
    Column::right("BYTES", "value_bytes"),
    Column::right("EXPIRES IN", "expires_in_ms"),
    Column::left("CHANGED", "changed_ms"),
    Column::left("KEY", "key").computed(key_text),
];

/// Returns the key of an item. An item of an older server is the key itself.
fn key_text(item: &Value) -> String {
    field::text("key", item.get("key").unwrap_or(item))
}

const TREE_COLUMNS: &[Column] = &[
    Column::right("KEYS", "keys"),
    Column::right("BYTES", "value_bytes"),
    Column::right("EXPIRES IN", "expires_in_ms"),
    Column::left("NAME", "key").computed(name_text),
];

/// Returns the name of a folder or a key.
fn name_text(item: &Value) -> String {
    field::text("prefix", item.get("prefix").unwrap_or(&item["key"]))
}

impl Keys {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let bytes = |argument: &OsString| key::from_argument(argument, global.escaped);
        if let Some(prefix) = &self.tree {
            let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
            let prefix = prefix.map(bytes).transpose()?;
            let delimiter = self.delimiter.as_ref().map(bytes).transpose()?;
            let target = Target::new("/api/prefixes")
                .with("prefix", prefix.unwrap_or_default())
                .with("delimiter", delimiter.as_deref().unwrap_or(b"/"));
            return print_level(api, target, self.list.limit, global).await;
        }
        let pattern = self.pattern.as_ref().map(bytes).transpose()?;
        List::new("/api/keys", KEY_COLUMNS)
            .with("match", pattern)
            .with("details", Some("1"))
            .print(api, self.list.limit, global)
            .await
    }
}

/// Prints a level of the tree, in the order of names.
async fn print_level(
    api: Api<'_>,
    target: Target,
    limit: Option<u64>,
    global: &GlobalOptions,
) -> Result<Exit, Failure> {
    let mut level = TreeLevel::default();
    let mut pages = Pages::new(api, target);
    while let Some(items) = pages.next_page().await? {
        for item in items {
            level.add(item);
        }
    }
    let mut items: Vec<Value> = level.0.into_values().collect();
    if let Some(limit) = limit {
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let mut printer = ItemPrinter::new(TREE_COLUMNS, global);
    printer.print(&items).await?;
    Ok(Exit::Done)
}

/// The folders and keys of a level by name; `true` for a folder.
#[derive(Debug, Default)]
struct TreeLevel(BTreeMap<(Vec<u8>, bool), Value>);

impl TreeLevel {
    /// Adds an item. A page can end within a folder, so that a folder is the sum of its items.
    fn add(&mut self, item: Value) {
        let is_folder = item.get("prefix").is_some();
        let name = item.get("prefix").unwrap_or(&item["key"]);
        let name = field::bytes(name).unwrap_or_default();
        let sums = ["keys", "value_bytes"].map(|field| {
            let present = self.0.get(&(name.clone(), is_folder));
            let present = present.and_then(|it| it[field].as_u64());
            let added = item[field].as_u64();
            (
                field,
                present
                    .unwrap_or_default()
                    .saturating_add(added.unwrap_or_default()),
            )
        });
        let total = self.0.entry((name, is_folder)).or_insert(item);
        if is_folder {
            for (field, sum) in sums {
                total[field] = sum.into();
            }
        }
    }
}

/// List the locks and leases with their holders
///
/// WAITERS is the number of clients that watch a lock.
#[derive(Debug, Args)]
#[command(after_help = LOCKS_EXAMPLES)]
pub(super) struct Locks {
    /// Pattern of the keys, as for 'scan' [default: *]
    pattern: Option<OsString>,
    #[command(flatten)]
    list: ListOptions,
}

const LOCKS_EXAMPLES: &str = "\
Examples:
  statestore admin locks
  statestore admin locks 'pump/*' --json | jq -r .holder";

const LOCK_COLUMNS: &[Column] = &[
    Column::left("SINCE", "since_ms"),
    Column::left("RENEWED", "renewed_ms"),
    Column::right("EXPIRES IN", "expires_in_ms"),
    Column::right("WAITERS", "waiters"),
    Column::left("HOLDER", "holder"),
    Column::left("KEY", "key"),
];

impl Locks {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let pattern = self.pattern.as_ref();
        let pattern = pattern.map(|pattern| key::from_argument(pattern, global.escaped));
        List::new("/api/locks", LOCK_COLUMNS)
            .with("match", pattern.transpose()?)
            .print(api, self.list.limit, global)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::TreeLevel;
    use serde_json::{Value, json};

    #[test]
    fn a_folder_is_the_sum_of_its_items() {
        let a = json!({"hex": "612f", "text": "a/"});
        let b = json!({"hex": "62", "text": "b"});
        let mut level = TreeLevel::default();
        for item in [
            json!({"key": b, "value_bytes": 7}),
            json!({"prefix": a, "keys": 2, "value_bytes": 10}),
            json!({"prefix": a, "keys": 3, "value_bytes": 1}),
        ] {
            level.add(item);
        }
        let items: Vec<Value> = level.0.into_values().collect();
        assert_eq!(
            items,
            [
                json!({"prefix": a, "keys": 5, "value_bytes": 11}),
                json!({"key": b, "value_bytes": 7}),
            ]
        );
    }
}
