//! `statestore scan`.
use crate::{
    connection::{Connection, failure},
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::Output,
    record::{Record, RemainingTime},
};
use clap::Args;
use statestore::ScanOptions;
use std::ffi::OsString;

/// List the keys that match a pattern
///
/// Prints keys page by page as they arrive. Keys that change meanwhile may or may not be in the list. Keys are written
/// byte for byte. On a terminal, or with --escaped, they are escaped so that each is one line.
///
/// With --values, each line is a key and its value with a tab between them, both escaped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scan {
    /// Pattern of the keys: * any bytes, ? one byte, [ab] [0-9] one of them, [!x] any but these, [*] a literal *
    #[arg(default_value = "*")]
    pattern: OsString,
    /// End each key with a NUL byte instead of a newline; keys are escaped only on a terminal
    #[arg(long, short = '0')]
    null: bool,
    /// Print the values too. With --json also the version, and the milliseconds until the key expires
    #[arg(long, conflicts_with = "null")]
    values: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore scan                       every key
  statestore scan 'sensor/*'            quote the pattern, or the shell expands it
  statestore scan 'line-[0-9]/state'    one digit
  statestore scan --json | jq -r .key
  statestore scan 'line1/*' --values    keys and values
  statestore scan --values --json       one object for each entry:
    {\"key\":\"line1/speed\",\"value\":\"40\",\"version\":\"...\",\"expires_in\":\"never\"}
  statestore scan 'tmp/*' -0 | xargs -0 -n1 statestore del";

/// Form of a printed key.
#[derive(Debug, Clone, Copy)]
enum KeyFormat {
    Raw { end: u8 },
    Escaped,
    Json,
}

impl KeyFormat {
    fn line(self, key: &[u8]) -> Vec<u8> {
        match self {
            Self::Raw { end } => [key, &[end]].concat(),
            Self::Escaped => (escape(key) + "\n").into_bytes(),
            Self::Json => Record::of_key(key).line(),
        }
    }
}

impl Scan {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let pattern = key::from_argument(&self.pattern, global.escaped)?;
        if self.values {
            return print_entries(&pattern, global).await;
        }
        let mut stdout = Output::stdout();
        let form = if global.json {
            KeyFormat::Json
        } else if self.null {
            KeyFormat::Raw { end: 0 }
        } else if global.escaped || stdout.is_terminal() {
            KeyFormat::Escaped
        } else {
            KeyFormat::Raw { end: b'\n' }
        };
        let connection = Connection::open(global).await?;
        let mut pages = connection.client.scan(&pattern);
        while let Some(keys) = pages.next_page().await.map_err(|error| failure(&error))? {
            for key in &keys {
                stdout.write(&form.line(key)).await?;
            }
            stdout.flush().await?;
        }
        connection.close().await;
        Ok(Exit::Done)
    }
}

async fn print_entries(pattern: &[u8], global: &GlobalOptions) -> Result<Exit, Failure> {
    let mut stdout = Output::stdout();
    let connection = Connection::open(global).await?;
    let options = ScanOptions::new().fallback(true);
    let mut pages = connection.client.scan_entries_with(pattern, options);
    while let Some(entries) = pages.next_page().await.map_err(|error| failure(&error))? {
        for (key, entry) in &entries {
            let line = if global.json {
                let record = Record::of_key(key).value(&entry.value);
                let record = record.version(Some(&entry.version));
                record
                    .expires_in(RemainingTime::from(entry.expires_in))
                    .line()
            } else {
                format!("{}\t{}\n", escape(key), escape(&entry.value)).into_bytes()
            };
            stdout.write(&line).await?;
        }
        stdout.flush().await?;
    }
    connection.close().await;
    Ok(Exit::Done)
}
