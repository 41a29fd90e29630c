//! `statestore ping`.
use crate::{
    connection::{Connection, failure},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    output::Output,
    record::json_line,
    units,
};
use clap::Args;
use serde_json::json;

/// Check whether the store answers, and print how long it took
///
/// The time is that of one request over an open connection, which needs no right on a key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ping {
    /// Number of requests, one after the other; each prints its time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
}

const EXAMPLES: &str = "\
Examples:
  statestore ping                           exit code 3 if there is no answer
  statestore ping --json --timeout 3s       with round_trip_us, in microseconds";

impl Ping {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let connection = Connection::open(global).await?;
        let mut stdout = Output::stdout();
        for _ in 0..self.count {
            let round_trip = connection.client.ping().await;
            let round_trip = round_trip.map_err(|error| failure(&error))?;
            let us = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
            let line = if global.json {
                json_line(&json!({"result": "answered", "round_trip_us": us}))
            } else {
                format!("{}\n", units::duration(us)).into_bytes()
            };
            stdout.print(&line).await?;
        }
        connection.close().await;
        Ok(Exit::Done)
    }
}
