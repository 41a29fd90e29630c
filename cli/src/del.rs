//! `statestore del`.
use crate::{
    connection::{Connection, failure},
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    output::{Output, print_result},
    record::Record,
};
use clap::Args;
use statestore::{DelOptions, DelOutcome, Hlc, Version};
use std::ffi::OsString;

/// Delete a key
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Del {
    /// The key
    key: OsString,
    /// Fencing token, required if the key is protected by one
    #[arg(long, value_name = "TOKEN")]
    fence: Option<Hlc>,
    /// Only if the key has this version; not in every store
    #[arg(long, value_name = "VERSION")]
    if_version: Option<Hlc>,
}

const EXAMPLES: &str = "\
Examples:
  statestore del sensor/1                  prints the version of the deletion
  statestore del sensor/1 || echo absent   exit code 1 if the key is absent
  statestore del state --fence \"$token\"    delete under a lease
  statestore del state --if-version \"$v\"   exit code 1 if it has changed since";

impl Del {
    /// Runs the subcommand.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.key, global.escaped)?;
        let options = DelOptions::new()
            .fencing_token(self.fence)
            .if_version(self.if_version.map(Version::from));
        let connection = Connection::open(global).await?;
        let outcome = connection.client.del_with(&key, &options).await;
        let outcome = outcome.map_err(|error| failure(&error))?;
        connection.close().await;

        match outcome {
            DelOutcome::Deleted { version } => deleted(global, &key, version.as_ref()).await,
            DelOutcome::Absent => {
                if global.json {
                    let record = Record::of_key(&key).result("absent");
                    print_result(&record.line()).await?;
                }
                Ok(key::report_absent(&key))
            }
            DelOutcome::Mismatch { version } => {
                if global.json {
                    let record = Record::of_key(&key)
                        .result("mismatch")
                        .version(Some(&version));
                    print_result(&record.line()).await?;
                }
                Ok(key::report_version_mismatch(
                    "not deleted",
                    &key,
                    Some(&version),
                ))
            }
        }
    }
}

/// Prints a deletion, also for `vdel`.
pub(crate) async fn deleted(
    global: &GlobalOptions,
    key: &[u8],
    version: Option<&Hlc>,
) -> Result<Exit, Failure> {
    let mut stdout = Output::stdout();
    if global.json {
        let record = Record::of_key(key).result("deleted").version(version);
        stdout.print(&record.line()).await?;
    } else if let Some(version) = version {
        stdout.print(format!("{version}\n").as_bytes()).await?;
    }
    Ok(Exit::Done)
}
