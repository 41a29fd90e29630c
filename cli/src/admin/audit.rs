//! `statestore admin audit`.
use super::{
    api::{Api, Target},
    list::{ItemPrinter, ListOptions},
    pages::Pages,
    table::Column,
};
use crate::{exit::Exit, failure::Failure, global_options::GlobalOptions, message};
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval at which new lines are requested.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of lines that the server keeps, and so the most that two requests can have in common.
const MAX_LINES: usize = 1000;
/// Number of lines that precede the new ones.
const DEFAULT_CONTEXT: usize = 10;

/// Print the audit trail: connections, rejections and actions of administrators
///
/// Prints the last lines that the server keeps in memory, the newest line last. With --follow, new lines follow until
/// Ctrl-C; a restart of the server, and lines that may have been missed, are reported on standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Audit {
    /// Only this event, such as connected, disconnected, refused or action
    #[arg(long)]
    event: Option<String>,
    /// Only lines about this client
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Only lines about this user
    #[arg(long)]
    user: Option<String>,
    /// Print new lines until Ctrl-C, after the last 10 or --limit ones
    #[arg(long, short)]
    pub(super) follow: bool,
    #[command(flatten)]
    list: ListOptions,
}

const EXAMPLES: &str = "\
Examples:
  statestore admin audit --limit 20
  statestore admin audit --follow --event refused
  statestore admin audit --client gateway-1 --json | jq .fields.reason";

const COLUMNS: &[Column] = &[
    Column::left("AT", "at_ms"),
    Column::left("LEVEL", "level"),
    Column::left("EVENT", "event"),
    Column::left("FIELDS", "fields"),
];

/// Lines of the trail that were not printed yet, newest first.
#[derive(Debug)]
struct NewLines {
    lines: Vec<Value>,
    /// Whether older lines may be missing.
    has_gap: bool,
}

impl Audit {
    /// Runs the subcommand; the caller handles signals.
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let limit = self.list.limit.map(usize::try_from);
        let limit = limit.map(|limit| limit.unwrap_or(usize::MAX));
        let default = if self.follow {
            DEFAULT_CONTEXT
        } else {
            usize::MAX
        };
        let mut printer = ItemPrinter::new(COLUMNS, global);
        let mut trail = Trail::new(api, self.target());
        let first = trail.read_last(limit.unwrap_or(default)).await?;
        print(&mut printer, first).await?;
        if self.follow {
            follow(&mut trail, &mut printer).await?;
        }
        Ok(Exit::Done)
    }

    fn target(&self) -> Target {
        Target::new("/api/audit")
            .with_optional("event", self.event.as_ref())
            .with_optional("client", self.client.as_ref())
            .with_optional("user", self.user.as_ref())
    }
}

/// Prints lines, the newest last.
async fn print(printer: &mut ItemPrinter, mut lines: Vec<Value>) -> Result<(), Failure> {
    lines.reverse();
    printer.print(&lines).await
}

/// Prints new lines for ever. The server may be away for a while.
async fn follow(trail: &mut Trail<'_>, printer: &mut ItemPrinter) -> Result<(), Failure> {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_away = false;
    loop {
        ticks.tick().await;
        let new = match trail.read_new().await {
            Err(Failure::Message {
                exit: Exit::NoResponse,
                text,
            }) => {
                if !is_away {
                    message::print_line(&format!("{text}; trying again"));
                }
                is_away = true;
                continue;
            }
            new => new?,
        };
        if is_away {
            message::print_line("the server answers again");
        }
        is_away = false;
        if new.has_gap {
            message::print_line("lines may have been missed");
            printer.print_json_only(&json!({ "event": "gap" })).await?;
        }
        print(printer, new.lines).await?;
    }
}

/// The audit trail, and the lines that are already read.
#[derive(Debug)]
struct Trail<'a> {
    api: Api<'a>,
    target: Target,
    /// The last lines, newest first.
    known: Vec<Value>,
}

impl<'a> Trail<'a> {
    fn new(api: Api<'a>, target: Target) -> Self {
        Self {
            api,
            target,
            known: Vec::new(),
        }
    }

    /// Returns the last lines, newest first.
    async fn read_last(&mut self, limit: usize) -> Result<Vec<Value>, Failure> {
        let mut pages = Pages::new(self.api, self.target.clone());
        while self.known.len() < limit
            && let Some(page) = pages.next_page().await?
        {
            self.known.extend(page);
        }
        self.known.truncate(limit);
        Ok(self.known.clone())
    }

    /// Returns the lines since the last call.
    async fn read_new(&mut self) -> Result<NewLines, Failure> {
        let mut pages = Pages::new(self.api, self.target.clone());
        let mut lines: Vec<Value> = Vec::new();
        while let Some(page) = pages.next_page().await? {
            lines.extend(page);
            if let Some(count) = count_new(&lines, &self.known) {
                lines.truncate(count);
                let known = std::mem::take(&mut self.known);
                let newest = lines.iter().cloned().chain(known);
                self.known = newest.take(MAX_LINES).collect();
                return Ok(NewLines {
                    lines,
                    has_gap: false,
                });
            }
        }
        let has_gap = !self.known.is_empty();
        self.known.clone_from(&lines);
        Ok(NewLines { lines, has_gap })
    }
}

/// Returns the number of lines before the first known one; `None` if no known line is among them.
fn count_new(lines: &[Value], known: &[Value]) -> Option<usize> {
    if known.is_empty() {
        return None;
    }
    (0..lines.len()).find(|&begin| {
        let mut pairs = lines[begin..].iter().zip(known);
        pairs.all(|(line, known)| line == known)
    })
}

#[cfg(test)]
mod tests {
    use super::count_new;
    use serde_json::{Value, json};

    #[test]
    fn new_lines_end_at_the_first_known_one() {
        let lines = |names: &str| {
            names
                .chars()
                .map(|name| json!(name))
                .collect::<Vec<Value>>()
        };
        for (trail, known, expected) in [
            ("abc", "abc", Some(0)),
            ("xyabc", "abc", Some(2)),
            ("xyab", "abc", Some(2)),
            ("aabc", "abc", Some(1)),
            ("xyz", "abc", None),
            ("", "abc", None),
            ("abc", "", None),
        ] {
            assert_eq!(count_new(&lines(trail), &lines(known)), expected, "{trail}");
        }
    }
}
