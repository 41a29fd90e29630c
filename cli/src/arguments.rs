//! The command line as a whole.
use crate::{
    admin::Admin,
    bench::Bench,
    completions::Completions,
    connection::OpenClients,
    del::Del,
    duration,
    elect::Elect,
    exit::Exit,
    get::Get,
    health::Health,
    lease::Lease,
    lock::Lock,
    message,
    scan::Scan,
    set::Set,
    supervisor::{self, Supervise},
    top::Top,
    transact::Transact,
    vdel::Vdel,
    watch::Watch,
};
use clap::{Args, CommandFactory as _, Parser, Subcommand, error::ErrorKind};
use std::time::Duration;

/// Get, set and watch keys of an Azure IoT Operations state store.
#[derive(Debug, Parser)]
#[command(name = "statestore", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
}

/// The options of every subcommand.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection and output")]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch")]
pub(crate) struct GlobalOptions {
    /// Address of the store: mqtt://[USER@]HOST[:PORT]; mqtts: for TLS, ws: and wss: for WebSocket, unix: for a socket; name the file of
    /// a password with ?password_file=FILE, because other users can read the command line
    /// [default: the variable STATESTORE_URL, else mqtt://127.0.0.1:1883]
    #[arg(long, global = true, conflicts_with = "env")]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    pub(crate) url: Option<String>,
    /// Connect by the AIO_ variables of a pod of Azure IoT Operations, with a random client id
    #[arg(long, global = true)]
    #[allow(clippy::doc_markdown, reason = "help is plain text")]
    pub(crate) env: bool,
    /// Send a service account token, or a password, over plain TCP
    #[arg(long, global = true)]
    pub(crate) allow_plaintext_credentials: bool,
    /// Limit for connecting, and for each response
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_wait)]
    pub(crate) timeout: Duration,
    /// MQTT client id [default: random]
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use escapes in keys and patterns, in input and output: \\ \n \r \t \xNN
    #[arg(long, short, global = true)]
    pub(crate) escaped: bool,
    #[arg(skip)]
    pub(crate) clients: OpenClients,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Get(Get),
    Set(Set),
    Del(Del),
    Vdel(Vdel),
    Transact(Transact),
    Scan(Scan),
    Watch(Watch),
    Lock(Lock),
    Elect(Elect),
    Lease(Lease),
    Bench(Bench),
    Admin(Admin),
    Health(Health),
    Top(Top),
    Completions(Completions),
    #[command(name = supervisor::SUPERVISE_VERB, hide = true)]
    Supervise(Supervise),
}

impl Verb {
    /// Returns the reason why a subcommand has no JSON output; `None` if it has.
    pub(crate) fn why_no_json(&self) -> Option<&'static str> {
        match self {
            Self::Lock(_) => Some("'lock' prints the output of its command"),
            Self::Top(_) => Some("'top' is a screen; use 'statestore admin status --json'"),
            Self::Completions(_) => Some("'completions' prints a script"),
            _ => None,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  statestore set greeting hello          store a value; prints its version
  statestore get greeting                print the value
  statestore watch greeting              print every change until Ctrl-C
  statestore scan 'sensor/*'             list the keys that match
  statestore lock nightly -- ./report    run a command while holding a lock
  statestore --url mqtt://edge:1883 get greeting

'statestore SUBCOMMAND --help' shows examples of each.

Exit codes:
  0  done
  1  the key is absent, the condition was not met, the value did not match, or another client holds it
  2  the arguments, or a local file, cannot be used
  3  no answer: could not connect, timed out, or connection lost; or a lock was lost
  4  the store refused";

/// Prints the requested help, or one line about the error in the arguments.
pub(crate) fn explain(error: &clap::Error) -> Exit {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let exit = if error.use_stderr() {
            Exit::Usage
        } else {
            Exit::Done
        };
        // a closed output needs no help text
        let _ = error.print();
        return exit;
    }
    let verbs = Arguments::command();
    let verb = std::env::args_os()
        .skip(1)
        .filter_map(|argument| argument.into_string().ok())
        .find(|argument| verbs.find_subcommand(argument).is_some())
        .map(|verb| verb + " ")
        .unwrap_or_default();
    let what = one_line(&error.render().to_string());
    message::print_error(&format!("{what}; see 'statestore {verb}--help'"));
    Exit::Usage
}

/// The error and the tips of clap, without the usage that follows them.
fn one_line(text: &str) -> String {
    text.trim_start_matches("error: ")
        .split("\n\n")
        .take_while(|paragraph| !paragraph.starts_with("Usage:"))
        .filter(|paragraph| !paragraph.starts_with("For more information"))
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory as _;

    #[test]
    fn the_model_is_consistent() {
        Arguments::command().debug_assert();
    }
}
