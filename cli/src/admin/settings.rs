//! Settings of a server: configuration, limits and policy.
use super::{
    api::{Api, key_request},
    document, field,
    list::{List, ListOptions},
    table::Column,
};
use crate::{
    escape::escape, exit::Exit, failure::Failure, global_options::GlobalOptions, key, units,
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::ffi::OsString;

/// List the options of the server with their values and sources
///
/// RESTART is yes if the value has changed and takes effect with the next restart. Secrets are not printed, only the names
/// of their files.
#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(super) struct ShowConfig {
    #[command(flatten)]
    list: ListOptions,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  statestore admin config
  statestore admin config --json | jq 'select(.source != \"default\")'";

const OPTION_COLUMNS: &[Column] = &[
    Column::left("OPTION", "name"),
    Column::left("SOURCE", "source"),
    Column::left("RESTART", "needs_restart"),
    Column::left("VALUE", "value"),
];

impl ShowConfig {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let list = List::new("/api/config", OPTION_COLUMNS).items_in("options");
        list.print(api, self.list.limit, global).await
    }
}

/// List the limits of the server, and how much of each is used
///
/// First those of the server, then the users, prefixes and clients that are nearest to their limit.
#[derive(Debug, Args)]
#[command(after_help = LIMITS_EXAMPLES)]
pub(super) struct Limits {
    #[command(flatten)]
    list: ListOptions,
}

const LIMITS_EXAMPLES: &str = "\
Examples:
  statestore admin limits
  statestore admin limits --json | jq 'select(.used > .limit * 0.9)'";

const LIMIT_COLUMNS: &[Column] = &[
    Column::left("LIMIT", "name"),
    Column::right("USED", "used").computed(used_text),
    Column::right("OF", "limit").computed(limit_text),
    Column::right("SHARE", "limit").computed(share_text),
    Column::left("SUBJECT", "subject"),
];

fn used_text(item: &Value) -> String {
    amount_text(item, "used")
}

fn limit_text(item: &Value) -> String {
    amount_text(item, "limit")
}

fn amount_text(item: &Value, name: &str) -> String {
    match (item[name].as_f64(), item["unit"].as_str()) {
        (Some(bytes), Some("bytes")) => units::bytes(bytes),
        _ => field::text(name, &item[name]),
    }
}

fn share_text(item: &Value) -> String {
    match (item["used"].as_f64(), item["limit"].as_f64()) {
        (Some(used), Some(limit)) if limit > 0.0 => format!("{:.0} %", used / limit * 100.0),
        _ => "-".into(),
    }
}

impl Limits {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let list = List::new("/api/limits", LIMIT_COLUMNS);
        list.print(api, self.list.limit, global).await
    }
}

/// Ask the policy of the server
#[derive(Debug, Args)]
pub(super) struct Policy {
    #[command(subcommand)]
    task: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Check(Check),
}

/// Check whether a user has a right, and which rule decides it
///
/// Exit codes: 0 allowed, 1 denied.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
struct Check {
    /// The user; - is a client without a user
    user: String,
    /// The right
    action: Action,
    /// The key to read or write, or the topic
    #[arg(value_name = "KEY_OR_TOPIC")]
    object: OsString,
    /// The id of the client, for rules about clients
    #[arg(long, value_name = "ID")]
    client: Option<String>,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  statestore admin policy check line1 write line1/speed
  statestore admin policy check - subscribe 'alarms/#'";

/// A right of a user.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    Read,
    Write,
    Publish,
    Subscribe,
}

impl Policy {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let PolicyCommand::Check(check) = self.task;
        let answer = api
            .post("/api/policy/check", &check.request(global)?)
            .await?;
        let (word, exit) = match answer["allowed"].as_bool() {
            Some(true) => ("allowed", Exit::Done),
            _ => ("denied", Exit::NegativeResult),
        };
        let text = match answer["rule"].as_str() {
            Some(rule) => format!("{word} by {}\n", escape(rule.as_bytes())),
            None => format!("{word}\n"),
        };
        document::print(&answer, &text, global).await?;
        Ok(exit)
    }
}

impl Check {
    fn request(&self, global: &GlobalOptions) -> Result<Value, Failure> {
        let object = key::from_argument(&self.object, global.escaped)?;
        let (action, is_key) = match self.action {
            Action::Read => ("read", true),
            Action::Write => ("write", true),
            Action::Publish => ("publish", false),
            Action::Subscribe => ("subscribe", false),
        };
        let mut request = if is_key {
            key_request(&object)
        } else {
            let topic = std::str::from_utf8(&object);
            let topic = topic.map_err(|_| Failure::usage("a topic is UTF-8 text"))?;
            json!({ "topic": topic })
        };
        request["user"] = match self.user.as_str() {
            "-" => Value::Null,
            user => user.into(),
        };
        request["action"] = action.into();
        if let Some(client) = &self.client {
            request["client"] = client.as_str().into();
        }
        Ok(request)
    }
}
