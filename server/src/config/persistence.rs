//! Options of the keys that a durable storage keeps.
use crate::config_error::ConfigError;
use crate::storage_config::StorageConfig;
use clap::{Args, ValueEnum};
use statestored_access::policy::{KeyPatterns, KeyType};
use statestored_store::service::Retention;

/// Options of the keys that a durable storage keeps.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the options are called so")]
pub(super) struct PersistenceOptions {
    /// Keys that the durable storage keeps over a restart
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    persist_mode: PersistMode,

    /// Pattern of keys to keep, with `*`, `?` and `[0-9]`; repeatable
    #[arg(long, value_name = "PATTERN")]
    persist_glob_keys: Vec<String>,

    /// Key to keep; repeatable
    #[arg(long, value_name = "KEY")]
    persist_str_keys: Vec<String>,

    /// Key to keep, in base 64; repeatable
    #[arg(long, value_name = "BASE64")]
    persist_bin_keys: Vec<String>,

    /// Whether a SET with --persist-property keeps its key, too
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t)]
    persist_dynamic: DynamicPersistence,

    /// User property of a SET that keeps its key
    #[arg(long, value_name = "NAME=VALUE", default_value = "aio-persistence=true", value_parser = property)]
    persist_property: (String, String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum PersistMode {
    /// Every key.
    #[default]
    All,
    /// No key.
    None,
    /// Keys of the other --persist options.
    Custom,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DynamicPersistence {
    #[default]
    Enabled,
    Disabled,
}

fn property(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("expected NAME=VALUE, such as aio-persistence=true"),
    }
}

impl PersistenceOptions {
    pub(super) fn retention(&self, storage: &StorageConfig) -> Result<Retention, ConfigError> {
        let keys = [
            (
                "persist-glob-keys",
                KeyType::Pattern,
                &self.persist_glob_keys,
            ),
            ("persist-str-keys", KeyType::String, &self.persist_str_keys),
            ("persist-bin-keys", KeyType::Binary, &self.persist_bin_keys),
        ];
        let wrong = |problem| Err(ConfigError::Options(problem));
        if self.persist_mode != PersistMode::All && !matches!(storage, StorageConfig::Durable(_)) {
            return wrong("--storage memory keeps nothing: leave out --persist-mode".into());
        }
        let mut patterns = KeyPatterns::default();
        for (option, kind, texts) in keys {
            if self.persist_mode != PersistMode::Custom && !texts.is_empty() {
                return wrong(format!("--{option} needs --persist-mode custom"));
            }
            for text in texts {
                if let Err(problem) = patterns.add(kind, text) {
                    return wrong(format!("--{option}: {problem}"));
                }
            }
        }
        Ok(match self.persist_mode {
            PersistMode::All => Retention::All,
            PersistMode::None => Retention::Nothing,
            PersistMode::Custom => Retention::Custom {
                keys: patterns,
                on_request: self.persist_dynamic == DynamicPersistence::Enabled,
            },
        })
    }

    /// Returns the user property by which a SET asks for its key to be kept, if it is not the default one.
    pub(super) fn property(&self) -> Option<(String, String)> {
        use statestore_protocol::property::{PERSIST, PERSIST_VALUE};
        let (name, value) = &self.persist_property;
        ((name.as_str(), value.as_str()) != (PERSIST, PERSIST_VALUE))
            .then(|| self.persist_property.clone())
    }
}
