//! `statestore admin`.
mod api;
mod audit;
mod backup;
mod changes;
mod clients;
mod commands;
mod document;
mod event_stream;
mod extremes;
mod field;
mod keys;
mod list;
mod pages;
mod settings;
mod table;

use crate::{admin_port::AdminPort, exit::Exit, failure::Failure, global_options::GlobalOptions};
use api::{Api, Target};
use audit::Audit;
use backup::Backup;
use changes::{Delete, Drain, Log, Unlock};
use clap::{Args, Subcommand};
use clients::{Connections, Disconnect, Refusals, Sessions, ShowClient};
use commands::{Monitor, SlowLog};
use extremes::{BigKeys, HotKeys, Ttl};
use keys::{Keys, Locks};
use settings::{Limits, Policy, ShowConfig};

/// Administer a running server over its HTTP port
///
/// Changes need the token of the server, lists mostly too. Lists are tables, or with --json an object per line.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Admin {
    #[command(flatten)]
    port: AdminPort,
    #[command(subcommand)]
    task: AdminCommand,
}

const EXAMPLES: &str = "\
Examples:
  statestore admin connections --sort rate --limit 10        the busiest clients
  statestore admin client gateway-1                          everything about a client
  statestore admin keys --tree                               the size of each folder of keys
  statestore admin monitor --client gateway-1                its commands, until Ctrl-C
  statestore admin unlock pump --holder gateway-1            release a lock of a client that has ended
  statestore admin reload --token-file token                 reload the configuration
  statestore admin backup store.backup --token-file token    write a backup to a file
  statestore admin disconnect gateway-1 --token-file token   disconnect a client, which may reconnect
  statestore admin log info,statestored_broker=debug --token-file token   log more, until the next reload
  STATESTORE_ADMIN=http://edge:9883 statestore admin status

'statestore admin SUBCOMMAND --help' shows examples of each.";

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Print the current metrics, as JSON
    Status,
    Connections(Connections),
    Client(ShowClient),
    Sessions(Sessions),
    Locks(Locks),
    Keys(Keys),
    Refusals(Refusals),
    Audit(Audit),
    Config(ShowConfig),
    Limits(Limits),
    Policy(Policy),
    Monitor(Monitor),
    Slowlog(SlowLog),
    Bigkeys(BigKeys),
    Hotkeys(HotKeys),
    Ttl(Ttl),
    /// Reload the configuration and its files
    Reload,
    Backup(Backup),
    Disconnect(Disconnect),
    Unlock(Unlock),
    Delete(Delete),
    Log(Log),
    Drain(Drain),
}

impl Admin {
    /// Whether the subcommand runs until a signal, which is then its ordinary end.
    pub(crate) fn is_endless(&self) -> bool {
        match &self.task {
            AdminCommand::Monitor(_) => true,
            AdminCommand::Audit(audit) => audit.follow,
            _ => false,
        }
    }

    /// Runs the subcommand; the caller handles signals.
    pub(crate) async fn run(self, global: &GlobalOptions) -> Result<Exit, Failure> {
        let api = Api::new(&self.port, global);
        match self.task {
            AdminCommand::Status => print_status(api, global).await,
            AdminCommand::Connections(connections) => connections.run(api, global).await,
            AdminCommand::Client(client) => client.run(api, global).await,
            AdminCommand::Sessions(sessions) => sessions.run(api, global).await,
            AdminCommand::Locks(locks) => locks.run(api, global).await,
            AdminCommand::Keys(keys) => keys.run(api, global).await,
            AdminCommand::Refusals(refusals) => refusals.run(api, global).await,
            AdminCommand::Audit(audit) => audit.run(api, global).await,
            AdminCommand::Config(config) => config.run(api, global).await,
            AdminCommand::Limits(limits) => limits.run(api, global).await,
            AdminCommand::Policy(policy) => policy.run(api, global).await,
            AdminCommand::Monitor(monitor) => monitor.run(api, global).await,
            AdminCommand::Slowlog(slow_log) => slow_log.run(api, global).await,
            AdminCommand::Bigkeys(big_keys) => big_keys.run(api, global).await,
            AdminCommand::Hotkeys(hot_keys) => hot_keys.run(api, global).await,
            AdminCommand::Ttl(ttl) => ttl.run(api, global).await,
            AdminCommand::Reload => changes::reload(api, global).await,
            AdminCommand::Backup(backup) => backup.run(api, global).await,
            AdminCommand::Disconnect(disconnect) => disconnect.run(api, global).await,
            AdminCommand::Unlock(unlock) => unlock.run(api, global).await,
            AdminCommand::Delete(delete) => delete.run(api, global).await,
            AdminCommand::Log(log) => log.run(api, global).await,
            AdminCommand::Drain(drain) => drain.run(api, global).await,
        }
    }
}

async fn print_status(api: Api<'_>, global: &GlobalOptions) -> Result<Exit, Failure> {
    let status = api.get(&Target::new("/api/status")).await?;
    document::print(&status, &format!("{status:#}\n"), global).await?;
    Ok(Exit::Done)
}
