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
use statestore::{
    ConnectionState, Error, Hlc, MatchObservation, MatchObserver, Observation, ObserveOptions,
    Observer, Overflow,
};
use std::ffi::OsString;
use tokio::sync::{mpsc, watch};

/// Print every change of keys until Ctrl-C
///
/// Each change is one line of fields with a tab between them: SET, key, version, value; or DELETE, key, version.
/// Expiry is a DELETE. Key and value are escaped, so a line is always one change. `watching KEY...` on standard error
/// means that no change is missed from now on. Lost connections and missed changes are reported there, too.
///
/// An argument with *, ? or [ is a pattern, as for scan: all keys that match are watched, also those that do not exist
/// yet. If the output is slow, only the newest change of each of these keys is printed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// The keys, and patterns of keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    /// Print the present state first: SET for each key that exists, and DELETE without a version for an absent KEY
    #[arg(long)]
    initial: bool,
    /// Watch keys whose names contain *, ? or [, instead of patterns
    #[arg(long)]
    literal: bool,
    /// Exit with code 0 after this many changes; those of --initial count too
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  statestore watch sensor/1 sensor/2
  statestore watch sensor/1 --json
    {\"event\":\"set\",\"key\":\"sensor/1\",\"value\":\"21.5\",\"version\":\"...\"}
  statestore watch 'line1/*' --initial  all keys of a line, and every change from then on
  statestore watch lock --count 1       wait for one change
  statestore watch sensor/1 | cut -f4   only the values";

/// Maximum number of changes of a key that wait for standard output. Older ones are dropped, and the gap is reported.
const MAX_PENDING_CHANGES: usize = 1024;

/// An event of a watched key or pattern.
#[derive(Debug)]
enum Event {
    Key(Bytes, Observation),
    Pattern(Bytes, MatchObservation),
    /// The reason why a key or pattern is not observed any more.
    End(Failure),
}

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
        let events = self.observe(&connection, &keys).await?;
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
            && let Some(event) = events.recv().await
        {
            let (is_change, line) = match &event {
                Event::Key(key, observation) => (
                    is_change(observation),
                    observation_line(key, observation, json),
                ),
                Event::Pattern(pattern, observation) => (
                    is_match_change(observation),
                    match_observation_line(pattern, observation, json),
                ),
                Event::End(_) => (false, None),
            };
            if let Event::End(failure) = event {
                return Err(failure);
            }
            if let Some(line) = line {
                stdout.print(&line).await?;
            }
            if is_change {
                left = left.map(|left| left - 1);
            }
        }
        Ok(())
    }

    /// Watches every key and pattern; all events arrive in one channel.
    async fn observe(
        &self,
        connection: &Connection,
        keys: &[Bytes],
    ) -> Result<mpsc::Receiver<Event>, Failure> {
        let client = &connection.client;
        let options = ObserveOptions::new()
            .overflow(Overflow::All(MAX_PENDING_CHANGES))
            .initial(self.initial);
        let (sender, receiver) = mpsc::channel(1);
        for key in keys {
            if self.is_pattern(key) {
                let observer = client.observe_matching(key).await;
                let mut observer = observer.map_err(|error| watch_failure(&error))?;
                if !self.initial {
                    skip_initial(&mut observer).await?;
                }
                tokio::spawn(forward_matching(key.clone(), observer, sender.clone()));
            } else {
                let observer = client.observe_with(key, &options).await;
                let observer = observer.map_err(|error| watch_failure(&error))?;
                tokio::spawn(forward(key.clone(), observer, sender.clone()));
            }
        }
        Ok(receiver)
    }

    fn is_pattern(&self, key: &[u8]) -> bool {
        !self.literal && key.iter().any(|byte| b"*?[".contains(byte))
    }
}

async fn forward(key: Bytes, mut observer: Observer, sender: mpsc::Sender<Event>) {
    while let Some(observation) = observer.next().await {
        let event = Event::Key(key.clone(), observation);
        if sender.send(event).await.is_err() {
            return;
        }
    }
    // the receiver is gone if the program ends
    let _ = sender
        .send(Event::End(end(observer.error().as_ref())))
        .await;
}

async fn forward_matching(
    pattern: Bytes,
    mut observer: MatchObserver,
    sender: mpsc::Sender<Event>,
) {
    while let Some(observation) = observer.next().await {
        let event = Event::Pattern(pattern.clone(), observation);
        if sender.send(event).await.is_err() {
            return;
        }
    }
    // the receiver is gone if the program ends
    let _ = sender
        .send(Event::End(end(observer.error().as_ref())))
        .await;
}

/// Takes the present state of the keys, and the changes meanwhile.
async fn skip_initial(observer: &mut MatchObserver) -> Result<(), Failure> {
    while let Some(observation) = observer.next().await {
        if observation == MatchObservation::Complete {
            return Ok(());
        }
    }
    Err(end(observer.error().as_ref()))
}

/// Returns the failure for the end of an observer.
fn end(error: Option<&Error>) -> Failure {
    match error {
        Some(error) => watch_failure(error),
        None => Failure::new(Exit::NoResponse, "the connection has ended for good"),
    }
}

fn is_change(observation: &Observation) -> bool {
    matches!(
        observation,
        Observation::Set { .. } | Observation::Deleted { .. }
    )
}

fn is_match_change(observation: &MatchObservation) -> bool {
    matches!(
        observation,
        MatchObservation::Set { .. } | MatchObservation::Deleted { .. }
    )
}

/// Returns the line for standard output of an observation. Gaps are reported on standard error, and as JSON lines on standard
/// output too.
fn observation_line(key: &[u8], observation: &Observation, json: bool) -> Option<Vec<u8>> {
    match observation {
        Observation::Set { value, version } => Some(set_line(key, value, version, json)),
        Observation::Deleted { version } => Some(delete_line(key, version.as_ref(), json)),
        Observation::Resync => {
            print_gap(key);
            json.then(|| Record::of_key(key).event("resync").line())
        }
        Observation::Lagged(missed) => {
            message::print_line(&format!(
                "missed {} of {}: the output is too slow",
                message::count(*missed, "change"),
                escape(key)
            ));
            let record = Record::of_key(key).event("lagged").missed(*missed);
            json.then(|| record.line())
        }
        _ => None,
    }
}

/// Returns the line for standard output of an event of a pattern.
fn match_observation_line(
    pattern: &[u8],
    observation: &MatchObservation,
    json: bool,
) -> Option<Vec<u8>> {
    let event = match observation {
        MatchObservation::Set {
            key,
            value,
            version,
        } => return Some(set_line(key, value, version, json)),
        MatchObservation::Deleted { key, version } => {
            return Some(delete_line(key, version.as_ref(), json));
        }
        MatchObservation::Complete => {
            let pattern = escape(pattern);
            message::print_line(&format!("the present state of {pattern} is complete"));
            "complete"
        }
        MatchObservation::Resync => {
            print_gap(pattern);
            "resync"
        }
        MatchObservation::Resynced => "resynced",
        _ => return None,
    };
    json.then(|| Record::of_key(pattern).event(event).line())
}

fn print_gap(name: &[u8]) {
    message::print_line(&format!("changes of {} may have been missed", escape(name)));
}

fn set_line(key: &[u8], value: &[u8], version: &Hlc, json: bool) -> Vec<u8> {
    if json {
        let record = Record::of_key(key).event("set").value(value);
        return record.version(Some(version)).line();
    }
    format!("SET\t{}\t{version}\t{}\n", escape(key), escape(value)).into_bytes()
}

fn delete_line(key: &[u8], version: Option<&Hlc>, json: bool) -> Vec<u8> {
    if json {
        return Record::of_key(key).event("delete").version(version).line();
    }
    let version = version.map(ToString::to_string).unwrap_or_default();
    format!("DELETE\t{}\t{version}\n", escape(key)).into_bytes()
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
