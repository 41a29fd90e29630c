//! `statestore get`.
use crate::{
    connection::{Connection, failure},
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::{Output, print_result},
    record::{Record, RemainingTime},
    value::is_standard,
};
use bytes::Bytes;
use clap::Args;
use statestore::{Entry, GetOptions};
use std::{ffi::OsString, path::PathBuf};

/// Print the value of a key
///
/// The value is written byte for byte. A newline follows it only on a terminal. Several keys are one line each: key and
/// value with a tab between them, both escaped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    /// The key, or several keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Write the value of one key to this file; - is standard output. If the key is absent, the file stays unchanged
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the milliseconds until the key expires, or never, instead of the value; not in every store
    #[arg(long)]
    remaining: bool,
    /// Accept a slightly old value, to save the server a round trip to a shared storage
    #[arg(long)]
    eventual: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore get sensor/1                       the value, as it is
  statestore get firmware --output image.bin    binary, into a file
  statestore get sensor/1 --json                value and version:
    {\"result\":\"found\",\"key\":\"sensor/1\",\"value\":\"21.5\",\"version\":\"...\"}
  statestore get session/7 --remaining          milliseconds until it expires, or never
  statestore get sensor/1 sensor/2 | cut -f2    only the values
  statestore get sensor/1 sensor/2 --json       snapshot: whether one response had all keys
    {\"result\":\"found\",\"key\":\"sensor/1\",\"value\":\"21.5\",\"version\":\"...\",\"snapshot\":true}
    {\"result\":\"absent\",\"key\":\"sensor/2\",\"snapshot\":true}
  statestore get sensor/1 || echo absent        exit code 1 says that the key is absent";

impl Get {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let keys = self.keys.iter();
        let keys: Result<Vec<_>, _> = keys
            .map(|key| key::from_argument(key, global.escaped))
            .collect();
        let keys = keys?;
        let options = GetOptions::new()
            .remaining(self.remaining)
            .eventual(self.eventual);
        match &keys[..] {
            [key] => self.print_value(key, &options, global).await,
            _ if self.output.is_some() => {
                Err(Failure::usage("--output takes the value of one key only"))
            }
            keys => self.print_lines(keys, &options, global).await,
        }
    }

    async fn print_value(
        self,
        key: &Bytes,
        options: &GetOptions,
        global: &GlobalOptions,
    ) -> Result<Exit, Failure> {
        let connection = Connection::open(global).await?;
        let entry = connection
            .client
            .get_with(key, options)
            .await
            .map_err(|error| failure(&error))?;
        connection.close().await;

        let Some(entry) = entry else {
            if global.json {
                print_result(&Record::of_key(key).result("absent").line()).await?;
            }
            return Ok(key::report_absent(key));
        };
        let mut stdout = Output::stdout();
        let mut record = Record::of_key(key)
            .result("found")
            .version(Some(&entry.version));
        let left = RemainingTime::from(entry.expires_in);
        if self.remaining {
            record = record.expires_in(left);
        }
        let output = self.output.filter(|path| !is_standard(path));
        if let Some(path) = &output {
            tokio::fs::write(path, &entry.value)
                .await
                .map_err(|error| Failure::file("write", path, &error))?;
        } else {
            record = record.value(&entry.value);
        }
        if global.json {
            stdout.print(&record.line()).await?;
        } else if self.remaining {
            stdout.print(format!("{left}\n").as_bytes()).await?;
        } else if output.is_none() {
            stdout.write(&entry.value).await?;
            if stdout.is_terminal() {
                stdout.write(b"\n").await?;
            }
            stdout.flush().await?;
        }
        Ok(Exit::Done)
    }

    async fn print_lines(
        &self,
        keys: &[Bytes],
        options: &GetOptions,
        global: &GlobalOptions,
    ) -> Result<Exit, Failure> {
        let connection = Connection::open(global).await?;
        let entries = connection
            .client
            .get_many_with(keys, options)
            .await
            .map_err(|error| failure(&error))?;
        connection.close().await;

        let mut lines = Vec::new();
        for (key, entry) in keys.iter().zip(&entries) {
            if global.json {
                let record = Record::of_key(key).snapshot(entries.is_snapshot());
                let record = match entry {
                    Some(entry) => self.describe(record, entry),
                    None => record.result("absent"),
                };
                lines.extend(record.line());
            } else if let Some(entry) = entry {
                let shown = if self.remaining {
                    RemainingTime::from(entry.expires_in).to_string()
                } else {
                    escape(&entry.value)
                };
                lines.extend(format!("{}\t{shown}\n", escape(key)).into_bytes());
            }
        }
        print_result(&lines).await?;
        let mut exit = Exit::Done;
        for (key, _) in keys
            .iter()
            .zip(&entries)
            .filter(|(_, entry)| entry.is_none())
        {
            exit = key::report_absent(key);
        }
        Ok(exit)
    }

    fn describe<'a>(&self, record: Record<'a>, entry: &'a Entry) -> Record<'a> {
        let record = record
            .result("found")
            .value(&entry.value)
            .version(Some(&entry.version));
        if self.remaining {
            record.expires_in(RemainingTime::from(entry.expires_in))
        } else {
            record
        }
    }
}
