//! `statestore transact`.
use crate::{
    connection::{Connection, failure},
    duration,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::{Output, print_result},
    record::Record,
    value,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Args;
use serde::Deserialize;
use statestore::{
    Condition, DelOptions, Hlc, SetOptions, TransactOptions, Transaction, TransactionOutcome,
    Version,
};
use std::{path::PathBuf, time::Duration};

/// Set and delete several keys, all of them or none
///
/// The operations are JSON, one object per line, and run in their order; other clients see all of them or none. Not every store
/// has transactions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Transact {
    /// Read the operations from this file [default: -, which is standard input]
    file: Option<PathBuf>,
    /// Ask the store to keep the keys on disk
    #[arg(long)]
    persist: bool,
}

const EXAMPLES: &str = r#"Examples:
  statestore transact <<'END'                prints the version of each change, one per line
  {"set": "order/7", "value": "paid"}
  {"set": "receipt/7", "value": "...", "nx": true, "px": "24h"}
  {"del": "cart/7", "if_version": "001763632800000:00000:StateStore"}
  END
  statestore transact operations.jsonl || echo nothing was changed

Members of an operation:
  set, del       the key
  value          the value of a set
  if_version     only if the key has this version
  nx, nex        only if the key is absent; or already holds this very value
  px             a set: expire after this time
  fence          fencing token
  key_encoding, encoding   "base64": the key, the value is written so"#;

/// A line of the input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    set: Option<String>,
    del: Option<String>,
    value: Option<String>,
    #[serde(default, deserialize_with = "version")]
    if_version: Option<Hlc>,
    #[serde(default)]
    nx: bool,
    #[serde(default)]
    nex: bool,
    #[serde(default, deserialize_with = "duration")]
    px: Option<Duration>,
    #[serde(default, deserialize_with = "version")]
    fence: Option<Hlc>,
    key_encoding: Option<Encoding>,
    encoding: Option<Encoding>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Base64,
}

fn version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Hlc>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let version = text.parse().map_err(serde::de::Error::custom)?;
    Ok(Some(version))
}

/// Reads a duration as on the command line, or a number of milliseconds.
fn duration<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum DurationInput {
        Milliseconds(u64),
        Text(String),
    }
    let text = match DurationInput::deserialize(deserializer)? {
        DurationInput::Milliseconds(number) => number.to_string(),
        DurationInput::Text(text) => text,
    };
    let duration = duration::parse(&text).map_err(serde::de::Error::custom)?;
    Ok(Some(duration))
}

/// Returns the bytes of a key or value.
fn bytes(text: String, encoding: Option<Encoding>) -> Result<Vec<u8>, String> {
    match encoding {
        None => Ok(text.into_bytes()),
        Some(Encoding::Base64) => {
            let decoded = STANDARD.decode(text);
            decoded.map_err(|error| format!("not base64: {error}"))
        }
    }
}

impl Operation {
    /// Returns the transaction with this operation appended, and its key.
    fn add_to(self, transaction: Transaction) -> Result<(Transaction, Vec<u8>), String> {
        let condition = match (self.if_version, self.nx, self.nex) {
            (None, false, false) => Condition::Always,
            (None, true, false) => Condition::IfAbsent,
            (None, false, true) => Condition::IfAbsentOrEqual,
            (Some(version), false, false) => Condition::IfVersion(Version::from(version)),
            _ => return Err("only one of if_version, nx and nex is possible".to_owned()),
        };
        match (self.set, self.del) {
            (Some(key), None) => {
                let key = bytes(key, self.key_encoding)?;
                let value = self.value.ok_or("a set needs a value")?;
                let value = bytes(value, self.encoding)?;
                let options = SetOptions::new()
                    .condition(condition)
                    .expires_in(self.px)
                    .fencing_token(self.fence);
                Ok((transaction.set(&key, value, &options), key))
            }
            (None, Some(key)) => {
                let if_version = match condition {
                    Condition::Always => None,
                    Condition::IfVersion(version) => Some(version),
                    _ => return Err("nx and nex are of a set".to_owned()),
                };
                if self.value.is_some() || self.encoding.is_some() || self.px.is_some() {
                    return Err("value, encoding and px are of a set".to_owned());
                }
                let key = bytes(key, self.key_encoding)?;
                let options = DelOptions::new()
                    .if_version(if_version)
                    .fencing_token(self.fence);
                Ok((transaction.del(&key, &options), key))
            }
            _ => Err("an operation has a set or a del".to_owned()),
        }
    }
}

impl Transact {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut transaction = Transaction::new();
        let mut keys = Vec::new();
        let input = value::read(self.file.as_deref(), "the operations").await?;
        for (number, line) in input.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mistaken =
                |reason: String| Failure::usage(format!("line {}: {reason}", number + 1));
            let operation: Operation =
                serde_json::from_slice(line).map_err(|error| mistaken(error.to_string()))?;
            let (with, key) = operation.add_to(transaction).map_err(mistaken)?;
            transaction = with;
            keys.push(key);
        }
        let options = TransactOptions::new().persist(self.persist);
        let connection = Connection::open(global).await?;
        let outcome = connection
            .client
            .transact_with(&transaction, &options)
            .await;
        let outcome = outcome.map_err(|error| failure(&error))?;
        connection.close().await;
        match outcome {
            TransactionOutcome::Applied(versions) => {
                print_versions(global, &keys, &versions).await?;
                Ok(Exit::Done)
            }
            TransactionOutcome::NotApplied { operation, version } => {
                let key = keys.get(operation).map_or(&[][..], Vec::as_slice);
                if global.json {
                    let record = Record::of_key(key)
                        .result("not_applied")
                        .operation(operation)
                        .version(version.as_ref());
                    print_result(&record.line()).await?;
                }
                let what = format!("nothing was changed, because of operation {operation}");
                Ok(key::report_version_mismatch(&what, key, version.as_ref()))
            }
        }
    }
}

/// Prints a line for each operation: the version of its change, or an empty one if there was no key to delete.
async fn print_versions(
    global: &GlobalOptions,
    keys: &[Vec<u8>],
    versions: &[Option<Hlc>],
) -> Result<(), Failure> {
    let mut stdout = Output::stdout();
    for (operation, (key, version)) in keys.iter().zip(versions).enumerate() {
        if global.json {
            let result = if version.is_some() {
                "applied"
            } else {
                "absent"
            };
            let record = Record::of_key(key)
                .result(result)
                .operation(operation)
                .version(version.as_ref());
            stdout.write(&record.line()).await?;
        } else {
            let version = version.as_ref().map(ToString::to_string);
            let line = version.unwrap_or_default() + "\n";
            stdout.write(line.as_bytes()).await?;
        }
    }
    stdout.flush().await
}
