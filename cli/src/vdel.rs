//! `statestore vdel`.
use crate::{
    connection::{Connection, failure},
    del,
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key, message,
    output::print_result,
    record::Record,
    value::ValueSource,
};
use clap::Args;
use statestore::{DelOptions, Hlc, VdelOutcome, Version};
use std::ffi::OsString;

/// Delete a key if it holds this very value
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Vdel {
    /// The key
    key: OsString,
    #[command(flatten)]
    value: ValueSource,
    /// Fencing token, required if the key is protected by one
    #[arg(long, value_name = "TOKEN")]
    fence: Option<Hlc>,
    /// Only if the key also has this version; not in every store
    #[arg(long, value_name = "VERSION")]
    if_version: Option<Hlc>,
}

const EXAMPLES: &str = "\
Examples:
  statestore vdel sensor/1 21.5                 prints the version of the deletion
  statestore vdel lock me --fence \"$token\"      release a lease, but only one's own
  statestore vdel firmware --file image.bin     compare with a file";

impl Vdel {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let value = self.value.read().await?;
        let if_version = self.if_version.map(Version::from);
        let options = DelOptions::new()
            .fencing_token(self.fence)
            .if_version(if_version);
        let connection = Connection::open(global).await?;
        let outcome = connection.client.vdel_with(&key, &value, &options).await;
        let outcome = outcome.map_err(|error| failure(&error))?;
        connection.close().await;

        match outcome {
            VdelOutcome::Deleted { version } => del::deleted(global, &key, version.as_ref()).await,
            VdelOutcome::Absent => {
                if global.json {
                    let record = Record::of_key(&key).result("absent");
                    print_result(&record.line()).await?;
                }
                Ok(key::report_absent(&key))
            }
            VdelOutcome::Mismatch { version } => {
                if global.json {
                    let record = Record::of_key(&key)
                        .result("mismatch")
                        .version(version.as_ref());
                    print_result(&record.line()).await?;
                }
                if version.as_ref().map(Version::from) == if_version {
                    let key = escape(&key);
                    message::print_error(&format!("not deleted: '{key}' holds another value"));
                    return Ok(Exit::NegativeResult);
                }
                Ok(key::report_version_mismatch(
                    "not deleted",
                    &key,
                    version.as_ref(),
                ))
            }
        }
    }
}
