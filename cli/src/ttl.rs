//! `statestore ttl`.
use crate::{
    connection::{Connection, failure},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::{Output, print_result},
    record::{Record, RemainingTime},
};
use clap::Args;
use std::ffi::OsString;

/// Print the milliseconds until a key expires, or never
///
/// Not in every store.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ttl {
    /// The key
    key: OsString,
}

const EXAMPLES: &str = "\
Examples:
  statestore ttl session/7                  exit code 1 if the key is absent
  statestore ttl session/7 --json           with the number or \"never\" as expires_in";

impl Ttl {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let connection = Connection::open(global).await?;
        let found = connection.client.ttl(&key).await;
        let found = found.map_err(|error| failure(&error))?;
        connection.close().await;
        let Some(expiry) = found else {
            if global.json {
                print_result(&Record::of_key(&key).result("absent").line()).await?;
            }
            return Ok(key::report_absent(&key));
        };
        let left = RemainingTime::from(expiry);
        let line = if global.json {
            let record = Record::of_key(&key).result("found").expires_in(left);
            record.line()
        } else {
            format!("{left}\n").into_bytes()
        };
        Output::stdout().print(&line).await?;
        Ok(Exit::Done)
    }
}
