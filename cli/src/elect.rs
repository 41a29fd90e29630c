//! `statestore elect`.
use crate::{
    connection::{Connection, failure, watch_failure},
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key,
    lock::LockArgs,
    message,
    output::Output,
    platform::signals,
    record::Record,
};
use clap::Args;
use statestore::{Election, ErrorKind, Leader};
use std::ffi::OsString;

/// Take part in an election, or print the leader
///
/// Waits until it is elected, prints one line with the fencing token, and leads until Ctrl-C or SIGTERM, when it resigns.
/// With --watch it takes no part and prints each leader.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Elect {
    /// The name of the election, which is a key of the store
    name: OsString,
    /// Value to proclaim when elected [default: the MQTT client id]
    #[arg(long, value_name = "VALUE", conflicts_with = "watch")]
    value: Option<OsString>,
    #[command(flatten)]
    acquisition: LockArgs,
    /// Print the leader, now and at each change, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

const EXAMPLES: &str = "\
Examples:
  statestore elect gateway --value 10.0.0.7    prints ELECTED and the fencing token, and leads until Ctrl-C
  statestore elect gateway --watch             one line per leader: LEADER, holder, value; or NONE";

impl Elect {
    /// Runs the subcommand and handles its signals.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut signals = signals()?;
        let name = key::from_argument(&self.name, global.escaped)?;
        let connection = tokio::select! {
            biased;
            signal = signals.recv() => return Ok(signal.exit()),
            connection = Connection::open(global) => connection?,
        };
        let election = connection
            .client
            .election_with(&name, &self.acquisition.options())
            .map_err(|error| failure(&error))?;
        if self.watch {
            let exit = tokio::select! {
                biased;
                _ = signals.recv() => Ok(Exit::Done),
                exit = watch(&election, &name, global.json) => exit,
            };
            connection.close().await;
            return exit;
        }
        let value = match self.value {
            Some(value) => value.into_encoded_bytes(),
            None => connection.client.client_id().into_bytes(),
        };
        let campaign = tokio::select! {
            biased;
            signal = signals.recv() => Err(signal.exit()),
            elected = election.campaign(value) => Ok(elected),
        };
        let leadership = match campaign {
            Ok(Ok(leadership)) => leadership,
            Ok(Err(error)) if error.kind() == ErrorKind::LockHeld => {
                message::print_error(&error.to_string());
                return Ok(Exit::NegativeResult);
            }
            Ok(Err(error)) => return Err(failure(&error)),
            Err(exit) => {
                connection.close().await;
                return Ok(exit);
            }
        };
        let token = leadership.guard().token();
        let line = if global.json {
            let holder = leadership.guard().holder().name();
            let record = Record::of_key(&name).event("elected").holder(holder);
            record.version(Some(token)).line()
        } else {
            format!("ELECTED\t{}\t{token}\n", escape(&name)).into_bytes()
        };
        let mut stdout = Output::stdout();
        let printed = tokio::select! {
            biased;
            _ = leadership.guard().lost() => {
                return Err(Failure::new(Exit::NoResponse, "the lead is lost"));
            }
            // A candidate that cannot report its lead gives it up.
            Err(failure) = stdout.print(&line) => Err(failure),
            _ = signals.recv() => Ok(()),
        };
        // A candidate that cannot resign keeps the lead until the lease ends.
        let finished = tokio::time::timeout(global.timeout, leadership.finish()).await;
        connection.close().await;
        if let Ok(Err(_)) = finished {
            return Err(Failure::new(Exit::NoResponse, "the lead was lost"));
        }
        printed.map(|()| Exit::Done)
    }
}

/// Prints the leader whenever it changes, until the connection ends for good.
async fn watch(election: &Election, name: &[u8], json: bool) -> Result<Exit, Failure> {
    let mut leaders = election
        .observe()
        .await
        .map_err(|error| watch_failure(&error))?;
    let mut stdout = Output::stdout();
    while let Some(leader) = leaders.next().await {
        match leader {
            Ok(leader) => stdout.print(&line(name, leader.as_ref(), json)).await?,
            Err(error) if error.is_retryable() => message::print_line(&error.to_string()),
            Err(error) => return Err(watch_failure(&error)),
        }
    }
    Err(Failure::new(
        Exit::NoResponse,
        "the connection has ended for good",
    ))
}

fn line(name: &[u8], leader: Option<&Leader>, json: bool) -> Vec<u8> {
    let record = Record::of_key(name);
    match leader {
        None if json => record.event("none").line(),
        None => b"NONE\n".to_vec(),
        Some(Leader { holder, value, .. }) if json => {
            let record = record.event("leader").holder(holder.name());
            match value {
                Some(value) => record.value(value).line(),
                None => record.line(),
            }
        }
        Some(Leader { holder, value, .. }) => {
            let value = value.as_ref().map(|value| escape(value));
            let holder = escape(holder.name());
            format!("LEADER\t{holder}\t{}\n", value.unwrap_or_default()).into_bytes()
        }
    }
}
