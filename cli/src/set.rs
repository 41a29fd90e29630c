//! `statestore set`.
use crate::{
    connection::{Connection, failure},
    duration,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key, message,
    output::print_result,
    record::Record,
    value::ValueSource,
};
use clap::Args;
use statestore::{Condition, Hlc, SetOptions, SetOutcome};
use std::{ffi::OsString, time::Duration};

/// Store a value and print its version
///
/// The version of a value that --nx or --nex stored is your fencing token.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Set {
    /// The key
    key: OsString,
    #[command(flatten)]
    value: ValueSource,
    /// Only if the key is absent
    #[arg(long, conflicts_with = "nex")]
    nx: bool,
    /// Only if the key is absent or already holds this very value
    #[arg(long)]
    nex: bool,
    /// Only if the key has this version; some stores need a fenced compare-and-set for that
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["nx", "nex"])]
    if_version: Option<Hlc>,
    /// Expire after this time; without it the key does not expire, even if it did before
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    px: Option<Duration>,
    /// Fencing token; rejected if the key has a newer one
    #[arg(long, value_name = "TOKEN")]
    fence: Option<Hlc>,
    /// Ask the store to keep the key on disk
    #[arg(long)]
    persist: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore set sensor/1 21.5                    prints the version of the new value
  statestore set flags -- --verbose               a value that begins with dashes
  statestore set firmware --file image.bin        binary, from a file
  date | statestore set last-seen                 from standard input, its newline included
  statestore set session/7 on --px 30s            gone after 30 seconds
  token=$(statestore set lock me --nex --px 10s)  take a lease; exit code 1 if it is held
  statestore set state new --fence \"$token\"       write under that lease
  statestore set state new --if-version \"$v\"      exit code 1 if it has changed since";

impl Set {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let value = self.value.read().await?;
        let condition = match (self.nx, self.nex, &self.if_version) {
            (true, ..) => Condition::IfAbsent,
            (_, true, _) => Condition::IfAbsentOrEqual,
            (.., Some(version)) => Condition::IfVersion(version.into()),
            _ => Condition::Always,
        };
        let options = SetOptions::new()
            .condition(condition)
            .expires_in(self.px)
            .fencing_token(self.fence)
            .persist(self.persist);
        let connection = Connection::open(global).await?;
        let outcome = connection.client.set_with(&key, &value, &options).await;
        let outcome = outcome.map_err(|error| failure(&error))?;
        connection.close().await;

        let (exit, result, version) = match &outcome {
            SetOutcome::Applied { version } => (Exit::Done, "applied", Some(version)),
            SetOutcome::NotApplied { version } => {
                (Exit::NegativeResult, "not_applied", version.as_ref())
            }
        };
        if global.json {
            print_result(&Record::of_key(&key).result(result).version(version).line()).await?;
        } else if let (Exit::Done, Some(version)) = (exit, version) {
            print_result(format!("{version}\n").as_bytes()).await?;
        }
        if exit != Exit::Done {
            if self.if_version.is_some() {
                return Ok(key::report_version_mismatch("not set", &key, version));
            }
            let key = crate::escape::escape(&key);
            let version = version.map(ToString::to_string).unwrap_or_default();
            message::print_error(&format!(
                "not set: '{key}' already has a value, of version {version}"
            ));
        }
        Ok(exit)
    }
}
