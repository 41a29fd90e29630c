//! Differences between storages, from `tests/vectors/storages.json`: the model follows them.
use serde_json::Value;
use std::path::Path;

/// Differences between the storages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorageTraits {
    /// A key that is made anew is above its own deletion, not above all.
    pub(crate) has_version_floor_per_key: bool,
    /// The time to live (if it is 10 minutes or less) starts again when all servers have restarted.
    pub(crate) restarts_expiry: bool,
    /// The number of keys is known.
    pub(crate) counts_keys: bool,
}

impl StorageTraits {
    pub(crate) fn of(storage: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/storages.json");
        let text = std::fs::read(path).unwrap();
        let file: Value = serde_json::from_slice(&text).unwrap();
        let all = file["differences"].as_array().unwrap();
        let value = |name: &str| {
            let found = all.iter().find(|difference| difference["name"] == name);
            &found.unwrap()[storage]
        };
        Self {
            has_version_floor_per_key: value("floor") == "this key",
            restarts_expiry: value("begins_time_anew") == true,
            counts_keys: value("counts") == true,
        }
    }
}
