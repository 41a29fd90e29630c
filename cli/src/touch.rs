//! `statestore touch`.
use crate::{
    connection::{Connection, failure},
    duration,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::print_result,
    record::Record,
};
use clap::Args;
use std::{ffi::OsString, time::Duration};

/// Set the time after which a key expires, and keep its value
///
/// The key gets a new version, and its watchers see a change.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Touch {
    /// The key
    key: OsString,
    /// Time after which the key expires, at least 100ms; never for a key that stays
    #[arg(value_name = "DURATION", value_parser = parse)]
    expires_in: Duration,
}

const EXAMPLES: &str = "\
Examples:
  statestore touch session/7 30m            exit code 1 if the key is absent
  statestore touch session/7 never          the key stays until it is deleted";

fn parse(text: &str) -> Result<Duration, String> {
    match text {
        "never" => Ok(Duration::MAX),
        text => duration::parse(text),
    }
}

impl Touch {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let connection = Connection::open(global).await?;
        let is_present = connection.client.touch(&key, self.expires_in).await;
        let is_present = is_present.map_err(|error| failure(&error))?;
        connection.close().await;
        if global.json {
            let result = if is_present { "applied" } else { "absent" };
            print_result(&Record::of_key(&key).result(result).line()).await?;
        }
        Ok(if is_present {
            Exit::Done
        } else {
            key::report_absent(&key)
        })
    }
}
