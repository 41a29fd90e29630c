//! `statestore incr`.
use crate::{
    connection::{Connection, failure},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::print_result,
    record::Record,
};
use clap::Args;
use std::ffi::OsString;

/// Add to the number that a key holds, and print the sum
///
/// An absent key counts as 0. The key keeps its remaining time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Incr {
    /// The key
    key: OsString,
    /// The number to add
    #[arg(value_name = "BY", default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
}

const EXAMPLES: &str = "\
Examples:
  statestore incr parts/count               add 1
  statestore incr parts/count -5            subtract 5
  statestore incr parts/count --json        the sum is the value";

impl Incr {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let connection = Connection::open(global).await?;
        let sum = connection.client.incr(&key, self.by).await;
        let sum = sum.map_err(|error| failure(&error))?.to_string();
        connection.close().await;
        let line = if global.json {
            let record = Record::of_key(&key).result("applied");
            record.value(sum.as_bytes()).line()
        } else {
            format!("{sum}\n").into_bytes()
        };
        print_result(&line).await?;
        Ok(Exit::Done)
    }
}
