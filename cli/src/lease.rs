//! `statestore lease`.
use crate::{
    connection::{Connection, failure},
    duration,
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key, message,
    output::print_result,
    record::Record,
};
use bytes::Bytes;
use clap::{Args, Subcommand};
use statestore::{Acquisition, Hlc, Holding, Lease as Handle, LeaseOptions, Release, Renewal};
use std::{ffi::OsString, time::Duration};

/// Take, renew and release leases step by step, and print the holder of one
///
/// The lease is not renewed between the steps; use 'statestore lock' for that. Only one script at a time may use the name of
/// the holder: two scripts with the same name both hold the lease.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lease {
    #[command(subcommand)]
    command: LeaseCommand,
}

/// The steps.
#[derive(Debug, Subcommand)]
enum LeaseCommand {
    /// Make one attempt to take a lease, and print its fencing token
    Acquire(TermArgs),
    /// Renew a lease that is still held, and print its new version
    Renew(TermArgs),
    /// Release a lease
    Release(HolderArgs),
    /// Print the holder of a lease
    Holder(NameArgs),
}

#[derive(Debug, Args)]
struct NameArgs {
    /// The name of the lease, which is a key of the store
    name: OsString,
}

#[derive(Debug, Args)]
struct HolderArgs {
    #[command(flatten)]
    name_args: NameArgs,
    /// The name of the holder
    #[arg(long, value_name = "HOLDER")]
    holder: OsString,
}

#[derive(Debug, Args)]
struct TermArgs {
    #[command(flatten)]
    holder_args: HolderArgs,
    /// Duration of the lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_wait)]
    lease: Duration,
}

const EXAMPLES: &str = "\
Examples:
  statestore lease acquire nightly --holder node-7 --lease 1m    exit code 1 if another holder has it
  statestore lease renew nightly --holder node-7 --lease 1m
  statestore lease release nightly --holder node-7
  statestore lease holder nightly                                exit code 1 if it is not held";

/// The printed result of a step, and the exit code.
struct Report<'a> {
    exit: Exit,
    result: &'static str,
    holder: Option<&'a Bytes>,
    version: Option<&'a Hlc>,
    /// Line without --json.
    text: String,
}

impl Lease {
    /// Runs the subcommand; the caller handles Ctrl-C.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let (named, options) = match &self.command {
            LeaseCommand::Acquire(term) | LeaseCommand::Renew(term) => (
                &term.holder_args.name_args,
                options(&term.holder_args, Some(term.lease)),
            ),
            LeaseCommand::Release(held) => (&held.name_args, options(held, None)),
            LeaseCommand::Holder(named) => (named, LeaseOptions::default()),
        };
        let name = key::from_argument(&named.name, global.escaped)?;
        let connection = Connection::open(global).await?;
        let lease = connection
            .client
            .lease_with(&name, &options)
            .map_err(|error| failure(&error))?;
        let exit = match self.command {
            LeaseCommand::Acquire(_) => acquire(&lease, &name, global, "acquired").await,
            LeaseCommand::Renew(_) => renew(&lease, &name, &options, global).await,
            LeaseCommand::Release(_) => release(&lease, &name, global).await,
            LeaseCommand::Holder(_) => holder(&lease, &name, global).await,
        }?;
        connection.close().await;
        Ok(exit)
    }
}

fn options(held: &HolderArgs, lease: Option<Duration>) -> LeaseOptions {
    let mut options = LeaseOptions::new()
        .holder(Bytes::copy_from_slice(held.holder.as_encoded_bytes()))
        .resume(true)
        .renewal(Renewal::Manual);
    if let Some(lease) = lease {
        options.duration = lease;
    }
    options
}

async fn acquire(
    lease: &Handle,
    name: &[u8],
    global: &GlobalOptions,
    result: &'static str,
) -> Result<Exit, Failure> {
    match lease.acquire().await.map_err(|error| failure(&error))? {
        Acquisition::Acquired(guard) => {
            let (holder, token) = (guard.holder().clone(), guard.token().clone());
            guard.leave().await;
            let report = Report {
                exit: Exit::Done,
                result,
                holder: Some(holder.name()),
                version: Some(&token),
                text: token.to_string(),
            };
            report.print(name, global).await
        }
        Acquisition::Held(holding) => held_by_another(name, holding.as_ref(), global).await,
    }
}

async fn held_by_another(
    name: &[u8],
    holding: Option<&Holding>,
    global: &GlobalOptions,
) -> Result<Exit, Failure> {
    let holder = holding.map_or("another holder".to_owned(), |holding| {
        format!("'{}'", escape(holding.holder.name()))
    });
    let report = Report {
        exit: Exit::NegativeResult,
        result: "held",
        holder: holding.map(|holding| holding.holder.name()),
        version: holding.map(|holding| &holding.version),
        text: format!("{holder} holds the lease '{}'", escape(name)),
    };
    report.print(name, global).await
}

/// Renews a held lease. The protocol can only renew or take. A lease that ends between the look and the renewal is taken again;
/// its new version is a new token in any case.
async fn renew(
    lease: &Handle,
    name: &[u8],
    options: &LeaseOptions,
    global: &GlobalOptions,
) -> Result<Exit, Failure> {
    let holding = lease.holder().await.map_err(|error| failure(&error))?;
    match holding {
        Some(holding) if Some(holding.holder.name()) == options.holder.as_ref() => {
            acquire(lease, name, global, "renewed").await
        }
        Some(holding) => held_by_another(name, Some(&holding), global).await,
        None => not_held(name, global).await,
    }
}

async fn release(lease: &Handle, name: &[u8], global: &GlobalOptions) -> Result<Exit, Failure> {
    match lease.release().await.map_err(|error| failure(&error))? {
        Release::Released => {
            let report = Report {
                exit: Exit::Done,
                result: "released",
                holder: None,
                version: None,
                text: String::new(),
            };
            report.print(name, global).await
        }
        Release::NotHeld => not_held(name, global).await,
    }
}

async fn not_held(name: &[u8], global: &GlobalOptions) -> Result<Exit, Failure> {
    let report = Report {
        exit: Exit::NegativeResult,
        result: "not_held",
        holder: None,
        version: None,
        text: format!("the lease '{}' is not held", escape(name)),
    };
    report.print(name, global).await
}

async fn holder(lease: &Handle, name: &[u8], global: &GlobalOptions) -> Result<Exit, Failure> {
    let Some(holding) = lease.holder().await.map_err(|error| failure(&error))? else {
        return not_held(name, global).await;
    };
    let report = Report {
        exit: Exit::Done,
        result: "held",
        holder: Some(holding.holder.name()),
        version: Some(&holding.version),
        text: escape(holding.holder.name()),
    };
    report.print(name, global).await
}

impl Report<'_> {
    async fn print(&self, name: &[u8], global: &GlobalOptions) -> Result<Exit, Failure> {
        if global.json {
            let mut record = Record::of_key(name).result(self.result);
            if let Some(holder) = self.holder {
                record = record.holder(holder);
            }
            print_result(&record.version(self.version).line()).await?;
        } else if self.exit == Exit::Done && !self.text.is_empty() {
            print_result(format!("{}\n", self.text).as_bytes()).await?;
        }
        if self.exit != Exit::Done {
            message::print_error(&self.text);
        }
        Ok(self.exit)
    }
}
