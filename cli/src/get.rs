//! `statestore get`.
use crate::{
    connection::{Connection, failure},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::{Output, print_result},
    record::{Record, RemainingTime},
    value::is_standard,
};
use clap::Args;
use statestore::GetOptions;
use std::{ffi::OsString, path::PathBuf};

/// Print the value of a key
///
/// The value is written byte for byte. A newline follows it only on a terminal.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    /// The key
    key: OsString,
    /// Write the value to this file; - is standard output. If the key is absent, the file stays unchanged
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
  statestore get sensor/1 || echo absent        exit code 1 says that the key is absent";

impl Get {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let connection = Connection::open(global).await?;
        let options = GetOptions::new()
            .remaining(self.remaining)
            .eventual(self.eventual);
        let entry = connection
            .client
            .get_with(&key, &options)
            .await
            .map_err(|error| failure(&error))?;
        connection.close().await;

        let Some(entry) = entry else {
            if global.json {
                print_result(&Record::of_key(&key).result("absent").line()).await?;
            }
            return Ok(key::report_absent(&key));
        };
        let mut stdout = Output::stdout();
        let mut record = Record::of_key(&key)
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
}
