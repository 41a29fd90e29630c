//! Changes of a server: configuration, log filter, keys, locks and connections.
use super::{
    api::{Api, Target, key_request},
    document,
};
use crate::{
    duration::parse_seconds, escape::escape, exit::Exit, failure::Failure,
    global_options::GlobalOptions, key, message,
};
use clap::Args;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::ffi::OsString;

/// Reloads the configuration. The exit code depends on whether all of it took effect.
pub(super) async fn reload(api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
    let reloaded = api.post("/api/reload", &Value::Null).await?;
    let (text, exit) = reload_result(&reloaded);
    document::print(&reloaded, &text, global).await?;
    Ok(exit)
}

fn reload_result(reloaded: &Value) -> (String, Exit) {
    let users = match reloaded["users"].as_u64() {
        None => String::new(),
        Some(users) => message::count(users, "user") + "; ",
    };
    let disconnected = reloaded["disconnected"].as_u64().unwrap_or_default();
    let clients = message::count(disconnected, "client");
    let line = format!("reloaded; {users}{clients} disconnected\n");
    let needs_restart = reloaded["needs_restart"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if needs_restart.is_empty() {
        return (line, Exit::Done);
    }
    let options = needs_restart.iter().filter_map(Value::as_str);
    let options = escape(options.collect::<Vec<_>>().join(", ").as_bytes());
    (
        format!("{line}needs a restart: {options}\n"),
        Exit::NegativeResult,
    )
}

/// Print the log filter of the server, or change it until the next reload
#[derive(Debug, Args)]
pub(super) struct Log {
    /// The filter: a level, and levels of targets, such as info,statestored::audit=debug
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    filter: Option<String>,
}

impl Log {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let answer = match self.filter {
            Some(filter) => api.post("/api/log", &json!({ "filter": filter })).await?,
            None => api.get(&Target::new("/api/log")).await?,
        };
        let text = format!("{}\n", answer["filter"].as_str().unwrap_or_default());
        document::print(&answer, &text, global).await?;
        Ok(Exit::Done)
    }
}

/// Delete a key; a protected key needs its fencing token
#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The key
    #[arg(value_name = "KEY")]
    entry: OsString,
    /// The fencing token of the key
    #[arg(long, value_name = "TOKEN")]
    fence: Option<String>,
}

impl Delete {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.entry, global.escaped)?;
        let mut request = key_request(&key);
        request["fence"] = json!(self.fence);
        let answer = api.post("/api/delete", &request).await?;
        if answer["deleted"] == 0 {
            document::print(&answer, "", global).await?;
            return Ok(key::report_absent(&key));
        }
        document::print(&answer, "deleted\n", global).await?;
        Ok(Exit::Done)
    }
}

/// Release a lock that its holder cannot release any more
///
/// The server deletes the lock only if this holder still has it. If the holder still runs, it loses the lock: use this
/// only for a holder that has ended. Exit code 1 if the lock is not held, or has another holder.
#[derive(Debug, Args)]
#[command(after_help = UNLOCK_EXAMPLES)]
pub(super) struct Unlock {
    /// The key of the lock
    #[arg(value_name = "KEY")]
    entry: OsString,
    /// The holder, as 'locks' prints it
    #[arg(long, value_name = "NAME")]
    holder: String,
}

const UNLOCK_EXAMPLES: &str = "\
Examples:
  statestore admin locks                              who holds what?
  statestore admin unlock pump --holder gateway-1";

impl Unlock {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let key = key::from_argument(&self.entry, global.escaped)?;
        let mut request = key_request(&key);
        request["holder"] = json!(self.holder);
        let answer = api.send("/api/unlock", &request).await?;
        let is_conflict = answer.status == StatusCode::CONFLICT;
        let answer = match api.read(answer).await {
            Err(Failure::Message { text, .. }) if is_conflict => {
                return Err(Failure::new(Exit::NegativeResult, text));
            }
            answer => answer?,
        };
        if answer["released"] != true {
            document::print(&answer, "", global).await?;
            message::print_error(&format!("'{}' is not held", escape(&key)));
            return Ok(Exit::NegativeResult);
        }
        document::print(&answer, "released\n", global).await?;
        Ok(Exit::Done)
    }
}

/// Send the clients to other servers before a maintenance
///
/// The server accepts no new clients, disconnects the present ones over some seconds, and is not ready any more.
/// It continues to run; --off makes it accept clients again.
#[derive(Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(super) struct Drain {
    /// Accept clients again
    #[arg(long)]
    off: bool,
    /// Disconnect the clients over this time [default: 10s]
    #[arg(long, value_name = "DURATION", conflicts_with = "off", value_parser = parse_seconds)]
    over: Option<u64>,
}

const DRAIN_EXAMPLES: &str = "\
Examples:
  statestore admin drain --over 60s
  statestore admin connections --limit 1     empty when all clients are gone
  statestore admin drain --off";

impl Drain {
    pub(super) async fn run(self, api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
        let mut request = json!({ "on": !self.off });
        if let Some(seconds) = self.over {
            request["seconds"] = seconds.into();
        }
        let answer = api.post("/api/drain", &request).await?;
        let state = match answer["draining"].as_bool() {
            Some(true) => "draining",
            _ => "accepting clients",
        };
        let connections = answer["connections"].as_u64().unwrap_or_default();
        let text = format!("{state}; {}\n", message::count(connections, "connection"));
        document::print(&answer, &text, global).await?;
        Ok(Exit::Done)
    }
}
