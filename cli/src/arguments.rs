//! The command line as a whole.
#[cfg(unix)]
use crate::platform::{SUPERVISE_VERB, Supervise};
use crate::{
    admin::Admin, bench::Bench, completions::Completions, del::Del, elect::Elect, exists::Exists,
    exit::Exit, get::Get, global_options::GlobalOptions, health::Health, incr::Incr, lease::Lease,
    lock::Lock, message, ping::Ping, scan::Scan, set::Set, top::Top, touch::Touch,
    transact::Transact, ttl::Ttl, vdel::Vdel, watch::Watch,
};
use clap::{CommandFactory as _, Parser, Subcommand, error::ErrorKind};

/// Get, set and watch keys of an Azure IoT Operations state store.
#[derive(Debug, Parser)]
#[command(name = "statestore", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Get(Get),
    Exists(Exists),
    Ttl(Ttl),
    Set(Set),
    Del(Del),
    Vdel(Vdel),
    Touch(Touch),
    Incr(Incr),
    Transact(Transact),
    Scan(Scan),
    Watch(Watch),
    Lock(Lock),
    Elect(Elect),
    Lease(Lease),
    Ping(Ping),
    Bench(Bench),
    Admin(Admin),
    Health(Health),
    Top(Top),
    Completions(Completions),
    #[cfg(unix)]
    #[command(name = SUPERVISE_VERB, hide = true)]
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
