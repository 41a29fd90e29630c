//! What `tests/vectors/storages.json` says of a storage: where the model differs.
use serde_json::Value;
use std::path::Path;

/// What differs by where entries are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// A key that is made anew is above its own deletion, not above all.
    pub(crate) has_floor_of_key: bool,
    /// Whoever begins anew counts the time to live from then on.
    pub(crate) begins_time_anew: bool,
    /// It is known how many keys there are.
    pub(crate) counts: bool,
}

impl Terms {
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
            has_floor_of_key: value("floor") == "the key",
            begins_time_anew: value("begins_time_anew") == true,
            counts: value("counts") == true,
        }
    }
}
