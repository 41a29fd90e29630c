//! Commands of clients: live, and the slow ones.
use super::{
    api::{Api, Target},
    event_stream::EventStream,
    list::{ItemPrinter, List, ListOptions},
    table::Column,
};
use crate::{exit::Exit, failure::Failure, global_options::GlobalOptions, message};
use clap::Args;
use serde_json::Value;

/// Print the commands of clients as they are executed, until Ctrl-C
///
/// TOOK is the time in the server. If the output is too slow, commands are left out, and standard error says how many.
/// The server accepts 4 monitors. On a busy server, choose a sample or a filter.
#[derive(Debug, Args)]
#[command(after_help = MONITOR_EXAMPLES)]
pub(super) struct Monitor {
    /// Only this share of the commands, from 0 to 1, such as 0.01
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    sample: Option<f64>,
    /// Only this verb, such as set
    #[arg(long)]
    verb: Option<String>,
    /// Only commands of this client
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Only commands of this user
    #[arg(long)]
    user: Option<String>,
    /// Only keys that match this pattern, as for 'scan'
    #[arg(long, value_name = "PATTERN")]
    key: Option<String>,
    /// Print the values too
    #[arg(long)]
    values: bool,
    #[command(flatten)]
    list: ListOptions,
}

const MONITOR_EXAMPLES: &str = "\
Examples:
  statestore admin monitor --sample 0.01                 one of a hundred commands
  statestore admin monitor --verb set --key 'line1/*' --values
  statestore admin monitor --client gateway-1 --json | jq .duration_us";

/// The columns; that of values is the last.
const COMMAND_COLUMNS: &[Column] = &[
    Column::left("AT", "at_ms"),
    Column::right("TOOK", "duration_us"),
    Column::left("VERB", "verb"),
    Column::left("RESULT", "result"),
    Column::right("BYTES", "value_bytes"),
    Column::left("USER", "user"),
    Column::left("CLIENT", "client"),
    Column::left("KEY", "key"),
    Column::left("VALUE", "value"),
];

/// Reads a share of the commands.
fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("not a share; write a number above 0, at most 1, such as 0.01".into()),
    }
}

impl Monitor {
    /// Runs the subcommand; the caller handles signals.
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let target = Target::new("/api/monitor")
            .with_optional("sample", self.sample.map(|share| share.to_string()))
            .with_optional("verb", self.verb)
            .with_optional("client", self.client)
            .with_optional("user", self.user)
            .with_optional("key", self.key)
            .with_optional("values", self.values.then_some("1"));
        let columns = if self.values {
            COMMAND_COLUMNS
        } else {
            &COMMAND_COLUMNS[..COMMAND_COLUMNS.len() - 1]
        };
        let mut printer = ItemPrinter::new(columns, global);
        let mut left = self.list.limit;
        let mut stream = EventStream::open(api, &target).await?;
        while let Some(events) = stream.next_events().await? {
            for event in &events {
                if report_gap(event) {
                    printer.print_json_only(event).await?;
                    continue;
                }
                printer.print(std::slice::from_ref(event)).await?;
                left = left.map(|left| left - 1);
                if left == Some(0) {
                    return Ok(Exit::Done);
                }
            }
        }
        Err(Failure::new(
            Exit::NoResponse,
            "the server has ended the stream of commands; run this again",
        ))
    }
}

/// Reports commands that the server left out. Returns whether the event is about them.
fn report_gap(event: &Value) -> bool {
    let Some(left_out) = event.get("left_out").and_then(Value::as_u64) else {
        return false;
    };
    let commands = message::count(left_out, "command");
    message::print_line(&format!("left out {commands}: the output is too slow"));
    true
}

/// List the last slow requests
///
/// The server keeps requests that took longer than its option for it, measured from reading until the response may be sent.
#[derive(Debug, Args)]
#[command(after_help = SLOW_LOG_EXAMPLES)]
pub(super) struct SlowLog {
    #[command(flatten)]
    list: ListOptions,
}

const SLOW_LOG_EXAMPLES: &str = "\
Examples:
  statestore admin slowlog
  statestore admin slowlog --json | jq 'select(.duration_us > 100000)'";

const SLOW_LOG_COLUMNS: &[Column] = &[
    Column::left("AT", "at_ms"),
    Column::right("TOOK", "duration_us"),
    Column::left("VERB", "verb"),
    Column::left("USER", "user"),
    Column::left("CLIENT", "client"),
    Column::left("KEY", "key"),
];

impl SlowLog {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let list = List::new("/api/slowlog", SLOW_LOG_COLUMNS);
        list.print(api, self.list.limit, global).await
    }
}
