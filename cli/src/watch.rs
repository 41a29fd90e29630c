//! `statestore watch`.
use crate::{
    connection::{Connection, watch_failure},
    escape::escape,
    exit::Exit,
    failure::Failure,
    global_options::GlobalOptions,
    key, message,
    output::Output,
    record::Record,
};
use bytes::Bytes;
use clap::Args;
use statestore::{ConnectionState, Observation, ObserveOptions, Observer, Overflow};
use std::ffi::OsString;
use tokio::sync::{mpsc, watch};

/// Print every change of keys until Ctrl-C
///
/// Each change is one line of fields with a tab between them: SET, key, version, value; or DELETE, key, version.
/// Expiry is a DELETE. Key and value are escaped, so a line is always one change. `watching KEY...` on standard error
/// means that no change is missed from now on. Lost connections and missed changes are reported there, too.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Exit with code 0 after this many changes
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  statestore watch sensor/1 sensor/2
  statestore watch sensor/1 --json
    {\"event\":\"set\",\"key\":\"sensor/1\",\"value\":\"21.5\",\"version\":\"...\"}
  statestore watch lock --count 1      wait for one change
  statestore watch sensor/1 | cut -f4  only the values";

/// Maximum number of changes of a key that wait for standard output. Older ones are dropped, and the gap is reported.
const MAX_PENDING_CHANGES: usize = 1024;

/// A change of a key, or the reason why the key is not observed any more.
type Event = (Bytes, Result<Observation, Failure>);

impl Watch {
    /// Runs the subcommand; the caller handles signals.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut keys = Vec::new();
        for argument in &self.keys {
            let key = key::from_argument(argument, global.escaped)?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let connection = Connection::open(global).await?;
        let state = connection.client.state();
        let events = observe(&connection, &keys).await?;
        let names: Vec<String> = keys.iter().map(|key| escape(key)).collect();
        message::print_line(&format!("watching {}", names.join(" ")));
        tokio::spawn(report(state));
        self.print(events, global.json).await?;
        connection.close().await;
        Ok(Exit::Done)
    }

    async fn print(&self, mut events: mpsc::Receiver<Event>, json: bool) -> Result<(), Failure> {
        let mut stdout = Output::stdout();
        let mut left = self.count;
        while left != Some(0)
            && let Some((key, observation)) = events.recv().await
        {
            let observation = observation?;
            if let Some(line) = line(&key, &observation, json) {
                stdout.print(&line).await?;
            }
            if matches!(
                observation,
                Observation::Set { .. } | Observation::Deleted { .. }
            ) {
                left = left.map(|left| left - 1);
            }
        }
        Ok(())
    }
}

/// Watches every key; all observations arrive in one channel.
async fn observe(
    connection: &Connection,
    keys: &[Bytes],
) -> Result<mpsc::Receiver<Event>, Failure> {
    let options = ObserveOptions::new().overflow(Overflow::All(MAX_PENDING_CHANGES));
    let (sender, receiver) = mpsc::channel(1);
    for key in keys {
        let observer = connection.client.observe_with(key, &options).await;
        let observer = observer.map_err(|error| watch_failure(&error))?;
        tokio::spawn(forward(key.clone(), observer, sender.clone()));
    }
    Ok(receiver)
}

async fn forward(key: Bytes, mut observer: Observer, sender: mpsc::Sender<Event>) {
    while let Some(observation) = observer.next().await {
        if sender.send((key.clone(), Ok(observation))).await.is_err() {
            return;
        }
    }
    let failure = match observer.error() {
        Some(error) => watch_failure(&error),
        None => Failure::new(Exit::NoResponse, "the connection has ended for good"),
    };
    // the receiver is gone if the program ends
    let _ = sender.send((key, Err(failure))).await;
}

/// Returns the line for standard output of an observation. Gaps are reported on standard error, and as JSON lines on standard
/// output too.
fn line(key: &[u8], observation: &Observation, json: bool) -> Option<Vec<u8>> {
    let name = escape(key);
    let record = Record::of_key(key);
    let (record, text) = match observation {
        Observation::Set { value, version } => (
            record.event("set").value(value).version(Some(version)),
            Some(format!("SET\t{name}\t{version}\t{}\n", escape(value))),
        ),
        Observation::Deleted { version } => {
            let text = version
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            (
                record.event("delete").version(version.as_ref()),
                Some(format!("DELETE\t{name}\t{text}\n")),
            )
        }
        Observation::Resync => {
            message::print_line(&format!("changes of {name} may have been missed"));
            (record.event("resync"), None)
        }
        Observation::Lagged(missed) => {
            message::print_line(&format!(
                "missed {} of {name}: the output is too slow",
                message::count(*missed, "change")
            ));
            (record.event("lagged").missed(*missed), None)
        }
        _ => return None,
    };
    if json {
        Some(record.line())
    } else {
        text.map(String::into_bytes)
    }
}

/// Reports when the connection is lost and when it is back.
async fn report(mut state: watch::Receiver<ConnectionState>) {
    while state.changed().await.is_ok() {
        match &*state.borrow_and_update() {
            ConnectionState::Reconnecting(error) => {
                message::print_line(&format!("connection lost: {error}; connecting again"));
            }
            ConnectionState::Connected => message::print_line("connected again"),
            _ => {}
        }
    }
}
