//! `statestore exists`.
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

/// Check whether a key exists, by the exit code
///
/// Exit codes: 0 yes, 1 no. The store sends the value too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Exists {
    /// The key
    key: OsString,
}

const EXAMPLES: &str = "\
Examples:
  statestore exists line1/setup && echo present
  statestore exists line1/setup --json     found or absent";

impl Exists {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let connection = Connection::open(global).await?;
        let exists = connection.client.exists(&key).await;
        let exists = exists.map_err(|error| failure(&error))?;
        connection.close().await;
        if global.json {
            let result = if exists { "found" } else { "absent" };
            print_result(&Record::of_key(&key).result(result).line()).await?;
        }
        Ok(if exists {
            Exit::Done
        } else {
            key::report_absent(&key)
        })
    }
}
